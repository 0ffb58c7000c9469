// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/parquet"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// table is a table function: a row for each packet, or for each element of a list.
type table struct {
	name    string
	list    string // "": a row for each packet
	lost    bool   // only packets that were lost, or freed after delivery
	counts  bool   // see counted
	columns []column
	info    []duckdb.ColumnInfo
	e       *engine
}

// scan is one that is read. Several threads do, each a row group at a time.
type scan struct {
	*table
	places []segments.Place
	twice  *recording.Twice
	place  atomic.Int64 // the next one
	ctx    context.Context
}

// ColumnInfos implements duckdb.ParallelChunkTableSource.
func (s *scan) ColumnInfos() []duckdb.ColumnInfo { return s.info }

// Cardinality implements duckdb.ParallelChunkTableSource.
func (s *scan) Cardinality() *duckdb.CardinalityInfo {
	n := uint(0)
	for _, p := range s.places {
		n += uint(p.Rows)
	}
	switch s.list {
	case "hops":
		n *= 4
	case "losses", "int":
		n /= 100
	}
	return &duckdb.CardinalityInfo{Cardinality: n}
}

// Init implements duckdb.ParallelChunkTableSource.
func (s *scan) Init() duckdb.ParallelTableSourceInfo {
	s.place.Store(0)
	return duckdb.ParallelTableSourceInfo{MaxThreads: s.e.threads}
}

// NewLocalState implements duckdb.ParallelChunkTableSource.
func (s *scan) NewLocalState() any {
	w := &worker{scan: s, taken: new(taken)}
	runtime.AddCleanup(w, (*taken).release, w.taken) // a query may end before its row group does
	return w
}

// FillChunk implements duckdb.ParallelChunkTableSource.
func (s *scan) FillChunk(local any, chunk duckdb.DataChunk) error {
	return local.(*worker).fill(chunk)
}

// worker reads row groups for one thread.
type worker struct {
	*scan
	mem   parquet.Memory
	again *segments.Place // is read next; nil: the scan says which one
	sum   *tally          // of rows that are counted; nil: each row is given
	*taken
	// rows and elements are what comes of it, element by element; nil: all packets in their order.
	rows, elements []uint32
	lens           []uint32 // of the list whose elements all come, from which rows are made when they are asked for
	index          []int64  // memory of indices
	n, at          int
}

// taken is what takes memory of DuckDB. It does not know its worker, which ends before it.
type taken struct {
	out []output // of the row group
}

// output is a column that is asked for.
type output struct {
	*column
	to    int // column of the chunk
	value *parquet.Values
	dict  mapping.Vector // of its texts, with null at the end
	has   bool           // dict is there
	local []int64        // made
}

// fill gives the next rows.
func (w *worker) fill(chunk duckdb.DataChunk) error {
	for w.at >= w.n {
		w.release()
		more, err := w.next(chunk)
		if err != nil {
			return err
		}
		if !more {
			w.mem.Close()
			return chunk.SetSize(0)
		}
	}
	n := min(w.n-w.at, duckdb.GetDataChunkCapacity())
	raw := chunkOf(chunk)
	for i := range w.out {
		w.out[i].write(raw, w, n)
	}
	w.at += n
	return chunk.SetSize(n)
}

// next reads a row group, or as many as can be counted together; more is false after the last one.
func (w *worker) next(chunk duckdb.DataChunk) (more bool, err error) {
	projection := projectionOf(chunk)
	for {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		if w.again == nil {
			i := int(w.place.Add(1)) - 1
			if i >= len(w.places) {
				return w.sum != nil && w.give(), nil
			}
			w.again = &w.places[i]
		}
		if w.sum == nil && w.counts && !w.each(projection) {
			w.sum = &tally{}
		}
		w.open(*w.again, projection)
		if w.sum == nil {
			w.again = nil
			return true, nil
		}
		fits := w.sum.add(w)
		if w.release(); fits {
			w.again = nil
		}
		if !fits || w.sum.full() {
			return w.give(), nil
		}
	}
}

// open reads the columns of a row group. One that is damaged gives nothing, and is named.
func (w *worker) open(place segments.Place, projection []int) {
	w.n, w.at = 0, 0
	f := w.e.r.Dir.Load(place, &w.mem)
	if f == nil {
		return
	}
	if err := w.read(f, projection); err != nil {
		w.release()
		f.Damaged(err)
		w.n = 0
	}
}

