// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// setDevice makes the programs know a port by its interface. What comes in by one that cannot be
// read is what a node may be the source of.
func (h *Handle) setDevice(n *domain.Node, p *domain.Port) error {
	if port.IsUnreadable(p) {
		return nil
	}
	if err := h.maps[bpfobj.TcMapDevs].Put(&bpfobj.TcRdrDev{NetnsInum: n.Inum, Ifindex: uint32(p.Ifindex)}, uint32(p.ID)); err != nil {
		return fmt.Errorf("set device: %w", err)
	}
	return nil
}

// clearPort makes the programs forget a port.
func (h *Handle) clearPort(n *domain.Node, p *domain.Port) {
	dev := bpfobj.TcRdrDev{NetnsInum: n.Inum, Ifindex: uint32(p.Ifindex)}
	var id uint32
	if m := h.maps[bpfobj.TcMapDevs]; m.Lookup(&dev, &id) == nil && id == uint32(p.ID) {
		_ = m.Delete(&dev) // else it is not there, or another port's by now
	}
	_ = h.maps[bpfobj.TcMapPorts].Put(uint32(p.ID), &bpfobj.TcRdrPort{Node: n.ID, Flags: uint16(tables.RestoreFlags(p) | tables.NodeFlags(n))})
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
		entry := tables.Port(nodes[p.Node], p, flags(p))
		if peer := d.PortByID(uint16(p.Peer)); p.Peer >= 0 && peer != nil && !peer.Removed {
			entry.Towards = peer.Node + 1
		}
		if err := h.putPort(p.ID, entry); err != nil {
			return fmt.Errorf("set port %s: %w", merge.PortName(d, p), err)
		}
	}
	return nil
}

// setMember makes the loss hook know a member of a bridge.
func (h *Handle) setMember(d *domain.Domain, dev *bpfobj.TcRdrDev, in merge.Insider) error {
	if in.Number != in.Bridge {
		bridge := d.PortByID(in.Bridge)
		entry := tables.Port(d.NodeByID(bridge.Node), bridge, tables.RestoreFlags(bridge))
		entry.Ifindex = dev.Ifindex
		if err := h.maps[bpfobj.TcMapPorts].Put(uint32(in.Number), &entry); err != nil {
			return fmt.Errorf("set member of a bridge: %w", err)
		}
	}
	if err := h.maps[bpfobj.TcMapDevs].Put(dev, uint32(in.Number)); err != nil {
		return fmt.Errorf("set member of a bridge: %w", err)
	}
	return nil
}
