// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// LongestPath is the number of nodes on the longest of the shortest paths between two nodes of
// the domain, both included: routes may be longer, and where they go in circles without end.
func LongestPath(d *domain.Domain) int {
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
