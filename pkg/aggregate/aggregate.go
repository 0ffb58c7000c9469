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
	"encoding/binary"

	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/record"
)

// Bounds of what is kept apart.
const (
	MaxPaths  = 4096
	MaxFlows  = 262144 // over all paths
	MaxNodes  = 4096   // as many as a domain may have
	MaxLinks  = 16384  // pairs of ports
	MaxPairs  = 16384  // pairs of nodes, end to end
	MaxLosses = 8192   // places and reasons
)

// Totals counts packets by how they ended.
type Totals struct {
	Packets   uint64 `json:"packets"` // delivered, left, lost or expired
	Bytes     uint64 `json:"bytes"`   // IP bytes of these
	Delivered uint64 `json:"delivered"`
	Left      uint64 `json:"left"`
	Lost      uint64 `json:"lost"`
	Expired   uint64 `json:"expired"`

	LocalDrops uint64 `json:"local_drops"` // delivered, then freed as a drop
	Truncated  uint64 `json:"truncated"`   // of all: some events are missing

	InFlight uint64 `json:"in_flight"` // not ended, or not settled yet
	Unread   uint64 `json:"unread"`    // overwritten before they were read
	Torn     uint64 `json:"torn"`      // overwritten while they were read

	// Packets that are counted above but not in a table of their own, because it
	// was full.
	OverPaths  uint64 `json:"over_paths"`
	OverFlows  uint64 `json:"over_flows"`
	OverLinks  uint64 `json:"over_links"` // or pair of nodes
	OverLosses uint64 `json:"over_losses"`
}

// Aggregates is what has been counted.
type Aggregates struct {
	totals Totals
	paths  map[string]*path // by path key
	nodes  map[uint16]*latency
	links  map[ports]*latency
	pairs  map[nodePair]*latency
	all    *latency // end to end

	losses     map[place]*tally
	localDrops map[place]*tally
	flows      map[uint64]struct{} // hashes of path and flow

	unlisted path // for a packet whose path does not fit
	key      []byte
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
	id        uint64 // in order of appearance
	packets   uint64
	bytes     uint64
	flows     uint64
	overFlows uint64 // packets whose flow may be a further one
	delivered uint64
	left      uint64
	lost      uint64
	expired   uint64
	latency   *latency // delivered and left

	nodes []*latency // for each hop; nil: not to be counted
	links []*latency
	pair  *latency
	over  bool // one of these did not fit
}

// New returns empty aggregates.
func New() *Aggregates {
	return &Aggregates{
		paths:      make(map[string]*path),
		nodes:      make(map[uint16]*latency),
		links:      make(map[ports]*latency),
		pairs:      make(map[nodePair]*latency),
		all:        newLatency(),
		losses:     make(map[place]*tally),
		localDrops: make(map[place]*tally),
		flows:      make(map[uint64]struct{}),
		unlisted:   path{latency: newLatency()},
	}
}

// Add counts a packet whose end is final.
func (a *Aggregates) Add(p *backpack.Packet) {
	n := uint64(p.Segs)
	t := &a.totals
	t.Packets += n
	t.Bytes += uint64(p.Len)
	if p.Truncated {
		t.Truncated += n
	}
	way := a.path(p)
	way.packets += n
	way.bytes += uint64(p.Len)
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
		a.tally(a.losses, p)
	case record.Expired:
		t.Expired += n
		way.expired += n
	}
	if p.LocalDrop {
		t.LocalDrops += n
		a.tally(a.localDrops, p)
	}
	a.countFlow(way, p)
	a.addTimes(way, p)
}

// addTimes adds the times of a packet to its hops and, if it arrived, to the whole.
func (a *Aggregates) addTimes(way *path, p *backpack.Packet) {
	n := uint64(p.Segs)
	if way.over {
		a.totals.OverLinks += n
	}
	for i := range p.Hops {
		if way.nodes[i] != nil {
			way.nodes[i].add(p.Hops[i].NodeNs(), n)
		}
		if way.links[i] != nil {
			way.links[i].add(p.LinkNs(i), n)
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

// hopBytes is the length of one hop in a path key.
const hopBytes = 6

// path returns the path of a packet. Paths of packets with missing events are kept
// apart from those that are known in full.
func (a *Aggregates) path(p *backpack.Packet) *path {
	a.key = append(a.key[:0], 0)
	if p.Truncated {
		a.key[0] = 1
	}
	for i := range p.Hops {
		h := &p.Hops[i]
		a.key = binary.LittleEndian.AppendUint16(a.key, h.Node)
		a.key = binary.LittleEndian.AppendUint16(a.key, h.In)
		a.key = binary.LittleEndian.AppendUint16(a.key, h.Out)
	}
	if way, ok := a.paths[string(a.key)]; ok {
		return way
	}
	if len(a.paths) >= MaxPaths {
		a.totals.OverPaths += uint64(p.Segs)
		a.connect(&a.unlisted, string(a.key))
		return &a.unlisted
	}
	way := &path{id: uint64(len(a.paths)), latency: newLatency()}
	key := string(a.key)
	a.paths[key] = way
	a.connect(way, key)
	return way
}

// pathHop is one hop of a path key.
type pathHop struct {
	node, in, out uint16
}

// keyHops takes a path key apart.
func keyHops(key string) []pathHop {
	hops := make([]pathHop, 0, len(key)/hopBytes)
	for b := []byte(key[1:]); len(b) >= hopBytes; b = b[hopBytes:] {
		le := binary.LittleEndian
		hops = append(hops, pathHop{le.Uint16(b), le.Uint16(b[2:]), le.Uint16(b[4:])})
	}
	return hops
}

// connect finds what the hops of a path add to, once for all its packets.
func (a *Aggregates) connect(way *path, key string) {
	hops := keyHops(key)
	way.nodes, way.links, way.pair, way.over = way.nodes[:0], way.links[:0], nil, false
	for i, h := range hops {
		var node, link *latency
		if h.node != backpack.NoNode {
			node = get(a.nodes, h.node, MaxNodes, &way.over)
		}
		to := h.in
		if to == backpack.NoPort && i == len(hops)-1 {
			to = h.out // left by a bridge's member, where the link ends
		}
		if i > 0 && hops[i-1].out != backpack.NoPort && to != backpack.NoPort {
			link = get(a.links, ports{hops[i-1].out, to}, MaxLinks, &way.over)
		}
		way.nodes = append(way.nodes, node)
		way.links = append(way.links, link)
	}
	if n := len(hops); n > 0 && key[0] == 0 {
		way.pair = get(a.pairs, nodePair{hops[0].node, hops[n-1].node}, MaxPairs, &way.over)
	}
}

// get returns m[k], which it makes if there are fewer than limit; else nil, and
// sets over.
func get[K comparable](m map[K]*latency, k K, limit int, over *bool) *latency {
	l := m[k]
	if l == nil && len(m) < limit {
		l = newLatency()
		m[k] = l
	}
	if l == nil {
		*over = true
	}
	return l
}
