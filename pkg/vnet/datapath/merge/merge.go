// SPDX-License-Identifier: Apache-2.0

// Package merge works out a domain's next description from the one that it has and from what the network looks
// like now. It decides which number a node and a port have, what role a port has, which nodes carry the header
// and what is left out. It changes nothing but the description in memory, and asks the kernel nothing.
package merge

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

const noPeer = -1

// Change is a step of a domain from one description to the next.
type Change struct {
	Old  *domain.Domain // nil: the domain is new. Into leaves it nil, its caller sets it
	Next *domain.Domain
	// Locals are the addresses of each node that stays or comes.
	Locals map[uint16][]netip.Addr
	// Inside are members of bridge links that have no program, because their other
	// end is attached: losses are placed there.
	Inside map[bpfobj.TcRdrDev]Insider
	// members are the same, and the attached port at their other end.
	members map[bpfobj.TcRdrDev]uint16
	// Fresh are ports whose interface was never up where it is. Nothing tells of it at once if
	// such a one moves away; but nothing is sent to it either, and that it is up will be told.
	Fresh map[uint16]bool

	AddedNodes, RemovedNodes []uint16
	AddedPorts, RemovedPorts []uint16
	// Moved are added ports, by number, whose interface is a removed port's that still
	// has its programs: the namespace of a bridge became a node, or ceased to be one.
	Moved map[uint16]uint16
	// Unnumbered are ports that the topology has and the description has not, because
	// numbers are used up; as "node/port".
	Unnumbered []string
}

// Empty says whether nothing happens to nodes and ports. Addresses may change.
func (c *Change) Empty() bool {
	return len(c.AddedNodes)+len(c.RemovedNodes)+len(c.AddedPorts)+len(c.RemovedPorts)+len(c.Roles()) == 0
}

// Clone is a description that can be changed without the other one.
func Clone(d *domain.Domain) *domain.Domain {
	c := *d
	c.Nodes, c.Ports, c.Selectors = slices.Clone(d.Nodes), slices.Clone(d.Ports), slices.Clone(d.Selectors)
	c.VMs, c.Members = slices.Clone(d.VMs), slices.Clone(d.Members)
	c.HeaderNodes = slices.Clone(d.HeaderNodes)
	return &c
}

// Into works out the domain's next description from the topology of all nodes
// that shall be in it. Nodes and ports that are known keep their numbers; those
// that are not in the topology are marked removed and stay listed, because old
// records mean them. What finds no number is left out: see Unnumbered. stale says of a
// known port that its interface is another one now, though it has the same number.
func Into(base *domain.Domain, t *topo.Topology, stale func(*domain.Port) bool) (*Change, error) {
	c := &Change{
		Next: Clone(base), Locals: make(map[uint16][]netip.Addr), Inside: make(map[bpfobj.TcRdrDev]Insider),
		members: make(map[bpfobj.TcRdrDev]uint16), Fresh: make(map[uint16]bool),
	}
	c.dropNodes(t)
	nodeIDs := make([]uint16, len(t.Nodes))
	for i := range t.Nodes {
		if nodeIDs[i] = c.mergeNode(&t.Nodes[i]); nodeIDs[i] != 0 {
			c.Locals[nodeIDs[i]] = t.Nodes[i].Locals
		}
	}
	portIDs := make([][]uint16, len(t.Nodes))
	for i := range t.Nodes {
		present := make(map[int]bool)
		for j := range t.Nodes[i].Ports {
			present[t.Nodes[i].Ports[j].Ifindex] = true
		}
		for j := range t.Nodes[i].Ports {
			portIDs[i] = append(portIDs[i], c.mergePort(nodeIDs[i], &t.Nodes[i].Ports[j], present, stale))
		}
	}
	if err := c.checkNumbers(t, nodeIDs, portIDs); err != nil {
		return nil, err
	}
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			c.wire(portIDs[i][j], &t.Nodes[i].Ports[j], portIDs)
			c.Fresh[portIDs[i][j]] = t.Nodes[i].Ports[j].Fresh
		}
	}
	c.openUnnumbered(t, portIDs)
	c.dropPorts(portIDs)
	if err := c.bindVMs(); err != nil {
		return nil, err
	}
	c.findMoved(stale)
	c.dropMembers(t, nodeIDs)
	for i := range t.Bridges {
		b := &t.Bridges[i]
		c.placeInside(t, b, portIDs[b.Node])
		for j, member := range b.Inside {
			if id := portIDs[b.Ports[j].Node][b.Ports[j].Port]; id != 0 {
				c.members[bpfobj.TcRdrDev{NetnsInum: t.Nodes[b.Node].Inum, Ifindex: uint32(member.Ifindex)}] = id
			}
		}
	}
	return c, nil
}

