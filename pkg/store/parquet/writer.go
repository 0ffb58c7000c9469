// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Null stands for a value that is not there, NullText in an index of a dictionary.
const (
	Null     = math.MinInt64
	NullText = math.MaxUint32
)

// Keys of the checksums: of the footer, of each row group, and of the columns of each. A byte that neither covers is compared.
const (
	keyGroups = "parquet.crc32c.row_groups"
	keyChunks = "parquet.crc32c.columns"
	keyFooter = "parquet.crc32c.footer"
)

const magic = "PAR1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// KeyValue is a text of a file's metadata.
type KeyValue struct{ Key, Value string }

// Lens are how many elements each row of a group has in a list.
type Lens struct {
	Of      []uint32
	entries int // with one for each row that has none
	rep     []byte
	def     [3][]byte // of columns all of whose values are there, and of those of which none is
	some    bool      // rows without elements
}

// Writer writes a file: groups of rows, each column after the other.
type Writer struct {
	w       io.Writer
	schema  Schema
	rows    int64
	groups  []rowGroup
	at      int64 // of the file
	zstd    *zstd.Encoder
	page    []byte // not yet compressed
	body    []byte // the same, compressed
	levels  []byte
	dense   []int64
	indices []uint32
	out     []byte // the group under way
}

type rowGroup struct {
	at, rows int64
	crc      uint32
	columns  []chunk
}

// chunk is a column of a row group.
type chunk struct {
	at                       int64 // of the file
	dict                     int64 // bytes of the dictionary's page, behind which the values' is
	encoding                 Encoding
	compressed, uncompressed int64
	values, nulls            int64
	hasBounds                bool
	low, high                string
	crc                      uint32
}

// NewWriter begins a file.
func NewWriter(w io.Writer, s Schema) (*Writer, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	f := &Writer{schema: s, zstd: e}
	return f, f.Reset(w)
}

// Reset begins another file, with the memory of the one before.
func (f *Writer) Reset(w io.Writer) error {
	f.w, f.rows, f.groups, f.at = w, 0, f.groups[:0], int64(len(magic))
	_, err := io.WriteString(w, magic)
	return err
}

// Size is how long the file is so far.
func (f *Writer) Size() int64 { return f.at }

// Begin begins a group of that many rows.
func (f *Writer) Begin(rows int) {
	f.out = f.out[:0]
	f.groups = append(f.groups, rowGroup{at: f.at, rows: int64(rows)})
}

// End writes the group. If that fails, the file is as it was before Begin, but for bytes at its end
// that the caller has to cut off: Size says where.
func (f *Writer) End() error {
	g := &f.groups[len(f.groups)-1]
	if len(g.columns) != len(f.schema) {
		return fmt.Errorf("%d columns of %d", len(g.columns), len(f.schema))
	}
	g.crc = crc32.Checksum(f.out, castagnoli)
	if _, err := f.w.Write(f.out); err != nil {
		f.groups = f.groups[:len(f.groups)-1]
		return err
	}
	f.at += int64(len(f.out))
	f.rows += g.rows
	return nil
}

// column is the one that comes next.
func (f *Writer) column() *Column { return &f.schema[len(f.groups[len(f.groups)-1].columns)] }

// Ints adds the next column: numbers or booleans, one for each row, or of a list for each element.
func (f *Writer) Ints(l *Lens, values []int64) {
	c := f.column()
	k := chunk{encoding: c.Encoding}
	f.page = f.page[:0]
	there := values
	if c.Optional {
		there = f.optional(l, values, &k)
	} else {
		f.present(l, len(values), &k)
	}
	switch {
	case c.Type == Bool:
		f.page = appendBits(f.page, there)
	case c.Encoding == Delta:
		f.page = appendDelta(f.page, there, c.Type == Int)
	case c.Encoding == Split:
		f.page = appendSplit(f.page, there, c.size())
	default:
		f.page = appendPlain(f.page, there, c.size())
	}
	if len(there) > 0 && c.Type != Bool && c.Logical != Uint64 {
		low, high := there[0], there[0]
		for _, v := range there {
			low, high = min(low, v), max(high, v)
		}
		k.hasBounds = true
		k.low, k.high = string(appendPlain(nil, []int64{low}, c.size())), string(appendPlain(nil, []int64{high}, c.size()))
	}
	f.add(k, nil, 0)
}

