// SPDX-License-Identifier: Apache-2.0

package intwire

import "math/bits"

// recogniseINT returns how much b looks like INT over TCP or UDP, and in which variant. want
// is how many bytes there should be from b on; a cut packet has fewer. port is that of UDP,
// or 0.
func (d *Decoder) recogniseINT(b []byte, want int, port uint16) (grade, INTTraits) {
	if len(b) < 4 {
		return isNot, INTTraits{}
	}
	var only *INTTraits
	if d.Profile != nil {
		only = &d.Profile.INT
	}
	if b[0]>>4 != 0 {
		if only != nil && only.Layout != INT20 {
			return isNot, *only
		}
		return d.recognise20(b, want, only, port)
	}
	if only != nil && only.Layout == INT20 {
		return isNot, *only
	}
	return recogniseOld(b, want, only)
}

// recognise20 recognises an INT 2.x header behind a shim for TCP and UDP.
func (d *Decoder) recognise20(b []byte, want int, only *INTTraits, port uint16) (grade, INTTraits) {
	t := INTTraits{Layout: INT20, Ver: 2}
	if only != nil {
		t = *only
	}
	kind, npt := b[0]>>4, b[0]>>2&3
	if kind != TypeMD && kind != TypeMX {
		return isNot, t
	}
	words := int(b[1])
	shimOK := b[0]&3 == 0 && npt <= 2
	switch {
	case npt == 0:
		shimOK = shimOK && b[2] == 0 && b[3]&3 == 0
	case npt == 2 && b[2] != 0:
		if only == nil && b[3] == 0 {
			t.HighProto = true
		}
		shimOK = shimOK && t.HighProto
	}
	if len(b) < 16 { // cut: what is there decides
		if len(b) < 8 || b[4]>>4 == 2 {
			return touches, t
		}
		return isNot, t
	}
	if only == nil && kind == TypeMD && be16(b[10:]) == DomainTS && d.likeTS(b, want, port) {
		t.CountsShim, t.LateFlags = true, true
	}
	if t.CountsShim {
		words--
	}
	fits := words >= 3 && 4+4*words <= want
	if b[4]>>4 != 2 {
		if fits && shimOK && be32(b[4:])&0x01ffe000 == 0 {
			return touches, t // only the version is wrong
		}
		return isNot, t
	}
	if !fits {
		return touches, t
	}
	g, sink := d.recogniseHeader20(b[4:], kind, words-3, t.LateFlags)
	t.SinkStack = t.SinkStack || sink && only == nil
	if !shimOK {
		g = min(g, shaped)
	}
	return g, t
}

// likeTS reports whether a header of domain 0x5453 is one that transparent-security sends: its shim
// counts itself, and its flags are two bits further. The domain alone does not prove that. Where
// the protocol behind the stack is known, its header decides; else the layout of the text is
// assumed if it fits.
func (d *Decoder) likeTS(b []byte, want int, port uint16) bool {
	switch w0 := be32(b[4:]); {
	case w0&0x01800000 != 0: // their E or M, where the text has reserved bits
		return true
	case w0&0x0c000000 != 0: // D or E of the text
		return false
	}
	end := 4 + 4*int(b[1])
	if end > want {
		return true
	}
	if b[0]>>2&3 == 2 {
		text, theirs := beginsProto(b, end, want, b[3]), beginsProto(b, end-4, want, b[3])
		if text == isIt || theirs == isIt {
			return text != isIt
		}
		if text == isNotIt || theirs == isNotIt {
			return theirs != isNotIt
		}
	}
	const theirPort = 555
	return d.report.MainAlways || port == theirPort
}

// guess is whether bytes are what they are guessed to be.
type guess uint8

const (
	unknown guess = iota // they are not there
	isIt
	isNotIt
)

// beginsProto returns whether a header of an IP protocol begins at b[off:] in a packet of want bytes.
func beginsProto(b []byte, off, want int, proto uint8) guess {
	room := want - off
	h := b[min(max(off, 0), len(b)):]
	ok := false
	switch {
	case proto == protoTCP && len(h) >= 13: // its data offset
		head := 4 * int(h[12]>>4)
		ok = head >= 20 && head <= room && h[12]&0x0e == 0
	case proto == protoUDP && len(h) >= 6:
		ok = int(be16(h[4:])) == room
	case proto == protoIPv4 && len(h) >= 4:
		ok = h[0]>>4 == 4 && h[0]&15 >= 5 && int(be16(h[2:])) == room
	case proto == protoIPv6 && len(h) >= 6:
		ok = h[0]>>4 == 6 && 40+int(be16(h[4:])) == room
	default:
		return unknown
	}
	if ok {
		return isIt
	}
	return isNotIt
}

