// SPDX-License-Identifier: Apache-2.0

package intwire

import "encoding/binary"

const (
	portVXLAN    = 4789
	portVXLANGPE = 4790
	portGeneve   = 6081

	foreignMarker = 0xaaaaaaaabbbbbbbb
)

// behindUDP looks for INT and reports in the payload of UDP, which should have want
// bytes.
func (d *Decoder) behindUDP(c *walk, b []byte, want int) {
	switch c.dstPort {
	case portVXLAN, portVXLANGPE:
		if d.vxlan(c, b, want) {
			return
		}
	case portGeneve:
		if d.geneve(c, b, want) {
			return
		}
	}
	at, g, t := d.bestINT(b, want, c.dstPort)
	if g == strict && d.takeINT(c, OverUDP, b, want, at, g, t) {
		return
	}
	if !c.quoted() && d.findReport(c, b, want) {
		return
	}
	if g != strict && g != isNot && d.takeINT(c, OverUDP, b, want, at, g, t) {
		return
	}
	if c.dstPort != portVXLAN && c.dstPort != portVXLANGPE && len(b) >= 12 && b[3] != 0 && d.vxlan(c, b, want) {
		return
	}
	d.notFound(c, b, want, g, t)
}

// behindTCP looks for INT in TCP, head bytes of which are header and options. Some
// insert it before the options (Host-INT, NoviFlow).
func (d *Decoder) behindTCP(c *walk, b []byte, want, head int) {
	b0, want0 := b[20:], want-20
	if head > 20 && len(b) >= head {
		at, g, t := d.bestINT(b[head:], want-head, 0)
		if early, e, et := d.bestINT(b0, want0, 0); e == strict && g != strict {
			if d.takeINT(c, OverTCP, b0, want0, early, e, et) {
				c.m.note(PastOptions, 0, 0)
				return
			}
		}
		b0, want0 = b[head:], want-head
		if g != isNot && d.takeINT(c, OverTCP, b0, want0, at, g, t) {
			return
		}
		d.notFound(c, b0, want0, g, t)
		return
	}
	if len(b) < head { // cut in the options
		return
	}
	at, g, t := d.bestINT(b0, want0, 0)
	if g != isNot && d.takeINT(c, OverTCP, b0, want0, at, g, t) {
		return
	}
	d.notFound(c, b0, want0, g, t)
}

// bestINT recognises INT in b and, behind the eight bytes of a probe marker, in b[8:]. It
// returns where the better one begins.
func (d *Decoder) bestINT(b []byte, want int, port uint16) (int, grade, INTTraits) {
	g, t := d.recogniseINT(b, want, port)
	if g < strict && len(b) >= 12 && !tunnelPort(port) && binary.BigEndian.Uint64(b) != 0 {
		if g8, t8 := d.recogniseINT(b[8:], want-8, port); g8 == strict && t8.Layout != INT05 { // which knows none
			return 8, g8, t8
		}
	}
	return 0, g, t
}

// tunnelPort reports whether a UDP port has a tunnel, whose header has eight bytes and is no marker.
func tunnelPort(port uint16) bool {
	return port == portVXLAN || port == portVXLANGPE || port == portGeneve
}

// takeINT reads INT at b[at:] if its mark suffices for its grade.
func (d *Decoder) takeINT(c *walk, carrier Carrier, b []byte, want, at int, g grade, t INTTraits) bool {
	shim := b[at:]
	npt := t.Layout == INT20 && carrier == OverUDP && shim[0]>>2&3 != 0
	mark, need := ByForm, strict
	switch {
	case d.Profile != nil:
		mark, need = ByProfile, touches
	case at == 8:
		mark = ByMarker
	case c.hasIP && knownDSCP(c.dscp) && c.dscp != 1:
		mark, need = ByDSCP, touches
	case knownINTPort(c.dstPort) && carrier == OverUDP:
		mark, need = ByPort, touches
	case c.quoted() && c.f:
		mark, need = ByReport, shaped
	case c.hasIP && knownDSCP(c.dscp):
		mark = ByDSCP
	case npt:
		mark = ByPort
	}
	if g < need {
		return false
	}
	if mark == ByForm && t.Layout != INT20 && c.hasIP && !c.quoted() && ordinaryDSCP(c.dscp) {
		c.m.note(OrdinaryClass, int(c.dscp), 0)
		c.noted = true
		return false
	}
	if mark == ByForm && !c.quoted() {
		c.m.note(UnknownMark, int(c.dscp), int(c.dstPort))
	}
	in := c.add(carrier, mark)
	if at == 8 {
		if in.Marker = binary.BigEndian.Uint64(b); in.Marker == foreignMarker {
			c.m.note(ForeignMarker, 0, 0)
		}
	}
	d.found(c, t)
	d.overL4(c, in, shim, want-at)
	return true
}