// dropNodes marks the nodes that the topology no longer has.
func (c *Change) dropNodes(t *topo.Topology) {
	for i := range c.Next.Nodes {
		have := &c.Next.Nodes[i]
		same := func(n topo.Node) bool {
			return n.Inum == have.Inum && n.Auto == have.Auto && (n.Auto || n.Name == have.Name)
		}
		if !have.Removed && !slices.ContainsFunc(t.Nodes, same) {
			have.Removed = true
			c.RemovedNodes = append(c.RemovedNodes, have.ID)
		}
	}
}

// mergeNode returns the node's number, a new one if need be; 0: there is none left.
func (c *Change) mergeNode(n *topo.Node) uint16 {
	for i := range c.Next.Nodes {
		have := &c.Next.Nodes[i]
		if !have.Removed && have.Inum == n.Inum && have.Auto == n.Auto {
			// It can be named otherwise now; a closing node gives way to a user's name.
			have.Name, have.Spec, have.Path, have.Redirects = n.Name, n.Spec, n.Path, n.Redirects
			return have.ID
		}
	}
	id := nextNodeID(c.Next)
	if id == 0 {
		return 0
	}
	c.Next.Nodes = append(c.Next.Nodes, domain.Node{
		ID: id, Name: n.Name, Spec: n.Spec, Path: n.Path, Inum: n.Inum, Auto: n.Auto, Redirects: n.Redirects,
	})
	c.AddedNodes = append(c.AddedNodes, id)
	return id
}

// mergePort is mergeNode of a port; those of a node without a number get none.
func (c *Change) mergePort(node uint16, p *topo.Port, present map[int]bool, stale func(*domain.Port) bool) uint16 {
	for i := range c.Next.Ports {
		have := &c.Next.Ports[i]
		if !have.Removed && have.Node == node && have.Ifindex == p.Ifindex && !stale(have) {
			if have.Name != p.Name { // it can be renamed
				have.Name, have.Network = p.Name, ""
			}
			return have.ID
		}
	}
	if node == 0 {
		return 0
	}
	id, again := c.portNumber(node, p.Name, present)
	if id == 0 {
		return 0
	}
	port := domain.Port{ID: id, Node: node, Name: p.Name, Ifindex: p.Ifindex, Kind: p.Kind, L3: p.L3, Peer: noPeer}
	if again {
		*c.Next.PortByID(id) = port
	} else {
		c.Next.Ports = append(c.Next.Ports, port)
	}
	c.AddedPorts = append(c.AddedPorts, id)
	return id
}

// Was is what a port was before the change, nil if it was not there. Its number may have been
// another's, which is gone.
func (c *Change) Was(id uint16) *domain.Port {
	if c.Old == nil {
		return nil
	}
	if p := c.Old.PortByID(id); p != nil && !p.Removed {
		return p
	}
	return nil
}

// wire sets role and peer. A role that the user gave once stays.
func (c *Change) wire(id uint16, p *topo.Port, portIDs [][]uint16) {
	if id == 0 {
		return
	}
	have := c.Next.PortByID(id)
	have.Peer, have.Link, have.Place, have.Open = noPeer, p.Link, p.Place, false
	have.Queue, have.Tunnel = p.Queue, p.Tunnel != nil
	have.Stitched = p.Stitched
	have.Lower, have.Beside = p.Lower, nil
	for _, ref := range p.Beside {
		if id := portIDs[ref.Node][ref.Port]; id != 0 {
			have.Beside = append(have.Beside, id)
		}
	}
	have.True = p.Stitched || p.Tunnel != nil && p.Tunnel.Inherits
	if p.Forced || !have.Forced {
		have.Role, have.Forced = p.Role, p.Forced
	}
	if p.Peer == nil {
		return
	}
	if peer := portIDs[p.Peer.Node][p.Peer.Port]; peer != 0 {
		have.Peer = int(peer)
	} else {
		toEdge(have)
	}
}

// toEdge makes a port an edge, unless the user gave its role.
func toEdge(p *domain.Port) {
	if !p.Forced {
		p.Role = domain.Edge
	}
}

// Roles names the known ports whose role changes, or whether they use header bits, as
// "node/port: role".
func (c *Change) Roles() (roles []string) {
	if c.Old == nil {
		return nil
	}
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		was := c.Was(p.ID)
		switch {
		case was == nil || p.Removed:
		case was.Role != p.Role:
			roles = append(roles, fmt.Sprintf("%s: %s", PortName(c.Next, p), p.Role))
		case was.True != p.True && p.True:
			roles = append(roles, PortName(c.Next, p)+": bits stay true")
		case was.True != p.True:
			roles = append(roles, PortName(c.Next, p)+": bits are used")
		}
	}
	return roles
}

// Queues names the ports whose queue changes, as "node/port: kind".
func (c *Change) Queues() (queues []string) {
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		was := c.Was(p.ID)
		switch {
		case HasQueue(p) && (was == nil || !HasQueue(was) || was.Queue != p.Queue):
			queues = append(queues, fmt.Sprintf("%s: %s", PortName(c.Next, p), p.Queue))
		case !HasQueue(p) && was != nil && HasQueue(was) && !p.Removed:
			queues = append(queues, PortName(c.Next, p)+": none")
		}
	}
	return queues
}

