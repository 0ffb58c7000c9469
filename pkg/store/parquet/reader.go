// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Bounds of what a file may ask for. A Writer stays far below them.
const (
	mostFooter  = 64 << 20
	mostGroup   = 64 << 20 // bytes, compressed
	mostPage    = 64 << 20 // bytes, not compressed
	mostRows    = 1 << 17  // of a group
	mostEntries = 1 << 21  // of a group's list
	mostColumns = 1 << 10
	mostChunks  = 1 << 20 // columns of all groups
	mostMeta    = 1 << 10 // texts of the footer
	mostDecoded = 1 << 29 // bytes of a group's columns in memory
)

// Damage says what is wrong with a file, and where.
type Damage struct{ Place, What string }

func (d *Damage) Error() string { return d.Place + ": " + d.What }

// Foreign is the damage of what is no file of this package.
const Foreign = "this is no segment of radar"

func damage(place, what string, args ...any) error {
	return &Damage{place, fmt.Sprintf(what, args...)}
}

// Reader reads a file.
type Reader struct {
	Meta   map[string]string
	Rows   int64
	Groups []RowGroup

	r       io.ReaderAt
	columns map[string]int
	schema  []Column
}

// RowGroup is what the footer says of a group.
type RowGroup struct {
	Rows int

	at, size int64
	crc      uint32
	chunks   []chunk
}

// OpenReader reads the footer of a file.
func OpenReader(r io.ReaderAt, size int64) (*Reader, error) {
	var ends [12]byte
	if size < 12 {
		return nil, damage("file", "it has %d bytes: "+Foreign, size)
	}
	if _, err := r.ReadAt(ends[:4], 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(ends[4:], size-8); err != nil {
		return nil, err
	}
	if string(ends[:4]) != magic {
		return nil, damage("begin", Foreign)
	}
	n := int64(binary.LittleEndian.Uint32(ends[4:]))
	if string(ends[8:]) != magic {
		return nil, damage("end", "it is cut off, or "+Foreign)
	}
	if n > mostFooter || n > size-12 {
		return nil, damage("footer", "its length of %d bytes cannot be", n)
	}
	footer := make([]byte, n+8)
	if _, err := r.ReadAt(footer, size-8-n); err != nil {
		return nil, err
	}
	if err := checkFooter(footer); err != nil {
		return nil, err
	}
	f := &Reader{r: r, Meta: make(map[string]string)}
	t := &thriftReader{b: footer[:n]}
	f.readFooter(t)
	if t.failed || t.at != int(n) {
		return nil, damage("footer", "%v", errThrift)
	}
	return f, f.check(size - 8 - n)
}

// Bounds are the lowest and the highest value of a column of numbers in a group.
func (f *Reader) Bounds(group int, path string) (low, high int64, ok bool) {
	i, ok := f.columns[path]
	if !ok {
		return 0, 0, false
	}
	k := &f.Groups[group].chunks[i]
	if size := f.schema[i].size(); !k.hasBounds || len(k.low) != size || len(k.high) != size || f.schema[i].Type == Text {
		return 0, 0, false
	} else if size == 4 {
		return int64(int32(binary.LittleEndian.Uint32([]byte(k.low)))), int64(int32(binary.LittleEndian.Uint32([]byte(k.high)))), true
	}
	return int64(binary.LittleEndian.Uint64([]byte(k.low))), int64(binary.LittleEndian.Uint64([]byte(k.high))), true
}

// Has reports whether the file has the column.
func (f *Reader) Has(path string) bool {
	_, ok := f.columns[path]
	return ok
}

// Group is a row group in memory.
type Group struct {
	f     *Reader
	of    *RowGroup
	place string
	bytes []byte
	zstd  *zstd.Decoder
	page  []byte
	size  int64 // bytes of memory that the columns take

	rep, def []uint8 // levels of the page
	// repBytes are those of the list read last, and lens what they say: columns of a list have the same.
	repBytes []byte
	lens     []uint32
}

// Size is how many bytes of memory the columns take that were read so far.
func (g *Group) Size() int64 { return g.size }

// take counts memory before it is taken.
func (g *Group) take(bytes int64) error {
	if g.size += bytes; g.size > mostDecoded {
		return errSize
	}
	return nil
}

// Read reads a group, and compares its checksum.
func (f *Reader) Read(group int) (*Group, error) {
	g := &Group{f: f, of: &f.Groups[group], place: fmt.Sprintf("row group %d", group)}
	g.bytes = make([]byte, g.of.size)
	if _, err := f.r.ReadAt(g.bytes, g.of.at); err != nil {
		return nil, damage(g.place, "%v", err)
	}
	if crc32.Checksum(g.bytes, castagnoli) != g.of.crc {
		return nil, damage(g.place, "its checksum differs: it is damaged")
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostPage), zstd.WithDecoderLowmem(true))
	g.zstd = d
	return g, err
}

