// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"math/bits"
	"slices"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Bits of a key, and those of them by which keys lie side by side in memory: times that differ little do.
const (
	keyBits  = 64
	nearBits = 6
)

// mostBlocks bounds the blocks of keys.
const mostBlocks = 1 << 15

// packed counts rows whose keys fit into a number: those of percentiles do. Keys that lie side by side have their counts
// side by side, so that these stay in the processor's cache.
type packed struct {
	slots   []slot
	counts  []uint32 // block by block; the first one is none
	more    []overflow
	widths  []int // bits of each key
	shifts  []int
	block   [2048]uint64 // keys of rows that are counted
	places  [2048]uint32 // of these in counts
	lengths []int
}

// slot is a block of keys; at is its place in counts by blocks, 0: there is none.
type slot struct {
	block uint64
	at    uint32
}

// overflow is what a count was too high for.
type overflow struct {
	key uint64
	n   uint32
}

// newPacked finds places for keys of such lengths; nil: they do not fit. The longest one, a time, is the lowest, and has
// what is left over.
func newPacked(keys []key, sums int) *packed {
	p := &packed{slots: make([]slot, 1<<12), counts: make([]uint32, 1<<nearBits), widths: make([]int, len(keys)), shifts: make([]int, len(keys))}
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
	rows, first := []uint32(nil), segs[0]
	same := !slices.ContainsFunc(segs, func(n int64) bool { return n != first })
	if !same {
		rows = w.packets()
	}
	for begin := 0; begin < w.n; begin += len(p.block) {
		block := p.block[:min(len(p.block), w.n-begin)]
		p.pack(block, keys, begin)
		for i, k := range p.find(block) {
			n := first
			if !same {
				n = segs[at(rows, begin+i)]
			}
			sum, over := bits.Add32(p.counts[k], uint32(n), 0)
			if over != 0 { // 1<<32 are more than is left over
				p.more, sum = append(p.more, overflow{block[i], 1<<32 - 1}), sum+1
			}
			p.counts[k] = sum
		}
	}
	return true
}

// pack makes the keys of rows from there on.
func (p *packed) pack(to []uint64, keys []key, begin int) {
	clear(to)
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

// find finds the places of keys in counts.
func (p *packed) find(keys []uint64) []uint32 {
	places := p.places[:len(keys)]
	for i, key := range keys {
		block := key >> nearBits
		h := mix(0, int64(block))
		s := &p.slots[h&uint64(len(p.slots)-1)]
		if s.block != block || s.at == 0 {
			s = p.search(block, h)
		}
		places[i] = s.at<<nearBits | uint32(key)&(1<<nearBits-1)
	}
	return places
}

// search goes on from where a block should be, or makes it.
func (p *packed) search(block, h uint64) *slot {
	for mask := uint64(len(p.slots) - 1); ; h++ {
		s := &p.slots[h&mask]
		if s.at == 0 {
			*s = slot{block, uint32(p.blocks())}
			p.counts = append(p.counts, make([]uint32, 1<<nearBits)...)
			if 2*p.blocks() < len(p.slots) {
				return s
			}
			p.grow()
			return p.search(block, mix(0, int64(block)))
		}
		if s.block == block {
			return s
		}
	}
}

func (p *packed) blocks() int { return len(p.counts) >> nearBits }

// full reports whether there are many keys.
func (p *packed) full() bool { return p.blocks() > mostBlocks || len(p.more) > mostBlocks }

func (p *packed) grow() {
	old := p.slots
	p.slots = make([]slot, 4*len(old))
	mask := uint64(len(p.slots) - 1)
	for _, s := range old {
		if s.at == 0 {
			continue
		}
		h := mix(0, int64(s.block))
		for p.slots[h&mask].at != 0 {
			h++
		}
		p.slots[h&mask] = s
	}
}

// columns are the keys that were counted, and behind them how many packets have each.
func (p *packed) columns() (all [][]int64) {
	all = make([][]int64, len(p.widths)+1)
	add := func(key uint64, n uint32) {
		for k, shift := range p.shifts {
			v := int64(key>>shift&(1<<p.widths[k]-1)) - 1
			if v < 0 {
				v = parquet.Null
			}
			all[k] = append(all[k], v)
		}
		all[len(p.widths)] = append(all[len(p.widths)], int64(n))
	}
	for _, s := range p.slots {
		if s.at == 0 {
			continue
		}
		for near, n := range p.counts[int(s.at)<<nearBits:][:1<<nearBits] {
			if n != 0 {
				add(s.block<<nearBits|uint64(near), n)
			}
		}
	}
	for _, o := range p.more {
		add(o.key, o.n)
	}
	return all
}
