// SPDX-License-Identifier: Apache-2.0

// Package aggregate counts all packets measured since attach: which ways they took,
// how long that took, where they were lost. Its memory is bounded, and what did not
// fit is counted.
//
// A Collector follows the ring into Aggregates and keeps both in one snapshot file,
// so that any process continues at the very packet where the last one stopped.
// Every packet counts once; a train of segments counts as its segments.
//
// Nothing here is safe for concurrent use.
package aggregate

import (
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Bounds of what is kept apart.
const (
	MaxPaths  = 4096
	MaxNodes  = 4096  // as many as a domain may have
	MaxLinks  = 16384 // pairs of ports
	MaxPairs  = 16384 // pairs of nodes, end to end
	MaxPorts  = 16384
	MaxLosses = 8192 // places and reasons
)

// Totals counts packets by how they ended.
type Totals struct {
	Packets   uint64 `json:"packets"` // delivered, left, lost, expired or ignored
	Bytes     uint64 `json:"bytes"`   // IP bytes of these
	Delivered uint64 `json:"delivered"`
	Left      uint64 `json:"left"`
	Lost      uint64 `json:"lost"`
	Expired   uint64 `json:"expired"`
	Ignored   uint64 `json:"ignored"`
	// Moved are those of Expired that came to a node just as it got their address, or lost it:
	// whether they were delivered is not known.
	Moved uint64 `json:"address_moved"`

	// Unmeasured are packets beside Packets that were counted only, as sums of flows: what became of them is not known.
	Unmeasured      uint64 `json:"unmeasured,omitempty"`
	UnmeasuredBytes uint64 `json:"unmeasured_bytes,omitempty"`

	LocalDrops uint64 `json:"local_drops"` // delivered, then freed as a drop
	Truncated  uint64 `json:"truncated"`   // of all: some events are missing
	// QueueUnseen are waits in queues of which nothing saw the end (packet.Hop): the links behind
	// have them.
	QueueUnseen uint64 `json:"queue_waits_unseen"`

	InFlight uint64 `json:"in_flight"` // not ended, or not settled yet
	Unread   uint64 `json:"unread"`    // overwritten before they were read
	Torn     uint64 `json:"torn"`      // overwritten while they were read

	// Packets that are counted above but not in a table of their own, because it
	// was full.
	OverPaths  uint64 `json:"over_paths"`
	OverFlows  uint64 `json:"over_flows"`
	OverLinks  uint64 `json:"over_links"` // or port, or pair of nodes
	OverLosses uint64 `json:"over_losses"`
	OverSums   uint64 `json:"over_sums,omitempty"` // not counted anywhere else

	NoFlow    uint64 `json:"no_flow"`    // their header is not known
	OverOrder uint64 `json:"over_order"` // known too late for jitter and reordering
	Undated   uint64 `json:"undated,omitempty"`
}

// Aggregates is what has been counted.
type Aggregates struct {
	offset int64 // from stamps to Unix ns
	totals Totals
	paths  map[string]*path // by path key
	nodes  map[uint16]*nodeSums
	ports  map[uint16]*portSums
	links  map[ports]*linkSums
	pairs  map[nodePair]*latency
	all    *latency // end to end
	whole  meter    // all packets, when they set out

	losses     map[place]*tally
	localDrops map[place]*tally
	hits       int // flows in these

	flows    map[FlowKey]*flow
	sums     map[FlowKey]map[Place]*sum
	sumCount int // of all flows
	lastFlow *flow
	buckets  int // of all flows
	waiting  []arrival
	busy     []*flow // that have arrivals waiting
	seconds  int     // that meters may still remember

	unlisted path // for a packet whose path does not fit
	key      []byte
	written  [][]byte // the last snapshot, in chunks
	spare    [][]byte // room for the next

	// Scratch of settle.
	spareWaiting, list []arrival
	spareBusy          []*flow

	mostWaiting, mostBusy ofLate
}

// nodeSums is what passed a node: visits, and the times inside.
type nodeSums struct {
	times  latency
	visits meter
}

// portSums is what came in and went out by a port, and the times in its queue.
type portSums struct {
	in, out meter
	queue   latency
}

// linkSums is what passed a link: the times, and what came out at its end.
type linkSums struct {
	times  latency
	passed meter
}

// ports are the two ends of a link: egress, ingress.
type ports struct {
	From, To uint16
}

// nodePair is where packets began and ended.
type nodePair struct {
	From, To uint16
}

// path is one sequence of nodes and ports, with what its hops add to.
type path struct {
	id        uint32 // in order of appearance; noPath: not listed
	overFlows uint64 // packets whose flow may be one that is not counted
	sums      meter  // when they set out
	delivered uint64
	left      uint64
	lost      uint64
	expired   uint64
	ignored   uint64
	latency   *latency // delivered and left
	ends      []Ends   // of a tree, by hop

	hops []hopSums
	pair *latency
	over bool // one of these did not fit
}

// noPath is the id of the path that is not listed.
const noPath = 1<<32 - 1

// hopSums is what one hop of a path adds to; nil: not to be counted.
type hopSums struct {
	node    *nodeSums
	link    *linkSums // to this hop
	in, out *portSums
	end     *latency // from the begin to a branch that ends here
}

// New returns empty aggregates. offset turns stamps into Unix time; see
// backpack.Decoder.WallOffset.
func New(offset int64) *Aggregates {
	return &Aggregates{
		offset:     offset,
		paths:      make(map[string]*path),
		nodes:      make(map[uint16]*nodeSums),
		ports:      make(map[uint16]*portSums),
		links:      make(map[ports]*linkSums),
		pairs:      make(map[nodePair]*latency),
		all:        new(latency),
		losses:     make(map[place]*tally),
		localDrops: make(map[place]*tally),
		flows:      make(map[FlowKey]*flow),
		sums:       make(map[FlowKey]map[Place]*sum),
		seconds:    MaxSeconds,
		unlisted:   path{id: noPath, latency: new(latency)},
	}
}

// Add counts a packet whose end is final.
func (a *Aggregates) Add(p *packet.Packet) {
	n := uint64(p.Segs)
	t := &a.totals
	t.Packets += n
	t.Bytes += uint64(p.Len)
	if p.Truncated {
		t.Truncated += n
	}
	way := a.path(p)
	f := a.flow(p)
	switch p.State {
	case record.Delivered:
		t.Delivered += n
		way.delivered += n
	case record.Left:
		t.Left += n
		way.left += n
	case record.Lost:
		t.Lost += n
		way.lost += n
		if len(p.Drops) == 0 {
			a.tally(a.losses, p, &p.Loss, -1, f)
		}
	case record.Expired:
		t.Expired += n
		way.expired += n
		if p.Missing {
			a.tally(a.losses, p, &p.Loss, -1, f)
		}
		if p.Moved {
			t.Moved += n
		}
	case record.Ignored:
		t.Ignored += n
		way.ignored += n
	}
	if p.LocalDrop {
		t.LocalDrops += n
		a.tally(a.localDrops, p, &p.Loss, -1, f)
	}
	if p.Tree {
		a.addBranchDrops(p, f)
		way.addEnds(p)
	}
	switch {
	case f != nil:
		a.countFlow(f, way, p)
	case p.HasTuple:
		way.overFlows += n
	}
	a.addHops(way, p)
}

// addHops adds a packet to all that its hops add to and, if it arrived, its time to
// the whole.
func (a *Aggregates) addHops(way *path, p *packet.Packet) {
	n, size := uint64(p.Segs), uint64(p.Len)
	if way.over {
		a.totals.OverLinks += n
	}
	clock := clockOf(p, a.offset)
	a.whole.add(clock.first, n, size, &a.seconds)
	way.sums.add(clock.first, n, size, &a.seconds)
	for i := range p.Hops {
		h, to := &p.Hops[i], &way.hops[i]
		out := clock.at(h.OutNs)
		came := out // it began here, only left by a bridge's member, or was noted late
		if h.InNs != packet.NoTime {
			came = clock.at(h.InNs)
		}
		if to.node != nil {
			to.node.times.add(h.NodeNs(), n)
			to.node.visits.add(came, n, size, &a.seconds)
		}
		if to.link != nil {
			to.link.times.add(p.LinkNs(i), n)
			to.link.passed.add(came, n, size, &a.seconds)
		}
		if to.in != nil {
			to.in.in.add(came, n, size, &a.seconds)
		}
		if to.out != nil {
			to.out.out.add(out, n, size, &a.seconds)
			to.out.queue.add(h.QueueNs(), n)
		}
		if h.QueueUnseen {
			a.totals.QueueUnseen += n
		}
		if to.end != nil && (h.Outcome == record.Delivered || h.Outcome == record.Left) {
			to.end.add(p.StampNs(i), n)
		}
	}
	if p.State == record.Delivered || p.State == record.Left {
		way.latency.add(p.LatencyNs, n)
		a.all.add(p.LatencyNs, n)
		if way.pair != nil {
			way.pair.add(p.LatencyNs, n)
		}
	}
}

// clock turns the times of one packet into moments.
type clock struct {
	first moment // of the first stamp
	left  int64  // ns of its second that were left
}

func clockOf(p *packet.Packet, offset int64) clock {
	ns := int64(p.T0) + offset
	second := ns / 1e9
	return clock{moment{ns, uint32(second)}, (second+1)*1e9 - ns}
}

// at is ns after the first stamp. Most packets end in the second in which they began.
func (c *clock) at(ns int64) moment {
	if ns < c.left {
		return moment{c.first.ns + ns, c.first.second}
	}
	return moment{c.first.ns + ns, uint32((c.first.ns + ns) / 1e9)}
}

// get returns m[k], which it makes if there are fewer than limit; else nil, and
// sets over.
func get[K comparable, V any](m map[K]*V, k K, limit int, over *bool) *V {
	v := m[k]
	if v == nil && len(m) < limit {
		v = new(V)
		m[k] = v
	}
	if v == nil {
		*over = true
	}
	return v
}
