// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/domain"
)

// clearPort makes the programs forget a port.
func (h *Handle) clearPort(n *domain.Node, p *domain.Port) {
	dev := bpfobj.TcRdrDev{NetnsInum: n.Inum, Ifindex: uint32(p.Ifindex)}
	var id uint32
	if m := h.maps[bpfobj.TcMapDevs]; m.Lookup(&dev, &id) == nil && id == uint32(p.ID) {
		_ = m.Delete(&dev) // else it is not there, or another port's by now
	}
	_ = h.maps[bpfobj.TcMapPorts].Put(uint32(p.ID), &bpfobj.TcRdrPort{Node: n.ID, Flags: uint16(restoreFlags(p) | nodeFlags(n))})
}

// portEntry is what the programs know of a port of node n.
func portEntry(n *domain.Node, p *domain.Port, flags bpfobj.TcRdrPortFlag) bpfobj.TcRdrPort {
	return bpfobj.TcRdrPort{
		Node: n.ID, Flags: uint16(flags | nodeFlags(n)), Ifindex: uint32(p.Ifindex), NetnsInum: n.Inum, Behind: p.VM,
	}
}

// nodeFlags are those that all ports of a node have, at any time.
func nodeFlags(n *domain.Node) bpfobj.TcRdrPortFlag {
	if n.Header != "" {
		return bpfobj.TcRdrPortFlagRDR_PF_HEADER
	}
	return 0
}

// writeFlags sets the flags of all ports that are attached.
func (h *Handle) writeFlags(d *domain.Domain, flags func(*domain.Port) bpfobj.TcRdrPortFlag) error {
	nodes := make(map[uint16]*domain.Node, len(d.Nodes))
	for i := range d.Nodes {
		nodes[d.Nodes[i].ID] = &d.Nodes[i]
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Removed {
			continue
		}
		entry := portEntry(nodes[p.Node], p, flags(p))
		if err := h.maps[bpfobj.TcMapPorts].Update(uint32(p.ID), &entry, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("set port %s: %w", portName(d, p), err)
		}
	}
	return nil
}