// Close gives memory back.
func (g *Group) Close() { g.zstd.Close() }

// Values are a column of a group. Lens are those of its list, by row; nil: it is in none. Of texts
// Index says for each value its place in Dict, or NullText. Of a column that may lack values and has
// none, all are nil.
type Values struct {
	Ints  []int64
	Index []uint32
	Dict  []string
	Lens  []uint32

	lacks bool // there is a null
}

var (
	errLacks = errors.New("a value is missing")
	errSize  = fmt.Errorf("the columns take more than %d bytes of memory", mostDecoded)
)

// Column reads the column of that path, which must be of the same type, and may lack values only if c may; nil if
// the file has none.
func (g *Group) Column(c *Column) (*Values, error) {
	path := c.Path()
	i, ok := g.f.columns[path]
	if !ok {
		return nil, nil
	}
	v, err := g.read(&g.f.schema[i], &g.of.chunks[i], c.Type)
	if err == nil && v.lacks && !c.Optional {
		err = errLacks
	}
	if err != nil {
		return nil, damage(g.place, "column %s: %v", path, err)
	}
	return v, nil
}

func (g *Group) read(c *Column, k *chunk, of Type) (*Values, error) {
	if c.Type != of {
		return nil, fmt.Errorf("it has type %d, not %d", c.Type, of)
	}
	v := &Values{}
	if c.Optional && k.nulls == k.values {
		return v, nil
	}
	begin := k.at - g.of.at
	if k.dict != 0 {
		begin = k.dict - g.of.at
	}
	if err := g.take(k.values * c.memory()); err != nil {
		return nil, err
	}
	b := g.bytes[begin : begin+k.compressed]
	if (k.dict != 0) != (c.Type == Text) {
		return nil, errForm
	}
	if k.dict != 0 {
		page, rest, h, err := g.pageOf(b)
		if err != nil {
			return nil, err
		}
		if h.kind != 2 || h.encoding != int64(Plain) {
			return nil, errForm
		}
		if err := g.take(int64(len(page)) + int64(h.values)*textBytes); err != nil {
			return nil, err
		}
		if v.Dict, err = words(page, h.values); err != nil {
			return nil, err
		}
		b = rest
	}
	page, rest, h, err := g.pageOf(b)
	if err != nil {
		return nil, err
	}
	if h.kind != 0 || len(rest) != 0 || int64(h.values) != k.values {
		return nil, errForm
	}
	return v, g.values(v, c, page, h)
}

type pageHeader struct {
	kind, encoding int64
	values         int
}

// pageOf is the page that b begins with, and what is behind it.
func (g *Group) pageOf(b []byte) (page, rest []byte, h pageHeader, err error) {
	t := &thriftReader{b: b}
	var size, compressed int64
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 1 && t.is(kind, thriftI32):
			h.kind = t.int()
		case id == 2 && t.is(kind, thriftI32):
			size = t.int()
		case id == 3 && t.is(kind, thriftI32):
			compressed = t.int()
		case (id == 5 || id == 7) && t.is(kind, thriftStruct):
			t.fields(func(id int16, kind byte) {
				switch {
				case id == 1 && t.is(kind, thriftI32):
					h.values = int(t.int())
				case id == 2 && t.is(kind, thriftI32):
					h.encoding = t.int()
				default:
					t.skip(kind)
				}
			})
		default:
			t.skip(kind)
		}
	})
	if t.failed || size < 0 || size > mostPage || compressed < 0 || compressed > int64(len(b)-t.at) || h.values < 0 || h.values > mostEntries {
		return nil, nil, h, errForm
	}
	body, rest := b[t.at:t.at+int(compressed)], b[t.at+int(compressed):]
	g.page, err = g.zstd.DecodeAll(body, g.page[:0])
	if err != nil {
		return nil, nil, h, err
	}
	if int64(len(g.page)) != size {
		return nil, nil, h, errForm
	}
	return g.page, rest, h, nil
}

