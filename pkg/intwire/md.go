// SPDX-License-Identifier: Apache-2.0

package intwire

import "math/bits"

// overL4 reads a shim for TCP and UDP at the beginning of b, and the INT behind it.
// (INT 2.1 "INT over TCP/UDP"; INT 1.0 and 0.5 "INT over TCP/UDP".)
func (d *Decoder) overL4(c *walk, in *INT, b []byte, want int) {
	w, t := be32(b), &c.traits
	var s Shim
	size := 0 // bytes behind the shim, by its length
	if t.Layout == INT20 {
		s = Shim{Form: Shim20, Type: b[0] >> 4, Length: b[1], NPT: b[0] >> 2 & 3, Reserved: w & 0x03000000}
		switch s.NPT {
		case 0:
			s.OrigDSCP, s.Reserved = b[3]>>2, s.Reserved|w&0xff03
		case 1:
			s.OrigDstPort = be16(b[2:])
		case 2:
			s.IPProto, s.Reserved = b[3], s.Reserved|w&0xff00
			if t.HighProto {
				s.IPProto, s.Reserved = b[2], s.Reserved&^0xff00|w&0xff
				c.m.note(HighProtoUsed, int(s.IPProto), 0)
			}
		default:
			s.Reserved |= w & 0x0c00ffff
		}
		size = 4 * int(s.Length)
		if t.CountsShim {
			size -= 4
			c.m.note(ShimInLength, int(s.Length), 0)
		}
	} else {
		s = Shim{Form: ShimOld, Type: b[0], Length: b[2], Reserved: w & 0x00ff0003}
		if t.Layout == INT10 {
			s.OrigDSCP = b[3] >> 2
		} else {
			s.Reserved |= w & 0xff
		}
		size = 4*int(s.Length) - 4
	}
	d.behindShim(c, in, s, b[4:], want-4, size)
}

// behindShim reads the header and stack behind a shim. size is how many bytes they have by
// the shim, want how many the packet has room for, and b the bytes that are here.
func (d *Decoder) behindShim(c *walk, in *INT, s Shim, b []byte, want, size int) {
	m, t := c.m, &c.traits
	in.Shim = s
	in.Header.Layout, in.Header.Type = t.Layout, s.Type
	if s.Type != TypeMD && s.Type != TypeMX && !t.FlowSequence {
		m.note(BadType, int(s.Type), 0)
	}
	least := 8
	if t.Layout == INT20 {
		least = 12
	}
	switch {
	case size < least:
		m.note(BadLength, int(s.Length), least/4)
		size = max(size, 0)
	case size > want:
		m.note(LengthPastPacket, int(s.Length), max(want, 0)/4)
		size = max(want, 0)
		in.Incomplete = true
	}
	if size > len(b) {
		m.note(CutINT, len(b), size)
		in.Incomplete = true
	}
	if size <= len(b) {
		in.Payload = b[size:]
	}
	b = b[:min(size, len(b))]
	if len(b) < least {
		in.Rest, in.Incomplete = b, true
		return
	}
	in.HasHeader = true
	if t.Layout == INT20 {
		d.header20(c, in, b)
		d.stack20(c, in, b[12:], size-12)
	} else {
		d.headerOld(c, in, b)
		if t.Layout == INT05 {
			d.stack05(c, in, b[8:], size-8)
		} else {
			d.stackMD(c, in, b[8:], size-8)
		}
	}
}

// header20 reads the 12 bytes of an INT-MD or INT-MX header of 2.x.
func (d *Decoder) header20(c *walk, in *INT, b []byte) {
	h, w := &in.Header, be32(b)
	h.Version = uint8(w >> 28)
	h.Bitmap, h.DomainID, h.DSInstruction, h.DSFlags = be16(b[4:]), be16(b[6:]), be16(b[8:]), be16(b[10:])
	shift := 0
	if c.traits.LateFlags {
		shift = 2
	}
	h.D = w<<shift&0x08000000 != 0
	if h.Type == TypeMX {
		h.Reserved = w & 0x07ffffff
		if shift != 0 {
			h.Reserved = w & 0x0dffffff
		}
		if h.Bitmap&1 != 0 {
			c.m.note(ComplementInMX, 0, 0)
		}
	} else {
		h.E, h.M = w<<shift&0x04000000 != 0, w<<shift&0x02000000 != 0
		h.HopML, h.RemainingHops = uint8(w>>8&31), uint8(w)
		h.Reserved = w & 0x01ffe000
		if shift != 0 {
			h.Reserved = w & 0x0c7fe000
		}
	}
	in.Incomplete = in.Incomplete || h.E || h.M
	d.checkHeader(c, in, 2)
	if h.DomainID == 0 && (h.DSInstruction != 0 || h.DSFlags != 0) {
		c.m.note(NoDomain, int(h.DSInstruction), int(h.DSFlags))
	}
	c.checkDomain(h.DomainID, h.DSInstruction)
}

