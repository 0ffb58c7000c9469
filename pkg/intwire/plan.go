// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/binary"
	"math/bits"
)

// step reads one row of one word or two. x is the row's bytes as a number, its first part is
// x>>shift1, its second x>>shift2&mask. If a row has one part, f2 is f1: it is written first
// and then overwritten.
type step struct {
	off            uint8 // bytes from the beginning of the block
	end            uint8 // the first byte behind the row
	f1, f2         Field
	shift1, shift2 uint8
	mask           uint32
}

// planKey is what a plan depends on.
type planKey struct {
	bitmap  uint16
	format  Format
	options Option
	ready   bool // always true, so that no plan has the zero key
}

// plan is a bitmap compiled: where each field lies in a block.
type plan struct {
	key         planKey
	n1, n2      uint8 // steps of one word, and of two
	words       uint8 // of the whole baseline, with the last row and reserved bits
	reservedOff uint8 // bytes; in every format reserved bits are neighbours
	reserved    uint8 // bytes
	last        bool  // the checksum complement closes the block
	has         Fields
	one, two    [16]step
}

// compile makes the plan of a key.
func (p *plan) compile(key planKey) {
	*p = plan{key: key}
	off := 0
	for b := key.bitmap; b != 0; {
		bit := uint8(bits.LeadingZeros16(b))
		b &^= 0x8000 >> bit
		row := rowsOf[key.format][key.options&7][bit]
		if row == nil {
			if p.reserved == 0 {
				p.reservedOff = uint8(off)
			}
			p.reserved += 4
			off += 4
			continue
		}
		if row.Last {
			p.last = true
			p.words++
			p.has |= Of(row.Parts[0].Field)
			continue
		}
		s := stepOf(row)
		s.off = uint8(off)
		p.has |= Of(s.f1, s.f2)
		off += 4 * row.Words()
		s.end = uint8(off)
		if row.Words() == 1 {
			p.one[p.n1] = s
			p.n1++
		} else {
			p.two[p.n2] = s
			p.n2++
		}
	}
	p.words += uint8(off / 4)
}

// stepOf returns how a row is read, without its place.
func stepOf(r *Row) step {
	size, first := uint8(32*r.Words()), r.Parts[0]
	s := step{f1: first.Field, f2: first.Field, shift1: size - first.Bits}
	if len(r.Parts) > 1 {
		second := r.Parts[1]
		s.f2 = second.Field
		s.shift2 = s.shift1 - second.Bits
		s.mask = uint32(1<<second.Bits - 1)
	}
	return s
}

// A row that no step can read is a mistake in the table.
func init() {
	for i := range Rows {
		if n := len(Rows[i].Parts); n < 1 || n > 2 || Rows[i].Words() > 2 {
			panic("intwire: no step for " + Rows[i].Meaning)
		}
	}
}

// read decodes one block into v, and sets all fields of v. Rows of which b has only a part
// are left out; whole reports whether there are none. The checksum complement is read from
// the block's end.
func (p *plan) read(v *Values, b []byte) (whole bool) {
	if v.Has != p.has { // else the same fields are written again
		*v = Values{}
	}
	if len(b) < 4*int(p.words) {
		return p.readPart(v, b)
	}
	invalid := Fields(0)
	for i := range p.one[:p.n1&15] {
		s := &p.one[i]
		x := binary.BigEndian.Uint32(b[s.off:])
		v.V[s.f2] = uint64(x >> (s.shift2 & 31) & s.mask)
		v.V[s.f1] = uint64(x >> (s.shift1 & 31))
		if x == 1<<32-1 {
			invalid |= 1<<s.f1 | 1<<s.f2
		}
	}
	for i := range p.two[:p.n2&15] {
		s := &p.two[i]
		x := binary.BigEndian.Uint64(b[s.off:])
		v.V[s.f2] = x & uint64(s.mask)
		v.V[s.f1] = x >> (s.shift1 & 63)
		if uint32(x>>32) == 1<<32-1 || uint32(x) == 1<<32-1 {
			invalid |= s.invalid2(x)
		}
	}
	if p.last {
		// All ones have a meaning of their own here: never "not available".
		v.V[ChecksumComplement] = uint64(binary.BigEndian.Uint32(b[len(b)&^3-4:]))
	}
	v.Has, v.Invalid = p.has, invalid
	return true
}

// invalid2 returns which parts of two words are all ones. A part of 64 bits is one part.
func (s *step) invalid2(x uint64) (invalid Fields) {
	switch {
	case x == 1<<64-1:
		return 1<<s.f1 | 1<<s.f2
	case s.f1 == s.f2:
	case uint32(x) == 1<<32-1:
		return 1 << s.f2
	case x>>32 == 1<<32-1:
		return 1 << s.f1
	}
	return 0
}

// readPart is read for a block that is too short. It reads a longer copy and then forgets the
// rows that b lacks.
func (p *plan) readPart(v *Values, b []byte) bool {
	var long [4 * 32]byte
	copy(long[:], b)
	p.read(v, long[:])
	gone := Fields(0)
	for _, steps := range [...][]step{p.one[:p.n1], p.two[:p.n2]} {
		for i := range steps {
			if int(steps[i].end) > len(b) {
				gone |= 1<<steps[i].f1 | 1<<steps[i].f2
			}
		}
	}
	if p.last {
		gone |= 1 << ChecksumComplement
	}
	v.Has &^= gone
	v.Invalid &^= gone
	for f := range NumFields {
		if gone.Has(f) {
			v.V[f] = 0
		}
	}
	return false
}

// planCache keeps the plans that were used last, one for each hash.
type planCache [16]plan

func (c *planCache) get(f Format, bitmap uint16, options Option) *plan {
	key := planKey{bitmap: bitmap, format: f, options: options, ready: true}
	h := uint32(bitmap)*0x9e3779b1>>16 + uint32(f)*5 + uint32(options)
	p := &c[h%uint32(len(c))]
	if p.key != key {
		p.compile(key)
	}
	return p
}

// words is Words, by the plan that the stack needs anyway.
func (d *Decoder) words(f Format, bitmap uint16, options Option) int {
	return int(d.plans.get(f, bitmap, options).words)
}