func (w *worker) read(f *segments.Frame, projection []int) error {
	// A column that is read in any case says how long lists are. Others are not read where there is none.
	for i, c := range w.columns {
		if w.list == "hops" && projection[i] >= 0 && c.list == w.list && c.made == stored {
			if _, err := f.Column(c.list, c.of); err != nil {
				return err
			}
			break
		}
	}
	if err := w.choose(f); err != nil {
		return err
	}
	if w.n == 0 {
		return nil
	}
	var recorded []*output
	w.out = make([]output, 0, len(w.columns)) // outputs are pointed to
	for i := range w.columns {
		if projection[i] < 0 {
			continue
		}
		w.out = append(w.out, output{column: &w.columns[i], to: projection[i]})
		o := &w.out[len(w.out)-1]
		if o.made == ofRecord {
			recorded = append(recorded, o)
			continue
		}
		if err := o.load(f, &w.index); err != nil {
			return err
		}
	}
	if len(recorded) > 0 {
		if err := w.records(f, recorded); err != nil {
			return err
		}
	}
	if w.sum == nil {
		for i := range w.out {
			w.out[i].makeDict()
		}
	}
	return nil
}

// each reports whether a column is asked for with which no rows are counted as one.
func (w *worker) each(projection []int) bool {
	for i := range w.columns {
		if w.columns[i].each && projection[i] >= 0 {
			return true
		}
	}
	return false
}

// choose finds out which rows come.
func (w *worker) choose(f *segments.Frame) error {
	w.rows, w.elements, w.lens = w.rows[:0], w.elements[:0], nil // a nil one is all, in their order
	left := w.twice.LeftOut(f.Place)
	if w.list == "int" {
		left = w.twice.SaidLeftOut(f.Place)
	}
	if w.lost {
		return w.chooseLost(f, left)
	}
	if w.list == "" {
		w.n = f.Rows
		if left == nil {
			w.rows = nil
			return nil
		}
		for i := range f.Rows {
			if !left[i] {
				w.rows = append(w.rows, uint32(i))
			}
		}
		w.n = len(w.rows)
		return nil
	}
	lens, err := f.Lens(w.list)
	if err != nil {
		return err
	}
	w.chooseElements(lens, left)
	return nil
}

// chooseLost chooses packets that were lost, or freed after delivery.
func (w *worker) chooseLost(f *segments.Frame, left []bool) error {
	state, err := f.Column("", "state")
	if err != nil {
		return err
	}
	is := make([]bool, f.Rows)
	lost := slices.Index(state.Dict, string(record.Lost))
	for i, x := range state.Index {
		is[i] = int(x) == lost
	}
	for _, name := range []string{"missing", "local_drop"} {
		flag, err := f.Column("", name)
		if err != nil {
			return err
		}
		for i, v := range flag.Ints {
			is[i] = is[i] || v == 1
		}
	}
	for i := range is {
		if is[i] && (left == nil || !left[i]) {
			w.rows = append(w.rows, uint32(i))
		}
	}
	w.n = len(w.rows)
	return nil
}

func (w *worker) chooseElements(lens []uint32, left []bool) {
	w.n = 0
	if left == nil {
		w.lens, w.elements = lens, nil
		for _, n := range lens {
			w.n += int(n)
		}
		return
	}
	at := uint32(0)
	for i, n := range lens {
		for k := range n {
			if !left[i] {
				w.rows, w.elements = append(w.rows, uint32(i)), append(w.elements, at+k)
			}
		}
		at += n
	}
	w.n = len(w.rows)
}

// packets are the rows of packets that come, one for each element; nil: all, in their order.
func (w *worker) packets() []uint32 {
	if w.lens == nil {
		return w.rows
	}
	w.rows = slices.Grow(w.rows[:0], w.n)
	for i, n := range w.lens {
		for range n {
			w.rows = append(w.rows, uint32(i))
		}
	}
	w.lens = nil
	return w.rows
}

// load reads a column, or makes it; indices in the memory of room.
func (o *output) load(f *segments.Frame, room *[]int64) (err error) {
	switch o.made {
	case slots:
		o.local = slices.Repeat([]int64{int64(f.Meta().Slots)}, f.Rows)
	case branches:
		lens, err := f.Lens(o.list)
		if err != nil {
			return err
		}
		o.local = make([]int64, len(lens))
		for i, n := range lens {
			o.local[i] = int64(n)
		}
	case index:
		lens, err := f.Lens(o.list)
		if err != nil {
			return err
		}
		to := (*room)[:0]
		for _, n := range lens {
			for k := range n {
				to = append(to, int64(k))
			}
		}
		o.local, *room = to, to
	case nodeOf:
		return o.loadNodes(f)
	case sum:
		return o.loadSum(f)
	default:
		if o.value, err = f.Column(o.list, o.of); err == nil {
			err = o.fits()
		}
	}
	return err
}

