// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// fitHops makes slots large enough for the longest path of a new domain, unless the user has
// said how long paths are, or says that they are too small.
func (p *plan) fitHops() error {
	d := p.change.next
	longest, room := longestPath(d), program.HopsIn(d.Options.SlotBytes)
	if longest <= room || p.change.old != nil && len(p.change.addedNodes) == 0 {
		return nil
	}
	switch {
	case p.change.old != nil:
		p.warnHops(longest, "a domain keeps its slots: detach it and attach all nodes at once for larger ones")
		return nil
	case p.blueprint.Options.MaxHops != 0:
		p.warnHops(longest, fmt.Sprintf("use ‹max-hops› %d, or leave it out", min(longest, program.HopsIn(program.MaxSlotBytes))))
		return nil
	}
	was := *p.blueprint.Layout
	larger := was
	larger.GrowFor(longest, d.Options.IPv6 != program.IPv6Off)
	b, err := program.New(p.blueprint.Options, &larger, p.features)
	if err != nil {
		return err
	}
	if err := b.Memory.Fits(); err != nil {
		p.warnHops(longest, fmt.Sprintf("slots of %d bytes would need more memory than there is: use fewer ‹slots›", larger.SlotBytes))
		return nil
	}
	p.blueprint, d.Options.SlotBytes = b, larger.SlotBytes
	if room = program.HopsIn(larger.SlotBytes); longest > room {
		p.warnHops(longest, "slots cannot be larger")
		return nil
	}
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(
		"the longest path has %d nodes: a slot has %d bytes for that, instead of %d (‹max-hops› decides otherwise)",
		longest, larger.SlotBytes, was.SlotBytes))
	return nil
}

// warnHops says that paths may be longer than records.
func (p *plan) warnHops(longest int, do string) {
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(
		"the longest path has %d nodes, and a record has room for %d: of packets that pass more, begin and end are known, nodes in between are missing (%s)",
		longest, program.HopsIn(p.change.next.Options.SlotBytes), do))
}

// longestPath is the number of nodes on the longest of the shortest paths between two nodes of
// the domain, both included: routes may be longer, and where they go in circles without end.
func longestPath(d *domain.Domain) int {
	links := linksOf(d)
	longest := 0
	for from := range links.nodes {
		longest = max(longest, links.farthest(from))
	}
	return longest
}

// links are the domain's nodes and what connects them: a link is known by the number of its
// first port, or by its name.
type links struct {
	nodes map[uint16][]string // links of each node
	ends  map[string][]uint16 // nodes of each link
}

func linksOf(d *domain.Domain) links {
	l := links{nodes: make(map[uint16][]string), ends: make(map[string][]uint16)}
	for i := range d.Nodes {
		if n := &d.Nodes[i]; !n.Removed && !n.Auto {
			l.nodes[n.ID] = nil
		}
	}
	connect := func(node uint16, link string) {
		if _, member := l.nodes[node]; !member {
			return
		}
		l.nodes[node] = append(l.nodes[node], link)
		l.ends[link] = append(l.ends[link], node)
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		switch {
		case p.Removed:
		case p.VM != 0:
			connect(p.Node, fmt.Sprint("vm ", p.VM))
		case p.Link != "":
			connect(p.Node, "link "+p.Link)
		case p.Peer >= 0:
			connect(p.Node, fmt.Sprint("pair ", min(int(p.ID), p.Peer)))
		}
	}
	return l
}

// farthest is how many nodes lie on the shortest path to the node that is farthest away.
func (l *links) farthest(from uint16) int {
	seen, used := map[uint16]bool{from: true}, make(map[string]bool)
	depth := 0
	for at := []uint16{from}; len(at) > 0; depth++ {
		var next []uint16
		for _, node := range at {
			for _, link := range l.nodes[node] {
				if used[link] {
					continue
				}
				used[link] = true
				for _, end := range l.ends[link] {
					if !seen[end] {
						seen[end] = true
						next = append(next, end)
					}
				}
			}
		}
		at = next
	}
	return depth
}
