// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// errFont says that a font is another one than those that figures have.
var errFont = errors.New("the font is no TrueType font")

// subset is a TrueType font with the outlines of some letters alone. Glyphs keep their numbers, so that all else stays
// as it is; tables that a PDF does not need go.
func subset(ttf []byte, letters map[rune]bool) ([]byte, error) {
	tables, err := tablesOf(ttf)
	if err != nil {
		return nil, err
	}
	f := glyphTable{glyf: tables["glyf"], loca: tables["loca"], long: word(tables["head"], 50) != 0, n: int(word(tables["maxp"], 4))}
	kept, codes := map[int]bool{0: true}, make(map[rune]int) // 0 stands for a letter that is not there
	for r := range letters {
		if g := glyphOf(tables["cmap"], r); g != 0 {
			kept[g], codes[r] = true, g
		}
	}
	for _, g := range slices.Collect(maps.Keys(kept)) {
		f.addParts(g, kept, 0)
	}
	glyf, loca := f.only(kept)
	out := map[string][]byte{"cmap": cmapOf(codes), "glyf": glyf, "loca": loca, "hmtx": f.widths(tables["hmtx"], int(word(tables["hhea"], 34)), kept)}
	for _, name := range []string{"cvt ", "fpgm", "head", "hhea", "maxp", "prep"} {
		if t := tables[name]; t != nil {
			out[name] = slices.Clone(t)
		}
	}
	const namesOf = 32 // of the table post: behind it are names of glyphs
	if post := tables["post"]; len(post) >= namesOf {
		out["post"] = slices.Clone(post[:namesOf])
		binary.BigEndian.PutUint32(out["post"], 0x00030000) // there are none
	}
	if len(out["head"]) < 54 || len(out["hhea"]) < 36 {
		return nil, errFont
	}
	binary.BigEndian.PutUint32(out["head"][8:], 0) // its sum, which is of the whole
	binary.BigEndian.PutUint16(out["head"][50:], 1)
	return assemble(out), nil
}

// word is a number of 16 bits; 0 where there is none.
func word(b []byte, at int) uint16 {
	if at < 0 || at+2 > len(b) {
		return 0
	}
	return binary.BigEndian.Uint16(b[at:])
}

func double(b []byte, at int) uint32 { return uint32(word(b, at))<<16 | uint32(word(b, at+2)) }

func tablesOf(ttf []byte) (map[string][]byte, error) {
	tables := make(map[string][]byte)
	for i := range int(word(ttf, 4)) {
		at := 12 + 16*i
		from, size := uint64(double(ttf, at+8)), uint64(double(ttf, at+12))
		if at+16 > len(ttf) || from+size > uint64(len(ttf)) {
			return nil, errFont
		}
		tables[string(ttf[at:at+4])] = ttf[from : from+size]
	}
	for _, name := range []string{"cmap", "glyf", "head", "hhea", "hmtx", "loca", "maxp"} {
		if tables[name] == nil {
			return nil, fmt.Errorf("%w: it has no table %s", errFont, name)
		}
	}
	return tables, nil
}

// glyphOf is the glyph of a letter, by the table of Unicode's first plane.
func glyphOf(cmap []byte, r rune) int {
	for i := range int(word(cmap, 2)) {
		at := 4 + 8*i
		from := int(double(cmap, at+4))
		if word(cmap, at) != 3 || word(cmap, at+2) != 1 || from > len(cmap) || word(cmap, from) != 4 {
			continue
		}
		t, n := cmap[from:], int(word(cmap, from+6)) // n is twice the number of segments
		for s := 0; s < n; s += 2 {
			end, start := rune(word(t, 14+s)), rune(word(t, 16+n+s))
			if r < start || r > end {
				continue
			}
			delta, offset := word(t, 16+2*n+s), int(word(t, 16+3*n+s))
			if offset == 0 {
				return int(uint16(r) + delta)
			}
			if g := word(t, 16+3*n+s+offset+2*int(r-start)); g != 0 {
				return int(g + delta)
			}
			return 0
		}
	}
	return 0
}

// glyphTable are the outlines of a font.
type glyphTable struct {
	glyf, loca []byte
	long       bool // offsets have 32 bits
	n          int
}

