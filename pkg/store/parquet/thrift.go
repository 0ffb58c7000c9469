// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"errors"
)

// Types of Thrift's compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftI8     = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

// thriftWriter writes values in Thrift's compact protocol.
type thriftWriter struct {
	b    []byte
	last int16   // number of the struct's field before
	up   []int16 // those of the structs around it
}

func (w *thriftWriter) field(id int16, kind byte) {
	if d := id - w.last; d > 0 && d < 16 {
		w.b = append(w.b, byte(d)<<4|kind)
	} else {
		w.b = binary.AppendVarint(append(w.b, kind), int64(id))
	}
	w.last = id
}

func (w *thriftWriter) i32(id int16, v int32) { w.int(id, thriftI32, int64(v)) }
func (w *thriftWriter) i64(id int16, v int64) { w.int(id, thriftI64, v) }

func (w *thriftWriter) int(id int16, kind byte, v int64) {
	w.field(id, kind)
	w.b = binary.AppendVarint(w.b, v)
}

func (w *thriftWriter) i8(id int16, v byte) {
	w.field(id, thriftI8)
	w.b = append(w.b, v)
}

func (w *thriftWriter) bool(id int16, v bool) {
	if v {
		w.field(id, thriftTrue)
	} else {
		w.field(id, thriftFalse)
	}
}

func (w *thriftWriter) text(id int16, s string) {
	w.field(id, thriftBinary)
	w.element(s)
}

func (w *thriftWriter) element(s string) {
	w.b = append(binary.AppendUvarint(w.b, uint64(len(s))), s...)
}

func (w *thriftWriter) list(id int16, kind byte, n int) {
	w.field(id, thriftList)
	if n < 15 {
		w.b = append(w.b, byte(n)<<4|kind)
	} else {
		w.b = binary.AppendUvarint(append(w.b, 0xf0|kind), uint64(n))
	}
}

// begin begins a struct that is a field, open one that is an element of a list; end ends either.
func (w *thriftWriter) begin(id int16) {
	w.field(id, thriftStruct)
	w.open()
}

func (w *thriftWriter) open() { w.up, w.last = append(w.up, w.last), 0 }

func (w *thriftWriter) end() {
	w.b = append(w.b, 0)
	w.last, w.up = w.up[len(w.up)-1], w.up[:len(w.up)-1]
}

var errThrift = errors.New("not in Thrift's compact protocol")

// thriftReader reads what thriftWriter writes. It fails once and for all.
type thriftReader struct {
	b      []byte
	at     int
	failed bool
	depth  int
}

const maxDepth = 16

func (r *thriftReader) fail() {
	r.failed, r.at = true, len(r.b)
}

func (r *thriftReader) byte() byte {
	if r.at >= len(r.b) {
		r.fail()
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *thriftReader) uint() uint64 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.at += n
	return v
}

func (r *thriftReader) int() int64 {
	v := r.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// text returns bytes of b itself.
func (r *thriftReader) text() string { return string(r.bytes()) }

func (r *thriftReader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)-r.at) {
		r.fail()
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

// items calls fn for each element of a list. Each takes at least a byte, so a length that is larger
// than what is left is wrong.
func (r *thriftReader) items(fn func(kind byte)) {
	h := r.byte()
	n := uint64(h >> 4)
	if n == 15 {
		n = r.uint()
	}
	if n > uint64(len(r.b)-r.at) {
		r.fail()
	}
	for ; n > 0 && !r.failed; n-- {
		fn(h & 15)
	}
}

// fields calls fn for each field of a struct. fn reads the value, or skips it.
func (r *thriftReader) fields(fn func(id int16, kind byte)) {
	if r.depth++; r.depth > maxDepth {
		r.fail()
	}
	defer func() { r.depth-- }()
	last := int16(0)
	for !r.failed {
		h := r.byte()
		if h == 0 {
			return
		}
		if d := int16(h >> 4); d != 0 {
			last += d
		} else {
			last = int16(r.int())
		}
		fn(last, h&15)
	}
}

// skip reads a value that nobody wants.
func (r *thriftReader) skip(kind byte) {
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftI8:
		r.byte()
	case thriftI16, thriftI32, thriftI64:
		r.uint()
	case thriftDouble:
		for range 8 {
			r.byte()
		}
	case thriftBinary:
		r.bytes()
	case thriftList:
		r.items(func(kind byte) {
			if kind == thriftTrue || kind == thriftFalse {
				r.byte()
				return
			}
			r.skip(kind)
		})
	case thriftStruct:
		r.fields(func(_ int16, kind byte) { r.skip(kind) })
	default:
		r.fail()
	}
}

// want skips the value and fails unless it is of that type.
func (r *thriftReader) is(kind, want byte) bool {
	if kind != want {
		r.fail()
	}
	return !r.failed
}