// checkDomain notes instructions of a domain that is not known.
func (c *walk) checkDomain(domain, instructions uint16) {
	if domain != 0 && domain != DomainTS && instructions != 0 {
		c.m.note(UnknownDomain, int(domain), int(instructions))
	}
}

// headerOld reads the 8 bytes of an INT 0.5 or 1.0 header.
func (d *Decoder) headerOld(c *walk, in *INT, b []byte) {
	h, w := &in.Header, be32(b)
	h.Version, h.Rep = uint8(w>>28), uint8(w>>26&3)
	h.C, h.E = w&0x02000000 != 0, w&0x01000000 != 0
	h.Bitmap, h.Reserved16 = be16(b[4:]), be16(b[6:])
	if c.traits.Layout == INT05 {
		h.InsCnt, h.MaxHop, h.TotalHop = uint8(w>>16&31), uint8(w>>8), uint8(w)
		h.Reserved = w & 0x00e00000
	} else {
		h.M, h.HopML, h.RemainingHops = w&0x00800000 != 0, uint8(w>>8&31), uint8(w)
		h.Reserved = w & 0x007fe000
	}
	in.Incomplete = in.Incomplete || h.E || h.M
	ver := uint8(1)
	if c.traits.Layout == INT05 {
		ver = 0
	}
	if ver == 1 && c.traits.Ver == 0 && h.Version == 0 {
		c.m.note(VerOfOther, 0, 0)
		ver = 0
	}
	d.checkHeader(c, in, ver)
}

func (d *Decoder) checkHeader(c *walk, in *INT, version uint8) {
	h := &in.Header
	if h.Version != version {
		c.m.note(BadVersion, int(h.Version), int(version))
	}
	if in.Shim.Reserved != 0 || h.Reserved != 0 || h.Reserved16 != 0 {
		both := h.Reserved
		if both == 0 {
			both = uint32(h.Reserved16)
		}
		c.m.note(ReservedBits, int(in.Shim.Reserved), int(both))
	}
	if h.Bitmap == 0 && h.DSInstruction == 0 {
		c.m.note(EmptyBitmap, 0, 0)
	}
}

// stack20 reads the stack behind a 2.x header. size is how many bytes there should be.
func (d *Decoder) stack20(c *walk, in *INT, b []byte, size int) {
	if in.Header.Type != TypeMX {
		d.stackMD(c, in, b, size)
		return
	}
	if !c.traits.SinkStack || len(b) == 0 {
		if in.SourceWords = b; len(b) > 0 {
			c.m.note(SourceWords, len(b), int(in.Header.DomainID))
		}
		return
	}
	c.m.note(StackBehindMX, len(b), 0)
	words := d.words(INT20, in.Header.Bitmap, 0)
	d.blocks(c, in, b, size, words)
}

// stackMD reads a stack whose stride is Hop ML.
func (d *Decoder) stackMD(c *walk, in *INT, b []byte, size int) {
	h := &in.Header
	if h.HopML == 0 {
		c.m.note(NoHopML, size/4, 0)
		in.Rest = b
		in.Incomplete = in.Incomplete || size > 0
		in.Hops = c.m.hops[len(c.m.hops):]
		return
	}
	words := d.words(h.Layout, h.Bitmap, 0)
	switch o := c.traits.Options &^ EvenQueues; {
	case o != 0 && Words(h.Layout, h.Bitmap, o) == int(h.HopML):
		c.m.note(TraitsByHopML, int(h.HopML), words)
	case int(h.HopML) < words, int(h.HopML) > words && h.DSInstruction == 0 && h.DomainID == 0:
		c.m.note(OtherHopML, int(h.HopML), words)
	}
	if n := 4 * domainWords(h.DomainID, h.DSInstruction); n > 0 && len(b) == size && size >= n {
		in.SourceWords = b[size-n:]
		b, size = b[:size-n], size-n
	}
	d.blocks(c, in, b, size, int(h.HopML))
}

