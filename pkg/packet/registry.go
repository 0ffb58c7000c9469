// SPDX-License-Identifier: Apache-2.0

package packet

// Numbers that a Registry gives lie between those of a domain's nodes and ports, and those of its
// virtual machines' ports (VMSide).
const (
	firstNumber = 1 << 14
	maxNumbers  = 1 << 14
)

// Registry gives numbers to nodes and ports that have none: those that a switch's reports name.
// It is the Names of these and of a domain's.
type Registry struct {
	Domain Names // nil: there is none

	nodes []string
	ports []portOf
	node  map[string]uint16
	port  map[portOf]uint16
	// Over counts visits of nodes and ports for which there was no number: they are "?".
	Over uint64
}

type portOf struct {
	node uint16
	name string
}

// NodeName is the name of a node (Names).
func (g *Registry) NodeName(node uint16) string {
	if i := int(node) - firstNumber; i >= 0 && i < len(g.nodes) {
		return g.nodes[i]
	}
	if g.Domain == nil || g.isOurs(node) {
		return "?"
	}
	return g.Domain.NodeName(node)
}

// PortName is the name of a port.
func (g *Registry) PortName(port uint16) string {
	if i := int(port) - firstNumber; i >= 0 && i < len(g.ports) {
		return g.ports[i].name
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
		g.node, g.port = make(map[string]uint16), make(map[portOf]uint16)
	}
	number := uint16(firstNumber + len(g.nodes))
	g.nodes, g.node[name] = append(g.nodes, name), number
	return number
}

// Port is the number of a node's port of that name; NoPort of "", and where there are too many.
func (g *Registry) Port(node uint16, name string) uint16 {
	if name == "" || node == NoNode {
		return NoPort
	}
	key := portOf{node, name}
	if number, ok := g.port[key]; ok {
		return number
	}
	if len(g.ports) >= maxNumbers {
		g.Over++
		return NoPort
	}
	number := uint16(firstNumber + len(g.ports))
	g.ports, g.port[key] = append(g.ports, key), number
	return number
}
