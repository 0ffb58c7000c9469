// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Memory is what groups are read into, one after the other. It is for one goroutine.
type Memory struct {
	zstd     *zstd.Decoder
	bytes    []byte // of the group, or of a column
	page     []byte
	rep, def []uint8 // levels of the page
	repBytes []byte
	longs    arrays[int64]
	words    arrays[uint32]
}

// Close gives memory back.
func (m *Memory) Close() {
	if m.zstd != nil {
		m.zstd.Close()
		m.zstd = nil
	}
}

// arrays are given for the columns of a group, and again for those of the next one.
type arrays[T any] struct {
	all  [][]T
	next int
}

// get gives one of n values, which are not cleared, with room for one more behind them.
func (a *arrays[T]) get(n int) []T {
	if a.next == len(a.all) {
		a.all = append(a.all, nil)
	}
	s := &a.all[a.next]
	a.next++
	if cap(*s) <= n {
		*s = make([]T, n+n/8+1)
	}
	return (*s)[:n]
}

// Group is a row group that is read.
type Group struct {
	f     *Reader
	of    *RowGroup
	place string
	mem   *Memory
	own   bool  // mem is this group's alone
	whole bool  // mem has its bytes
	size  int64 // bytes of memory that the columns take
	// lens are how long lists are by mem.repBytes, which columns of one list share; none of them is empty.
	lens []uint32
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
	g, err := f.begin(group, &Memory{})
	if err != nil {
		return nil, err
	}
	g.own = true
	return g, g.readAll()
}

// Open begins to read a group of which few columns are asked for: each is compared with its own checksum. Of a file that
// has none of columns, the whole group is. What the group before had in the memory is no longer valid.
func (f *Reader) Open(group int, m *Memory) (*Group, error) {
	g, err := f.begin(group, m)
	if err != nil || g.of.sums != nil {
		return g, err
	}
	return g, g.readAll()
}

func (f *Reader) begin(group int, m *Memory) (*Group, error) {
	if m.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostPage), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		m.zstd = d
	}
	m.longs.next, m.words.next, m.repBytes = 0, 0, m.repBytes[:0]
	return &Group{f: f, of: &f.Groups[group], place: fmt.Sprintf("row group %d", group), mem: m}, nil
}

func (g *Group) readAll() error {
	if err := g.load(g.of.at, g.of.size, g.of.crc); err != nil {
		g.Close()
		return damage(g.place, "%v", err)
	}
	g.whole = true
	return nil
}

var errSum = errors.New("its checksum differs: it is damaged")

// load reads bytes of the file, and compares their checksum.
func (g *Group) load(at, size int64, sum uint32) error {
	g.mem.bytes = slices.Grow(g.mem.bytes[:0], int(size))[:size]
	if _, err := g.f.r.ReadAt(g.mem.bytes, at); err != nil {
		return err
	}
	if crc32.Checksum(g.mem.bytes, castagnoli) != sum {
		return errSum
	}
	return nil
}

// chunk are the bytes of a column, valid until the next one.
func (g *Group) chunk(i int) ([]byte, error) {
	k := &g.of.chunks[i]
	begin := k.at
	if k.dict != 0 {
		begin = k.dict
	}
	if g.whole {
		return g.mem.bytes[begin-g.of.at : begin-g.of.at+k.compressed], nil
	}
	if err := g.load(begin, k.compressed, g.of.sums[i]); err != nil {
		return nil, err
	}
	return g.mem.bytes, nil
}

// Close gives memory back that is the group's alone.
func (g *Group) Close() {
	if g.own {
		g.mem.Close()
	}
}

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
	v, err := g.read(i, c.Type)
	if err == nil && v.lacks && !c.Optional {
		err = errLacks
	}
	if err != nil {
		return nil, damage(g.place, "column %s: %v", path, err)
	}
	return v, nil
}

func (g *Group) read(i int, of Type) (*Values, error) {
	c, k := &g.f.schema[i], &g.of.chunks[i]
	if c.Type != of {
		return nil, fmt.Errorf("it has type %d, not %d", c.Type, of)
	}
	v := &Values{}
	if c.Optional && k.nulls == k.values {
		return v, nil
	}
	if err := g.take(k.values * c.memory()); err != nil {
		return nil, err
	}
	b, err := g.chunk(i)
	if err != nil {
		return nil, err
	}
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
	m := g.mem
	m.page, err = m.zstd.DecodeAll(body, m.page[:0])
	if err != nil {
		return nil, nil, h, err
	}
	if int64(len(m.page)) != size {
		return nil, nil, h, errForm
	}
	return m.page, rest, h, nil
}

