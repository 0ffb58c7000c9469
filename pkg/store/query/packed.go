// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package query

import (
	"math/bits"
	"slices"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Bits of a key, and those of them by which keys lie side by side in memory: times that differ little do.
const (
	keyBits  = 63
	nearBits = 12
)

// packed counts rows whose keys fit into a number: those of percentiles do.
type packed struct {
	slots   []slot
	n       int   // that are taken
	widths  []int // bits of each key
	shifts  []int
	block   [2048]uint64 // keys of rows that are counted
	lengths []int
}

// slot is a key, plus 1, and how many packets have it.
type slot struct {
	key uint64
	n   int64
}

// newPacked finds places for keys of such lengths; nil: they do not fit. The longest one, a time, is the lowest, and has
// what is left over.
func newPacked(keys []key, sums int) *packed {
	p := &packed{slots: make([]slot, 1<<14), widths: make([]int, len(keys)), shifts: make([]int, len(keys))}
	if sums != 1 || len(keys) == 0 || !p.measure(keys) {
		return nil
	}
	left, longest := keyBits, 0
	for i, n := range p.lengths {
		p.widths[i] = n
		if left -= n; n > p.lengths[longest] {
			longest = i
		}
	}
	for i := range keys { // other row groups may have more
		if i != longest && left >= 4 {
			p.widths[i] += 3
			left -= 3
		}
	}
	if left < 0 {
		return nil
	}
	p.widths[longest] += left
	at := p.widths[longest]
	for i, n := range p.widths {
		if i != longest {
			p.shifts[i] = at
			at += n
		}
	}
	return p
}

// measure finds out how many bits the keys of the rows have; ok is false if one is below zero.
func (p *packed) measure(keys []key) (ok bool) {
	p.lengths = p.lengths[:0]
	for i := range keys {
		high := int64(0)
		for _, v := range keys[i].codes {
			if high = max(high, v); v < 0 && v != parquet.Null {
				return false
			}
		}
		p.lengths = append(p.lengths, bits.Len64(uint64(high)+1))
	}
	return true
}

// add counts rows; fits is false if a key is too long.
func (p *packed) add(keys []key, segs []int64, w *worker) (fits bool) {
	if !p.measure(keys) {
		return false
	}
	for i, n := range p.lengths {
		if n > p.widths[i] {
			return false
		}
	}
	rows, same := []uint32(nil), segs[0]
	if slices.ContainsFunc(segs, func(n int64) bool { return n != same }) {
		rows, same = w.packets(), 0
	}
	for begin := 0; begin < w.n; begin += len(p.block) {
		block := p.block[:min(len(p.block), w.n-begin)]
		p.pack(block, keys, begin)
		if same != 0 {
			for _, key := range block {
				p.find(key).n += same
			}
			continue
		}
		for i, key := range block {
			p.find(key).n += segs[at(rows, begin+i)]
		}
	}
	return true
}

// pack makes the keys, plus 1, of rows from there on.
func (p *packed) pack(to []uint64, keys []key, begin int) {
	for i := range to {
		to[i] = 1
	}
	for k := range keys {
		shift := p.shifts[k] & 63
		for i, v := range keys[k].codes[begin : begin+len(to)] {
			x := uint64(v + 1)
			if v == parquet.Null {
				x = 0
			}
			to[i] += x << shift
		}
	}
}

// find is the slot of a key, plus 1.
func (p *packed) find(key uint64) *slot {
	mask := uint64(len(p.slots) - 1)
	h := mix(0, int64(key>>nearBits))
	s := &p.slots[(h+key)&mask]
	if s.key == key {
		return s
	}
	return p.search(key, h+key, h>>32|1)
}

// search goes on from where a key should be, in steps of its own.
func (p *packed) search(key, at, step uint64) *slot {
	for mask := uint64(len(p.slots) - 1); ; at += step {
		s := &p.slots[at&mask]
		if s.key == key {
			return s
		}
		if s.key != 0 {
			continue
		}
		if 2*p.n >= len(p.slots) {
			p.grow()
			return p.find(key)
		}
		p.n++
		s.key = key
		return s
	}
}

func (p *packed) grow() {
	old := p.slots
	p.slots, p.n = make([]slot, 4*len(old)), 0
	for _, s := range old {
		if s.key != 0 {
			p.find(s.key).n = s.n
		}
	}
}

// unpack makes entries of what was counted.
func (t *tally) unpack() {
	p := t.small
	t.entries = make([]int64, 0, p.n*t.width)
	t.n = p.n
	for _, s := range p.slots {
		if s.key == 0 {
			continue
		}
		for k := range t.keys {
			v := int64((s.key-1)>>p.shifts[k]&(1<<p.widths[k]-1)) - 1
			if v < 0 {
				v = parquet.Null
			}
			t.entries = append(t.entries, v)
		}
		t.entries = append(t.entries, s.n)
	}
}
