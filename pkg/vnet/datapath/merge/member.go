// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"slices"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Members of bridges that have no program. Packets are lost in their queues and before them, and
// the hook for losses knows interfaces by their port's number only: so each has a number of its
// own.

// Insider is such a member: the port of its bridge, and its own number. Where numbers are used up
// that is the bridge's.
type Insider struct {
	Bridge, Number uint16
}

// dropMembers marks the members that the topology no longer has.
func (c *Change) dropMembers(t *topo.Topology, nodeIDs []uint16) {
	type device struct {
		node    uint16
		ifindex int
	}
	present := make(map[device]bool)
	for i := range t.Bridges {
		for _, m := range t.Bridges[i].Inside {
			present[device{nodeIDs[t.Bridges[i].Node], m.Ifindex}] = true
		}
	}
	for i := range c.Next.Members {
		m := &c.Next.Members[i]
		m.Removed = !present[device{m.Node, m.Ifindex}] || m.Removed
	}
}

// placeInside notes the members of a bridge that have no program.
func (c *Change) placeInside(t *topo.Topology, b *topo.Bridge, portIDs []uint16) {
	for j, p := range t.Nodes[b.Node].Ports {
		if p.Place != domain.Bridge || p.Ifindex != b.Ifindex || portIDs[j] == 0 {
			continue
		}
		bridge := c.Next.PortByID(portIDs[j])
		for _, m := range b.Inside {
			dev := bpfobj.TcRdrDev{NetnsInum: t.Nodes[b.Node].Inum, Ifindex: uint32(m.Ifindex)}
			c.Inside[dev] = Insider{bridge.ID, c.mergeMember(bridge, m)}
		}
	}
}

// mergeMember returns the number of a member of that bridge: a new one if need be.
func (c *Change) mergeMember(bridge *domain.Port, m topo.Member) uint16 {
	had, gone := 0, -1
	for i := range c.Next.Members {
		have := &c.Next.Members[i]
		switch {
		case have.Node != bridge.Node:
			continue
		case !have.Removed && have.Ifindex == m.Ifindex:
			have.Name, have.Link, have.To = m.Name, bridge.Link, m.To // it can be renamed, and change its bridge
			return have.ID
		case have.Removed && (gone < 0 || c.Next.Members[gone].Name != m.Name && have.Name == m.Name):
			gone = i
		}
		had++
	}
	member := domain.Member{ID: nextPortID(c.Next), Node: bridge.Node, Name: m.Name, Ifindex: m.Ifindex, Link: bridge.Link, To: m.To}
	switch {
	case gone >= 0 && (had >= PortsPerNode || member.ID == 0): // as portNumber() does
		member.ID = c.Next.Members[gone].ID
		c.Next.Members[gone] = member
	case member.ID == 0:
		return bridge.ID
	default:
		c.Next.Members = append(c.Next.Members, member)
	}
	return member.ID
}

// forgetMembers forgets new members of a bridge that could not be attached.
func (c *Change) forgetMembers(bridge uint16) {
	for dev, in := range c.Inside {
		if in.Bridge != bridge {
			continue
		}
		delete(c.Inside, dev)
		c.Next.Members = slices.DeleteFunc(c.Next.Members, func(m domain.Member) bool {
			return m.ID == in.Number && (c.Old == nil || !slices.ContainsFunc(c.Old.Members, func(was domain.Member) bool { return was.ID == m.ID }))
		})
	}
}
