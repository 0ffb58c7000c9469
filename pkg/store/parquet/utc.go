// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"io"
)

// MarkUTC says in a file of another writer that its moments are UTC, as files of packets do. DuckDB cannot say so of
// nanoseconds. The mark is a bit of each column, so that the file stays as long as it is.
func MarkUTC(f interface {
	io.ReaderAt
	io.WriterAt
}, size int64) error {
	var end [8]byte
	if size < 12 {
		return damage("file", "it has %d bytes: "+Foreign, size)
	}
	if _, err := f.ReadAt(end[:], size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != magic || n > size-12 {
		return damage("end", "it is cut off, or "+Foreign)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-8-n); err != nil {
		return err
	}
	marked, ok := markMoments(&thriftReader{b: footer})
	if !ok {
		return damage("footer", "%v", errThrift)
	}
	for _, at := range marked {
		if _, err := f.WriteAt(footer[at:at+1], size-8-n+int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// markMoments sets the marks in a footer, and returns where. ok is false if its schema cannot be read.
func markMoments(t *thriftReader) (marked []int, ok bool) {
	t.fields(func(id int16, kind byte) {
		if ok || id != 2 || kind != thriftList { // the schema is all that matters
			t.skip(kind)
			return
		}
		t.items(func(kind byte) {
			if t.is(kind, thriftStruct) {
				t.inside(10, func() { // the logical type
					t.inside(8, func() { // a moment
						if at := t.mark(); at >= 0 {
							marked = append(marked, at)
						}
					})
				})
			}
		})
		ok = !t.failed
	})
	return marked, ok
}

// inside calls fn for the field of a struct that is a struct of that number, and skips the others.
func (r *thriftReader) inside(want int16, fn func()) {
	r.fields(func(id int16, kind byte) {
		if id == want && kind == thriftStruct {
			fn()
			return
		}
		r.skip(kind)
	})
}

// mark makes a struct's first field true, which is a boolean, and returns where it lies; -1: it was true.
func (r *thriftReader) mark() (at int) {
	at = -1
	r.fields(func(id int16, kind byte) {
		if id == 1 && kind == thriftFalse {
			if at = r.at - 1; r.b[at] != 1<<4|thriftFalse {
				r.fail()
				return
			}
			r.b[at] = 1<<4 | thriftTrue
			return
		}
		r.skip(kind)
	})
	return at
}
