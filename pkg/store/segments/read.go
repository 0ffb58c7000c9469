// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// mostOpen is how many packets are in memory at once, and mostOpenBytes how many bytes they take, in row groups of
// which each has some that may come next. Those of one recording are rarely more than three. Lists of hops, and
// texts, can be long: the number of packets alone bounds no memory.
const (
	mostOpen      = 32 * mostRows
	mostOpenBytes = int64(1) << 31
)

// part is a row group that is to be read.
type part struct {
	of    *open
	group int
	low   int64
}

// Read calls fn for each packet whose first stamp is at since or later, and before until, in the order
// of these stamps. A zero time is no bound. The packet is valid until fn returns. What cannot be read
// is named by Damage; the error is fn's, or the context's.
func (d *Dir) Read(ctx context.Context, since, until time.Time, fn func(*Packet) error) error {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if !since.IsZero() {
		low = since.UnixNano()
	}
	if !until.IsZero() {
		high = until.UnixNano()
	}
	m := &merge{d: d, low: low, high: high, parts: d.parts(low, high)}
	p, text := &Packet{}, []byte(nil)
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		g, row, err := m.next()
		if g == nil || err != nil {
			return err
		}
		g.packet(p, row, d.scope, &text)
		if err := fn(p); err != nil {
			return err
		}
	}
}

// parts are the row groups that have packets between two times, the earliest first.
func (d *Dir) parts(low, high int64) (parts []part) {
	for _, s := range d.all {
		if s.kind != kindPackets {
			continue
		}
		for i := range s.r.Groups {
			first, last, ok := s.r.Bounds(i, columns[colT].Path())
			if !ok {
				d.damaged(s.name, wrong(colT, "it has no bounds"))
			} else if first < high && last >= low {
				parts = append(parts, part{s, i, first})
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return compare(a.low, b.low) })
	return parts
}

// merge gives rows of several groups in the order of their times. A group is in memory from when its
// first row may come until its last one has.
type merge struct {
	d         *Dir
	low, high int64
	parts     []part // not yet read
	open      groups
	rows      int   // of those that are open
	size      int64 // the bytes of memory that they take
}

// groups is a heap by the time of the next row.
type groups []*group

func (h groups) Len() int           { return len(h) }
func (h groups) Less(i, j int) bool { return h[i].at() < h[j].at() }
func (h groups) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *groups) Push(x any)        { *h = append(*h, x.(*group)) }
func (h *groups) Pop() any {
	last := len(*h) - 1
	g := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return g
}

// at is the time of the next row.
func (g *group) at() int64 { return g.cols[colT].Ints[g.order[g.next]] }

// next is the next row; no group: there is none.
func (m *merge) next() (*group, uint32, error) {
	for len(m.parts) > 0 && (len(m.open) == 0 || m.parts[0].low <= m.open[0].at()) {
		if m.rows += m.parts[0].of.r.Groups[m.parts[0].group].Rows; m.rows > mostOpen {
			return nil, 0, fmt.Errorf("%s: too many recordings have packets of the same time: more than %d are in memory", m.d.dir, mostOpen)
		}
		m.load(m.parts[0])
		m.parts = m.parts[1:]
		if m.size > mostOpenBytes {
			return nil, 0, fmt.Errorf("%s: too many recordings have packets of the same time: they take more than %d bytes of memory", m.d.dir, mostOpenBytes)
		}
	}
	if len(m.open) == 0 {
		return nil, 0, nil
	}
	g := m.open[0]
	row := g.order[g.next]
	g.next++
	if g.next == len(g.order) {
		heap.Pop(&m.open)
		m.rows, m.size = m.rows-g.rows, m.size-g.size
	} else {
		heap.Fix(&m.open, 0)
	}
	return g, row, nil
}

// load reads a group, and leaves out rows that nobody wants.
func (m *merge) load(p part) {
	g, err := load(p.of, p.group)
	if err != nil {
		m.d.damaged(p.of.name, err)
		m.rows -= p.of.r.Groups[p.group].Rows
		return
	}
	at := g.cols[colT].Ints
	begin, _ := slices.BinarySearchFunc(g.order, m.low, func(row uint32, low int64) int { return compare(at[row], low) })
	end, _ := slices.BinarySearchFunc(g.order, m.high, func(row uint32, high int64) int { return compare(at[row], high) })
	if g.order = g.order[begin:max(begin, end)]; len(g.order) > 0 {
		heap.Push(&m.open, g)
		m.size += g.size
	} else {
		m.rows -= g.rows
	}
}