// values reads levels and values of a page.
func (g *Group) values(v *Values, c *Column, page []byte, h pageHeader) (err error) {
	if c.List == "" && h.values != g.of.Rows {
		return errForm
	}
	var rep, b []byte
	var def []uint8 // nil: all values are there
	if c.List != "" {
		if rep, page, err = levelBytes(page); err != nil {
			return err
		}
	}
	most := c.maxDef()
	var of [3]int // how many have each level
	of[most] = h.values
	if most > 0 {
		if b, page, err = levelBytes(page); err != nil {
			return err
		}
		if g.mem.def, err = levels(g.mem.def, b, bits.Len8(uint8(most)), h.values); err != nil {
			return err
		}
		def = g.mem.def
		var ok bool
		if of, ok = count(def, most); !ok {
			return errForm
		}
	}
	n := of[most]
	if n == 0 && c.Optional {
		return nil // neither Ints nor Index, nor Lens of a list
	}
	if c.List != "" {
		if err := g.readLens(v, rep, def, of[0]); err != nil {
			return err
		}
	}
	if c.Type == Text {
		err = g.readIndex(v, page, n)
	} else {
		v.Ints, err = g.readInts(c, page, n, Encoding(h.encoding))
	}
	if err != nil || !c.Optional {
		return err
	}
	g.spread(v, def, c, of)
	return nil
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

// readLens reads how long lists are, of which so many are empty. Columns of one list say the same.
func (g *Group) readLens(v *Values, b []byte, def []uint8, empty int) (err error) {
	m := g.mem
	if g.lens != nil && empty == 0 && len(m.rep) == len(def) && bytes.Equal(b, m.repBytes) {
		v.Lens = g.lens
		return nil
	}
	g.lens = nil
	m.repBytes = append(m.repBytes[:0], b...)
	if m.rep, err = levels(m.rep, b, 1, len(def)); err != nil {
		return err
	}
	if empty > 0 {
		v.Lens, err = g.countLens(def)
		return err
	}
	v.Lens, err = g.measureLens()
	g.lens = v.Lens
	return err
}

func (g *Group) readInts(c *Column, page []byte, n int, e Encoding) (to []int64, err error) {
	to = g.mem.longs.get(n)
	switch {
	case c.Type == Bool && e == Plain:
		err = unbits(to, page)
	case c.Type == Bool:
		err = errForm
	case e == Delta:
		err = undelta(to, page, c.Type == Int)
	case e == Split:
		err = unsplit(to, page, c.size())
	case e == Plain:
		err = plain(to, page, c.size())
	default:
		err = errForm
	}
	return to, err
}

func (g *Group) readIndex(v *Values, page []byte, n int) error {
	if len(page) < 1 {
		return errShort
	}
	v.Index = g.mem.words.get(n)
	return hybrid(v.Index, page[1:], int(page[0]), len(v.Dict))
}

// measureLens finds how long lists are of which none is empty, by where they begin.
func (g *Group) measureLens() ([]uint32, error) {
	lens, rep := g.mem.words.get(g.of.Rows), g.mem.rep
	if len(rep) == 0 || rep[0] != 0 {
		return nil, errForm
	}
	row, last := 0, 0
	begins := func(i int) (ok bool) {
		if ok = row < len(lens); ok {
			lens[row] = uint32(i - last)
			row, last = row+1, i
		}
		return ok
	}
	i := 1
	for ; i+8 <= len(rep); i += 8 {
		for zeros := ^binary.LittleEndian.Uint64(rep[i:]) & 0x0101010101010101; zeros != 0; zeros &= zeros - 1 {
			if !begins(i + bits.TrailingZeros64(zeros)/8) {
				return nil, errForm
			}
		}
	}
	for ; i < len(rep); i++ {
		if rep[i] == 0 && !begins(i) {
			return nil, errForm
		}
	}
	if !begins(len(rep)) || row != len(lens) {
		return nil, errForm
	}
	return lens, nil
}

// countLens counts the elements of each row.
func (g *Group) countLens(def []uint8) ([]uint32, error) {
	lens := g.mem.words.get(g.of.Rows)[:0]
	for i, r := range g.mem.rep {
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

// spread puts nulls between the values that are there. of are how many entries have each level.
func (g *Group) spread(v *Values, def []uint8, c *Column, of [3]int) {
	top, empty := uint8(c.maxDef()), 0
	if c.List != "" {
		empty = of[0] // rows without elements
	}
	if all := len(def) - empty; of[top] < all {
		v.lacks = true
		if c.Type == Text {
			v.Index = spread(g.mem.words.get(all), v.Index, def, top, empty > 0, NullText)
		} else {
			v.Ints = spread(g.mem.longs.get(all), v.Ints, def, top, empty > 0, Null)
		}
	}
}

// spread puts null between values. Both arrays have room for one more.
func spread[T uint32 | int64](to, values []T, def []uint8, top uint8, empty bool, null T) []T {
	n := len(to)
	to, values = to[:n+1], values[:len(values)+1]
	shift, at := (top-1)&7, 0
	if !empty {
		to = to[:len(def)]
		for i, d := range def {
			there := d >> shift
			mask := -T(there) // all bits where the value is there
			to[i] = values[at]&mask | null&^mask
			at += int(there)
		}
		return to
	}
	next := 0
	for _, d := range def {
		there := d >> shift
		mask := -T(there)
		to[next] = values[at]&mask | null&^mask
		at += int(there)
		if d > 0 {
			next++
		}
	}
	return to[:n]
}
