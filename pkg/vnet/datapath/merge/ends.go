// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Ends says, of each interface whose move would let packets out, which port becomes an edge.
// The user's word on a port stands.
func (c *Change) Ends() map[bpfobj.TcRdrDev]uint32 {
	ends := make(map[bpfobj.TcRdrDev]uint32)
	nodes := make(map[uint16]uint32, len(c.Next.Nodes))
	for _, n := range c.Next.Nodes {
		nodes[n.ID] = n.Inum
	}
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		if p.Removed || p.Forced || p.Role != domain.Internal || p.Peer < 0 {
			continue
		}
		if peer := c.Next.PortByID(uint16(p.Peer)); peer != nil && !peer.Removed {
			ends[bpfobj.TcRdrDev{NetnsInum: nodes[peer.Node], Ifindex: uint32(peer.Ifindex)}] = uint32(p.ID)
		}
	}
	for dev, id := range c.members {
		if p := c.Next.PortByID(id); p != nil && !p.Removed && !p.Forced {
			ends[dev] = uint32(id)
		}
	}
	return ends
}

// Homes are the nodes that carry the header, by the numbers of their namespaces.
func Homes(d *domain.Domain) map[uint32]uint32 {
	homes := make(map[uint32]uint32)
	for _, n := range d.Nodes {
		if !n.Removed && !n.Auto && (n.Header != "" || d.Options.MarkMask == 0) {
			homes[n.Inum] = uint32(n.ID)
		}
	}
	return homes
}