// values reads levels and values of a page.
func (g *Group) values(v *Values, c *Column, page []byte, h pageHeader) (err error) {
	if c.List == "" && h.values != g.of.Rows {
		return errForm
	}
	var def []uint8
	if c.List != "" {
		var rep []byte
		if rep, page, err = levelBytes(page); err != nil {
			return err
		}
		if err = g.readRep(rep, h.values); err != nil {
			return err
		}
	}
	if most := c.maxDef(); most > 0 {
		var b []byte
		if b, page, err = levelBytes(page); err != nil {
			return err
		}
		if g.def, err = levels(g.def, b, bits.Len8(uint8(most)), h.values); err != nil {
			return err
		}
		def = g.def
	}
	n := h.values // of values that are there
	if def != nil {
		n = 0
		for _, d := range def {
			if d > uint8(c.maxDef()) {
				return errForm
			}
			if d == uint8(c.maxDef()) {
				n++
			}
		}
	}
	if n == 0 && c.Optional {
		return nil // neither Ints nor Index, nor Lens of a list
	}
	if c.Type == Text {
		err = v.readIndex(page, n)
	} else {
		v.Ints, err = readInts(c, page, n, Encoding(h.encoding))
	}
	if err != nil {
		return err
	}
	return g.spread(v, c, def)
}

// levelBytes are the levels that a page begins with, as they are encoded.
func levelBytes(page []byte) (b, rest []byte, err error) {
	if len(page) < 4 {
		return nil, nil, errShort
	}
	size := binary.LittleEndian.Uint32(page)
	if page = page[4:]; uint64(size) > uint64(len(page)) {
		return nil, nil, errShort
	}
	return page[:size], page[size:], nil
}

// readRep reads where lists begin, unless they begin where those of the column before did.
func (g *Group) readRep(b []byte, n int) (err error) {
	if g.lens != nil && len(g.rep) == n && bytes.Equal(b, g.repBytes) {
		return nil
	}
	g.repBytes, g.lens = append(g.repBytes[:0], b...), nil
	g.rep, err = levels(g.rep, b, 1, n)
	return err
}

func readInts(c *Column, page []byte, n int, e Encoding) ([]int64, error) {
	values, err := func() ([]int64, error) {
		switch {
		case c.Type == Bool && e == Plain:
			return unbits(page, n)
		case c.Type == Bool:
			return nil, errForm
		case e == Delta:
			return undelta(page, n, c.Type == Int)
		case e == Split:
			return unsplit(page, n, c.size())
		case e == Plain:
			return plain(page, n, c.size())
		}
		return nil, errForm
	}()
	return values, err
}

func (v *Values) readIndex(page []byte, n int) error {
	if len(page) < 1 {
		return errShort
	}
	index, err := hybrid(nil, page[1:], int(page[0]), n)
	if err != nil {
		return err
	}
	v.Index = make([]uint32, n)
	for i, x := range index {
		if x >= uint64(len(v.Dict)) {
			return errForm
		}
		v.Index[i] = uint32(x)
	}
	return nil
}

// countLens counts the elements of each row.
func (g *Group) countLens(def []uint8) ([]uint32, error) {
	lens := make([]uint32, 0, g.of.Rows)
	for i, r := range g.rep {
		switch {
		case r == 0 && len(lens) == g.of.Rows, r != 0 && (len(lens) == 0 || def[i] == 0 || lens[len(lens)-1] == 0):
			return nil, errForm
		case r == 0 && def[i] == 0:
			lens = append(lens, 0)
		case r == 0:
			lens = append(lens, 1)
		default:
			lens[len(lens)-1]++
		}
	}
	if len(lens) != g.of.Rows {
		return nil, errForm
	}
	return lens, nil
}

// spread puts nulls between the values that are there, and counts the elements of each row.
func (g *Group) spread(v *Values, c *Column, def []uint8) (err error) {
	if c.List != "" {
		if v.Lens, err = g.countLens(def); err != nil {
			return err
		}
		if slices.Equal(v.Lens, g.lens) {
			v.Lens = g.lens
		}
		g.lens = v.Lens
	}
	if !c.Optional {
		return nil
	}
	top, least := uint8(c.maxDef()), uint8(0)
	if c.List != "" {
		least = 1
	}
	ints, index := v.Ints, v.Index
	v.Ints, v.Index = nil, nil
	if c.Type == Text {
		v.Index = make([]uint32, 0, len(def))
	} else {
		v.Ints = make([]int64, 0, len(def))
	}
	at := 0
	for _, d := range def {
		there := d == top
		if d < least {
			continue // a row without elements
		}
		if c.Type == Text {
			x := uint32(NullText)
			if there {
				x = index[at]
			}
			v.Index = append(v.Index, x)
		} else {
			x := int64(Null)
			if there {
				x = ints[at]
			}
			v.Ints = append(v.Ints, x)
		}
		if there {
			at++
		} else {
			v.lacks = true
		}
	}
	return nil
}
