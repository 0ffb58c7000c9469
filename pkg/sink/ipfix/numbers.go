// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Port is a port of the domain: its number there, its node's, and both names.
type Port struct {
	Number, NodeNumber uint32
	Node, Name         string
}

// Numbers of what is no port of the domain count from firstOwn on: the domain's have 16 bits. mostOwn bounds how many
// there are of interfaces and of nodes: names in recordings of others can be any.
const (
	firstOwn = 1 << 16
	mostOwn  = 1 << 16
)

// place names an interface: two nodes can have ports of one name.
type place struct{ node, port string }

// numbers gives numbers to interfaces and nodes by their names.
type numbers struct {
	ports map[place]uint32
	nodes map[string]uint32
	of    map[uint32]Port // by number
	own   uint32
}

func newNumbers(ports []Port) *numbers {
	n := &numbers{ports: make(map[place]uint32), nodes: make(map[string]uint32), of: make(map[uint32]Port)}
	n.set(ports)
	return n
}

func (n *numbers) set(ports []Port) {
	for _, p := range ports {
		if p.Number == 0 { // stands for none
			continue
		}
		p.Node, p.Name = cutName(p.Node), cutName(p.Name)
		n.ports[place{p.Node, p.Name}] = p.Number
		n.nodes[p.Node] = p.NodeNumber
		n.of[p.Number] = p
	}
}

// port is the number of an interface at a hop; 0: there is none, or no number is left.
func (n *numbers) port(h *record.Hop, name string) uint32 {
	if name == "" {
		return 0
	}
	at := place{cutName(h.Node), cutName(name)}
	if number, ok := n.ports[at]; ok {
		return number
	}
	if n.own == mostOwn {
		return 0
	}
	number := firstOwn + n.own
	n.own++
	at.node, at.port = strings.Clone(at.node), strings.Clone(at.port) // a part of a long name would keep all of it
	p := Port{Number: number, NodeNumber: n.node(h), Node: at.node, Name: at.port}
	n.ports[at], n.of[number] = number, p
	return number
}

// node is the number of a hop's node: the one that the record has, else one of our own.
func (n *numbers) node(h *record.Hop) uint32 {
	name := cutName(h.Node)
	if number, ok := n.nodes[name]; ok {
		return number
	}
	number := uint32(h.NodeID)
	if h.NodeID <= 0 || h.NodeID >= firstOwn {
		number = firstOwn + uint32(len(n.nodes))
	}
	if len(n.nodes) < mostOwn {
		n.nodes[strings.Clone(name)] = number
	} else if number >= firstOwn {
		number = 0
	}
	return number
}

// mostName bounds a name in a message.
const mostName = 120

// cutName makes a name fit. Names in recordings of others can be any bytes, of any length: those that are no UTF-8
// become question marks.
func cutName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), mostName)], "?")
}
