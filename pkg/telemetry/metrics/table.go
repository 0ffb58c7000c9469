// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"net/netip"
	"slices"
)

// Row is the latest value of a metric.
type Row struct {
	Key
	Value, Reported uint64 // the latest one, and that of the last event
	At, ReportedAt  int64  // Unix ns, of their reports
	Reports         uint64
	Path            []uint32 // the latest, of FlowPath
}

// Rows returns all there is, by key.
func (e *Engine) Rows() []Row {
	rows := e.AppendRows(nil)
	SortRows(rows)
	return rows
}

// SortRows sorts rows by key.
func SortRows(rows []Row) {
	slices.SortFunc(rows, func(x, y Row) int { return x.Key.compare(&y.Key) })
}

// AppendRows appends all there is to rows, in no order: for those who can sort while the engine goes on.
func (e *Engine) AppendRows(rows []Row) []Row {
	rows = slices.Grow(rows, 2*len(e.flows)+e.hops+2*len(e.queues)+len(e.links)+len(e.crossings))
	add := func(k Key, v *value) {
		if v.has {
			rows = append(rows, Row{Key: k, Value: v.latest, Reported: v.reported, At: v.at, ReportedAt: v.reportedAt, Reports: v.reports})
		}
	}
	for id, f := range e.flows {
		if f.path != nil {
			rows = append(rows, Row{
				Key: Key{Metric: FlowPath, Flow: id}, At: f.pathAt, ReportedAt: f.pathReported,
				Reports: f.paths, Path: slices.Clone(f.latest),
			})
		}
		add(Key{Metric: FlowLatency, Flow: id}, &f.latency)
		for i := range f.hops {
			add(Key{Metric: HopLatency, Flow: id, Node: f.hops[i].node}, &f.hops[i].latency)
		}
	}
	for _, q := range e.queues {
		add(q.of(QueueOccupancy), &q.occupancy)
		add(q.of(QueueCongestion), &q.congestion)
	}
	for at, l := range e.links {
		add(Key{Metric: LinkUtilization, Node: at.node, Port: at.port}, &l.value)
	}
	for between, l := range e.crossings {
		add(between.key(), &l.value)
	}
	return rows
}

func (k *Key) compare(o *Key) int {
	return cmp.Or(
		cmp.Compare(k.Metric, o.Metric),
		k.Flow.compare(&o.Flow),
		cmp.Compare(k.Node, o.Node),
		cmp.Compare(k.Port, o.Port),
		cmp.Compare(k.Queue, o.Queue),
		cmp.Compare(k.To, o.To),
	)
}

func (f *Flow) compare(o *Flow) int {
	addr := func(x, y netip.Addr) int { return x.Compare(y) }
	return cmp.Or(
		addr(f.Src, o.Src),
		addr(f.Dst, o.Dst),
		cmp.Compare(f.Proto, o.Proto),
		cmp.Compare(f.SrcPort, o.SrcPort),
		cmp.Compare(f.DstPort, o.DstPort),
	)
}

// Forget removes keys that nobody has reported for Config.Age at a time, Unix ns.
func (e *Engine) Forget(now int64) {
	if e.Config.Age <= 0 {
		return
	}
	old := func(seen int64, keys int) bool {
		if seen >= now-int64(e.Config.Age) {
			return false
		}
		e.Counts.Aged += uint64(keys)
		return true
	}
	for id, f := range e.flows {
		if old(f.seen, 1+len(f.hops)) {
			e.hops -= len(f.hops)
			e.release(f.index, now)
			delete(e.flows, id)
		}
	}
	for id, q := range e.queues {
		if old(q.seen, 1) {
			e.release(q.index, now)
			delete(e.queues, id)
		}
	}
	for id, l := range e.links {
		if old(l.seen, 1) {
			e.release(l.index, now)
			delete(e.links, id)
		}
	}
	for id, l := range e.crossings {
		if old(l.seen, 1) {
			delete(e.crossings, id)
		}
	}
}

// Drop forgets the flow, the queues and the links that a report is about. All of that has gone when
// Moved is called.
func (e *Engine) Drop(r *Report) {
	var gone []uint32
	if f := e.flows[r.Flow]; r.HasFlow && f != nil {
		e.hops -= len(f.hops)
		gone = append(gone, f.index)
		delete(e.flows, r.Flow)
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		at := h.port()
		for _, id := range [...]uint32{h.Queue, h.CongestionQueue} {
			if q := e.queues[queueOf{at, id}]; q != nil {
				gone = append(gone, q.index)
				delete(e.queues, queueOf{at, id})
			}
		}
		if l := e.links[at]; l != nil {
			gone = append(gone, l.index)
			delete(e.links, at)
		}
		if i > 0 && h.Has&HasLink != 0 {
			delete(e.crossings, crossingOf(&r.Hops[i-1], h))
		}
	}
	for _, index := range gone {
		e.shared.free = append(e.shared.free, freed{index, r.At})
	}
	for _, index := range gone {
		e.moved(index, nothing)
	}
}