// blocks divides a stack into hops of words words, the newest first.
func (d *Decoder) blocks(c *walk, in *INT, b []byte, size, words int) {
	m, h := c.m, &in.Header
	p := d.plans.get(h.Layout, h.Bitmap, c.traits.Options)
	if p.reserved > 0 {
		reserved := uint16(0)
		for bit := range 16 {
			if h.Bitmap&(0x8000>>bit) != 0 && rowsOf[h.Layout][0][bit] == nil {
				reserved |= 0x8000 >> bit
			}
		}
		m.note(ReservedInstr, int(reserved), 0)
	}
	first, stride := len(m.hops), 4*words
	in.Stack, in.Stride, in.Options = b, stride, c.traits.Options
	for stride > 0 && len(b) >= stride {
		m.hops = grow(m.hops)
		p.hop(&m.hops[len(m.hops)-1], b[:stride:stride])
		b = b[stride:]
		size -= stride
	}
	in.Hops = m.hops[first:len(m.hops):len(m.hops)]
	switch {
	case size == 0:
	case len(b) < size: // cut, which has been noted
		in.Rest = b
	case h.DomainID != 0:
		in.SourceWords = b[:len(b)+len(in.SourceWords)] // and those that stackMD has cut off behind it
		m.note(SourceWords, len(b), int(h.DomainID))
	default:
		in.Rest, in.Incomplete = b, true
		m.note(LeftOver, len(b), stride)
	}
}

// grow makes the slice one longer, and does not clear a Hop that it used before.
func grow(s []Hop) []Hop {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	return append(s, Hop{})
}

// hop reads one node's block.
func (p *plan) hop(h *Hop, b []byte) {
	p.read(&h.Values, b)
	h.Reserved, h.DS = nil, nil
	baseline := 4 * int(p.words)
	if p.reserved > 0 && int(p.reservedOff)+int(p.reserved) <= len(b) {
		h.Reserved = b[p.reservedOff : p.reservedOff+p.reserved]
	}
	if len(b) > baseline {
		if p.last {
			h.DS = b[baseline-4 : len(b)-4]
		} else {
			h.DS = b[baseline:]
		}
	}
}

// stack05 reads the stack of INT 0.5, whose header counts the hops, what is behind it, and
// the tail header.
func (d *Decoder) stack05(c *walk, in *INT, b []byte, size int) {
	m, h := c.m, &in.Header
	words := Words(INT05, h.Bitmap, 0)
	if int(h.InsCnt) != bits.OnesCount16(h.Bitmap) {
		m.note(BadInsCount, int(h.InsCnt), bits.OnesCount16(h.Bitmap))
		words = int(h.InsCnt)
	}
	stack := 4 * words * int(h.TotalHop)
	if stack > size {
		m.note(BadHopCount, int(h.TotalHop), size/max(4*words, 1))
		in.Incomplete = true
		stack = size
		if words > 0 {
			stack -= size % (4 * words)
		}
	}
	cut := min(stack, len(b))
	d.blocks(c, in, b[:cut], stack, words)
	b, size = b[cut:], size-stack
	if len(b) < size {
		if len(b) > 0 { // else what is left of a hop is
			in.Rest = b
		}
		return
	}
	if c.traits.FlowSequence && len(b) >= 4 {
		in.HasFlowSeq, in.FlowSequence = true, be32(b)
		b = b[4:]
	}
	switch {
	case len(b) == 4:
		in.HasTail, in.Tail = true, Tail{Proto: b[0], DstPort: be16(b[1:]), DSCP: b[3]}
	case len(b) > 4:
		in.Rest = b
		m.note(LeftOver, len(b), 4*words)
	case !c.quoted(): // sinks remove it before they report
		m.note(NoTail, int(in.Shim.Length), int(in.Shim.Length)+1)
	}
}
