// SPDX-License-Identifier: Apache-2.0

package intwire

import "math/bits"

// report20 reads a group of reports of TR 2.0 ("Telemetry Report Group Header",
// "Individual Report Header").
func (d *Decoder) report20(c *walk, b []byte) {
	m, t := c.m, c.report
	if len(b) < 8 {
		m.note(CutReport, len(b), 8)
		return
	}
	w := be32(b)
	m.Group = Group{Version: b[0] >> 4, HwID: uint8(w >> 22 & 63), Sequence: w & 0x3fffff, NodeID: be32(b[4:])}
	m.HasGroup = true
	switch {
	case t.SmallHwID:
		m.Group.HwID, m.Group.Sequence = uint8(w>>24&15), w&0xffffff
	case t.ShortSeq:
		m.Group.Sequence = w >> 6 & 0xffff
	}
	if m.Group.Version != 2 {
		m.note(BadReportVer, int(m.Group.Version), 2)
	}
	c.ints = &m.Embedded
	for b = b[8:]; len(b) > 0; {
		if n := zeros(b); n > 0 { // padding
			m.note(ZeroWords, n, 0)
			b = b[n:]
			continue
		}
		n := d.single(c, b)
		if n == 0 {
			return
		}
		b = b[n:]
	}
}

// zeros is how many bytes of zeros b begins with: whole words of them, or all of b.
func zeros(b []byte) int {
	n := 0
	for n < len(b) && b[n] == 0 {
		n++
	}
	if n < len(b) {
		n &^= 3
	}
	return n
}

// single reads one report of a group and returns how many bytes it has: all that are left
// if no other can follow.
func (d *Decoder) single(c *walk, b []byte) int {
	m, t := c.m, c.report
	if len(b) < 4 {
		m.note(CutReport, len(b), 4)
		return 0
	}
	m.Reports = append(m.Reports, Single{
		RepType: b[0] >> 4, InType: b[0] & 15, Length: b[1], MDLength: b[2],
		D: b[3]&0x80 != 0, Q: b[3]&0x40 != 0, F: b[3]&0x20 != 0, I: b[3]&0x10 != 0, Reserved: b[3] & 15,
	})
	s := &m.Reports[len(m.Reports)-1]
	if s.Reserved != 0 && !t.SmallHwID {
		m.note(ReportReserved, int(s.Reserved), 0)
	}
	size := 4 + 4*int(s.Length)
	switch {
	case s.Length == 255:
		size = len(b)
	case t.Loose && s.Length == 0:
		m.note(NoReportLength, len(b)-4, 0)
		size = len(b)
	case size > len(b):
		m.note(CutReport, len(b), size)
		size = len(b)
	case len(b)-size < 4 && len(b) != size:
		// The length was rounded down: the rest is too short for a report.
		m.note(TailBytes, len(b)-size, 0)
		size = len(b)
	}
	body := b[4:size]
	switch {
	case s.RepType == 1, s.RepType == 0 && t.MainAlways:
		if s.RepType == 0 {
			m.note(MainInType0, 0, 0)
		}
		body = d.main20(c, s, body)
	case s.RepType != 0:
		m.note(BadRepType, int(s.RepType), 0)
		s.Inner = body
		return size
	}
	if body != nil {
		d.inner20(c, s, body)
	}
	return size
}

// main20 reads the main contents of a report of type 1, and returns what follows.
func (d *Decoder) main20(c *walk, s *Single, b []byte) []byte {
	m := c.m
	if least := 2 + int(s.MDLength); s.Length != 255 && int(s.Length) < least && !c.report.Loose {
		m.note(ShortInner, int(s.Length), least)
	}
	if len(b) < 8 {
		m.note(CutReport, len(b), 8)
		s.Inner = b
		return nil
	}
	s.HasMain = true
	s.RepMdBits, s.Domain, s.DSMdBits, s.DSMdStatus = be16(b), be16(b[2:]), be16(b[4:]), be16(b[6:])
	c.checkDomain(s.Domain, s.DSMdBits)
	b = b[8:]
	size := 4 * int(s.MDLength)
	if size > len(b) {
		m.note(CutReport, len(b), size)
		size = len(b)
	}
	md, rest := b[:size], b[size:]
	bitmap := s.RepMdBits & 0x7fff
	if bitmap != s.RepMdBits {
		m.note(NodeIDBit, 0, 0)
	}
	p := d.plans.get(TR20, bitmap, 0)
	words := int(p.words)
	if int(s.MDLength) < words || int(s.MDLength) > words && s.DSMdBits == 0 && s.Domain == 0 {
		m.note(BadMDLength, int(s.MDLength), words)
	}
	p.read(&s.Values, md)
	if p.reserved > 0 {
		m.note(ReservedMD, int(bitmap&0x007e), 0)
		if end := int(p.reservedOff + p.reserved); end <= len(md) {
			s.MDReserved = md[p.reservedOff:end]
		}
	}
	if len(md) > 4*words {
		s.DSMetadata = md[4*words:]
	}
	return rest
}

// inner20 reads the inner contents of a report.
func (d *Decoder) inner20(c *walk, s *Single, b []byte) {
	m, t := c.m, c.report
	inner := s.InType
	if t.Ethernet2 && inner == inDomain {
		inner = InnerEthernet
	}
	n := len(m.Embedded)
	switch {
	case inner == inTLV:
		d.tlvs(c, s, b)
	case inner >= InnerEthernet && inner <= InnerIPv6:
		s.Inner = b
		if len(b) > 0 && !quoted(b, inner) && quotedEthernet(b) {
			m.note(OtherContents, int(inner), 0)
			inner = InnerEthernet
		}
		d.quote(c, b, inner, s.F || t.Loose)
	default:
		s.Inner = b
		if inner > InnerIPv6 {
			m.note(BadInType, int(inner), 0)
		} else if inner == inNone && len(b) > 0 {
			m.note(RestOfReport, len(b), 0)
		}
	}
	if len(m.Embedded) > n {
		s.Embedded = n + 1
	}
}

// tlvs reads a list of TLVs (TR 2.0, "TLV"), and INT in the packets in them.
func (d *Decoder) tlvs(c *walk, s *Single, b []byte) {
	m, first := c.m, len(c.m.tlvs)
	for len(b) >= 4 {
		t := TLV{Type: b[0] >> 4, Reserved: b[0] & 15, Length: b[1], Template: be16(b[2:])}
		size := 4 * int(t.Length)
		if b = b[4:]; size > len(b) {
			m.note(CutTLV, len(b), size)
			size = len(b)
		}
		t.Data, b = b[:size], b[size:]
		m.tlvs = append(m.tlvs, t)
		if t.Type >= 1 && t.Type <= 3 {
			d.quote(c, t.Data, t.Type-1+InnerEthernet, s.F)
		}
	}
	if len(b) > 0 {
		s.Inner = b
		m.note(RestOfReport, len(b), 0)
	}
	s.TLVs = m.tlvs[first:len(m.tlvs):len(m.tlvs)]
}

// MetadataWords is the number of words of a report's optional metadata, by its bits:
// six of TR 1.0, or 16 of TR 2.0.
func (s *Single) MetadataWords() int { return Words(TR20, s.RepMdBits&0x7fff, 0) }

// HeaderWords is the length of a report of TR 1.0, in words.
func (r *Report) HeaderWords() int { return 4 + bits.OnesCount8(r.RepMdBits) }