// notFound says what could have been expected, unless the packet is cut before that.
func (d *Decoder) notFound(c *walk, b []byte, want int, g grade, t INTTraits) {
	if c.quoted() && c.f && g != isNot {
		c.m.note(LooksLikeINT, majorOf(t), 0)
	}
	if c.quoted() || c.noted || len(b) < min(4, want) {
		return
	}
	word := uint32(0)
	if len(b) >= 4 {
		word = be32(b)
	}
	switch {
	case d.Profile != nil:
		c.m.note(NotTheProfile, int(word), 0)
	case c.hasIP && c.dscp == 0x17:
		c.m.note(MarkedNotINT, int(c.dscp), int(word))
	case c.pkt.Proto == protoUDP && (knownINTPort(c.dstPort) || knownReportPort(c.dstPort)):
		c.m.note(PortWithoutINT, int(c.dstPort), int(word))
	case g == shaped:
		c.m.note(LooksLikeINT, majorOf(t), 0)
	}
}

func majorOf(t INTTraits) int {
	if t.Layout == INT20 {
		return 2
	}
	return 1
}

// add appends an INT to the list of the walk. The pointer holds until the next one.
func (c *walk) add(carrier Carrier, mark Mark) *INT {
	*c.ints = append(*c.ints, INT{Carrier: carrier, Mark: mark, Incomplete: c.first})
	if c.report == nil && len(*c.ints) == 1 {
		c.m.Mark = mark
	}
	return &(*c.ints)[len(*c.ints)-1]
}

// found notes the variant that was found, and which options its profile adds.
func (d *Decoder) found(c *walk, t INTTraits) {
	if d.Profile != nil {
		c.m.Profile, c.traits = d.Profile, d.Profile.INT
		return
	}
	p := d.name(&t, c.report)
	if sameINT(p.INT, t) {
		t.Options |= p.INT.Options
	}
	c.m.Profile, c.traits = p, t
}

// fits reports whether the traits can be those of the profile that was asked for.
func (d *Decoder) fits(t INTTraits) bool {
	return d.Profile == nil || d.Profile.INT.Layout == t.Layout
}

// gre goes through a GRE header (RFC 2784, 2890; INT 2.x, "INT over GRE").
func (d *Decoder) gre(c *walk, b []byte, want int) {
	if c.cut(CutL4, b, 4) {
		return
	}
	head, proto := 4, be16(b[2:])
	for _, flag := range [...]byte{0x80, 0x20, 0x10} { // checksum, key, sequence number
		if b[0]&flag != 0 {
			head += 4
		}
	}
	if c.cut(CutL4, b, head) {
		return
	}
	b, want = b[head:], want-head
	switch proto {
	case etherIPv4, etherIPv6, etherBridge, etherVLAN, etherMPLS:
		if !c.deeper() {
			return
		}
		if proto == etherBridge {
			d.ethernet(c, b)
		} else {
			d.etherType(c, proto, b)
		}
		c.depth--
		return
	}
	const usual = 0x4569 // none is assigned; scapy's tests use this one
	mark, need := ByForm, strict
	if proto == usual {
		mark, need = ByCarrier, touches
	}
	if d.Profile != nil {
		mark, need = ByProfile, touches
	}
	g := isNot
	if len(b) >= 4 && b[0]&7 == 0 && (b[0]>>4 == TypeMD || b[0]>>4 == TypeMX) {
		if g = touches; len(b) >= 16 && 4+4*int(b[1]) <= want && b[1] >= 3 {
			g, _ = d.recogniseHeader20(b[4:], b[0]>>4, int(b[1])-3, false)
		}
	}
	if g < need || !d.fits(INTTraits{Layout: INT20}) {
		return
	}
	if mark == ByForm && !c.quoted() {
		c.m.note(UnknownMark, int(c.dscp), 0)
	}
	in := c.add(OverGRE, mark)
	in.Class = proto
	d.found(c, INTTraits{Layout: INT20, Ver: 2})
	s := Shim{Form: ShimGRE, Type: b[0] >> 4, Length: b[1], G: b[0]&8 != 0, NextProtocol: be16(b[2:]), Reserved: be32(b) & 0x07000000}
	d.behindShim(c, in, s, b[4:], want-4, 4*int(s.Length))
}

// vxlan goes through VXLAN and VXLAN-GPE (INT 1.0 and 2.x, "INT over VXLAN GPE") and
// reports whether INT was found: the port may be another program's.
func (d *Decoder) vxlan(c *walk, b []byte, want int) bool {
	here := c.dstPort == portVXLAN || c.dstPort == portVXLANGPE
	if len(b) < 8 {
		if here {
			c.cut(CutTunnel, b, 8)
		}
		return false
	}
	next, flags := b[3], b[0]
	gpe := flags&4 != 0
	if !here && (flags&^0x08 != 4 || b[1] != 0 || b[2] != 0 || b[7] != 0) {
		return false
	}
	if !gpe || next < 4 {
		if !here || gpe && next == 0 || b[1] != 0 || b[2] != 0 {
			return false
		}
		proto := uint16(etherBridge)
		switch {
		case gpe && next == 1:
			proto = etherIPv4
		case gpe && next == 2:
			proto = etherIPv6
		}
		return d.tunnelled(c, proto, b[8:])
	}
	return d.gpeINT(c, b[8:], want-8, next, here)
}

