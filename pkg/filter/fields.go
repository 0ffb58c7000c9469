// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/record"
)

// Bits of the header's flags and fragment offset.
const (
	fragOffset    = 0x1fff
	moreFragments = 0x2000
)

// Values of the version in a header's first byte.
const (
	versionMask = 0xf0
	version4    = 0x40
	version6    = 0x60
)

// heldIP says which bits of the IPv4 header a record holds, byte by byte.
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

var ip6Fields = []field{{40, 1 << 16, "payload or extension headers"}}

var l4Fields = map[uint8][]field{
	record.ProtoTCP: {
		{12, 13, "TCP header length"}, {16, 18, "TCP checksum"}, {18, 20, "TCP urgent pointer"},
	},
	record.ProtoUDP:    {{4, 6, "UDP length"}, {6, 8, "UDP checksum"}},
	record.ProtoICMP:   {{1, 2, "ICMP code"}, {2, 4, "ICMP checksum"}},
	record.ProtoICMPv6: {{1, 2, "ICMPv6 code"}, {2, 4, "ICMPv6 checksum"}},
	record.ProtoSCTP:   {{4, 8, "SCTP verification tag"}, {8, 12, "SCTP checksum"}},
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

// headerLen is what an index register holds after libpcap's instructions that find the end of
// the IPv4 header.
func (s *state) headerLen(off uint32) value {
	if off != 0 {
		return value{unheld: ^uint32(0), what: nameOf("ip", nil, int(off), 1)}
	}
	// IPv6 has no such length: libpcap asks for the version first.
	return value{isLen: s.v6.empty(), unheld: ^uint32(0), what: nameOf("ip", ipFields, 0, 1)}
}

// load is what size bytes at offset at are. Behind the IP header it matters already
// whether they are there: a packet that ends before them does not match.
func (e *examiner) load(s *state, at value, size int) value {
	var v value
	off, behind := int(at.c), false
	switch {
	case at.isLen && int32(at.c) >= 0:
		v, behind = loadL4(s.v4, record.ProtoICMP, off, size), true
	case !at.known():
		v, behind = value{unheld: ^uint32(0), what: "what stands at an offset that is computed from the packet"}, true
	case off == 0 && size == 1:
		v = s.loadVersion()
	case s.v6.empty():
		v, behind = loadIP(off, size), off+size > ipBytes
	case s.v4.empty():
		v, behind = s.loadIP6(off, size), off+size > s.ip6Known()
	default:
		v, behind = join(loadIP(off, size), s.loadIP6(off, size)), off+size > ipBytes
	}
	if behind && v.unheld != 0 && e.unheld == "" {
		e.unheld = v.what
	}
	return v
}

// loadVersion reads the first byte. Its lower half is the header's length in IPv4, a
// part of the traffic class in IPv6.
func (s *state) loadVersion() value {
	v := value{role: versionByte, notFlow: !s.v6.empty()}
	if !s.v4.empty() {
		v.unheld, v.what = 0x0f, nameOf("ip", ipFields, 0, 1)
	}
	if s.v6.empty() {
		v.fixed, v.c = true, version4
	}
	return v
}

// loadIP reads from the IPv4 header; records hold its fixed part.
func loadIP(off, size int) value {
	if off+size > ipBytes {
		return value{unheld: ^uint32(0), what: nameOf("ip", ipFields, off, size)}
	}
	var unheld uint32
	for i := range size {
		unheld = unheld<<8 | uint32(^heldIP[off+i])
	}
	v := value{unheld: unheld, what: nameOf("ip", ipFields, off, size)}
	switch {
	case off == 9 && size == 1:
		v.role = proto4
	case off >= 12: // addresses
	default:
		v.notFlow = true
		if off == 6 && size == 2 {
			v.role = frag4
		}
	}
	return v
}

// loadIP6 reads from the IPv6 header or what follows it. The only extension header that a record
// holds is that of a fragment.
func (s *state) loadIP6(off, size int) value {
	switch {
	case off == 6 && size == 1:
		return value{role: next6}
	case off+size <= ip6Bytes:
		return value{notFlow: off < 8} // behind that stand the addresses
	case off < ip6Bytes:
		return value{unheld: ^uint32(0), what: nameOf("ip6", ip6Fields, off, size)}
	}
	fragment := s.v6.only(record.ProtoFragment)
	plain := s.v6.without(record.ProtoFragment)
	switch {
	case fragment.empty():
		return loadL4(plain, record.ProtoICMPv6, off-ip6Bytes, size)
	case !plain.empty():
		return join(loadL4(plain, record.ProtoICMPv6, off-ip6Bytes, size), loadFragment(off-ip6Bytes, size))
	}
	return loadFragment(off-ip6Bytes, size)
}

// ip6Known is how many bytes an IPv6 packet is known to have in any case.
func (s *state) ip6Known() int {
	if s.v6.without(record.ProtoFragment).empty() {
		return ip6Bytes + fragmentBytes
	}
	return ip6Bytes
}

// heldFragment says which bits of the fragment header (RFC 8200, 4.5) a record holds:
// not the reserved ones, and not whether more fragments follow.
var heldFragment = [fragmentBytes]byte{0: 0xff, 2: 0xff, 3: 0xf8, 4: 0xff, 5: 0xff, 6: 0xff, 7: 0xff}

// loadFragment reads from IPv6's fragment header. A record holds only the ports of what follows
// it, but a packet all of it.
func loadFragment(off, size int) value {
	what := nameOf("ip6", ip6Fields, ip6Bytes+off, size)
	if off+size > fragmentBytes {
		return value{unheld: ^uint32(0), what: what}
	}
	if off == 0 && size == 1 {
		return value{role: inner6}
	}
	var unheld uint32
	for i := range size {
		unheld = unheld<<8 | uint32(^heldFragment[off+i])
	}
	return value{unheld: unheld, what: what, notFlow: true}
}

// loadL4 reads from the transport header of one of the protocols.
func loadL4(protos protoSet, icmp uint32, off, size int) value {
	var unheld uint32
	for i := range size {
		unheld <<= 8
		if !protos.allHold(off+i, icmp) {
			unheld |= 0xff
		}
	}
	name, fields := "transport header", []field(nil)
	if proto, one := protos.single(); one {
		name, fields = protoName(proto), l4Fields[proto]
	}
	return value{unheld: unheld, what: nameOf(name, fields, off, size), notFlow: off+size > portBytes || !protos.allHavePorts()}
}
