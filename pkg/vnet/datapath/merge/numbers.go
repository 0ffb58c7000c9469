// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Limits of the ABI: RDR_MAX_NODES, RDR_MAX_PORTS. Number 0 is not used, so that
// a zero entry of a map means nothing.
const (
	maxNodes = domain.MaxNodes
	maxPorts = domain.MaxPorts
)

// PortsPerNode is how many numbers one node gets for interfaces, as long as it needs no more at
// a time: a node that may make interfaces (CAP_NET_ADMIN) could else use up all of the domain's.
// A closing node has more where its bridges have: those are not made by who is measured.
// Tests set another number.
var PortsPerNode = 1024

// nextNodeID is the number of the next node, or virtual machine; 0: there is none left.
func nextNodeID(d *domain.Domain) uint16 {
	var last uint16
	for i := range d.Nodes {
		last = max(last, d.Nodes[i].ID)
	}
	for i := range d.VMs {
		last = max(last, d.VMs[i].ID)
	}
	return numberAfter(last, maxNodes)
}

// nextPortID is nextNodeID of ports.
func nextPortID(d *domain.Domain) uint16 {
	var last uint16
	for i := range d.Ports {
		last = max(last, d.Ports[i].ID)
	}
	for i := range d.Members {
		last = max(last, d.Members[i].ID)
	}
	return numberAfter(last, maxPorts)
}

// portNumber is the number of a new interface of a node, 0: there is none. It is a new number
// if the node has not had its share. Else it is that of an interface of the node that is gone,
// best of one with the same name: records which mean that one then name the new one. present
// are the indices of the interfaces that the node has now.
func (c *Change) portNumber(node uint16, name string, present map[int]bool) (id uint16, again bool) {
	live, had, gone := 0, 0, (*domain.Port)(nil)
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		if p.Node != node {
			continue
		}
		had++
		switch {
		case !p.Removed && present[p.Ifindex]:
			live++
		case p.Removed && (gone == nil || gone.Name != name && p.Name == name):
			gone = p // dropPorts comes later: its programs went with an earlier change
		}
	}
	id = nextPortID(c.Next)
	switch {
	case live >= PortsPerNode && !c.Next.NodeByID(node).Auto:
		return 0, false
	case had < PortsPerNode && id != 0:
		return id, false
	case gone != nil:
		return gone.ID, true
	}
	return id, false
}

func numberAfter(last, end uint16) uint16 {
	if last >= end-1 {
		return 0
	}
	return last + 1
}

// NumbersUsedUp says of a domain that has no number left for a further node or port what
// that means and what to do; "" of any other. Records mean numbers: a node's is given
// once in a domain's life, an interface's again only as portNumber says.
func NumbersUsedUp(d *domain.Domain) string {
	var what string
	switch {
	case nextNodeID(d) == 0:
		what = fmt.Sprintf("%d nodes", maxNodes-1)
	case nextPortID(d) == 0:
		what = fmt.Sprintf("%d interfaces", maxPorts-1)
	default:
		return ""
	}
	return fmt.Sprintf("domain %q has had %s, as many as it can in its life: further ones are not attached, but in place of interfaces of the same node that are gone; detach all and attach again", d.Name, what)
}

// WhyUnnumbered says why ports or nodes of the change have no number, and what to do.
func (c *Change) WhyUnnumbered() string {
	if text := NumbersUsedUp(c.Next); text != "" {
		return text
	}
	return fmt.Sprintf("a node can have %d interfaces at a time: further ones are not attached; remove some", PortsPerNode)
}

// UsedUp names what finds no number, as a warning; none if nothing does.
func (c *Change) UsedUp() []string {
	if len(c.Unnumbered) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not attached: %s: %s", strings.Join(c.Unnumbered, ", "), c.WhyUnnumbered())}
}

// checkNumbers deals with nodes and ports that got no number. Nodes that the user attaches
// now are refused. Of others the ports are left out, in portIDs, and named in c.Unnumbered;
// a node that carries the GUID in the header is taken out with them: what it would send
// through such a port has rewritten bits.
func (c *Change) checkNumbers(t *topo.Topology, nodeIDs []uint16, portIDs [][]uint16) error {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		missing := nodeIDs[i] == 0
		for j, id := range portIDs[i] {
			if id == 0 {
				missing = true
				c.Unnumbered = append(c.Unnumbered, n.Name+"/"+n.Ports[j].Name)
			}
		}
		if !missing {
			continue
		}
		if !n.Auto && (nodeIDs[i] == 0 || slices.Contains(c.AddedNodes, nodeIDs[i])) {
			return fault.Usage.Errorf("node %s: %s", n.Name, c.WhyUnnumbered())
		}
		if node := c.Next.NodeByID(nodeIDs[i]); node != nil && !node.Auto && (node.Header != "" || c.Next.Options.MarkMask == 0) {
			c.takeOut(node, portIDs[i])
		}
	}
	return nil
}

// takeOut removes a node that was in the domain, and clears the numbers of its ports.
func (c *Change) takeOut(n *domain.Node, portIDs []uint16) {
	n.Removed = true
	c.RemovedNodes = append(c.RemovedNodes, n.ID)
	delete(c.Locals, n.ID)
	for j, id := range portIDs {
		if slices.Contains(c.AddedPorts, id) {
			c.Forget(id)
		}
		portIDs[j] = 0
	}
}

// openUnnumbered opens the links of ports that are left out, and drops closing nodes of
// which nothing is left.
func (c *Change) openUnnumbered(t *topo.Topology, portIDs [][]uint16) {
	if len(c.Unnumbered) == 0 {
		return
	}
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			if p := &t.Nodes[i].Ports[j]; portIDs[i][j] == 0 && p.Link != "" {
				c.openLink(p.Link)
			}
		}
	}
	c.openTunnels()
	hasPort := func(node uint16) bool {
		return slices.ContainsFunc(c.Next.Ports, func(p domain.Port) bool { return p.Node == node })
	}
	c.Next.Nodes = slices.DeleteFunc(c.Next.Nodes, func(n domain.Node) bool {
		return n.Auto && slices.Contains(c.AddedNodes, n.ID) && !hasPort(n.ID)
	})
	gone := func(node uint16) bool { return c.Next.NodeByID(node) == nil }
	c.AddedNodes = slices.DeleteFunc(c.AddedNodes, gone)
	maps.DeleteFunc(c.Locals, func(node uint16, _ []netip.Addr) bool { return gone(node) })
}
