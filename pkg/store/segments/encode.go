// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"slices"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// encoder writes batches as row groups.
type encoder struct {
	order   []uint32 // rows in the order of the file
	place   []uint32 // of each row in that order
	hopAt   []uint32 // where the hops of each row begin, as they came
	entryAt []uint32 // the same in the order of the file
	lens    parquet.Lens
	counts  []uint32
	ints    []int64
	words   []uint32
	runs    []classRun
}

// classRun are rows side by side of the same class.
type classRun struct{ begin, end, class uint32 }

// encode writes a batch. Rows of a flow stand together, the earliest first.
func (e *encoder) encode(f *parquet.Writer, b *batch) error {
	e.sort(b)
	f.Begin(b.rows)
	lossLens, intLens := e.listLens(b, colBranchHop), e.listLens(b, colINTHop)
	for col := range columns {
		e.column(f, b, col, lossLens, intLens)
	}
	return f.End()
}

// sort makes the order of rows.
func (e *encoder) sort(b *batch) {
	e.counts = resize(e.counts, len(b.flows)+1)
	clear(e.counts)
	for _, c := range b.class {
		e.counts[b.flowOf[c]+1]++
	}
	for i := 1; i < len(e.counts); i++ {
		e.counts[i] += e.counts[i-1]
	}
	e.order = resize(e.order, b.rows)
	for row, c := range b.class {
		flow := b.flowOf[c]
		e.order[e.counts[flow]] = uint32(row)
		e.counts[flow]++
	}
	e.sortFlows(b.cols[colT].v)
	e.runs = e.runs[:0]
	for i, row := range e.order {
		c := b.class[row]
		if n := len(e.runs); n > 0 && e.runs[n-1].class == c {
			e.runs[n-1].end++
		} else {
			e.runs = append(e.runs, classRun{uint32(i), uint32(i) + 1, c})
		}
	}
	e.place, e.hopAt, e.entryAt = resize(e.place, b.rows), resize(e.hopAt, b.rows), resize(e.entryAt, b.rows)
	e.lens = parquet.Lens{Of: resize(e.lens.Of, b.rows)}
	n := uint32(0)
	for row, p := range b.path {
		e.hopAt[row] = n
		n += b.paths.hops[p]
	}
	n = 0
	for i, row := range e.order {
		e.place[row], e.entryAt[i], e.lens.Of[i] = uint32(i), n, b.paths.hops[b.path[row]]
		n += e.lens.Of[i]
	}
}

// sortFlows sorts the rows of each flow, whose ends counts has, by time. They came nearly in that order.
func (e *encoder) sortFlows(at []int64) {
	begin := uint32(0)
	for _, end := range e.counts[:len(e.counts)-1] {
		rows := e.order[begin:end]
		begin = end
		moves := 16 * len(rows)
		for i := 1; i < len(rows) && moves > 0; i++ {
			row := rows[i]
			j := i
			for ; j > 0 && at[rows[j-1]] > at[row]; j-- {
				rows[j] = rows[j-1]
				moves--
			}
			rows[j] = row
		}
		if moves <= 0 {
			slices.SortStableFunc(rows, func(a, b uint32) int { return compare(at[a], at[b]) })
		}
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// listLens counts the entries that each row has in a list that few have; nil: none has any.
func (e *encoder) listLens(b *batch, col int) *parquet.Lens {
	l := &parquet.Lens{Of: make([]uint32, b.rows)}
	for _, row := range b.cols[col].row {
		l.Of[e.place[row]]++
	}
	return l
}

// column writes a column.
func (e *encoder) column(f *parquet.Writer, b *batch, col int, lossLens, intLens *parquet.Lens) {
	c, l := &b.cols[col], (*parquet.Lens)(nil)
	switch columns[col].List {
	case hops:
		l = &e.lens
	case losses:
		l = lossLens
	case ints:
		l = intLens
	}
	from := columns[col].from
	if len(c.v) == 0 && columns[col].Optional && (from == rare || from == rareHop || from == ofLoss) {
		f.Absent(l, b.rows)
		return
	}
	switch from {
	case ofRow:
		e.ints = resize(e.ints, b.rows)
		for i, row := range e.order {
			e.ints[i] = c.v[row]
		}
	case ofClass:
		e.ints = resize(e.ints, b.rows)
		for _, r := range e.runs {
			v, part := c.v[r.class], e.ints[r.begin:r.end]
			for i := range part {
				part[i] = v
			}
		}
	case ofPath:
		e.ints = resize(e.ints, b.rows)
		for i, row := range e.order {
			e.ints[i] = c.v[b.path[row]]
		}
	case ofHop, onPath:
		e.hops(b, c, from)
	case rare, rareHop:
		e.few(b, c, from)
	case ofLoss, ofINT:
		e.list(b, c, l)
	}
	if columns[col].Type != parquet.Text {
		f.Ints(l, e.ints)
		return
	}
	e.words = resize(e.words, len(e.ints))
	for i, v := range e.ints {
		e.words[i] = uint32(v)
		if v == parquet.Null {
			e.words[i] = parquet.NullText
		}
	}
	f.Texts(l, e.words, c.text.dict)
}

// hops fills in a column of hops, whose values stand by row, or by path.
func (e *encoder) hops(b *batch, c *values, from origin) {
	e.ints = e.ints[:0]
	for _, row := range e.order {
		p := b.path[row]
		begin := e.hopAt[row]
		if from == onPath {
			begin = b.paths.begin[p]
		}
		e.ints = append(e.ints, c.v[begin:begin+b.paths.hops[p]]...)
	}
}

// few fills in a column that few rows, or hops, have.
func (e *encoder) few(b *batch, c *values, from origin) {
	n := b.rows
	if from == rareHop {
		n = b.hops
	}
	e.ints = resize(e.ints, n)
	for i := range e.ints {
		e.ints[i] = parquet.Null
	}
	for i, row := range c.row {
		at := e.place[row]
		if from == rareHop {
			at = e.entryAt[at] + c.hop[i]
		}
		e.ints[at] = c.v[i]
	}
}

// list fills in a column of a list that few rows have. Its values came row by row.
func (e *encoder) list(b *batch, c *values, l *parquet.Lens) {
	next := make([]uint32, len(l.Of))
	n := uint32(0)
	for i, of := range l.Of {
		next[i] = n
		n += of
	}
	e.ints = resize(e.ints, int(n))
	for i, row := range c.row {
		at := e.place[row]
		e.ints[next[at]] = c.v[i]
		next[at]++
	}
}
