// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/vnetradar/radar/pkg/packet"
)

// place is what a number of a port means.
type place struct {
	Name string `json:"name"`
	Node uint16 `json:"node"`
}

// numbers are names of nodes and ports by their numbers: those of a file, or of a recording.
type numbers struct {
	Nodes map[uint16]string `json:"nodes"`
	Ports map[uint16]place  `json:"ports"`

	// strict: what has no name is not what has one. Within one domain it gets its name later.
	strict bool
}

func newNumbers() *numbers {
	return &numbers{Nodes: make(map[uint16]string), Ports: make(map[uint16]place)}
}

// unnamed is what a Scope calls a node that it does not know.
const unnamed = "?"

// node is the number of a node of that name: the one that it has elsewhere, or, if that is another
// node's, one that is free. NoNode: there is none.
func (n *numbers) node(number uint16, name string) uint16 {
	old, taken := n.Nodes[number]
	switch {
	case number == packet.NoNode:
		return number
	case !taken || old == name || old == unnamed && !n.strict:
		n.Nodes[number] = name
		return number
	case name == unnamed && !n.strict:
		return number
	}
	for free := uint16(packet.VMSide - 1); free > 0; free-- {
		if other, taken := n.Nodes[free]; !taken || other == name {
			n.Nodes[free] = name
			return free
		}
	}
	return packet.NoNode
}

// port is the same of a port. A virtual machine's end of a tap keeps the number of the tap.
func (n *numbers) port(number uint16, p place) uint16 {
	if number == packet.NoPort {
		return number
	}
	unknown := place{"", packet.NoNode}
	if old, taken := n.Ports[number]; !taken || old == p || old == unknown && !n.strict {
		n.Ports[number] = p
		return number
	}
	if p == unknown && !n.strict {
		return number
	}
	side := number & packet.VMSide
	for free := uint16(packet.VMSide - 2); free > 0; free-- {
		if other, taken := n.Ports[free|side]; !taken && !n.hasPort(free) && !n.hasPort(free|packet.VMSide) || taken && other == p {
			n.Ports[free|side] = p
			return free | side
		}
	}
	return packet.NoPort
}

func (n *numbers) hasPort(number uint16) bool {
	_, ok := n.Ports[number]
	return ok
}

// translation makes numbers of one Scope those of numbers.
type translation struct {
	of    packet.Names
	to    *numbers
	nodes map[uint16]uint16
	ports map[uint16]uint16
}

func newTranslation(of packet.Names, to *numbers) *translation {
	return &translation{of: of, to: to, nodes: make(map[uint16]uint16), ports: make(map[uint16]uint16)}
}

func (t *translation) node(number uint16) uint16 {
	if number == packet.NoNode {
		return number
	}
	to, ok := t.nodes[number]
	if name := ""; !ok {
		name = t.of.NodeName(number)
		if to = t.to.node(number, name); name != unnamed || t.to.strict {
			t.nodes[number] = to // else a name may come later
		}
	}
	return to
}

func (t *translation) port(number uint16) uint16 {
	if number == packet.NoPort {
		return number
	}
	to, ok := t.ports[number]
	if ok {
		return to
	}
	name, node := t.of.PortName(number), t.of.PortNode(number)
	if tap, ok := packet.TapOf(number); ok {
		// The tap itself comes first: both ends must move together.
		if moved := t.port(tap); moved != tap && moved != packet.NoPort {
			to = moved | packet.VMSide
			t.to.Ports[to] = place{name, t.node(node)}
			t.ports[number] = to
			return to
		}
	}
	to = t.to.port(number, place{name, t.node(node)})
	if name != "" || t.to.strict {
		t.ports[number] = to
	}
	return to
}

// foundNode and foundPort translate numbers all of which were translated before, and change nothing.
func (t *translation) foundNode(number uint16) uint16 {
	if to, ok := t.nodes[number]; ok {
		return to
	}
	return number
}

func (t *translation) foundPort(number uint16) uint16 {
	if to, ok := t.ports[number]; ok {
		return to
	}
	return number
}

// canCompare reports whether a Scope can be compared with others: a pointer can.
func canCompare(of packet.Scope) bool { return reflect.TypeOf(of).Comparable() }

// readNumbers reads what a file says of its numbers.
func readNumbers(text string) (*numbers, error) {
	n := newNumbers()
	if err := json.Unmarshal([]byte(text), n); err != nil {
		return nil, fmt.Errorf("names of nodes and ports: %w", err)
	}
	return n, nil
}

// NodeName, PortName and PortNode are packet.Names.
func (n *numbers) NodeName(node uint16) string {
	if name, ok := n.Nodes[node]; ok {
		return name
	}
	return unnamed
}

func (n *numbers) PortName(port uint16) string { return n.Ports[port].Name }

func (n *numbers) PortNode(port uint16) uint16 {
	if p, ok := n.Ports[port]; ok {
		return p.Node
	}
	return packet.NoNode
}
