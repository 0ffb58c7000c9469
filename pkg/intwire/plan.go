// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/binary"
	"math/bits"
)

// shape is how a row's words are divided into parts. These are all there are; a
// row with another one does not compile to a plan, and the package's init panics.
type shape uint8

const (
	shape32 shape = iota
	shape64
	shape16x16
	shape8x24
	shape8x8 // and 16 bits of padding
	shape32x32
)

// step reads one row's words.
type step struct {
	off    uint8 // bytes from the beginning of the block
	end    uint8 // the first byte behind
	shape  shape
	f1, f2 Field
}

// planKey is what a plan is made of.
type planKey struct {
	bitmap  uint16
	format  Format
	options Option
	ready   bool // so that the zero key is no plan's
}

// plan is a bitmap compiled: where each field lies in a block.
type plan struct {
	key         planKey
	n           uint8
	words       uint8 // of the whole baseline, the last row's and reserved bits' included
	reservedOff uint8 // bytes; in every format reserved bits are neighbours
	reserved    uint8 // bytes
	last        bool  // the checksum complement closes the block
	has         Fields
	steps       [16]step
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
		s := step{off: uint8(off), shape: shapeOf(row), f1: row.Parts[0].Field, f2: row.Parts[0].Field}
		p.has |= Of(s.f1)
		if len(row.Parts) > 1 {
			s.f2 = row.Parts[1].Field
			p.has |= Of(s.f2)
		}
		off += 4 * row.Words()
		s.end = uint8(off)
		p.steps[p.n] = s
		p.n++
	}
	p.words += uint8(off / 4)
}

func shapeOf(r *Row) shape {
	var widths [2]uint8
	for i, p := range r.Parts {
		widths[i] = p.Bits
	}
	switch widths {
	case [2]uint8{32}:
		return shape32
	case [2]uint8{64}:
		return shape64
	case [2]uint8{16, 16}:
		return shape16x16
	case [2]uint8{8, 24}:
		return shape8x24
	case [2]uint8{8, 8}:
		return shape8x8
	case [2]uint8{32, 32}:
		return shape32x32
	}
	panic("intwire: no shape for " + r.Meaning)
}

// A row that cannot be compiled is a mistake in the table: found by any start.
func init() {
	for i := range Rows {
		shapeOf(&Rows[i])
	}
}

// read decodes one block into v, all of whose fields it sets. Rows of which b holds
// only a part are left out; it reports whether all were there. The checksum
// complement, which closes the block, is read from its end.
func (p *plan) read(v *Values, b []byte) (whole bool) {
	*v = Values{}
	has, invalid := p.has, Fields(0)
	whole = true
	for i := range p.steps[:p.n] {
		s := &p.steps[i]
		if int(s.end) > len(b) {
			whole = false
			has &^= 1<<s.f1 | 1<<s.f2
			continue
		}
		f1, f2 := s.f1%NumFields, s.f2%NumFields
		switch s.shape {
		case shape64:
			x := binary.BigEndian.Uint64(b[s.off:])
			v.V[f1] = x
			if x == 1<<64-1 {
				invalid |= 1 << f1
			}
			continue
		case shape32x32:
			x, y := binary.BigEndian.Uint32(b[s.off:]), binary.BigEndian.Uint32(b[s.off+4:])
			v.V[f1], v.V[f2] = uint64(x), uint64(y)
			if x == 1<<32-1 {
				invalid |= 1 << f1
			}
			if y == 1<<32-1 {
				invalid |= 1 << f2
			}
			continue
		}
		x := binary.BigEndian.Uint32(b[s.off:])
		if x == 1<<32-1 {
			invalid |= 1<<f1 | 1<<f2
		}
		switch s.shape {
		case shape32:
			v.V[f1] = uint64(x)
		case shape16x16:
			v.V[f1], v.V[f2] = uint64(x>>16), uint64(x&0xffff)
		case shape8x24:
			v.V[f1], v.V[f2] = uint64(x>>24), uint64(x&0xffffff)
		case shape8x8:
			v.V[f1], v.V[f2] = uint64(x>>24), uint64(x>>16&0xff)
		}
	}
	if p.last {
		if end := len(b) &^ 3; end >= 4*int(p.words) {
			// All ones have a meaning of their own here: never "not available".
			v.V[ChecksumComplement] = uint64(binary.BigEndian.Uint32(b[end-4:]))
		} else {
			whole = false
			has &^= 1 << ChecksumComplement
		}
	}
	v.Has, v.Invalid = has, invalid
	return whole
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
