// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"net/netip"
)

// Topology is the network that was captured. It comes from the lab, not from
// radar.
type Topology struct {
	Nodes []Node
}

// Node is one network namespace.
type Node struct {
	Name  string
	Addrs []netip.Addr // packets to these end here
	Ports []Port
}

// Port is an interface of a node.
type Port struct {
	Name  string
	Index int    // interface index, as captures name it
	Peer  Ref    // the other end of its link
	Queue *Queue // nil: what leaves here does not wait
	Addrs []netip.Prefix
}

// Queue is a queueing discipline that makes packets wait and drops them.
type Queue struct {
	Kind string // "tbf"
	// MaxBytes is the longest train that it takes as a whole, with Ethernet
	// headers; longer ones are cut into segments. 0: every train is cut.
	MaxBytes int
}

// Ref names a port.
type Ref struct{ Node, Port string }

func (r Ref) String() string { return r.Node + "/" + r.Port }

// validate makes sure that every link has two ends that name each other.
func (t *Topology) validate() error {
	seen := map[string]bool{}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if seen[n.Name] {
			return fmt.Errorf("node %q is there twice", n.Name)
		}
		seen[n.Name] = true
		for _, p := range n.Ports {
			here := Ref{n.Name, p.Name}
			peer := t.port(p.Peer)
			if peer == nil {
				return fmt.Errorf("port %s: its peer %s is not part of the topology", here, p.Peer)
			}
			if peer.Peer != here {
				return fmt.Errorf("port %s says its peer is %s, which says %s", here, p.Peer, peer.Peer)
			}
		}
	}
	return nil
}

func (t *Topology) node(name string) *Node {
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return &t.Nodes[i]
		}
	}
	return nil
}

func (t *Topology) port(r Ref) *Port {
	n := t.node(r.Node)
	if n == nil {
		return nil
	}
	for i := range n.Ports {
		if n.Ports[i].Name == r.Port {
			return &n.Ports[i]
		}
	}
	return nil
}

// owns reports whether packets to that address end at that node.
func (t *Topology) owns(node string, addr netip.Addr) bool {
	n := t.node(node)
	if n == nil {
		return false
	}
	for _, a := range n.Addrs {
		if a == addr {
			return true
		}
	}
	return false
}
