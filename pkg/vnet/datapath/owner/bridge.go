// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// taken is a bridge of the topology that belongs to another domain.
type taken struct {
	index  int // in Topology.Bridges
	domain string
	node   string // of that domain: a closing node, or one that the bridge lies in
	inside bool   // the latter
}

// findTaken finds the bridges that domains other than the named one are closed
// around, or have inside a node. Two domains cannot share one: each would have to
// restore what the other marks.
func findTaken(name string, t *topo.Topology) ([]taken, error) {
	if len(t.Bridges) == 0 {
		return nil, nil
	}
	others, err := otherDomains(name)
	if err != nil {
		return nil, err
	}
	var list []taken
	for _, d := range others {
		for i := range t.Bridges {
			if node, inside, ok := ownerOf(d, t, &t.Bridges[i]); ok {
				list = append(list, taken{i, d.Name, node, inside})
			}
		}
	}
	return list, nil
}

// ownerOf says which node of the domain has a bridge, and whether inside it.
func ownerOf(d *domain.Domain, t *topo.Topology, b *topo.Bridge) (node string, inside, ok bool) {
	spec := t.Nodes[b.Node].NodeSpec
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Removed || n.Inum != spec.Inum || !present(d, n, spec) {
			continue
		}
		if !n.Auto {
			return n.Name, true, true
		}
		for _, p := range d.Ports {
			if !p.Removed && p.Node == n.ID && p.Place == domain.Bridge && p.Ifindex == b.Ifindex {
				return n.Name, false, true
			}
		}
	}
	return "", false, false
}

// CheckBridges is fault.Usage if a bridge that the domain had to be closed around is
// another domain's.
func CheckBridges(name string, t *topo.Topology) error {
	list, err := findTaken(name, t)
	if err != nil || len(list) == 0 {
		return err
	}
	first := list[0]
	b := &t.Bridges[first.index]
	ends := ""
	for _, n := range t.Nodes {
		for _, p := range n.Ports {
			if p.Link == t.Link(b) && p.Place == "" && ends == "" {
				ends = n.Name + "/" + p.Name
			}
		}
	}
	why := "is closed around it already"
	if first.inside {
		why = "has it inside node " + first.node
	}
	return fault.Usage.Errorf("%s hangs on bridge %s, and domain %q %s: a bridge belongs to one domain (attach the nodes on it there with ‹domain› %s, or detach that one first)", ends, t.Link(b), first.domain, why, first.domain)
}

// OpenBridges takes such bridges out of the topology: a node of the domain was moved
// to one while the domain runs, and must not mark toward it.
func OpenBridges(name string, t *topo.Topology) error {
	list, err := findTaken(name, t)
	if err != nil {
		return err
	}
	owner := make(map[int]string)
	for _, k := range list {
		owner[k.index] = k.domain
	}
	for i := len(t.Bridges) - 1; i >= 0; i-- { // from the last: Open removes it
		if other, ok := owner[i]; ok {
			t.Notes = append(t.Notes, fmt.Sprintf("bridge %s belongs to domain %q: ports of this domain on it are edges", t.Link(&t.Bridges[i]), other))
			t.Open(i)
		}
	}
	return nil
}
