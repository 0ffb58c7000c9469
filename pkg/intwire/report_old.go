// SPDX-License-Identifier: Apache-2.0

package intwire

import "math/bits"

// report05 reads a report of TR 0.5 ("Telemetry Report Fixed Header", "Drop Report
// Header", "Switch Local Report Header").
func (d *Decoder) report05(c *walk, b []byte) {
	m, r := c.m, &c.m.Report
	if len(b) < 12 {
		m.note(CutReport, len(b), 12)
		return
	}
	w := be32(b)
	*r = Report{
		Layout: Report05, Version: b[0] >> 4, NProto: b[0] & 15,
		D: w&0x00800000 != 0, Q: w&0x00400000 != 0, F: w&0x00200000 != 0,
		HwID: uint8(w & 63), Sequence: be32(b[4:]), IngressTS: be32(b[8:]), Reserved: uint16(w >> 6 & 0x7fff),
	}
	d.checkReport(c, 0)
	b = b[12:]
	inner := uint8(InnerEthernet)
	switch {
	case r.NProto == 0:
	case r.NProto == 1:
		b = d.fixed(c, b, TR05Drop, bitsTR05Drop, 12)
	case r.NProto == 2:
		b = d.fixed(c, b, TR05Local, bitsTR05Local, 16)
	case r.NProto == 3 && c.report.HostNProtos:
		if len(b) < 24 {
			m.note(CutReport, len(b)+12, 36)
			return
		}
		r.HasSwitch, r.HasGap = true, true
		r.GapSource, r.SwitchID = be32(b), be32(b[4:])
		r.Values.Set(L1In, uint64(be16(b[8:])))
		r.Values.Set(L1Out, uint64(be16(b[10:])))
		r.GapTS, r.GapSequence, r.GapCount = be32(b[12:]), be32(b[16:]), be32(b[20:])
		r.Inner = b[24:]
		return
	case r.NProto == 4 && c.report.HostNProtos:
		// By the text of Host-INT's page the packet is here; by its figure the sink's node id is first.
		inner = InnerIPv4
		if !quotedIP(b, 4) && len(b) > 4 && quotedIP(b[4:], 4) {
			r.HasSwitch, r.SwitchID, b = true, be32(b), b[4:]
		}
	default:
		m.note(BadNProto, int(r.NProto), 0)
		r.Inner = b
		return
	}
	if b == nil {
		return
	}
	r.Inner = b
	d.quote(c, b, inner, r.F)
}

// fixed reads one of the headers of TR 0.5 behind the first and returns what follows,
// nil if it is cut.
func (d *Decoder) fixed(c *walk, b []byte, f Format, bitmap uint16, size int) []byte {
	r := &c.m.Report
	if len(b) < size {
		c.m.note(CutReport, len(b)+12, size+12)
		return nil
	}
	d.plans.get(f, bitmap, 0).read(&r.Values, b[:size])
	r.Values.Invalid = 0 // the text has no value for "not available"
	r.HasSwitch, r.SwitchID = true, uint32(r.Values.V[NodeID])
	r.Values.Has &^= 1 << NodeID
	r.Values.V[NodeID] = 0
	return b[size:]
}

// report10 reads a report of TR 1.0 ("Telemetry Report Header").
func (d *Decoder) report10(c *walk, b []byte) {
	m, r := c.m, &c.m.Report
	if len(b) < 16 {
		m.note(CutReport, len(b), 16)
		return
	}
	w := be32(b)
	*r = Report{
		Layout: Report10, Version: b[0] >> 4, Length: b[0] & 15, NProto: b[1] >> 5, RepMdBits: uint8(w >> 15 & 63),
		D: w&0x100 != 0, Q: w&0x80 != 0, F: w&0x40 != 0, HwID: uint8(w & 63), Reserved: uint16(w >> 9 & 63),
		HasSwitch: true, SwitchID: be32(b[4:]), Sequence: be32(b[8:]), IngressTS: be32(b[12:]),
	}
	if c.report.FlagsFirst {
		r.D, r.Q, r.F = w&0x4000 != 0, w&0x2000 != 0, w&0x1000 != 0
		r.Reserved = uint16(w >> 6 & 63)
		m.note(FlagsMoved, int(w), 0)
	}
	d.checkReport(c, 1)
	n := bits.OnesCount8(r.RepMdBits)
	if int(r.Length) != 4+n {
		r.OddLength = true
		m.note(BadReportLength, int(r.Length), 4+n)
	}
	b = b[16:]
	if len(b) < 4*n {
		m.note(CutReport, len(b)+16, 4*n+16)
		n = len(b) / 4
		d.plans.get(TR10, uint16(r.RepMdBits)<<10, 0).read(&r.Values, b[:4*n])
		r.Values.Invalid = 0
		return
	}
	if n > 0 {
		d.plans.get(TR10, uint16(r.RepMdBits)<<10, 0).read(&r.Values, b[:4*n])
		r.Values.Invalid = 0
	}
	b = b[4*n:]
	r.Inner = b
	if r.NProto > 2 {
		m.note(BadNProto, int(r.NProto), 0)
		return
	}
	inner := r.NProto + InnerEthernet
	if len(b) > 0 && !quoted(b, inner) {
		m.note(OtherContents, int(r.NProto), 0)
	}
	d.quote(c, b, inner, r.F)
}

func (d *Decoder) checkReport(c *walk, version uint8) {
	r := &c.m.Report
	if r.Version != version {
		c.m.note(BadReportVer, int(r.Version), int(version))
	}
	if r.Reserved != 0 {
		c.m.note(ReportReserved, int(r.Reserved), 0)
	}
}
