// SPDX-License-Identifier: Apache-2.0

package metrics

import "math"

// A report whose path is the flow's, and all of whose values lie within bands, raises no event.
// That is what lets something else than the engine, which knows no more than that, take most
// reports: see Quiet and Same.

// Band is a range of values, both ends in it. It is empty if Lo is above Hi.
type Band struct{ Lo, Hi uint64 }

// nothing is a band that nothing lies in.
var nothing = Band{Lo: 1}

func (t Threshold) band(reported uint64) Band {
	d := t.most(reported)
	b := Band{Hi: math.MaxUint64}
	if d < reported {
		b.Lo = reported - d
	}
	if d <= math.MaxUint64-reported {
		b.Hi = reported + d
	}
	return b
}

// Shared names a value that flows have in common. Engine.Moved is called when its band moves.
type Shared struct {
	Has   bool
	Index uint32 // below MaxShared
	Band
}

// QuietHop is what a hop may say without an event.
type QuietHop struct {
	Latency     Band // of a flow's hop; anything where it has none
	Occupancy   Shared
	Utilization Shared
}

// Quiet is what a report may say without an event, beside what it must say again: the same nodes,
// ports and queues.
type Quiet struct {
	// Flow is what the flow said last, whoever reported it: its band is the number of that.
	Flow Shared
	Hops []QuietHop // of the report's
	Sum  Band       // of hop latencies, if the report gives the flow's
}

// MaxShared is how many shared values there may be: flows, queues, links, and as many that are
// not used again yet.
func (c *Config) MaxShared() int { return 2 * 9 * c.Flows }

// Quiet says what a report like r may say without an event, in q's memory. ok is false if that
// cannot be said: a report like r could raise one whatever its values are.
func (e *Engine) Quiet(r *Report, q *Quiet) (ok bool) {
	q.Hops, q.Sum, q.Flow = q.Hops[:0], Band{Hi: math.MaxUint64}, Shared{}
	var f *flow
	if r.HasFlow {
		if f = e.flows[r.Flow]; f == nil {
			return false
		}
		q.Flow = Shared{true, f.index, f.band()}
	}
	whole, path := r.WholePath && f != nil && len(r.Hops) > 0, 0
	if r.HasThrough {
		return false // a band of the difference of two fields is none of these
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		whole = whole && h.Has&HasLatency != 0
		hop := QuietHop{Latency: Band{Hi: math.MaxUint64}}
		if h.Has&HasNode == 0 || h.Has&HasLink != 0 {
			return false // each is counted; nor has the difference of two fields a band
		}
		if r.WholePath && f != nil && (path >= len(f.path) || f.path[path] != h.Node) {
			return false
		}
		path++
		if h.Has&HasLatency != 0 && f != nil {
			of := f.at(i, h.Node)
			if of == nil || !of.latency.has {
				return false
			}
			hop.Latency = e.Config.Thresholds[HopLatency].band(of.latency.reported)
		}
		if !e.quietPort(h, &hop) {
			return false
		}
		q.Hops = append(q.Hops, hop)
	}
	if r.WholePath && f != nil && path != len(f.path) {
		return false
	}
	if whole {
		q.Sum = e.Config.Thresholds[FlowLatency].band(f.latency.reported)
		return f.latency.has
	}
	return true
}

func (e *Engine) quietPort(h *Hop, hop *QuietHop) bool {
	at := h.port()
	if h.Has&HasCongestion != 0 || h.Has&HasFlag != 0 && h.Flag {
		return false
	}
	if h.Has&HasQueue != 0 && h.Has&(HasOccupancy|HasFlag) != 0 {
		q := e.queues[queueOf{at, h.Queue}]
		if q == nil || h.Has&HasOccupancy == 0 || !q.occupancy.has {
			return false
		}
		hop.Occupancy = Shared{true, q.index, e.queueBand(q)}
	}
	if h.Has&HasUtilization != 0 {
		l := e.links[at]
		if l == nil || !l.has {
			return false
		}
		hop.Utilization = Shared{true, l.index, e.linkBand(l)}
	}
	return true
}

// band is the flow's generation.
func (f *flow) band() Band { return Band{f.generation, f.generation} }

func (e *Engine) linkBand(l *link) Band {
	return e.Config.Thresholds[LinkUtilization].band(l.reported)
}