func (c *Column) size() int {
	if c.Type == Int {
		return 4
	}
	return 8
}

// Texts adds the next column: indices of a dictionary, as Ints has values.
func (f *Writer) Texts(l *Lens, indices []uint32, dict []string) {
	c := f.column()
	k := chunk{encoding: encodingDict}
	f.page = f.page[:0]
	there := indices
	if c.Optional {
		there = f.optionalTexts(l, indices, &k)
	} else {
		f.present(l, len(indices), &k)
	}
	width := bits.Len(uint(max(len(dict)-1, 0)))
	f.page = appendHybrid(append(f.page, byte(width)), there, width)
	if len(there) > 0 {
		k.bounds(dict)
	}
	words := []byte{} // a page even if there is no text
	for _, s := range dict {
		words = append(binary.LittleEndian.AppendUint32(words, uint32(len(s))), s...)
	}
	f.add(k, words, len(dict))
}

// longBound is how long a text may be that is a bound of a column.
const longBound = 64

func (k *chunk) bounds(dict []string) {
	k.low, k.high = dict[0], dict[0]
	for _, s := range dict {
		k.low, k.high = min(k.low, s), max(k.high, s)
	}
	k.hasBounds = len(k.low) <= longBound && len(k.high) <= longBound
}

// present writes the levels of a column that has all n values.
func (f *Writer) present(l *Lens, n int, k *chunk) {
	k.values = int64(n)
	if l == nil {
		return
	}
	l.prepare()
	k.values = int64(l.entries)
	f.page = append(append(f.page, l.rep...), l.def[1]...)
}

// optional writes the levels of a column, and returns the values that are there.
func (f *Writer) optional(l *Lens, values []int64, k *chunk) []int64 {
	f.dense, f.levels = f.dense[:0], f.levels[:0]
	top := byte(1)
	if l != nil {
		top = 2
	}
	for _, v := range values {
		level := top
		if v == Null {
			level--
		} else {
			f.dense = append(f.dense, v)
		}
		f.levels = append(f.levels, level)
	}
	f.writeLevels(l, len(f.dense), len(values), k)
	return f.dense
}

func (f *Writer) optionalTexts(l *Lens, values []uint32, k *chunk) []uint32 {
	f.indices, f.levels = f.indices[:0], f.levels[:0]
	top := byte(1)
	if l != nil {
		top = 2
	}
	for _, v := range values {
		level := top
		if v == NullText {
			level--
		} else {
			f.indices = append(f.indices, v)
		}
		f.levels = append(f.levels, level)
	}
	f.writeLevels(l, len(f.indices), len(values), k)
	return f.indices
}

// writeLevels writes those of a column of which n values of all are there.
func (f *Writer) writeLevels(l *Lens, n, all int, k *chunk) {
	k.nulls = int64(all - n)
	if l == nil {
		k.values = int64(all)
		f.page = appendLevels(f.page, f.levels, 1)
		return
	}
	l.prepare()
	k.values = int64(l.entries)
	k.nulls += int64(l.entries - all)
	f.page = append(f.page, l.rep...)
	switch {
	case n == 0:
		f.page = append(f.page, l.def[0]...)
	case n == all:
		f.page = append(f.page, l.def[2]...)
	case !l.some:
		f.page = appendLevels(f.page, f.levels, 2)
	default:
		f.page = appendLevels(f.page, l.spread(f.levels), 2)
	}
}

