// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/parquet"
)

// Bytes of memory that a group takes for each row, and for each hop of its paths, beside its columns.
const (
	rowBytes  = 4 * 4
	stepBytes = 40
)

// mostPathHops bounds the hops of all paths of a group. A Writer's are mostHops at most, and those of a packet more.
const mostPathHops = 4 * mostHops

// unread are columns for others: radar makes what they say of others.
var unread = [numColumns]bool{
	colPathID: true, colPath: true, colFragOff: true, colLossNode: true, colLossPort: true,
	colHopNode: true, colHopInPort: true, colHopPort: true, colHopPrev: true, colHopCopy: true, colHopGap: true,
	colBranchNode: true, colBranchPort: true,
}

// group is a row group in memory.
type group struct {
	of    *open
	cols  [numColumns]parquet.Values
	rows  int
	size  int64    // bytes of memory
	order []uint32 // rows by time
	next  int      // in order

	hopAt, lossAt, intAt []uint32 // where the entries of each row begin
	src, dst             []packet.Addr
	hopSrc, hopDst       []packet.Addr
	protos               []uint8
	paths                [][]step
	lossFunctions        []*packet.Function
	branchFunctions      []*packet.Function
}

func wrong(col int, what string) error {
	return &parquet.Damage{Place: "column " + columns[col].Path(), What: what}
}

// load reads a row group. All that is read of a row later is looked at here.
func load(s *open, n int) (*group, error) {
	raw, err := s.r.Read(n)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	g := &group{of: s, rows: s.r.Groups[n].Rows}
	for col := range columns {
		if unread[col] {
			continue
		}
		v, err := raw.Column(&columns[col].Column)
		if err != nil {
			return nil, err
		}
		if v != nil {
			g.cols[col] = *v
		}
	}
	for _, col := range []int{colT, colState, colSource, colHost, colEpoch, colPos, colIPVersion, colProto, colLen, colSegs, colFragBits, colPlaces} {
		if max(len(g.cols[col].Ints), len(g.cols[col].Index)) != g.rows {
			return nil, wrong(col, "it is missing")
		}
	}
	if err := g.words(); err != nil {
		return nil, err
	}
	if err := g.lists(); err != nil {
		return nil, err
	}
	g.sort()
	g.size += raw.Size() + int64(g.rows)*rowBytes
	return g, nil
}

// lists finds where the entries of each row begin, and compares that among the columns of a list. Columns
// without any value do not say how long lists are: hops are as many as the path has.
func (g *group) lists() error {
	paths := make([]uint32, g.rows)
	for row, i := range g.cols[colPlaces].Index {
		path := g.paths[i]
		if len(path) > 0 && path[0].Flags&stepTree != 0 != g.is(colTree, uint32(row)) {
			return wrong(colTree, "it says something else than the path")
		}
		paths[row] = uint32(len(path))
	}
	for _, l := range []struct {
		first, last int
		lens        []uint32
		at          *[]uint32
	}{
		{colHopNode, colHopDequeueNs, paths, &g.hopAt},
		{colBranchHop, colBranchPortID, g.cols[colBranchHop].Lens, &g.lossAt},
		{colINTHop, colINTValue, g.cols[colINTHop].Lens, &g.intAt},
	} {
		if l.lens == nil { // of a version without the list
			l.lens = make([]uint32, g.rows)
		}
		n := uint32(0)
		*l.at = make([]uint32, g.rows+1)
		for i, k := range l.lens {
			(*l.at)[i] = n
			n += k
		}
		(*l.at)[g.rows] = n
		for col := l.first; col <= l.last; col++ {
			c := &g.cols[col]
			absent := c.Ints == nil && c.Index == nil
			if unread[col] || absent && (columns[col].Optional || n == 0) {
				continue
			}
			if !slices.Equal(c.Lens, l.lens) {
				return wrong(col, "its lists have other lengths than those of its neighbours")
			}
		}
	}
	return nil
}

// words makes values of dictionaries.
func (g *group) words() (err error) {
	for _, a := range []struct {
		col int
		to  *[]packet.Addr
	}{{colSrc, &g.src}, {colDst, &g.dst}, {colHopSrc, &g.hopSrc}, {colHopDst, &g.hopDst}} {
		for _, text := range g.cols[a.col].Dict {
			addr, err := netip.ParseAddr(text)
			if err != nil || strings.Contains(text, "%") {
				return wrong(a.col, "an address cannot be read")
			}
			*a.to = append(*a.to, addr.As16())
		}
	}
	for _, text := range g.cols[colProto].Dict {
		proto, ok := record.ParseProto(text)
		if !ok {
			return wrong(colProto, "a protocol is not known")
		}
		g.protos = append(g.protos, proto)
	}
	g.lossFunctions, g.branchFunctions = functions(g.cols[colLossFunction].Dict), functions(g.cols[colBranchFunction].Dict)
	return g.places()
}

func functions(names []string) []*packet.Function {
	list := make([]*packet.Function, len(names))
	for i, name := range names {
		if name != "" {
			list[i] = packet.NamedFunction(name)
		}
	}
	return list
}

// places reads paths, with the numbers of the recording.
func (g *group) places() error {
	c, all := &g.cols[colPlaces], 0
	for _, text := range c.Dict {
		steps, err := parsePlaces(text)
		if err != nil {
			return wrong(colPlaces, err.Error())
		}
		if all += len(steps); all > mostPathHops {
			return wrong(colPlaces, "its paths have too many hops")
		}
		for i := range steps {
			st := &steps[i]
			st.Node, st.In, st.Out = g.of.names.FoundNode(st.Node), g.of.names.FoundPort(st.In), g.of.names.FoundPort(st.Out)
		}
		g.paths = append(g.paths, steps)
	}
	g.size += int64(all) * stepBytes
	return nil
}

// sort puts rows in the order of their times.
func (g *group) sort() {
	at := g.cols[colT].Ints
	g.order = make([]uint32, g.rows)
	for i := range g.order {
		g.order[i] = uint32(i)
	}
	pos := g.cols[colPos].Ints
	slices.SortFunc(g.order, func(a, b uint32) int {
		switch {
		case at[a] != at[b]:
			return compare(at[a], at[b])
		case pos[a] != pos[b]:
			return compare(pos[a], pos[b])
		}
		return compare(int64(a), int64(b))
	})
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// int is a value of a column of numbers; ok is false if it is not there.
func (g *group) int(col int, i uint32) (v int64, ok bool) {
	c := g.cols[col].Ints
	if c == nil {
		return 0, false
	}
	v = c[i]
	return v, v != parquet.Null
}

func (g *group) num(col int, i uint32) int64 {
	v, ok := g.int(col, i)
	if !ok {
		return 0
	}
	return v
}

func (g *group) is(col int, i uint32) bool { return g.num(col, i) != 0 }

func (g *group) time(col int, i uint32) int64 {
	if v, ok := g.int(col, i); ok {
		return v
	}
	return packet.NoTime
}

// word is the index of a text; ok is false if it is not there.
func (g *group) word(col int, i uint32) (index uint32, ok bool) {
	c := g.cols[col].Index
	if c == nil || c[i] == parquet.NullText {
		return 0, false
	}
	return c[i], true
}

func (g *group) text(col int, i uint32) string {
	if w, ok := g.word(col, i); ok {
		return g.cols[col].Dict[w]
	}
	return ""
}
