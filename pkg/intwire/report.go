// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"math/bits"
	"slices"
)

// findReport reads the payload of a UDP datagram as a report if it looks like one.
// want is how many bytes of it there should be.
func (d *Decoder) findReport(c *walk, b []byte, want int) bool {
	g, t := d.recogniseReport(b, want)
	mark, need := ByForm, strict
	switch {
	case d.Profile != nil:
		mark, need = ByProfile, shaped
		if d.isReportPort(c.dstPort) {
			need = touches
		}
	case d.isReportPort(c.dstPort):
		mark, need = ByPort, touches
	}
	if g < need {
		return false
	}
	if mark == ByForm {
		c.m.note(UnknownMark, int(c.dscp), int(c.dstPort))
	}
	if c.m.Sure = g >= shaped; !c.m.Sure {
		c.m.note(WeakReport, 0, 0)
	}
	d.readReport(c, b, t, mark)
	return true
}

func (d *Decoder) isReportPort(port uint16) bool {
	return knownReportPort(port) || slices.Contains(d.ReportPorts, port)
}

// readReport reads a report.
func (d *Decoder) readReport(c *walk, b []byte, t ReportTraits, mark Mark) {
	if d.Profile != nil {
		t = d.Profile.Report
	}
	d.report = t
	q := walk{m: c.m, ints: &c.m.INT, report: &d.report, pkt: c.pkt, depth: 1}
	c.m.Mark = mark
	c.m.Profile = d.name(nil, &d.report)
	switch t.Layout {
	case Report05:
		d.report05(&q, b)
	case Report10:
		d.report10(&q, b)
	case Report20:
		d.report20(&q, b)
	}
}

// recogniseReport returns how much b looks like a report, and in which variant.
func (d *Decoder) recogniseReport(b []byte, want int) (grade, ReportTraits) {
	if len(b) < 4 {
		return isNot, ReportTraits{}
	}
	ver := b[0] >> 4
	if d.Profile != nil {
		t := d.Profile.Report
		if ver != t.Ver {
			return isNot, t
		}
		switch t.Layout {
		case Report05:
			return recogniseReport05(b, t)
		case Report10:
			return recogniseReport10(b, t)
		}
		return d.recogniseReport20(b, want, t)
	}
	switch ver {
	case 0:
		t := ReportTraits{Layout: Report05}
		t.HostNProtos = b[0]&15 == 3 || b[0]&15 == 4
		return recogniseReport05(b, t)
	case 1:
		t := ReportTraits{Layout: Report10, Ver: 1}
		if b[0]&15 < 4 {
			loose := ReportTraits{Layout: Report20, Ver: 1, Loose: true}
			if g, l := d.recogniseReport20(b, want, loose); g == strict {
				return g, l
			}
			t.FreeLength = true
		}
		w := be32(b)
		t.FlagsFirst = w&0x00007000 != 0 && w&0x00000fc0 == 0
		return recogniseReport10(b, t)
	case 2:
		t := ReportTraits{Layout: Report20, Ver: 2}
		g, _ := d.recogniseReport20(b, want, t)
		if g < strict {
			loose := ReportTraits{Layout: Report20, Ver: 2, Loose: true}
			if h, _ := d.recogniseReport20(b, want, loose); h == strict && b[9] == 0 {
				return h, loose
			}
			tps := ReportTraits{Layout: Report20, Ver: 2, ShortSeq: true, MainAlways: true, Ethernet2: true}
			if h, _ := d.recogniseReport20(b, want, tps); h == strict && len(b) >= 12 && b[8]>>4 == 0 {
				return h, tps
			}
		}
		return g, t
	}
	return isNot, ReportTraits{}
}

// Grades of reports. strict: everything is right. shaped: the lengths are right, and it quotes a packet or
// has the values that its bits ask for; something else differs from the text. touches: all others, which one
// in six random payloads is.

func recogniseReport05(b []byte, t ReportTraits) (grade, ReportTraits) {
	w, nproto := be32(b), b[0]&15
	if nproto > 2 && !(t.HostNProtos && nproto <= 4) {
		return touches, t
	}
	head := [...]int{12, 24, 28, 36, 12}[nproto]
	if len(b) < head {
		return touches, t
	}
	inner, q := uint8(InnerEthernet), b[head:]
	switch nproto {
	case 3:
		if len(q) > 3 || w&0x00800000 == 0 || w&0x001fffc0 != 0 {
			return touches, t
		}
		return strict, t
	case 4:
		if inner = InnerIPv4; !quotedIP(q, 4) && len(q) > 4 {
			q = q[4:]
		}
	}
	const few = 2 // of 15: a program of a later draft may set so many
	reserved := bits.OnesCount32(w & 0x001fffc0)
	if reserved > few {
		return touches, t
	}
	return recogniseQuote(q, inner, reserved == 0), t
}

func recogniseReport10(b []byte, t ReportTraits) (grade, ReportTraits) {
	w, nproto := be32(b), b[1]>>5
	extra := bits.OnesCount32(w >> 15 & 0x3f)
	head := 16 + 4*extra
	if nproto > 2 || len(b) < head {
		return touches, t
	}
	if int(b[0]&15) != 4+extra && !t.FreeLength {
		return touches, t
	}
	reserved := w & 0x00007e00
	if t.FlagsFirst {
		reserved = w & 0x00000fc0
	}
	switch {
	case t.FreeLength && reserved != 0: // too much is wrong
		return touches, t
	case !t.FreeLength && reserved == 0 && len(b) == head: // it quotes no packet
		return shaped, t
	}
	return recogniseQuote(b[head:], nproto+InnerEthernet, reserved == 0), t
}

