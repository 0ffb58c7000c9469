// SPDX-License-Identifier: Apache-2.0

package packet

// NamedPort is what a number of a port means.
type NamedPort struct {
	Name string `json:"name"`
	Node uint16 `json:"node"`
}

// Numbers are names of nodes and ports by their numbers: those of a file, or of a recording.
type Numbers struct {
	Nodes map[uint16]string    `json:"nodes"`
	Ports map[uint16]NamedPort `json:"ports"`

	// Strict: what has no name is not what has one. Within one domain it gets its name later.
	Strict bool `json:"-"`
}

// NewNumbers returns empty ones. What has no name may get one later.
func NewNumbers() *Numbers {
	return &Numbers{Nodes: make(map[uint16]string), Ports: make(map[uint16]NamedPort)}
}

// unnamed is what a Scope calls a node that it does not know.
const unnamed = "?"

// node is the number of a node of that name: the one that it has elsewhere, or, if that is another
// node's, one that is free. NoNode: there is none.
func (n *Numbers) node(number uint16, name string) uint16 {
	old, taken := n.Nodes[number]
	switch {
	case number == NoNode:
		return number
	case !taken || old == name || old == unnamed && !n.Strict:
		n.Nodes[number] = name
		return number
	case name == unnamed && !n.Strict:
		return number
	}
	for free := uint16(VMSide - 1); free > 0; free-- {
		if other, taken := n.Nodes[free]; !taken || other == name {
			n.Nodes[free] = name
			return free
		}
	}
	return NoNode
}

// port is the same of a port. A virtual machine's end of a tap keeps the number of the tap.
func (n *Numbers) port(number uint16, p NamedPort) uint16 {
	if number == NoPort {
		return number
	}
	unknown := NamedPort{"", NoNode}
	if old, taken := n.Ports[number]; !taken || old == p || old == unknown && !n.Strict {
		n.Ports[number] = p
		return number
	}
	if p == unknown && !n.Strict {
		return number
	}
	side := number & VMSide
	for free := uint16(VMSide - 2); free > 0; free-- {
		if other, taken := n.Ports[free|side]; !taken && !n.hasPort(free) && !n.hasPort(free|VMSide) || taken && other == p {
			n.Ports[free|side] = p
			return free | side
		}
	}
	return NoPort
}

func (n *Numbers) hasPort(number uint16) bool {
	_, ok := n.Ports[number]
	return ok
}

// Translation makes numbers of one Scope those of Numbers.
type Translation struct {
	of    Names
	To    *Numbers
	nodes map[uint16]uint16
	ports map[uint16]uint16
}

// NewTranslation begins one.
func NewTranslation(of Names, to *Numbers) *Translation {
	return &Translation{of: of, To: to, nodes: make(map[uint16]uint16), ports: make(map[uint16]uint16)}
}

// Node is the number of a node.
func (t *Translation) Node(number uint16) uint16 {
	if number == NoNode {
		return number
	}
	to, ok := t.nodes[number]
	if name := ""; !ok {
		name = t.of.NodeName(number)
		if to = t.To.node(number, name); name != unnamed || t.To.Strict {
			t.nodes[number] = to // else a name may come later
		}
	}
	return to
}

// Port is the number of a port.
func (t *Translation) Port(number uint16) uint16 {
	if number == NoPort {
		return number
	}
	to, ok := t.ports[number]
	if ok {
		return to
	}
	name, node := t.of.PortName(number), t.of.PortNode(number)
	if tap, ok := TapOf(number); ok {
		// The tap itself comes first: both ends must move together.
		if moved := t.Port(tap); moved != tap && moved != NoPort {
			to = moved | VMSide
			t.To.Ports[to] = NamedPort{name, t.Node(node)}
			t.ports[number] = to
			return to
		}
	}
	to = t.To.port(number, NamedPort{name, t.Node(node)})
	if name != "" || t.To.Strict {
		t.ports[number] = to
	}
	return to
}

// FoundNode translates a number that was translated before, and changes nothing.
func (t *Translation) FoundNode(number uint16) uint16 {
	if to, ok := t.nodes[number]; ok {
		return to
	}
	return number
}

// FoundPort is the same of a port.
func (t *Translation) FoundPort(number uint16) uint16 {
	if to, ok := t.ports[number]; ok {
		return to
	}
	return number
}

// NodeName, PortName and PortNode are Names.
func (n *Numbers) NodeName(node uint16) string {
	if name, ok := n.Nodes[node]; ok {
		return name
	}
	return unnamed
}

func (n *Numbers) PortName(port uint16) string { return n.Ports[port].Name }

func (n *Numbers) PortNode(port uint16) uint16 {
	if p, ok := n.Ports[port]; ok {
		return p.Node
	}
	return NoNode
}
