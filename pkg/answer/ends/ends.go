// SPDX-License-Identifier: Apache-2.0

// Package ends is how packets ended that no drop explains, by the paths that they went: where they were seen last, and in which
// circles they went round.
package ends

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
)

// Seen is a node where packets were seen last that expired.
type Seen struct {
	Node    string
	Packets uint64
	Ports   []Port // most first
}

// Port is a port of it.
type Port struct {
	Port    string
	Out     bool // they went out by it; else they came in
	Packets uint64
}

// Loop is a circle that packets went round in until they were lost.
type Loop struct {
	Path string
	Lost uint64 // packets
}

// Loops are those of paths, in the order of their text. truncated is how many packets went round for longer than their records
// have room for.
func Loops(paths []aggregate.PathRow) (list []Loop, truncated uint64) {
	lost := make(map[string]uint64)
	for _, row := range paths {
		first, again, ok := row.Loop()
		if ok && row.Truncated {
			truncated += row.Packets
		}
		if ok && row.Lost > 0 {
			lost[aggregate.PathText(straightHops(row.Hops[first:again+1]), false)] += row.Lost
		}
	}
	for _, loop := range slices.Sorted(maps.Keys(lost)) {
		list = append(list, Loop{loop, lost[loop]})
	}
	return list, truncated
}

// straightHops are hops as a path of their own.
func straightHops(hops []aggregate.PathHop) []aggregate.PathHop {
	hops = slices.Clone(hops)
	for i := range hops {
		hops[i].Prev, hops[i].Gap = nil, false
	}
	return hops
}

// mostSeen is how many nodes LastSeen names.
const mostSeen = 3

// LastSeen are the nodes and ports where most packets were seen last, and how many more nodes there are.
func LastSeen(paths []aggregate.PathRow) (nodes []Seen, more int) {
	for _, row := range paths {
		if row.Expired == 0 || len(row.Hops) == 0 {
			continue
		}
		last := row.Hops[len(row.Hops)-1]
		i := slices.IndexFunc(nodes, func(n Seen) bool { return n.Node == last.Node })
		if i < 0 {
			i, nodes = len(nodes), append(nodes, Seen{Node: last.Node})
		}
		nodes[i].add(&last, row.Expired)
	}
	slices.SortFunc(nodes, func(x, y Seen) int {
		return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.Node, y.Node))
	})
	for i := range nodes {
		slices.SortFunc(nodes[i].Ports, func(x, y Port) int {
			return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.way(), y.way()), cmp.Compare(x.Port, y.Port))
		})
	}
	if len(nodes) > mostSeen {
		nodes, more = nodes[:mostSeen], len(nodes)-mostSeen
	}
	return nodes, more
}

func (n *Seen) add(last *aggregate.PathHop, packets uint64) {
	port := Port{Port: last.Port, Out: last.Port != ""}
	if !port.Out {
		port.Port = last.InPort
	}
	i := slices.IndexFunc(n.Ports, func(p Port) bool { return p.Port == port.Port && p.Out == port.Out })
	if i < 0 {
		i, n.Ports = len(n.Ports), append(n.Ports, port)
	}
	n.Ports[i].Packets += packets
	n.Packets += packets
}

// way puts ports by which packets came in before those by which they went out.
func (p *Port) way() int {
	if p.Out {
		return 1
	}
	return 0
}

// AfterDelivery sums up rows of what was dropped after delivery, and apart from that what
// TCP has freed itself.
func AfterDelivery(rows []aggregate.LossRow) (drops, freed uint64) {
	for i := range rows {
		if rows[i].FreedByTCP() {
			freed += rows[i].Packets
		} else {
			drops += rows[i].Packets
		}
	}
	return drops, freed
}
