// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"slices"
)

// Bounds of what is kept apart over time.
const (
	mostBins  = 240     // of time: as many as a narrow figure shows
	mostCells = 1 << 14 // bins of all series together
	firstBin  = 1e5     // the width to begin with, ns
	mostParts = 1 << 22 // of cells that grow: 8 bytes each
)

// bins keep what happened apart by time and series. Bins become twice as wide when there are too many: whatever the
// order in which things come, the result is the same.
type bins[K comparable, V any] struct {
	width int64
	cells map[int64]map[K]*V
	n     int
	parts int            // of all cells
	size  func(v *V) int // how many parts a cell has; nil: cells do not grow
	merge func(to, from *V)
	low   int64
	high  int64
}

func newBins[K comparable, V any](merge func(to, from *V)) *bins[K, V] {
	return &bins[K, V]{width: firstBin, cells: make(map[int64]map[K]*V), merge: merge}
}

// at is the cell of a series at a time.
func (b *bins[K, V]) at(ns int64, key K) *V {
	i := floorDiv(ns, b.width)
	if len(b.cells) == 0 {
		b.low, b.high = i, i
	}
	b.low, b.high = min(b.low, i), max(b.high, i)
	for uint64(b.high-b.low) >= mostBins {
		b.widen()
		i = floorDiv(ns, b.width)
	}
	v := b.cell(i, key)
	for b.n > mostCells && b.high > b.low {
		b.widen()
		v = b.cell(floorDiv(ns, b.width), key)
	}
	return v
}

func (b *bins[K, V]) cell(i int64, key K) *V {
	of := b.cells[i]
	if of == nil {
		of = make(map[K]*V)
		b.cells[i] = of
	}
	v := of[key]
	if v == nil {
		v = new(V)
		of[key] = v
		b.n++
	}
	return v
}

// grew notes that a cell has so many more parts.
func (b *bins[K, V]) grew(parts int) {
	b.parts += parts
	for b.parts > mostParts && b.high > b.low {
		b.widen()
	}
}

// widen makes one bin of two.
func (b *bins[K, V]) widen() {
	old := b.cells
	b.cells, b.width, b.n = make(map[int64]map[K]*V, len(old)), b.width*2, 0
	b.low, b.high = floorDiv(b.low, 2), floorDiv(b.high, 2)
	for _, i := range slices.Sorted(maps.Keys(old)) {
		for key, v := range old[i] {
			b.merge(b.cell(floorDiv(i, 2), key), v)
		}
		delete(old, i)
	}
	if b.size == nil {
		return
	}
	b.parts = 0
	for _, of := range b.cells {
		for _, v := range of {
			b.parts += b.size(v)
		}
	}
}

// floorDiv rounds down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