// Absent adds the next column, of which no value is there. rows is for columns of no list.
func (f *Writer) Absent(l *Lens, rows int) {
	k := chunk{encoding: f.column().Encoding}
	f.page = f.page[:0]
	if l == nil {
		k.values, k.nulls = int64(rows), int64(rows)
		f.page = binary.AppendUvarint(append(f.page, 0, 0, 0, 0), uint64(rows)<<1)
		f.page = append(f.page, 0)
		binary.LittleEndian.PutUint32(f.page, uint32(len(f.page)-4))
	} else {
		l.prepare()
		k.values, k.nulls = int64(l.entries), int64(l.entries)
		f.page = append(append(f.page, l.rep...), l.def[0]...)
	}
	var words []byte
	switch c := f.column(); {
	case c.Type == Text:
		k.encoding, words = encodingDict, []byte{}
		f.page = append(f.page, 0)
	case c.Encoding == Delta && c.Type != Bool:
		f.page = appendDelta(f.page, nil, false)
	}
	f.add(k, words, 0)
}

func appendLevels(b []byte, levels []byte, width int) []byte {
	at := len(b)
	b = appendHybrid(append(b, 0, 0, 0, 0), levels, width)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// prepare makes the levels that columns of the list share.
func (l *Lens) prepare() {
	if l.rep != nil {
		return
	}
	n := 0
	for _, of := range l.Of {
		n += max(int(of), 1)
		l.some = l.some || of == 0
	}
	l.entries = n
	levels := make([]byte, 0, n)
	for _, of := range l.Of {
		levels = append(levels, 0)
		for range max(int(of), 1) - 1 {
			levels = append(levels, 1)
		}
	}
	l.rep = appendLevels(nil, levels, 1)
	for i, value := range []byte{1, 1, 2} {
		levels = levels[:0]
		for _, of := range l.Of {
			if of == 0 {
				levels = append(levels, 0)
			}
			for range of {
				levels = append(levels, value)
			}
		}
		l.def[i] = appendLevels(nil, levels, []int{2, 1, 2}[i])
	}
}

// spread puts the level of a row without elements between those of elements.
func (l *Lens) spread(levels []byte) []byte {
	all := make([]byte, 0, l.entries)
	for _, of := range l.Of {
		if of == 0 {
			all = append(all, 0)
			continue
		}
		all, levels = append(all, levels[:of]...), levels[of:]
	}
	return all
}

// add compresses the page, and the dictionary before it where there is one.
func (f *Writer) add(k chunk, dict []byte, words int) {
	g := &f.groups[len(f.groups)-1]
	k.at = f.at + int64(len(f.out))
	if dict != nil {
		f.addPage(&k, dict, func(w *thriftWriter) {
			w.begin(7)
			w.i32(1, int32(words))
			w.i32(2, int32(Plain))
			w.end()
		}, 2)
		k.dict = f.at + int64(len(f.out)) - k.at
	}
	f.addPage(&k, f.page, func(w *thriftWriter) {
		w.begin(5)
		w.i32(1, int32(k.values))
		w.i32(2, int32(k.encoding))
		w.i32(3, int32(encodingRLE))
		w.i32(4, int32(encodingRLE))
		w.end()
	}, 0)
	k.crc = crc32.Checksum(f.out[k.at-f.at:], castagnoli)
	g.columns = append(g.columns, k)
}

func (f *Writer) addPage(k *chunk, page []byte, header func(*thriftWriter), kind int32) {
	start := len(f.out)
	f.body = f.zstd.EncodeAll(page, f.body[:0])
	body := f.body
	var head [64]byte
	w := thriftWriter{b: head[:0], up: make([]int16, 0, 4)}
	w.i32(1, kind)
	w.i32(2, int32(len(page)))
	w.i32(3, int32(len(body)))
	w.i32(4, int32(crc32.ChecksumIEEE(body)))
	header(&w)
	w.b = append(w.b, 0)
	f.out = append(append(f.out, w.b...), body...)
	k.uncompressed += int64(len(w.b) + len(page))
	k.compressed += int64(len(f.out) - start)
}

// Close writes the footer. It does not close what it writes to.
func (f *Writer) Close(createdBy string, meta []KeyValue) error {
	footer, err := f.footer(createdBy, meta)
	if err != nil {
		return err
	}
	_, err = f.w.Write(footer)
	if err == nil {
		f.at += int64(len(footer))
	}
	return err
}

func (f *Writer) footer(createdBy string, meta []KeyValue) ([]byte, error) {
	w := &thriftWriter{}
	w.i32(1, 2)
	f.schema.write(w)
	w.i64(3, f.rows)
	w.list(4, thriftStruct, len(f.groups))
	sums, chunks := make([]string, len(f.groups)), make([]string, len(f.groups))
	for i := range f.groups {
		f.groups[i].write(w, f.schema, i)
		sums[i], chunks[i] = fmt.Sprintf("%08x", f.groups[i].crc), f.groups[i].sums()
	}
	meta = append(append([]KeyValue(nil), meta...), KeyValue{keyGroups, strings.Join(sums, " ")}, KeyValue{keyChunks, strings.Join(chunks, " ")}, KeyValue{keyFooter, noSum})
	w.list(5, thriftStruct, len(meta))
	sum := 0
	for _, kv := range meta {
		w.open()
		w.text(1, kv.Key)
		w.text(2, kv.Value)
		sum = len(w.b) - len(noSum)
		w.end()
	}
	w.text(6, createdBy)
	w.list(7, thriftStruct, len(f.schema))
	for range f.schema {
		w.open()
		w.begin(1)
		w.end()
		w.end()
	}
	w.b = append(w.b, 0)
	w.b = append(binary.LittleEndian.AppendUint32(w.b, uint32(len(w.b))), magic...)
	copy(w.b[sum:], fmt.Sprintf("%08x", crc32.Checksum(w.b, castagnoli)))
	return w.b, nil
}

// noSum stands where the footer's checksum comes, while it is calculated.
const noSum = "00000000"

func (g *rowGroup) write(w *thriftWriter, s Schema, ordinal int) {
	w.open()
	w.list(1, thriftStruct, len(g.columns))
	var compressed, uncompressed int64
	for i := range g.columns {
		g.columns[i].write(w, &s[i])
		compressed += g.columns[i].compressed
		uncompressed += g.columns[i].uncompressed
	}
	w.i64(2, uncompressed)
	w.i64(3, g.rows)
	w.i64(5, g.at)
	w.i64(6, compressed)
	w.int(7, thriftI16, int64(ordinal))
	w.end()
}

func (k *chunk) write(w *thriftWriter, c *Column) {
	w.open()
	w.i64(2, k.at)
	w.begin(3)
	w.i32(1, int32(c.Type))
	encodings := []Encoding{k.encoding, encodingRLE}
	if k.dict > 0 {
		encodings = append(encodings, Plain)
	}
	w.list(2, thriftI32, len(encodings))
	for _, e := range encodings {
		w.b = binary.AppendVarint(w.b, int64(e))
	}
	path := strings.Split(c.Path(), ".")
	w.list(3, thriftBinary, len(path))
	for _, p := range path {
		w.element(p)
	}
	w.i32(4, codecZstd)
	w.i64(5, k.values)
	w.i64(6, k.uncompressed)
	w.i64(7, k.compressed)
	w.i64(9, k.at+k.dict)
	if k.dict > 0 {
		w.i64(11, k.at)
	}
	w.begin(12)
	w.i64(3, k.nulls)
	if k.hasBounds {
		w.text(5, k.high)
		w.text(6, k.low)
	}
	w.end()
	w.end()
	w.end()
}

const codecZstd = 6
