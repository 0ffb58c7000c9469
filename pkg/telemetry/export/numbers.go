// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"math"
	"slices"
)

// Unknown is the node id of what belongs to no node, or to one that is not known: group
// headers have no value for "not available" (TR 2.0, "Telemetry Report Group Header"), and
// domains number nodes from 1.
const Unknown = 0

// NodeID is how a node is called in reports.
type NodeID struct {
	Name string `json:"name"`
	ID   uint32 `json:"id"`
}

// Numbers give nodes and ports the numbers that reports have for them: nodes the network's own,
// which are never reused while it is attached, or those that the user chose; ports their
// interface index.
type Numbers struct {
	chosen map[string]uint32
	taken  map[uint32]bool // of chosen
	list   []NodeID
	nodes  map[string]int // the network's number of a name; of several the newest
	ports  map[portOf]uint32
}

// Network is whose numbers reports have. Of nodes of a name the one with the highest number counts,
// of ports of a name the last one.
type Network struct {
	Name  string
	Nodes []Node
	Ports []Port
}

// Node is a node of a Network.
type Node struct {
	Number uint16 // as in records
	Name   string
}

// Port is a port of a Network's node.
type Port struct {
	Node    uint16 // its number
	Name    string
	Ifindex int
}

type portOf struct {
	node int
	name string
}

// NewNumbers makes the numbers for a network. A node of chosen that the network has not, and ids
// that are no node's or two nodes', are errors.
func NewNumbers(of Network, chosen map[string]uint32) (*Numbers, error) {
	n := &Numbers{chosen: chosen, taken: make(map[uint32]bool)}
	n.SetNetwork(of)
	for name, id := range chosen {
		switch {
		case id == Unknown || id == math.MaxUint32:
			return nil, fmt.Errorf("%s=%d: use an id from 1 to %d", name, id, uint32(math.MaxUint32-1))
		case n.taken[id]:
			return nil, fmt.Errorf("%s=%d: another node has this id", name, id)
		}
		if _, ok := n.nodes[name]; !ok {
			return nil, fmt.Errorf("%s=%d: domain %s has no such node", name, id, of.Name)
		}
		n.taken[id] = true
	}
	for name, number := range n.nodes {
		if _, ok := chosen[name]; !ok && n.taken[uint32(number)] {
			return nil, fmt.Errorf("id %d is node %s's, unless another one is chosen for that", number, name)
		}
	}
	n.SetNetwork(of)
	return n, nil
}

// SetNetwork takes a new description. A node that has come meanwhile, and whose number was chosen
// for another, is Unknown.
func (n *Numbers) SetNetwork(of Network) {
	n.list, n.nodes, n.ports = nil, make(map[string]int), make(map[portOf]uint32)
	for _, node := range of.Nodes {
		n.nodes[node.Name] = max(n.nodes[node.Name], int(node.Number))
	}
	for name, number := range n.nodes {
		n.list = append(n.list, NodeID{name, n.Node(name, number)})
	}
	slices.SortFunc(n.list, func(a, b NodeID) int { return n.nodes[a.Name] - n.nodes[b.Name] })
	for _, p := range of.Ports {
		n.ports[portOf{int(p.Node), p.Name}] = uint32(p.Ifindex)
	}
}

// Nodes are all nodes, by the network's numbers. The slice is not to be changed.
func (n *Numbers) Nodes() []NodeID { return n.list }

// Node is the id of a node of a record; number is what the network numbers it, 0 if the record
// does not say.
func (n *Numbers) Node(name string, number int) uint32 {
	if id, ok := n.chosen[name]; ok {
		return id
	}
	if number == 0 {
		number = n.nodes[name]
	}
	if n.taken[uint32(number)] {
		return Unknown
	}
	return uint32(number)
}

// Port is the interface index of a node's port, 0 if there is none, or none is known.
func (n *Numbers) Port(node string, number int, port string) uint32 {
	if port == "" {
		return 0
	}
	if number == 0 {
		number = n.nodes[node]
	}
	return n.ports[portOf{number, port}]
}
