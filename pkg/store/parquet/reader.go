// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
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
	sums     []uint32 // of the chunks; nil: the file has none
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
