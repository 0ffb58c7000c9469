// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// PartKind is where a packet spent time.
type PartKind string

// The kinds. Rest is what no stamps are of: hops that are missing, and virtual machines.
const (
	InNode  PartKind = "node"
	InQueue PartKind = "queue"
	OnLink  PartKind = "link"
	Rest    PartKind = "rest"
)

// Part is a part of the latency of a path.
type Part struct {
	Kind   PartKind `json:"part"`
	Name   string   `json:"name"`    // "r1", "r1/eth1", "r1/eth1 > r2/eth0"
	Mean   int64    `json:"mean_ns"` // over all packets of the path; of one that did not wait a queue has 0
	Waited uint64   `json:"waited,omitempty"`
}

// PathParts is a path, and what its latency consists of.
type PathParts struct {
	PathRow
	Timed uint64 // packets whose latency and its parts are known
	Mean  int64  // latency of these, ns
	Parts []Part // in order of the path; their means make up that of the path
}

// Parts counts packets by path, and what their latencies consist of. The snapshot of an agent does not have that: Parts is
// for who asks, and is filled from the ring.
type Parts struct {
	all   *Aggregates
	paths map[string]*partSums
}

// partSums are of the packets of one path that were delivered or left, with a latency.
type partSums struct {
	packets uint64
	ns      float64 // what a recording claims may be more than an integer has
	hops    []hopParts
}

// hopParts are the times of one hop, ns, of all packets together, and how many waited in the queue.
type hopParts struct {
	link, node, queue float64
	waited            uint64
}

// NewParts returns an empty one; offset is as for New.
func NewParts(offset int64) *Parts {
	return &Parts{all: New(offset), paths: make(map[string]*partSums)}
}

// Add counts a packet whose end is final.
func (c *Parts) Add(p *packet.Packet) {
	plain := *p
	plain.HasTuple = false // flows have no parts
	c.all.Add(&plain)
	if p.State != record.Delivered && p.State != record.Left || p.LatencyNs < 0 || p.Tree {
		return
	}
	key := string(c.all.key) // that Add has made
	if c.all.paths[key] == nil {
		return // there was no room for the path
	}
	s := c.paths[key]
	if s == nil {
		s = &partSums{hops: make([]hopParts, len(p.Hops))}
		c.paths[key] = s
	}
	n := float64(p.Segs)
	s.packets += uint64(p.Segs)
	s.ns += float64(p.LatencyNs) * n
	for i := range p.Hops {
		to, h := &s.hops[i], &p.Hops[i]
		to.link += float64(max(p.LinkNs(i), 0)) * n
		to.node += float64(max(h.NodeNs(), 0)) * n
		if wait := h.QueueNs(); wait >= 0 && i+1 < len(p.Hops) { // behind the last stamp nothing counts
			to.queue += float64(wait) * n
			to.waited += uint64(p.Segs)
		}
	}
}

// Paths are Aggregates.Paths, each with its parts.
func (c *Parts) Paths(names packet.Names) []PathParts {
	ways, of := c.all.waysByName(names)
	sums := make(map[*way]*partSums)
	for _, key := range sortedPaths(c.paths) {
		w := of[c.all.paths[key].id]
		if sums[w] == nil {
			sums[w] = &partSums{hops: make([]hopParts, len(w.row.Hops))}
		}
		sums[w].merge(c.paths[key])
	}
	rows := make([]PathParts, len(ways))
	for i, w := range ways {
		rows[i] = PathParts{PathRow: w.pathRow()}
		if s := sums[w]; s != nil && s.packets > 0 {
			rows[i].Timed = s.packets
			rows[i].Mean = int64(s.ns / float64(s.packets))
			rows[i].Parts = s.parts(w.row.Hops)
		}
	}
	slices.SortFunc(rows, func(a, b PathParts) int { return comparePaths(&a.PathRow, &b.PathRow) })
	return rows
}

func sortedPaths(paths map[string]*partSums) []string {
	keys := make([]string, 0, len(paths))
	for key := range paths {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// merge adds the sums of a path with the same names.
func (s *partSums) merge(o *partSums) {
	s.packets, s.ns = s.packets+o.packets, s.ns+o.ns
	for i := range o.hops {
		h := &s.hops[i]
		h.link += o.hops[i].link
		h.node += o.hops[i].node
		h.queue += o.hops[i].queue
		h.waited += o.hops[i].waited
	}
}

// parts are the sums as means, in the order in which packets spend the time.
func (s *partSums) parts(hops []PathHop) (list []Part) {
	rest := s.ns
	add := func(kind PartKind, name string, ns float64, waited uint64) {
		if ns > 0 {
			list = append(list, Part{kind, name, int64(ns / float64(s.packets)), waited})
			rest -= ns
		}
	}
	for i, h := range hops {
		if i > 0 {
			from := hops[i-1]
			add(OnLink, from.Node+"/"+from.Port+" > "+h.Node+"/"+h.InPort, s.hops[i].link, 0)
		}
		add(InNode, h.Node, s.hops[i].node, 0)
		add(InQueue, h.Node+"/"+h.Port, s.hops[i].queue, s.hops[i].waited)
	}
	if rest/float64(s.packets) >= 1 {
		add(Rest, "rest", rest, 0)
	}
	return list
}

// comparePaths is the order of rows: those with most packets first.
func comparePaths(a, b *PathRow) int {
	return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Path, b.Path), slices.CompareFunc(a.Hops, b.Hops, compareHops))
}
