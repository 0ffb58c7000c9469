// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"math"
	"slices"

	"github.com/vnetradar/radar/pkg/domain"
)

// Limits of the ABI: RDR_MAX_NODES, RDR_MAX_PORTS. Number 0 is not used, so that
// a zero entry of a map means nothing.
const (
	maxNodes = 4096
	maxPorts = 16384
)

// nextNodeID is one more than any node or virtual machine has, or has had. From maxNodes on
// it is none that the maps have room for.
func nextNodeID(d *domain.Domain) uint16 {
	var last uint16
	for i := range d.Nodes {
		last = max(last, d.Nodes[i].ID)
	}
	for i := range d.VMs {
		last = max(last, d.VMs[i].ID)
	}
	return min(last, math.MaxUint16-1) + 1
}

// nextPortID is nextNodeID of ports.
func nextPortID(d *domain.Domain) uint16 {
	var last uint16
	for i := range d.Ports {
		last = max(last, d.Ports[i].ID)
	}
	return min(last, math.MaxUint16-1) + 1
}

// NumbersUsedUp says of a domain that has no number left for a further node or port what
// that means and what to do; "" of any other. A number is given once in a domain's life,
// because records mean it.
func NumbersUsedUp(d *domain.Domain) string {
	var what string
	switch {
	case nextNodeID(d) >= maxNodes:
		what = fmt.Sprintf("%d nodes", maxNodes-1)
	case nextPortID(d) >= maxPorts:
		what = fmt.Sprintf("%d interfaces", maxPorts-1)
	default:
		return ""
	}
	return fmt.Sprintf("domain %q has had %s, as many as it can in its life: further ones are not attached; detach all and attach again", d.Name, what)
}

// leaveOutUnnumbered takes out again what got a number that there is no room for: ports,
// and closing nodes. The other ends of such ports are edges. A node that the user attaches
// now is refused instead.
func (c *change) leaveOutUnnumbered() error {
	refuse := func(name string) error { return usagef("%s: %s", name, NumbersUsedUp(c.next)) }
	asked := func(node uint16) bool {
		return slices.Contains(c.addedNodes, node) && !c.next.NodeByID(node).Auto
	}
	for _, id := range c.addedNodes {
		if id >= maxNodes && asked(id) {
			return refuse(c.next.NodeByID(id).Name)
		}
	}
	for _, id := range slices.Clone(c.addedPorts) {
		p := c.next.PortByID(id)
		if id < maxPorts && p.Node < maxNodes {
			continue
		}
		name := portName(c.next, p)
		if asked(p.Node) {
			return refuse(name)
		}
		c.unnumbered = append(c.unnumbered, name)
		c.leaveOut(id)
	}
	for _, id := range c.addedNodes {
		if id >= maxNodes {
			delete(c.locals, id)
		}
	}
	c.next.Nodes = slices.DeleteFunc(c.next.Nodes, func(n domain.Node) bool { return n.ID >= maxNodes })
	c.addedNodes = slices.DeleteFunc(c.addedNodes, func(id uint16) bool { return id >= maxNodes })
	return nil
}