// glyph is the outline of a glyph; none where there is none.
func (f *glyphTable) glyph(g int) []byte {
	at := func(i int) int {
		if f.long {
			return int(double(f.loca, 4*i))
		}
		return 2 * int(word(f.loca, 2*i))
	}
	if g < 0 || g >= f.n {
		return nil
	}
	from, to := at(g), at(g+1)
	if from >= to || to > len(f.glyf) {
		return nil
	}
	return f.glyf[from:to]
}

// mostDeep bounds letters that are made of others, such as those with accents.
const mostDeep = 8

// addParts adds the glyphs that one is made of.
func (f *glyphTable) addParts(g int, kept map[int]bool, depth int) {
	b := f.glyph(g)
	if int16(word(b, 0)) >= 0 || depth > mostDeep {
		return
	}
	const wide, scaled, more, twoScales, matrix = 1, 1 << 3, 1 << 5, 1 << 6, 1 << 7
	for at := 10; at+4 <= len(b); {
		flags, part := word(b, at), int(word(b, at+2))
		kept[part] = true
		f.addParts(part, kept, depth+1)
		at += 6
		if flags&wide != 0 {
			at += 2
		}
		switch {
		case flags&scaled != 0:
			at += 2
		case flags&twoScales != 0:
			at += 4
		case flags&matrix != 0:
			at += 8
		}
		if flags&more == 0 {
			return
		}
	}
}

// only are the tables of outlines with some glyphs; all others are empty.
func (f *glyphTable) only(kept map[int]bool) (glyf, loca []byte) {
	for g := range f.n {
		loca = binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
		if kept[g] {
			glyf = append(glyf, f.glyph(g)...)
			glyf = append(glyf, make([]byte, -len(glyf)&3)...)
		}
	}
	return glyf, binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
}

// widths are those of some glyphs; others have none, which takes no room.
func (f *glyphTable) widths(hmtx []byte, full int, kept map[int]bool) []byte {
	out := slices.Clone(hmtx)
	for g := range min(full-1, len(hmtx)/4) { // the last one stands for all that follow
		if !kept[g] {
			copy(out[4*g:], []byte{0, 0, 0, 0})
		}
	}
	return out
}

// cmapOf is a table of letters with a segment for each.
func cmapOf(codes map[rune]int) []byte {
	letters := append(slices.Sorted(maps.Keys(codes)), 0xffff)
	n := 2 * len(letters)
	var b []byte
	put := func(list ...int) {
		for _, v := range list {
			b = binary.BigEndian.AppendUint16(b, uint16(v))
		}
	}
	half, log := 2, 0
	for ; half*2 <= n; half *= 2 {
		log++
	}
	put(0, 1, 3, 1, 0, 12) // of Unicode's first plane, here
	put(4, 16+4*n, 0, n, half, log, n-half)
	for _, r := range letters {
		put(int(r))
	}
	put(0)
	for _, r := range letters {
		put(int(r))
	}
	for _, r := range letters {
		put(codes[r] - int(r)) // 0xffff has none: glyph 0 is 1 - 0xffff - ... modulo 65,536
	}
	binary.BigEndian.PutUint16(b[len(b)-2:], 1)
	return append(b, make([]byte, n)...)
}

// assemble makes a font of tables.
func assemble(tables map[string][]byte) []byte {
	names := slices.Sorted(maps.Keys(tables))
	power, log := 1, 0
	for ; power*2 <= len(names); power *= 2 {
		log++
	}
	var head, body []byte
	head = binary.BigEndian.AppendUint32(head, 0x00010000)
	for _, v := range []int{len(names), 16 * power, log, 16 * (len(names) - power)} {
		head = binary.BigEndian.AppendUint16(head, uint16(v))
	}
	whole := 0
	for _, name := range names {
		t := tables[name]
		head = append(head, name...)
		for _, v := range []uint32{sum32(t), uint32(12 + 16*len(names) + len(body)), uint32(len(t))} {
			head = binary.BigEndian.AppendUint32(head, v)
		}
		if name == "head" {
			whole = 12 + 16*len(names) + len(body)
		}
		body = append(body, t...)
		body = append(body, make([]byte, -len(body)&3)...)
	}
	font := append(head, body...)
	binary.BigEndian.PutUint32(font[whole+8:], 0xb1b0afba-sum32(font))
	return font
}

func sum32(b []byte) (sum uint32) {
	for i := 0; i < len(b); i += 4 {
		var four [4]byte
		copy(four[:], b[i:])
		sum += binary.BigEndian.Uint32(four[:])
	}
	return sum
}