// queueBand is the band of occupancy in which neither that nor congestion changes.
func (e *Engine) queueBand(q *queue) Band {
	if !q.occupancy.has {
		return nothing
	}
	b := e.Config.Thresholds[QueueOccupancy].band(q.occupancy.reported)
	switch high := e.Config.Congested; {
	case high == 0 && q.isCongested(): // the next report without the flag ends it
		return nothing
	case high == 0:
	case !q.congestion.has:
		return nothing
	case q.isCongested():
		b.Lo = max(b.Lo, (high+1)/2)
	default:
		b.Hi = min(b.Hi, high)
	}
	return b
}

func (e *Engine) moved(index uint32, b Band) {
	if e.Moved != nil {
		e.Moved(index, b)
	}
}

// release frees an index at a time, Unix ns. Until somebody else has it, nothing lies in its band.
func (e *Engine) release(index uint32, now int64) {
	e.moved(index, nothing)
	e.shared.free = append(e.shared.free, freed{index, now})
}

// indices hands out small numbers, again when they have been free for long: so that whoever still
// knows the value that had one has time to forget.
type indices struct {
	next uint32
	most uint32
	free []freed // oldest first
}

type freed struct {
	index uint32
	at    int64
}

// take takes one that was free before a time, or a new one.
func (x *indices) take(before int64) uint32 {
	if len(x.free) > 0 && (x.free[0].at < before || x.next >= x.most) {
		index := x.free[0].index
		x.free = x.free[1:]
		return index
	}
	x.next++
	return x.next - 1
}

// at is what a flow has of a node, which is mostly its ith; nil if there is nothing.
func (f *flow) at(i int, node uint32) *hop {
	if i < len(f.hops) && f.hops[i].node == node {
		return &f.hops[i]
	}
	for i := range f.hops {
		if f.hops[i].node == node {
			return &f.hops[i]
		}
	}
	return nil
}

// Same takes n reports of which r is the last, and which Quiet has said to raise no event. r may
// be older than what the engine has heard since from others. known is false if something that r
// is about has been forgotten meanwhile: then the next such report is to be heard.
func (e *Engine) Same(r *Report, n uint64) (known bool) {
	e.Counts.Reports += n
	e.Counts.Unchanged += n
	var f *flow
	if r.HasFlow {
		f = e.flows[r.Flow]
	}
	known = !r.HasFlow || f != nil
	if f != nil {
		f.seen = max(f.seen, r.At)
	}
	sum, whole := uint64(0), r.WholePath && f != nil && len(r.Hops) > 0
	for i := range r.Hops {
		h := &r.Hops[i]
		whole = whole && h.Has&HasLatency != 0
		sum += h.LatencyNs
		if h.Has&HasLatency != 0 && e.Observe != nil {
			e.Observe(HopLatency, h.Node, h.LatencyNs)
		}
		if h.Has&HasLatency != 0 && f != nil {
			known = e.sameHop(f.at(i, h.Node), r.when(), h.LatencyNs, n) && known
		}
		known = e.samePort(r, h, n) && known
	}
	if whole {
		if e.Observe != nil {
			e.Observe(FlowLatency, 0, sum)
		}
		known = f.latency.same(r.when(), sum, n) && known
	}
	if r.WholePath && f != nil && f.path != nil {
		f.paths += n
		f.pathAt = max(f.pathAt, r.when())
	}
	return known
}

// sameHop is Same for what a flow has of a node.
func (e *Engine) sameHop(h *hop, at int64, ns, n uint64) (known bool) {
	if h == nil {
		return false
	}
	h.heard = e.Counts.Reports
	return h.latency.same(at, ns, n)
}

// samePort is Same for the queue and the link of a hop.
func (e *Engine) samePort(r *Report, h *Hop, n uint64) (known bool) {
	known = true
	at := h.port()
	if h.Has&HasQueue != 0 && h.Has&HasOccupancy != 0 {
		if q := e.queues[queueOf{at, h.Queue}]; q == nil {
			known = false
		} else {
			q.seen = max(q.seen, r.At)
			known = q.occupancy.same(r.when(), h.Occupancy, n)
			if e.Config.Congested > 0 {
				known = q.congestion.same(r.when(), q.congestion.reported, n) && known
			}
		}
	}
	if h.Has&HasUtilization != 0 {
		if l := e.links[at]; l == nil {
			known = false
		} else {
			l.seen = max(l.seen, r.At)
			known = l.same(r.when(), h.Utilization, n) && known
		}
	}
	return known
}

func (v *value) same(at int64, n, reports uint64) (known bool) {
	if v == nil || !v.has {
		return false
	}
	v.reports += reports
	if at >= v.at {
		v.latest, v.at = n, at
	}
	return true
}
