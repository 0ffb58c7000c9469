// SPDX-License-Identifier: Apache-2.0

package filter

import "fmt"

// Bits of the header's flags and fragment offset.
const (
	fragOffset    = 0x1fff
	moreFragments = 0x2000
)

// heldIP says which bits of the IP header a record holds, byte by byte.
var heldIP = [ipBytes]byte{
	0: 0xf0, 1: 0xff, 2: 0xff, 3: 0xff, 4: 0xff, 5: 0xff, 6: 0x1f, 7: 0xff, 8: 0xff, 9: 0xff,
	12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff,
}

// field names bytes of a header, for messages.
type field struct {
	from, to int // to is exclusive
	name     string
}

var ipFields = []field{
	{0, 1, "header length"}, {6, 8, "flags DF and MF"}, {10, 12, "checksum"}, {20, 60, "options or payload"},
}

var l4Fields = map[uint8][]field{
	protoTCP: {
		{4, 8, "TCP sequence number"}, {8, 12, "TCP acknowledgement"}, {12, 13, "TCP header length"},
		{13, 14, "TCP flags"}, {14, 16, "TCP window"}, {16, 18, "TCP checksum"}, {18, 20, "TCP urgent pointer"},
	},
	protoUDP:  {{4, 6, "UDP length"}, {6, 8, "UDP checksum"}},
	protoICMP: {{1, 2, "ICMP code"}, {2, 4, "ICMP checksum"}},
	protoSCTP: {{4, 8, "SCTP verification tag"}, {8, 12, "SCTP checksum"}},
}

// nameOf says what stands there, as a user would ask for it.
func nameOf(header string, fields []field, off, size int) string {
	at := fmt.Sprintf("%s[%d]", header, off)
	if size > 1 {
		at = fmt.Sprintf("%s[%d:%d]", header, off, size)
	}
	for _, f := range fields {
		if off < f.to && f.from < off+size {
			return fmt.Sprintf("%s (%s)", at, f.name)
		}
	}
	return at + " (payload)"
}

// headerLen is what an index register holds after libpcap's way of finding the end of
// the IP header.
func headerLen(off uint32) value {
	if off != 0 {
		return value{unheld: ^uint32(0), what: nameOf("ip", nil, int(off), 1)}
	}
	return value{isLen: true, unheld: ^uint32(0), what: nameOf("ip", ipFields, 0, 1)}
}

// load is what size bytes at offset at are. Behind the IP header it matters already
// whether they are there: a packet that ends before them does not match.
func (e *examiner) load(s *state, at value, size int) value {
	var v value
	switch {
	case at.isLen && int32(at.c) >= 0:
		v = s.loadL4(int(at.c), size)
	case at.known() && int(at.c)+size <= ipBytes:
		return loadIP(int(at.c), size)
	case at.known():
		v = value{unheld: ^uint32(0), what: nameOf("ip", ipFields, int(at.c), size)}
	default:
		v = value{unheld: ^uint32(0), what: "what stands at an offset that is computed from the packet"}
	}
	if v.unheld != 0 && e.unheld == "" {
		e.unheld = v.what
	}
	return v
}

// loadIP reads from the fixed part of the IP header.
func loadIP(off, size int) value {
	var unheld uint32
	for i := range size {
		unheld = unheld<<8 | uint32(^heldIP[off+i])
	}
	v := value{unheld: unheld, what: nameOf("ip", ipFields, off, size)}
	switch {
	case off == 0 && size == 1:
		v.fixed, v.c = true, 4<<4 // records are of IPv4
	case off == 9 && size == 1:
		v.isProto = true
	case off >= 12: // addresses
	default:
		v.notFlow = true
		v.isFrag = off == 6 && size == 2
	}
	return v
}

// loadL4 reads behind the IP header.
func (s *state) loadL4(off, size int) value {
	var unheld uint32
	for i := range size {
		unheld <<= 8
		if !s.protos.allHold(off + i) {
			unheld |= 0xff
		}
	}
	name, fields := "transport header", []field(nil)
	if proto, one := s.protos.single(); one {
		name, fields = protoName(proto), l4Fields[proto]
	}
	return value{unheld: unheld, what: nameOf(name, fields, off, size), notFlow: !s.protos.allHavePorts()}
}