// recogniseHeader20 recognises the 12 bytes of an INT 2.x header. stack is the words of the
// stack. sink: metadata of a hop lie behind an MX header. late: INTTraits.LateFlags.
func (d *Decoder) recogniseHeader20(h []byte, kind uint8, stack int, late bool) (g grade, sink bool) {
	w0, bitmap := be32(h), be16(h[4:])
	domain, instr, flags := be16(h[6:]), be16(h[8:]), be16(h[10:])
	if w0>>28 != 2 {
		return isNot, false
	}
	words := d.words(INT20, bitmap, 0)
	if kind == TypeMX {
		if stack > 0 && domain == 0 && words > 0 && stack%words == 0 {
			sink = true
		}
		if w0&0x07ffffff != 0 || bitmap&1 != 0 || bitmap == 0 && instr == 0 || domain == 0 && stack != 0 && !sink {
			return shaped, sink
		}
		return strict, sink
	}
	hopML := int(w0 >> 8 & 31)
	switch {
	case hopML == 0:
		if stack == 0 && bitmap == 0 {
			return shaped, false
		}
		return touches, false
	case w0&0x01ffe000 != 0 && !late,
		bitmap == 0 && instr == 0,
		domain == 0 && (hopML != words || stack%hopML != 0 || instr != 0 || flags != 0),
		hopML < words:
		return shaped, false
	}
	return strict, false
}

// recogniseOld recognises INT 0.5 and 1.0 behind a shim for TCP and UDP.
func recogniseOld(b []byte, want int, only *INTTraits) (grade, INTTraits) {
	t := INTTraits{Layout: INT10, Ver: 1}
	if only != nil {
		t = *only
	}
	switch b[0] {
	case TypeMD:
	case 3: // Host-INT's
		if only == nil {
			t = INTTraits{Layout: INT05, FlowSequence: true}
		} else if !t.FlowSequence {
			return isNot, t
		}
	default:
		return isNot, t
	}
	if len(b) < 12 {
		if len(b) < 8 || b[4]>>4 <= 1 {
			return touches, t
		}
		return isNot, t
	}
	words, w0, bitmap := int(b[2]), be32(b[4:]), be16(b[8:])
	ver := uint8(w0 >> 28)
	if ver > 1 {
		if only == nil && !(words >= 3 && 4*words <= want && b[1] == 0) {
			return isNot, t
		}
		return touches, t
	}
	fits := words >= 3 && 4*words <= want
	stack := words - 3
	if t.Layout == INT05 || only == nil && ver == 0 && looksLike05(w0, bitmap) {
		if only == nil {
			t.Layout, t.Ver = INT05, 0
		}
		if g := recognise05(w0, bitmap, stack, t.FlowSequence); fits && ver == 0 {
			return g, t
		}
		return touches, t
	}
	if only == nil {
		t.Ver = ver
	}
	if !fits || ver != t.Ver {
		return touches, t
	}
	return recognise10(b, t, only == nil)
}

// recognise10 recognises a header of INT 1.0 whose shim, lengths and version are right. open:
// no profile was asked for.
func recognise10(b []byte, t INTTraits, open bool) (grade, INTTraits) {
	w0, bitmap, stack := be32(b[4:]), be16(b[8:]), int(b[2])-3
	hopML := int(w0 >> 8 & 31)
	if hopML == 0 {
		return touches, t
	}
	g := strict
	if open {
		options, ok := widths(bitmap, hopML)
		t.Options = options
		if !ok {
			g = shaped
		}
	} else if Words(INT10, bitmap, t.Options) != hopML {
		g = shaped
	}
	// Only programs with options use the reserved half of the second word.
	if b[1] != 0 || w0&0x007fe000 != 0 || be16(b[10:]) != 0 && t.Options == 0 || bitmap == 0 || stack%hopML != 0 {
		g = shaped
	}
	return g, t
}

// widths finds the options with which a bitmap asks for hopML words: 0, if it does by the
// text.
func widths(bitmap uint16, hopML int) (Option, bool) {
	for _, o := range [...]Option{0, ShortL2, LongTimes, LongTimes | ShortL2} {
		if Words(INT10, bitmap, o) == hopML {
			return o, true
		}
	}
	return 0, false
}

// looksLike05 reports whether a header is one of 0.5, not one of 1.0 whose Ver is 0. Where 0.5 has the
// instruction count, 1.0 has reserved bits, so 0; and in 1.0 Hop ML fits the bitmap.
func looksLike05(w0 uint32, bitmap uint16) bool {
	if ins := int(w0 >> 16 & 31); ins == 0 || ins == bits.OnesCount16(bitmap) {
		return ins != 0
	}
	_, fits10 := widths(bitmap, int(w0>>8&31))
	return !fits10
}

func recognise05(w0 uint32, bitmap uint16, stack int, flow bool) grade {
	ins, maxHop, total := int(w0>>16&31), int(w0>>8&0xff), int(w0&0xff)
	behind := stack - ins*total // words behind the stack: the tail, and the flow's sequence number
	extra := 0
	if flow {
		extra = 1
	}
	switch {
	case ins == 0 || ins != bits.OnesCount16(bitmap):
		return touches
	case w0&0x00e00000 != 0, total > maxHop, bitmap&0x00ff != 0, behind != extra && behind != extra+1:
		return shaped
	}
	return strict
}
