// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"strings"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// makeDict gives the texts of a column to DuckDB, each once.
func (o *output) makeDict() {
	if o.kind != word || o.value == nil || o.value.Index == nil {
		return
	}
	t := mapping.CreateLogicalType(duckdb.TYPE_VARCHAR)
	defer mapping.DestroyLogicalType(&t)
	n := len(o.value.Dict)
	o.dict, o.has = mapping.CreateVector(t, mapping.IdxT(n+1)), true
	for i, s := range o.value.Dict {
		mapping.VectorAssignStringElement(o.dict, mapping.IdxT(i), strings.ToValidUTF8(s, "\ufffd"))
	}
	mapping.VectorEnsureValidityWritable(o.dict)
	mapping.ValiditySetRowInvalid(mapping.VectorGetValidity(o.dict), mapping.IdxT(n))
}

// from is which values come: rows of packets, or elements of lists.
func (o *output) from(w *worker) []uint32 {
	if o.list != "" && o.list == w.list {
		return w.elements
	}
	return w.packets()
}

// write writes n values into the chunk.
func (o *output) write(chunk mapping.DataChunk, w *worker, n int) {
	vector := mapping.DataChunkGetVector(chunk, mapping.IdxT(o.to))
	from, begin := o.from(w), w.at
	switch {
	case o.has:
		o.writeWords(vector, from, begin, n)
		return
	case o.kind == word:
		setNull(vector, n)
		return
	}
	values := o.local
	if values == nil && o.value != nil {
		values = o.value.Ints
	}
	if values == nil {
		if o.made == once {
			clear(slice[int32](vector, n))
			return
		}
		setNull(vector, n)
		return
	}
	if o.made == once {
		for i, to := 0, slice[int32](vector, n); i < n; i++ {
			to[i] = 0
			if values[at(from, begin+i)] == 1 {
				to[i] = 1
			}
		}
		return
	}
	o.writeInts(vector, values, from, begin, n)
}

func at(from []uint32, i int) uint32 {
	if from == nil {
		return uint32(i)
	}
	return from[i]
}

func (o *output) writeInts(vector mapping.Vector, values []int64, from []uint32, begin, n int) {
	var nulls bool
	switch o.kind {
	case truth, byte8:
		nulls = fill(slice[uint8](vector, n), values, from, begin)
	case short:
		nulls = fill(slice[uint16](vector, n), values, from, begin)
	case unsigned, signed:
		nulls = fill(slice[uint32](vector, n), values, from, begin)
	default:
		nulls = fill(slice[int64](vector, n), values, from, begin)
	}
	if !nulls || o.kind == positive && o.of != "inner_pos" { // which takes all numbers, and is always there
		return
	}
	mask := validity(vector, n)
	for i := range n {
		if values[at(from, begin+i)] == parquet.Null {
			mask[i/64] &^= 1 << (i % 64)
		}
	}
}

// fill copies values, and reports whether one is not there.
func fill[T uint8 | uint16 | uint32 | int64](to []T, values []int64, from []uint32, begin int) (nulls bool) {
	if from == nil {
		for i, v := range values[begin : begin+len(to)] {
			to[i] = T(v)
			nulls = nulls || v == parquet.Null
		}
		return nulls
	}
	for i, k := range from[begin : begin+len(to)] {
		v := values[k]
		to[i] = T(v)
		nulls = nulls || v == parquet.Null
	}
	return nulls
}

func (o *output) writeWords(vector mapping.Vector, from []uint32, begin, n int) {
	selection := mapping.CreateSelectionVector(mapping.IdxT(n))
	to := unsafe.Slice((*uint32)(unsafe.Pointer(mapping.SelectionVectorGetDataPtr(selection))), n)
	null, words := uint32(len(o.value.Dict)), o.value.Index
	for i := range to {
		to[i] = min(words[at(from, begin+i)], null) // parquet.NullText is larger
	}
	mapping.VectorReferenceVector(vector, o.dict)
	mapping.SliceVector(vector, selection, mapping.IdxT(n))
	mapping.DestroySelectionVector(&selection)
}

// slice are the values of a vector.
func slice[T any](vector mapping.Vector, n int) []T {
	return unsafe.Slice((*T)(mapping.VectorGetData(vector)), n)
}

// validity says of each value of a vector whether it is there.
func validity(vector mapping.Vector, n int) []uint64 {
	mapping.VectorEnsureValidityWritable(vector)
	return unsafe.Slice((*uint64)(mapping.VectorGetValidity(vector)), (n+63)/64)
}

func setNull(vector mapping.Vector, n int) { clear(validity(vector, n)) }