func (d *Decoder) recogniseReport20(b []byte, want int, t ReportTraits) (grade, ReportTraits) {
	if len(b) < 12 {
		return touches, t
	}
	kind, inner, words, md := b[8]>>4, b[8]&15, int(b[9]), int(b[10])
	main := kind == 1 || t.MainAlways && kind == 0
	if kind > 2 || inner > InnerIPv6 {
		return touches, t
	}
	body, right, said := b[12:], b[11]&15 == 0 || t.SmallHwID, false // said: its bits ask for values
	if past := words != 255 && !t.Loose && 12+4*words > want; past || kind == 2 {
		if !right { // two things are wrong
			return touches, t
		}
		right = !past
	}
	if main {
		if len(b) < 20 || words < 2+md && !t.Loose {
			return touches, t
		}
		body = b[min(20+4*md, len(b)):]
		bitmap, domain := be16(b[12:]), be16(b[14:])
		need := d.words(TR20, bitmap&0x7fff, 0)
		if md < need || md > need && domain == 0 && bitmap&0x8000 == 0 || t.MainAlways && (kind != 0 || domain != DomainTS) {
			right = false
		}
		said = bitmap != 0
	}
	if t.Ethernet2 && inner == inDomain {
		inner = InnerEthernet
	}
	g := touches
	switch {
	case inner >= InnerEthernet, t.Loose:
		g = recogniseQuote(body, inner, right)
		if t.Loose && right && quotedEthernet(body) {
			g = strict
		}
		if main && right { // it may quote something else than IP
			g = max(g, shaped)
		}
	case right && said, right && inner == inTLV && len(body) >= 4 && body[0]>>4 <= 3 && 4+4*int(body[1]) <= len(body):
		g = strict
	case right && main, right && inner == inNone && words == 0 && b[11] != 0, right && inner == inDomain && 12+4*words+3 >= want:
		g = shaped
	}
	return g, t
}

// recogniseQuote returns the grade of a report that quotes b as an inner type. right: its own header is right.
func recogniseQuote(b []byte, inner uint8, right bool) grade {
	switch {
	case right && quoted(b, inner):
		return strict
	case quotedWell(b):
		return shaped
	}
	return touches
}

// Inner types of TR 2.0 that are not a packet; the others are InnerEthernet and above.
const (
	inNone   = 0
	inTLV    = 1
	inDomain = 2
)

// quoted reports whether b begins like a packet of an inner type.
func quoted(b []byte, inner uint8) bool {
	switch inner {
	case InnerEthernet:
		return quotedEthernet(b)
	case InnerIPv4:
		return quotedIP(b, 4)
	case InnerIPv6:
		return quotedIP(b, 6)
	}
	return false
}

func quotedEthernet(b []byte) bool {
	if len(b) < 14 {
		return false
	}
	switch be16(b[12:]) {
	case etherIPv4:
		return len(b) == 14 || quotedIP(b[14:], 4)
	case etherIPv6:
		return len(b) == 14 || quotedIP(b[14:], 6)
	case etherVLAN, etherQinQ, etherQinQ9, etherMPLS, etherMPLSm, 0x0806,
		0x8035, 0x8809, 0x8863, 0x8864, 0x887e, 0x888e, 0x88cc, 0x88e5, 0x88e7, 0x88f7, 0x8906, 0x8915, 0x894f, 0x9000:
		return true // RARP, LACP, PPPoE, EAP, LLDP, MACsec, PBB, PTP, FCoE, RoCE, NSH and others that switches send
	}
	return false
}

// quotedWell reports whether b begins like a packet of any inner type, with a protocol that exists.
func quotedWell(b []byte) bool {
	if len(b) >= 14 && quotedEthernet(b) {
		if t := be16(b[12:]); t != etherIPv4 && t != etherIPv6 {
			return true
		}
		b = b[14:]
	}
	switch {
	case quotedIP(b, 4) && len(b) >= 20:
		return usualProto(b[9])
	case quotedIP(b, 6) && len(b) >= 40:
		return usualProto(b[6])
	}
	return false
}

// usualProto reports whether an IP protocol, or IPv6 extension header, is in use.
func usualProto(proto uint8) bool {
	switch proto {
	case 0, 1, 2, protoIPv4, protoTCP, protoUDP, 33, protoIPv6, 43, 44, protoGRE, 50, 51, 58, 60, 88, 89, 103, 112, 115, 132, 136, 137:
		return true
	}
	return false
}

func quotedIP(b []byte, version uint8) bool {
	if len(b) == 0 || b[0]>>4 != version {
		return false
	}
	return version == 6 || b[0]&15 >= 5 && (len(b) < 4 || be16(b[2:]) >= 20)
}

// quote looks for INT in a packet that a report quotes. f is the report's F flag.
func (d *Decoder) quote(c *walk, b []byte, inner uint8, f bool) {
	n := len(*c.ints)
	c.f, c.first, c.hasIP, c.dscp, c.dstPort = f, false, false, 0, 0
	switch inner {
	case InnerEthernet:
		d.ethernet(c, b)
	case InnerIPv4, InnerIPv6:
		d.ip(c, b)
	}
	if len(*c.ints) == n {
		return
	}
	if !f {
		c.m.note(INTWithoutF, 0, 0)
	}
	if l := (*c.ints)[n].Header.Layout; l == INT05 && c.report.Layout != Report05 || l != INT05 && c.report.Layout == Report05 ||
		l == INT10 && c.report.Layout == Report20 || l == INT20 && c.report.Layout == Report10 {
		c.m.note(ReportVersions, int(l), int(c.report.Layout-Report05))
	}
}
