// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

const noPeer = -1

// change is a step of a domain from one description to the next.
type change struct {
	old  *domain.Domain // nil: the domain is new
	next *domain.Domain
	// locals are the addresses of each node that stays or comes.
	locals map[uint16][]netip.Addr
	// inside are members of bridge links that have no program, because their other
	// end is attached: losses are placed there.
	inside map[bpfobj.TcRdrDev]insider
	// members are the same, and the attached port at their other end.
	members map[bpfobj.TcRdrDev]uint16
	// fresh are ports whose interface was never up where it is. Nothing tells of it at once if
	// such a one moves away; but nothing is sent to it either, and that it is up will be told.
	fresh map[uint16]bool

	addedNodes, removedNodes []uint16
	addedPorts, removedPorts []uint16
	// moved are added ports, by number, whose interface is a removed port's that still
	// has its programs: the namespace of a bridge became a node, or ceased to be one.
	moved map[uint16]uint16
	// unnumbered are ports that the topology has and the description has not, because
	// numbers are used up; as "node/port".
	unnumbered []string
}

// empty says whether nothing happens to nodes and ports. Addresses may change.
func (c *change) empty() bool {
	return len(c.addedNodes)+len(c.removedNodes)+len(c.addedPorts)+len(c.removedPorts)+len(c.roles()) == 0
}

func cloneDomain(d *domain.Domain) *domain.Domain {
	c := *d
	c.Nodes, c.Ports, c.Selectors = slices.Clone(d.Nodes), slices.Clone(d.Ports), slices.Clone(d.Selectors)
	c.VMs, c.Members = slices.Clone(d.VMs), slices.Clone(d.Members)
	c.HeaderNodes = slices.Clone(d.HeaderNodes)
	return &c
}