// gpeINT reads INT headers in VXLAN-GPE, one behind the other.
func (d *Decoder) gpeINT(c *walk, b []byte, want int, next uint8, here bool) bool {
	found := false
	for first := true; len(b) >= 4; first = false {
		old := next == 0x08 || b[0]>>4 == 0
		t := INTTraits{Layout: INT20, Ver: 2}
		g, known := isNot, next == 0x80 || next == 0x82 || next == 0x08
		shim := Shim{Form: ShimGPE, Type: b[0] >> 4, Length: b[1], G: b[2]&0x80 != 0, NextProtocol: uint16(b[3]), Reserved: be32(b) & 0x0f007f00}
		size := 4 * int(shim.Length)
		if old {
			// The same as over TCP and UDP, but for the last byte.
			shim = Shim{Form: ShimOldGPE, Type: b[0], Length: b[2], NextProtocol: uint16(b[3]), Reserved: be32(b) & 0x00ff0000}
			size = 4*int(shim.Length) - 4
			g, t = recogniseOld(b, want, nil)
		} else if len(b) >= 16 && size >= 12 && 4+size <= want {
			g, _ = d.recogniseHeader20(b[4:], shim.Type, int(shim.Length)-3, false)
		}
		if !d.fits(t) || g < strict && !(here && known && (shim.Type == TypeMD || shim.Type == TypeMX)) {
			switch {
			case !first || !here || !known:
			case !d.fits(t):
				c.m.note(NotTheProfile, int(be32(b)), 0)
			default:
				c.m.note(BadType, int(shim.Type), 0)
			}
			return found
		}
		if !first {
			c.m.note(AnotherINT, 0, 0)
		}
		in := c.add(OverVXLAN, ByCarrier)
		in.Next = next
		d.found(c, t)
		d.behindShim(c, in, shim, b[4:], want-4, size)
		found = true
		if uint8(shim.NextProtocol) != next || size < 4 || len(b) < 4+size {
			break
		}
		b, want = b[4+size:], want-4-size
	}
	return found
}

// geneve goes through the options of Geneve (RFC 8926; INT 2.x, "INT over Geneve") and
// reports whether INT was found: the port may be another program's.
func (d *Decoder) geneve(c *walk, b []byte, want int) bool {
	if len(b) < 8 || b[0]>>6 != 0 || b[1]&0x3f != 0 || b[7] != 0 {
		return false
	}
	head, proto := 8+4*int(b[0]&0x3f), be16(b[2:])
	if proto != etherBridge && proto != etherIPv4 && proto != etherIPv6 {
		return false
	}
	c.cut(CutTunnel, b, head)
	options := b[8:min(head, len(b))]
	found := false
	for len(options) >= 4 {
		class, kind, size := be16(options), options[2], 4*int(options[3]&31)
		body := options[4:min(4+size, len(options))]
		g := isNot
		t := INTTraits{Layout: INT20, Ver: 2}
		switch k := kind & 0x7f; {
		case k != TypeMD && k != TypeMX:
		case len(body) >= 12 && body[0]>>4 == 2:
			g, _ = d.recogniseHeader20(body, k, len(body)/4-3, false)
		case k == TypeMD && len(body) >= 8 && body[0]>>4 == 1:
			t = INTTraits{Layout: INT10, Ver: 1}
			if ok := Words(INT10, be16(body[4:]), 0) == int(body[2]&31); ok {
				g = strict
			}
		}
		const intClass = 0x0103
		kindOK := kind&0x7f == TypeMD || kind&0x7f == TypeMX
		if d.fits(t) && (g == strict || class == intClass && kindOK) {
			if found {
				c.m.note(AnotherINT, 0, 0)
			}
			mark := ByCarrier
			if class != intClass {
				mark = ByForm
				c.m.note(UnknownMark, int(c.dscp), int(class))
			}
			in := c.add(OverGeneve, mark)
			in.Class = class
			d.found(c, t)
			d.behindShim(c, in, Shim{Type: kind & 0x7f}, options[4:], size, size)
			found = true
		}
		if 4+size > len(options) {
			break
		}
		options = options[4+size:]
	}
	if found || len(b) < head {
		return found
	}
	return d.tunnelled(c, proto, b[head:])
}

// tunnelled goes on with the packet in a UDP tunnel and reports whether INT was found in
// it. It restores what is known of the outer packet.
func (d *Decoder) tunnelled(c *walk, proto uint16, b []byte) bool {
	if !c.deeper() {
		return false
	}
	n, dscp, port, hasIP := len(*c.ints), c.dscp, c.dstPort, c.hasIP
	if proto == etherBridge {
		d.ethernet(c, b)
	} else {
		d.etherType(c, proto, b)
	}
	c.depth--
	c.dscp, c.dstPort, c.hasIP = dscp, port, hasIP
	return len(*c.ints) > n
}
