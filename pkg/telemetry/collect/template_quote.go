// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// int says what of INT but its stack may differ, and returns where it ends; 0: such have no
// template.
func (t *templates) int(in *intwire.INT) int {
	if in.Carrier != intwire.OverUDP && in.Carrier != intwire.OverTCP || !in.HasHeader || in.Header.Type != intwire.TypeMD ||
		in.Header.DomainID == intwire.DomainTS || // what is behind the stack may say how that is read
		len(in.Hops) == 0 || len(in.Rest) > 0 || len(in.SourceWords) > 0 || in.HasTail || in.HasFlowSeq || in.Mark == intwire.ByMarker {
		return 0
	}
	off := t.at(in.Stack)
	size, header := 4*int(in.Shim.Length)-4, 8 // behind the shim
	if in.Header.Layout == intwire.INT20 {
		size, header = 4*int(in.Shim.Length), 12
	} else if in.Options != 0 || in.Mark != intwire.ByForm {
		t.any(off-2, 2) // reserved, where some count; else nothing but the form tells that there is INT
	}
	end := off + len(in.Hops)*in.Stride
	if off-header+size != end { // cut, or of a sender that counts otherwise
		return 0
	}
	if in.Shim.Form == intwire.Shim20 && in.Shim.NPT == 2 { // UDP was added: the flow's ports follow
		end += 4
	}
	if end > len(t.payload) {
		return 0
	}
	return end
}

// quote says what of the quoted packet's headers may differ. end is where the quoted INT ends, 0
// if there is none. It returns how far the template reaches; 0: there is none.
func (t *templates) quote(quoted []byte, end int) int {
	ip := quote.FromIP(quoted)
	if len(ip) < ipv4Header {
		return 0
	}
	off := t.at(ip)
	l4, proto := 0, layers.IPProtocol(0)
	switch {
	case ip[0] == 0x45:
		l4, proto = off+ipv4Header, layers.IPProtocol(ip[9])
		if ip[6]&0x3f != 0 || ip[7] != 0 { // a fragment
			return 0
		}
		t.anyBits(off, 0x00030000) // ECN
		t.any(off+4, 2)            // ID
		t.any(off+8, 1)            // TTL
		t.any(off+10, 2)           // checksum
	case ip[0]>>4 == 6 && len(ip) >= 40:
		l4, proto = off+40, layers.IPProtocol(ip[6])
		t.anyBits(off, 0x003fffff) // ECN, flow label
		t.any(off+7, 1)            // hop limit
	default:
		return 0
	}
	reach, noLonger := l4+4, false
	switch proto {
	case layers.IPProtocolUDP:
		reach = l4 + udpHeader
		if end == 0 {
			if reach > len(t.payload) || isTunnelPort(binary.BigEndian.Uint16(t.payload[l4+2:])) {
				return 0
			}
			reach, noLonger = t.noINT(reach)
		}
		if reach = max(end, reach); reach > len(t.payload) {
			return 0
		}
		t.any(l4+6, 2) // checksum
		t.length(l4+4, 0xffff0000, reach-l4, noLonger)
	case layers.IPProtocolTCP:
		if l4+20 > len(t.payload) {
			return 0
		}
		data := l4 + 4*int(t.payload[l4+12]>>4)
		if data < l4+20 || data > len(t.payload) {
			return 0
		}
		if reach = data; end == 0 {
			reach, noLonger = t.noINT(reach)
		}
		if reach = max(end, reach); reach > len(t.payload) {
			return 0
		}
		t.any(l4+4, 8)               // sequence numbers
		t.anyBits(l4+12, 0x0fffffff) // flags, window: not the header's length
		t.any(l4+16, 4)              // checksum, urgent pointer
		if data > l4+20 {
			if !t.plain && data > l4+24 {
				return 0
			}
			t.any(l4+24, data-l4-24) // options, but for how they begin
			for _, at := range [...]int{l4 + 20, l4 + 28} {
				end, bounded := t.noEarlyINT(at)
				reach, noLonger = max(reach, end), noLonger || bounded
			}
		}
	case layers.IPProtocolICMPv4, layers.IPProtocolICMPv6:
		if reach > len(t.payload) || end != 0 {
			return 0
		}
		t.any(l4+1, 3) // code, checksum
	default:
		return 0
	}
	if ip[0] == 0x45 {
		t.length(off, 0x0000ffff, reach-off, noLonger)
	} else {
		t.length(off+4, 0xffff0000, reach-off-40, noLonger)
	}
	return reach
}

// length says of the field that is a quoted packet's length: it must be n or more, and if noLonger,
// at most what it is.
func (t *templates) length(off int, mask uint32, n int, noLonger bool) {
	t.atLeast(off, mask, n)
	if noLonger && off+4 <= len(t.payload) {
		t.Bands[len(t.Bands)-1].Hi = binary.BigEndian.Uint32(t.payload[off:]) & mask
	}
}

// noINT makes sure that there is no INT at off in other packets either, where there is none in
// this one, or 8 bytes further (a probe marker): by the first byte of a shim, or of VXLAN. What
// begins like one must stay as it is, and neither report nor quoted packet may be longer: it may be
// none because its shim says more than there is. It returns how far the template must reach.
func (t *templates) noINT(off int) (reach int, noLonger bool) {
	const least, shims = 0x40, 16
	reach = off
	for _, at := range [...]int{off, off + 8} {
		if at >= len(t.payload) { // there may be some in a longer one
			t.MaxLen = len(t.payload)
			break
		}
		first := t.payload[at]
		if beginsINT(first) {
			t.MaxLen = len(t.payload)
			return min(at+shims, len(t.payload)), true
		}
		t.any(reach, at-reach)
		if reach = at + 1; first >= least {
			t.anyBits(at-3, 0xff)
			t.Bands = append(t.Bands, TemplateBand{Off: at - 3, Mask: 0xff, Lo: least, Hi: 0xff, Shared: -1})
		}
	}
	return reach, false
}

// noEarlyINT makes sure that there is no INT at a place among the options of TCP, where some programs
// put it: at their beginning, or behind a probe marker. The decoder takes it only if it is right in
// every respect (intwire's recognise.go), which some bytes rule out: these must stay as they are. If they
// do not, the whole header must, and the packet may not be longer.
func (t *templates) noEarlyINT(at int) (reach int, noLonger bool) {
	const least, most = 12, 16 // of shim and header, old and new
	if at+least > len(t.payload) {
		t.MaxLen = len(t.payload)
		return min(at+4, len(t.payload)), false
	}
	p := t.payload[at:]
	t.keep(at, 2)
	if !beginsINT(p[0]) {
		return at + 2, false
	}
	t.keep(at+4, 2)
	version := p[4] >> 4
	if p[0]>>4 != 0 && version != 2 || p[0]>>4 == 0 && (version > 1 || p[1] != 0 && (p[5]&0xe0 != 0 || p[5]&0x1f == 0)) {
		return at + 6, false
	}
	t.keep(at, min(most, len(p)))
	t.MaxLen = len(t.payload)
	return at + min(most, len(p)), true
}

// keep says that n bytes must be as they are.
func (t *templates) keep(off, n int) {
	for i := off; i < off+n; i++ {
		t.Mask[i] = 0xff
	}
}

// beginsINT says whether INT can begin with a byte: a type of INT 0.5 and 1.0, one of 2.x in the
// upper half, or the flags of VXLAN-GPE. None is 0x40 or more.
func beginsINT(b byte) bool {
	return b == 1 || b == 2 || b == 3 || b == 0x04 || b == 0x0c || b>>4 == 1 || b>>4 == 2 || b>>4 == 3
}