// dropPorts marks the ports that the topology no longer has.
func (c *Change) dropPorts(portIDs [][]uint16) {
	present := make(map[uint16]bool)
	for _, ids := range portIDs {
		for _, id := range ids {
			present[id] = true
		}
	}
	for i := range c.Next.Ports {
		if p := &c.Next.Ports[i]; !p.Removed && !present[p.ID] {
			p.Removed, p.Peer = true, noPeer
			c.RemovedPorts = append(c.RemovedPorts, p.ID)
		}
	}
}

// findMoved fills in moved.
func (c *Change) findMoved(stale func(*domain.Port) bool) {
	type device struct {
		inum    uint32
		ifindex int
	}
	at := func(p *domain.Port) device { return device{c.Next.NodeByID(p.Node).Inum, p.Ifindex} }
	was := make(map[device]uint16)
	for _, id := range c.RemovedPorts {
		if p := c.Next.PortByID(id); !stale(p) {
			was[at(p)] = id
		}
	}
	c.Moved = make(map[uint16]uint16)
	for _, id := range c.AddedPorts {
		if old, ok := was[at(c.Next.PortByID(id))]; ok {
			c.Moved[id] = old
		}
	}
}

// Replaced returns the removed ports whose interface is gone while another one has its
// number, and all others.
func (c *Change) Replaced() (replaced, others []uint16) {
	moved := make(map[uint16]bool)
	for _, old := range c.Moved {
		moved[old] = true
	}
	same := func(p *domain.Port) func(uint16) bool {
		inum := c.Next.NodeByID(p.Node).Inum
		return func(id uint16) bool {
			q := c.Next.PortByID(id)
			return q.Ifindex == p.Ifindex && c.Next.NodeByID(q.Node).Inum == inum
		}
	}
	for _, id := range c.RemovedPorts {
		if !moved[id] && slices.ContainsFunc(c.AddedPorts, same(c.Next.PortByID(id))) {
			replaced = append(replaced, id)
		} else {
			others = append(others, id)
		}
	}
	return replaced, others
}

// Halfway is the next description while what it removes is still there, and queues are not
// followed yet: who is killed then must find that they are new.
func (c *Change) Halfway() *domain.Domain {
	d := Clone(c.Next)
	for _, id := range c.RemovedNodes {
		d.NodeByID(id).Removed = false
	}
	for _, id := range c.RemovedPorts {
		d.PortByID(id).Removed = false
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		p.Queue = ""
		if was := c.Was(p.ID); was != nil {
			p.Queue = was.Queue
		}
	}
	return d
}

// PortName is how users are told about a port.
func PortName(d *domain.Domain, p *domain.Port) string {
	if n := d.NodeByID(p.Node); n != nil {
		return n.Name + "/" + p.Name
	}
	return p.Name
}

// LeaveOut leaves a new port out again, because it could not be attached. A bridge
// link that lacks one of its ports is closed nowhere.
func (c *Change) LeaveOut(id uint16) {
	if p := c.Next.PortByID(id); p.Link != "" {
		c.openLink(p.Link)
	}
	c.Forget(id)
	c.openTunnels()
}

// Forget makes a new port one that never was.
func (c *Change) Forget(id uint16) {
	same := func(p domain.Port) bool { return p.ID == id }
	c.Next.Ports = slices.DeleteFunc(c.Next.Ports, same)
	c.AddedPorts = slices.DeleteFunc(c.AddedPorts, func(added uint16) bool { return added == id })
	delete(c.Moved, id)
	c.forgetMembers(id)
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		if p.Peer == int(id) {
			p.Peer = noPeer
			toEdge(p)
		}
		p.Beside = without(p.Beside, id)
	}
}

// without is a list, which others may have too, without a number.
func without(list []uint16, id uint16) []uint16 {
	if !slices.Contains(list, id) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(have uint16) bool { return have == id })
}

// openLink makes the attached ends of a bridge link edges, and its closing ports
// restore only.
func (c *Change) openLink(link string) {
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		switch {
		case p.Removed || p.Link != link:
		case p.Place != "":
			p.Open = true
		default:
			toEdge(p)
		}
	}
}

// openTunnels makes all tunnels edges: the way of one may lead over a link that is open now,
// where what it carries must not have rewritten bits.
func (c *Change) openTunnels() {
	for i := range c.Next.Ports {
		if p := &c.Next.Ports[i]; p.Tunnel && !p.Removed {
			toEdge(p)
		}
	}
}

// HasQueue says whether packets can wait in the port's queue, where they bear what they
// are known by. At an edge they do not: they look as they do outside.
func HasQueue(p *domain.Port) bool {
	return !p.Removed && p.Queue != "" && p.Place == "" && p.Role == domain.Internal
}

// AnyQueue says whether some port of the domain has such a queue.
func AnyQueue(d *domain.Domain) bool {
	return slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return HasQueue(&p) })
}
