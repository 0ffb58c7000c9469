// SPDX-License-Identifier: Apache-2.0

package packet

import "strconv"

// Numbers that a Registry gives lie between those of a domain's nodes and ports, and those of its
// virtual machines' ports (VMSide).
const (
	firstNumber = 1 << 14
	maxNumbers  = 1 << 14
)

// Registry gives numbers to nodes and ports that have none: those that a switch's reports name.
// It is the Scope of these and of a domain's packets.
type Registry struct {
	Domain  Scope  // nil: there is none, and stamps are Unix time
	Machine string // what Host says without a domain

	nodes []node
	ports []port
	node  map[string]uint16
	port  map[port]uint16 // those that are in no node's list
	// Over counts visits of nodes and ports for which there was no number: they are "?".
	Over uint64
}

type node struct {
	name string
	low  []uint16 // numbers of ports that are called 0, 1, 2 ...; 0: it has none
}

// port is one of a node, which calls its ports by numbers.
type port struct {
	node   uint16
	called uint64
}

// lowPorts is how many ports of a node are in its list: two bytes each.
const lowPorts = 256

// NodeName is the name of a node (Names).
func (g *Registry) NodeName(node uint16) string {
	if i := int(node) - firstNumber; i >= 0 && i < len(g.nodes) {
		return g.nodes[i].name
	}
	if g.Domain == nil || g.isOurs(node) {
		return "?"
	}
	return g.Domain.NodeName(node)
}

// PortName is the name of a port.
func (g *Registry) PortName(port uint16) string {
	if i := int(port) - firstNumber; i >= 0 && i < len(g.ports) {
		return strconv.FormatUint(g.ports[i].called, 10)
	}
	if g.Domain == nil || g.isOurs(port) {
		return ""
	}
	return g.Domain.PortName(port)
}

// PortNode is the node that a port belongs to.
func (g *Registry) PortNode(port uint16) uint16 {
	if i := int(port) - firstNumber; i >= 0 && i < len(g.ports) {
		return g.ports[i].node
	}
	if g.Domain == nil || g.isOurs(port) {
		return NoNode
	}
	return g.Domain.PortNode(port)
}

// WallOffset is that of the domain's stamps.
func (g *Registry) WallOffset() int64 {
	if g.Domain == nil {
		return 0
	}
	return g.Domain.WallOffset()
}

// Host is the machine that measured the domain's packets.
func (g *Registry) Host() string {
	if g.Domain == nil {
		return g.Machine
	}
	return g.Domain.Host()
}

func (g *Registry) isOurs(number uint16) bool {
	return number >= firstNumber && number < firstNumber+maxNumbers
}

// Node is the number of the node of that name; NoNode of "?", and where there are too many.
func (g *Registry) Node(name string) uint16 {
	if number, ok := g.node[name]; ok {
		return number
	}
	if name == "?" {
		return NoNode
	}
	if len(g.nodes) >= maxNumbers {
		g.Over++
		return NoNode
	}
	if g.node == nil {
		g.node, g.port = make(map[string]uint16), make(map[port]uint16)
	}
	number := uint16(firstNumber + len(g.nodes))
	g.nodes, g.node[name] = append(g.nodes, node{name: name}), number
	return number
}

// Port is the number of a node's port that the node calls by a number of its own; NoPort of an
// unknown node's, and where there are too many.
func (g *Registry) Port(of uint16, called uint64) uint16 {
	if !g.isOurs(of) {
		return NoPort
	}
	n := &g.nodes[of-firstNumber]
	if called < uint64(len(n.low)) && n.low[called] != 0 {
		return n.low[called]
	}
	key := port{of, called}
	if number, ok := g.port[key]; ok {
		return number
	}
	if len(g.ports) >= maxNumbers {
		g.Over++
		return NoPort
	}
	number := uint16(firstNumber + len(g.ports))
	g.ports = append(g.ports, key)
	if called >= lowPorts {
		g.port[key] = number
		return number
	}
	for uint64(len(n.low)) <= called {
		n.low = append(n.low, 0)
	}
	n.low[called] = number
	return number
}