// merge works out the domain's next description from the topology of all nodes
// that shall be in it. Nodes and ports that are known keep their numbers; those
// that are not in the topology are marked removed and stay listed, because old
// records mean them. What finds no number is left out: see unnumbered. stale says of a
// known port that its interface is another one now, though it has the same number.
func merge(base *domain.Domain, t *topo.Topology, stale func(*domain.Port) bool) (*change, error) {
	c := &change{
		next: cloneDomain(base), locals: make(map[uint16][]netip.Addr), inside: make(map[bpfobj.TcRdrDev]insider),
		members: make(map[bpfobj.TcRdrDev]uint16), fresh: make(map[uint16]bool),
	}
	c.dropNodes(t)
	nodeIDs := make([]uint16, len(t.Nodes))
	for i := range t.Nodes {
		if nodeIDs[i] = c.mergeNode(&t.Nodes[i]); nodeIDs[i] != 0 {
			c.locals[nodeIDs[i]] = t.Nodes[i].Locals
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
			c.fresh[portIDs[i][j]] = t.Nodes[i].Ports[j].Fresh
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
func (c *change) dropNodes(t *topo.Topology) {
	for i := range c.next.Nodes {
		have := &c.next.Nodes[i]
		same := func(n topo.Node) bool {
			return n.Inum == have.Inum && n.Auto == have.Auto && (n.Auto || n.Name == have.Name)
		}
		if !have.Removed && !slices.ContainsFunc(t.Nodes, same) {
			have.Removed = true
			c.removedNodes = append(c.removedNodes, have.ID)
		}
	}
}

// mergeNode returns the node's number, a new one if need be; 0: there is none left.
func (c *change) mergeNode(n *topo.Node) uint16 {
	for i := range c.next.Nodes {
		have := &c.next.Nodes[i]
		if !have.Removed && have.Inum == n.Inum && have.Auto == n.Auto {
			// It can be named otherwise now; a closing node gives way to a user's name.
			have.Name, have.Spec, have.Path, have.Redirects = n.Name, n.Spec, n.Path, n.Redirects
			return have.ID
		}
	}
	id := nextNodeID(c.next)
	if id == 0 {
		return 0
	}
	c.next.Nodes = append(c.next.Nodes, domain.Node{
		ID: id, Name: n.Name, Spec: n.Spec, Path: n.Path, Inum: n.Inum, Auto: n.Auto, Redirects: n.Redirects,
	})
	c.addedNodes = append(c.addedNodes, id)
	return id
}

// mergePort is mergeNode of a port; those of a node without a number get none.
func (c *change) mergePort(node uint16, p *topo.Port, present map[int]bool, stale func(*domain.Port) bool) uint16 {
	for i := range c.next.Ports {
		have := &c.next.Ports[i]
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
		*c.next.PortByID(id) = port
	} else {
		c.next.Ports = append(c.next.Ports, port)
	}
	c.addedPorts = append(c.addedPorts, id)
	return id
}

// was is what a port was before the change, nil if it was not there. Its number may have been
// another's, which is gone.
func (c *change) was(id uint16) *domain.Port {
	if c.old == nil {
		return nil
	}
	if p := c.old.PortByID(id); p != nil && !p.Removed {
		return p
	}
	return nil
}

// wire sets role and peer. A role that the user gave once stays.
func (c *change) wire(id uint16, p *topo.Port, portIDs [][]uint16) {
	if id == 0 {
		return
	}
	have := c.next.PortByID(id)
	have.Peer, have.Link, have.Place, have.Open = noPeer, p.Link, p.Place, false
	have.Queue, have.Tunnel = p.Queue, p.Tunnel != nil
	have.Stitched = p.Stitched
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

// roles names the known ports whose role changes, or whether they use header bits, as
// "node/port: role".
func (c *change) roles() (roles []string) {
	if c.old == nil {
		return nil
	}
	for i := range c.next.Ports {
		p := &c.next.Ports[i]
		was := c.was(p.ID)
		switch {
		case was == nil || p.Removed:
		case was.Role != p.Role:
			roles = append(roles, fmt.Sprintf("%s: %s", portName(c.next, p), p.Role))
		case was.True != p.True && p.True:
			roles = append(roles, portName(c.next, p)+": bits stay true")
		case was.True != p.True:
			roles = append(roles, portName(c.next, p)+": bits are used")
		}
	}
	return roles
}

// queues names the ports whose queue changes, as "node/port: kind".
func (c *change) queues() (queues []string) {
	for i := range c.next.Ports {
		p := &c.next.Ports[i]
		was := c.was(p.ID)
		switch {
		case hasQueue(p) && (was == nil || !hasQueue(was) || was.Queue != p.Queue):
			queues = append(queues, fmt.Sprintf("%s: %s", portName(c.next, p), p.Queue))
		case !hasQueue(p) && was != nil && hasQueue(was) && !p.Removed:
			queues = append(queues, portName(c.next, p)+": none")
		}
	}
	return queues
}

// dropPorts marks the ports that the topology no longer has.
func (c *change) dropPorts(portIDs [][]uint16) {
	present := make(map[uint16]bool)
	for _, ids := range portIDs {
		for _, id := range ids {
			present[id] = true
		}
	}
	for i := range c.next.Ports {
		if p := &c.next.Ports[i]; !p.Removed && !present[p.ID] {
			p.Removed, p.Peer = true, noPeer
			c.removedPorts = append(c.removedPorts, p.ID)
		}
	}
}

// findMoved fills in moved.
func (c *change) findMoved(stale func(*domain.Port) bool) {
	type device struct {
		inum    uint32
		ifindex int
	}
	at := func(p *domain.Port) device { return device{c.next.NodeByID(p.Node).Inum, p.Ifindex} }
	was := make(map[device]uint16)
	for _, id := range c.removedPorts {
		if p := c.next.PortByID(id); !stale(p) {
			was[at(p)] = id
		}
	}
	c.moved = make(map[uint16]uint16)
	for _, id := range c.addedPorts {
		if old, ok := was[at(c.next.PortByID(id))]; ok {
			c.moved[id] = old
		}
	}
}

// replaced returns the removed ports whose interface is gone while another one has its
// number, and all others.
func (c *change) replaced() (replaced, others []uint16) {
	moved := make(map[uint16]bool)
	for _, old := range c.moved {
		moved[old] = true
	}
	same := func(p *domain.Port) func(uint16) bool {
		inum := c.next.NodeByID(p.Node).Inum
		return func(id uint16) bool {
			q := c.next.PortByID(id)
			return q.Ifindex == p.Ifindex && c.next.NodeByID(q.Node).Inum == inum
		}
	}
	for _, id := range c.removedPorts {
		if !moved[id] && slices.ContainsFunc(c.addedPorts, same(c.next.PortByID(id))) {
			replaced = append(replaced, id)
		} else {
			others = append(others, id)
		}
	}
	return replaced, others
}

// halfway is the next description while what it removes is still there, and queues are not
// followed yet: who is killed then must find that they are new.
func (c *change) halfway() *domain.Domain {
	d := cloneDomain(c.next)
	for _, id := range c.removedNodes {
		d.NodeByID(id).Removed = false
	}
	for _, id := range c.removedPorts {
		d.PortByID(id).Removed = false
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		p.Queue = ""
		if was := c.was(p.ID); was != nil {
			p.Queue = was.Queue
		}
	}
	return d
}

// portName is how users are told about a port.
func portName(d *domain.Domain, p *domain.Port) string {
	if n := d.NodeByID(p.Node); n != nil {
		return n.Name + "/" + p.Name
	}
	return p.Name
}

// leaveOut leaves a new port out again, because it could not be attached. A bridge
// link that lacks one of its ports is closed nowhere.
func (c *change) leaveOut(id uint16) {
	if p := c.next.PortByID(id); p.Link != "" {
		c.openLink(p.Link)
	}
	c.forget(id)
	c.openTunnels()
}

// forget makes a new port one that never was.
func (c *change) forget(id uint16) {
	same := func(p domain.Port) bool { return p.ID == id }
	c.next.Ports = slices.DeleteFunc(c.next.Ports, same)
	c.addedPorts = slices.DeleteFunc(c.addedPorts, func(added uint16) bool { return added == id })
	delete(c.moved, id)
	c.forgetMembers(id)
	for i := range c.next.Ports {
		if p := &c.next.Ports[i]; p.Peer == int(id) {
			p.Peer = noPeer
			toEdge(p)
		}
	}
}

// openLink makes the attached ends of a bridge link edges, and its closing ports
// restore only.
func (c *change) openLink(link string) {
	for i := range c.next.Ports {
		p := &c.next.Ports[i]
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
func (c *change) openTunnels() {
	for i := range c.next.Ports {
		if p := &c.next.Ports[i]; p.Tunnel && !p.Removed {
			toEdge(p)
		}
	}
}
