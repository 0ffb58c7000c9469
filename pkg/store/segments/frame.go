// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Place is a row group of packets that can be read by columns.
type Place struct {
	Rows int // packets

	of    *open
	group int
}

// Meta is what the file says of its recording.
func (p *Place) Meta() *Meta { return p.of.meta }

// Frame is a row group of which single columns are read. It is for one goroutine.
type Frame struct {
	Place

	d    *Dir
	raw  *parquet.Group
	cols map[int]*parquet.Values
	lens map[string][]uint32
}

// byPath are the columns by list and name.
var byPath = func() map[[2]string]int {
	m := make(map[[2]string]int)
	for i, c := range columns {
		m[[2]string{c.List, c.Name}] = i
	}
	return m
}()

// Places are all row groups of packets, the earliest first.
func (d *Dir) Places() (all []Place) {
	var parts []part
	for _, s := range d.all {
		for i := range s.r.Groups {
			if s.kind == kindPackets {
				first, _, _ := s.r.Bounds(i, columns[colT].Path())
				parts = append(parts, part{s, i, first})
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return compare(a.low, b.low) })
	for _, p := range parts {
		all = append(all, Place{p.of.r.Groups[p.group].Rows, p.of, p.group})
	}
	return all
}

// Load begins to read a row group; nil if it is damaged, which Damage then names. Columns lie in m, until it is used again.
func (d *Dir) Load(p Place, m *parquet.Memory) *Frame {
	raw, err := p.of.r.Open(p.group, m)
	if err != nil {
		d.damaged(p.of.name, err)
		return nil
	}
	return &Frame{Place: p, d: d, raw: raw, cols: make(map[int]*parquet.Values), lens: make(map[string][]uint32)}
}

// Damaged names damage that a reader of columns has found.
func (f *Frame) Damaged(err error) { f.d.damaged(f.of.name, err) }

// Column is a column of packets, or of a list of theirs. If no packet has a value in it, all is nil.
func (f *Frame) Column(list, name string) (*parquet.Values, error) {
	col := byPath[[2]string{list, name}]
	if v := f.cols[col]; v != nil {
		return v, nil
	}
	v, err := f.raw.Column(&columns[col].Column)
	if err != nil {
		return nil, err
	}
	if v == nil { // of a version without it
		v = new(parquet.Values)
	}
	absent := v.Ints == nil && v.Index == nil
	if list == "" {
		if absent && !columns[col].Optional {
			return nil, wrong(col, "it is missing")
		}
		f.cols[col] = v
		return v, nil
	}
	if f.lens[list] == nil && v.Lens != nil {
		f.lens[list] = v.Lens
	}
	lens, err := f.Lens(list)
	if err != nil {
		return nil, err
	}
	if !absent && !slices.Equal(lens, v.Lens) {
		return nil, wrong(col, "its lists have other lengths than those of its neighbours")
	}
	f.cols[col] = v
	return v, nil
}

// first are the columns of lists that say how long these are.
var first = map[string]int{hops: colHopNode, losses: colBranchHop, ints: colINTHop}

// Lens are how many elements each packet has in a list.
func (f *Frame) Lens(list string) ([]uint32, error) {
	if l := f.lens[list]; l != nil {
		return l, nil
	}
	v, err := f.raw.Column(&columns[first[list]].Column)
	if err != nil {
		return nil, err
	}
	if v != nil && v.Lens == nil { // each element has a value there, so that the column shows lists without any as well
		return nil, wrong(first[list], "values are missing")
	}
	if v == nil { // of a version without the list
		v = &parquet.Values{Lens: make([]uint32, f.Rows)}
	}
	f.cols[first[list]], f.lens[list] = v, v.Lens
	return v.Lens, nil
}

// Packets calls fn for each packet, in the order of the rows of columns.
func (f *Frame) Packets(fn func(row int, p *Packet)) error {
	g, err := load(f.of, f.group)
	if err != nil {
		return err
	}
	p, text := &Packet{}, []byte(nil)
	for row := range g.rows {
		g.packet(p, uint32(row), f.d.scope, &text)
		fn(row, p)
	}
	return nil
}

// Once names the Writers of all files, by spaces, if each of them has added no packet twice; else it is "".
func (d *Dir) Once() string {
	var names []string
	for _, s := range d.all {
		if s.kind != kindPackets {
			continue
		}
		of := strings.Fields(s.r.Meta[keyOnce])
		if len(of) == 0 {
			return ""
		}
		names = append(names, of...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}
