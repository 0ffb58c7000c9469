// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// The longest path is that between the nodes that are farthest from each other, over pairs,
// bridges and virtual machines; what is gone, or was only found, is no node on it.
func TestLongestPath(t *testing.T) {
	d := &domain.Domain{}
	node := func(id uint16, name string) { d.Nodes = append(d.Nodes, domain.Node{ID: id, Name: name}) }
	port := func(p domain.Port) {
		p.ID = uint16(len(d.Ports))
		d.Ports = append(d.Ports, p)
	}
	pair := func(a, b uint16) {
		n := len(d.Ports)
		port(domain.Port{Node: a, Peer: n + 1})
		port(domain.Port{Node: b, Peer: n})
	}
	want := func(n int, what string) {
		t.Helper()
		if got := LongestPath(d); got != n {
			t.Errorf("%s: %d nodes, want %d", what, got, n)
		}
	}
	want(0, "no node")
	for id := range uint16(14) {
		node(id+1, fmt.Sprint("r", id))
		want(1, "nodes without links")
	}
	for id := range uint16(11) {
		pair(id+1, id+2) // 1 - 2 - ... - 12
	}
	want(12, "a chain")
	pair(1, 7)
	want(9, "with a short cut")
	for _, id := range []uint16{12, 13, 14} {
		port(domain.Port{Node: id, Peer: -1, Link: "host/br0"})
	}
	want(10, "and a bridge behind it")
	d.Nodes = append(d.Nodes, domain.Node{ID: 20, Name: "host", Auto: true})
	port(domain.Port{Node: 20, Peer: -1, Link: "host/br0", Place: domain.Bridge})
	want(10, "the bridge's namespace is no node on the way")
	node(21, "far")
	port(domain.Port{Node: 14, Peer: -1, VM: 30})
	port(domain.Port{Node: 21, Peer: -1, VM: 30})
	want(11, "and a virtual machine behind that")
	for i := range d.Ports {
		if p := &d.Ports[i]; p.Node == 14 {
			p.Removed = true
		}
	}
	want(10, "without the node that led there")
}