// loadSum reads numbers without a sign.
func (o *output) loadSum(f *segments.Frame) (err error) {
	if o.value, err = f.Column("", o.of); err != nil || !slices.ContainsFunc(o.value.Ints, func(n int64) bool { return n < 0 }) {
		return err
	}
	o.value = &parquet.Values{Ints: slices.Clone(o.value.Ints)}
	for i, n := range o.value.Ints {
		o.value.Ints[i] = int64(uint32(n))
	}
	return nil
}

// fits finds numbers that the column's type cannot hold: files have them in 32 bits.
func (o *output) fits() error {
	most := map[kind]uint64{byte8: math.MaxUint8, short: math.MaxUint16}[o.kind]
	if most == 0 {
		return nil
	}
	for _, v := range o.value.Ints {
		if uint64(v) > most && v != parquet.Null {
			return &parquet.Damage{Place: "column " + o.of, What: fmt.Sprintf("%d is not between 0 and %d", v, most)}
		}
	}
	return nil
}

// loadNodes finds the nodes of the hops that elements name.
func (o *output) loadNodes(f *segments.Frame) error {
	hop, err := f.Column(o.list, o.of)
	if err != nil {
		return err
	}
	lens, err := f.Lens(o.list)
	if err != nil {
		return err
	}
	node, err := f.Column("hops", "node")
	if err != nil {
		return err
	}
	hops, err := f.Lens("hops")
	if err != nil {
		return err
	}
	o.value = &parquet.Values{Dict: node.Dict, Index: []uint32{}}
	at, begin := 0, 0
	for row, n := range lens {
		for range n {
			x := uint32(parquet.NullText)
			if k := hop.Ints[at]; k >= 0 && k < int64(hops[row]) {
				x = node.Index[begin+int(k)]
			}
			o.value.Index = append(o.value.Index, x)
			at++
		}
		begin += int(hops[row])
	}
	return nil
}

// records makes columns of the packets' records.
func (w *worker) records(f *segments.Frame, columns []*output) error {
	r := w.e.r.Again()
	for _, o := range columns {
		if o.kind == word {
			o.value = &parquet.Values{Dict: roles, Index: []uint32{}}
		}
	}
	return f.Packets(func(_ int, p *segments.Packet) { takeRecord(r, p, columns) })
}

func takeRecord(r *recording.Recording, p *segments.Packet, columns []*output) {
	rec := r.Record(p)
	for _, o := range columns {
		for i := range rec.Hops {
			h := &rec.Hops[i]
			switch o.name {
			case "role":
				o.value.Index = append(o.value.Index, uint32(slices.Index(roles, string(h.Role))))
			case "node_id":
				o.local = append(o.local, known(int64(h.NodeID), h.NodeID != 0 || rec.Source == record.EBPF))
			case "at_ns":
				o.local = append(o.local, value(h.AtNs))
			case "latency_ns":
				o.local = append(o.local, value(h.LatencyNs))
			}
		}
	}
}

func known(v int64, is bool) int64 {
	if is {
		return v
	}
	return parquet.Null
}

func value(v *int64) int64 {
	if v == nil {
		return parquet.Null
	}
	return *v
}

// release gives back what the row group has taken.
func (t *taken) release() {
	for i := range t.out {
		if t.out[i].has {
			mapping.DestroyVector(&t.out[i].dict)
		}
	}
	t.out = nil
}

// A DataChunk has no method for whole vectors: what it wraps is read by reflection, of the version that go.mod names.
// TestDriver looks whether that is still so.
func chunkOf(c duckdb.DataChunk) mapping.DataChunk {
	return mapping.DataChunk{Ptr: reflect.ValueOf(c).FieldByName("chunk").Field(0).UnsafePointer()}
}

// projectionOf says of each column which one of the chunk it is; -1: it is not asked for.
func projectionOf(c duckdb.DataChunk) []int {
	v := reflect.ValueOf(c).FieldByName("projection")
	list := make([]int, v.Len())
	for i := range list {
		list[i] = int(v.Index(i).Int())
	}
	return list
}
