// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

// Limits of the ABI: RDR_MAX_NODES, RDR_MAX_PORTS. Number 0 is not used, so that
// a zero entry of a map means nothing.
const (
	maxNodes = domain.MaxNodes
	maxPorts = domain.MaxPorts
)

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
	return numberAfter(last, maxPorts)
}

func numberAfter(last, end uint16) uint16 {
	if last >= end-1 {
		return 0
	}
	return last + 1
}

// NumbersUsedUp says of a domain that has no number left for a further node or port what
// that means and what to do; "" of any other. A number is given once in a domain's life,
// because records mean it.
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
	return fmt.Sprintf("domain %q has had %s, as many as it can in its life: further ones are not attached; detach all and attach again", d.Name, what)
}

// usedUp names what finds no number, as a warning; none if nothing does.
func (c *change) usedUp() []string {
	if len(c.unnumbered) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not attached: %s: %s", strings.Join(c.unnumbered, ", "), NumbersUsedUp(c.next))}
}

// checkNumbers deals with nodes and ports that got no number. Nodes that the user attaches
// now are refused. Of others the ports are left out, in portIDs, and named in c.unnumbered;
// a node that carries the GUID in the header is taken out with them: what it would send
// through such a port has rewritten bits.
func (c *change) checkNumbers(t *topo.Topology, nodeIDs []uint16, portIDs [][]uint16) error {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		missing := nodeIDs[i] == 0
		for j, id := range portIDs[i] {
			if id == 0 {
				missing = true
				c.unnumbered = append(c.unnumbered, n.Name+"/"+n.Ports[j].Name)
			}
		}
		if !missing {
			continue
		}
		if !n.Auto && (nodeIDs[i] == 0 || slices.Contains(c.addedNodes, nodeIDs[i])) {
			return usagef("node %s: %s", n.Name, NumbersUsedUp(c.next))
		}
		if node := c.next.NodeByID(nodeIDs[i]); node != nil && !node.Auto && (node.Header != "" || c.next.Options.MarkMask == 0) {
			c.takeOut(node, portIDs[i])
		}
	}
	return nil
}

// takeOut removes a node that was in the domain, and clears the numbers of its ports.
func (c *change) takeOut(n *domain.Node, portIDs []uint16) {
	n.Removed = true
	c.removedNodes = append(c.removedNodes, n.ID)
	delete(c.locals, n.ID)
	for j, id := range portIDs {
		if slices.Contains(c.addedPorts, id) {
			c.forget(id)
		}
		portIDs[j] = 0
	}
}

// openUnnumbered opens the links of ports that are left out, and drops closing nodes of
// which nothing is left.
func (c *change) openUnnumbered(t *topo.Topology, portIDs [][]uint16) {
	if len(c.unnumbered) == 0 {
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
		return slices.ContainsFunc(c.next.Ports, func(p domain.Port) bool { return p.Node == node })
	}
	c.next.Nodes = slices.DeleteFunc(c.next.Nodes, func(n domain.Node) bool {
		return n.Auto && slices.Contains(c.addedNodes, n.ID) && !hasPort(n.ID)
	})
	gone := func(node uint16) bool { return c.next.NodeByID(node) == nil }
	c.addedNodes = slices.DeleteFunc(c.addedNodes, gone)
	maps.DeleteFunc(c.locals, func(node uint16, _ []netip.Addr) bool { return gone(node) })
}
