// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"math"
	"slices"

	"github.com/vnetradar/radar/pkg/domain"
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

// Numbers give nodes and ports the numbers that reports have for them: nodes the domain's own,
// which are never reused while it is attached, or those that the user chose; ports their
// interface index.
type Numbers struct {
	chosen map[string]uint32
	taken  map[uint32]bool // of chosen
	list   []NodeID
	nodes  map[string]int // the domain's number of a name; of several the newest
	ports  map[portOf]uint32
}

type portOf struct {
	node int
	name string
}

// NewNumbers makes the numbers for a domain. A node of chosen that the domain has not, and ids
// that are no node's or two nodes', are errors.
func NewNumbers(d *domain.Domain, chosen map[string]uint32) (*Numbers, error) {
	n := &Numbers{chosen: chosen, taken: make(map[uint32]bool)}
	n.SetDomain(d)
	for name, id := range chosen {
		switch {
		case id == Unknown || id == math.MaxUint32:
			return nil, fmt.Errorf("%s=%d: use an id from 1 to %d", name, id, uint32(math.MaxUint32-1))
		case n.taken[id]:
			return nil, fmt.Errorf("%s=%d: another node has this id", name, id)
		}
		if _, ok := n.nodes[name]; !ok {
			return nil, fmt.Errorf("%s=%d: domain %s has no such node", name, id, d.Name)
		}
		n.taken[id] = true
	}
	for name, number := range n.nodes {
		if _, ok := chosen[name]; !ok && n.taken[uint32(number)] {
			return nil, fmt.Errorf("id %d is node %s's, unless another one is chosen for that", number, name)
		}
	}
	n.SetDomain(d)
	return n, nil
}

// SetDomain takes a new description of the domain. A node that has come meanwhile, and whose
// number was chosen for another, is Unknown.
func (n *Numbers) SetDomain(d *domain.Domain) {
	n.list, n.nodes, n.ports = nil, make(map[string]int), make(map[portOf]uint32)
	add := func(number uint16, name string) { n.nodes[name] = max(n.nodes[name], int(number)) }
	for i := range d.Nodes {
		add(d.Nodes[i].ID, d.Nodes[i].Name)
	}
	for i := range d.VMs {
		add(d.VMs[i].ID, d.VMs[i].Name)
	}
	for name, number := range n.nodes {
		n.list = append(n.list, NodeID{name, n.Node(name, number)})
	}
	slices.SortFunc(n.list, func(a, b NodeID) int { return n.nodes[a.Name] - n.nodes[b.Name] })
	// Removed ports first: those that are there have the last word.
	for _, removed := range []bool{true, false} {
		for i := range d.Ports {
			p := &d.Ports[i]
			if p.Removed != removed {
				continue
			}
			n.ports[portOf{int(p.Node), p.Name}] = uint32(p.Ifindex)
			if p.VM != 0 { // a tap is its machine's port, too
				n.ports[portOf{int(p.VM), p.Name}] = uint32(p.Ifindex)
			}
		}
	}
}

// Nodes are all nodes, by the domain's numbers. The slice is not to be changed.
func (n *Numbers) Nodes() []NodeID { return n.list }

// Node is the id of a node of a record; number is what the domain numbers it, 0 if the record
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
