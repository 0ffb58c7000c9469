// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Class says what a node is, for who draws it.
type Class string

// The classes. A bridge is the namespace of one, found by radar; a switch forwards by packet sockets in user space; a
// reported node is known by telemetry reports alone.
const (
	Namespace Class = "namespace"
	Container Class = "container"
	Machine   Class = "vm"
	Bridge    Class = "bridge"
	Switch    Class = "switch"
	P4        Class = "p4"
	Reported  Class = "reported"
)

// p4Processes are what processes are called, as the kernel cuts names, that run P4 programs.
var p4Processes = []string{"simple_switch", "simple_switch_g", "simple_switch_grpc", "psa_switch", "pna_nic"}

func classOf(n *answer.Node) Class {
	kind, _, _ := strings.Cut(n.Spec, ":")
	switch {
	case n.VM:
		return Machine
	case n.Auto:
		return Bridge
	case slices.Contains(p4Processes, n.Switch):
		return P4
	case n.Switch != "":
		return Switch
	case kind == "docker" || kind == "kathara":
		return Container
	}
	return Namespace
}

// ReportedTopology is that of a domain of which there are reports alone: nothing is known before AddReported.
func ReportedTopology(name string) *Topology {
	return &Topology{Domain: name, Nodes: []TopologyNode{}, Links: []Link{}}
}

// AddReported adds nodes and links that paths reveal and the topology does not have: those of switches that have
// reported packets.
func (t *Topology) AddReported(c *answer.Counts) {
	known := make(map[string]bool) // links, by their ends
	for i := range t.Links {
		for j := range t.Links[i].Ends {
			for k := range t.Links[i].Ends {
				known[t.Links[i].Ends[j].String()+">"+t.Links[i].Ends[k].String()] = true
			}
		}
	}
	for _, row := range c.Paths().List {
		for i := range row.Hops {
			h := &row.Hops[i]
			t.addReportedNode(h)
			if prev := row.PrevOf(i); prev >= 0 && !h.Gap && !row.Truncated {
				t.addReportedLink(&row.Hops[prev], h, known)
			}
		}
	}
}

func (t *Topology) addReportedNode(h *aggregate.PathHop) {
	n := t.Node(h.Node)
	if n == nil {
		t.Nodes = append(t.Nodes, TopologyNode{Node: answer.Node{Name: h.Node, ID: uint16(h.NodeID)}, Class: Reported, Ports: []TopologyPort{}})
		n = &t.Nodes[len(t.Nodes)-1]
	}
	if n.Class != Reported {
		return
	}
	for _, port := range []string{h.InPort, h.Port} {
		if port != "" && !slices.ContainsFunc(n.Ports, func(p TopologyPort) bool { return p.Name == port }) {
			n.Ports = append(n.Ports, TopologyPort{Port: answer.Port{Name: port, Role: domain.Internal}})
		}
	}
}

// addReportedLink adds a link to or from a node that was reported.
func (t *Topology) addReportedLink(from, to *aggregate.PathHop, known map[string]bool) {
	a, b := LinkEnd{Node: from.Node, Port: from.Port, Role: domain.Internal}, LinkEnd{Node: to.Node, Port: to.InPort, Role: domain.Internal}
	if t.Node(a.Node).Class != Reported && t.Node(b.Node).Class != Reported || known[a.String()+">"+b.String()] {
		return
	}
	known[a.String()+">"+b.String()], known[b.String()+">"+a.String()] = true, true
	t.Links = append(t.Links, Link{Kind: PairLink, Ends: []LinkEnd{a, b}})
}
