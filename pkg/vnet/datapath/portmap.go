// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
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
	_ = h.maps[bpfobj.TcMapPorts].Put(uint32(p.ID), &bpfobj.TcRdrPort{Node: n.ID, Flags: uint16(restoreFlags(p) | nodeFlags(n))})
}

// portEntry is what the programs know of a port of node n, but for what is at its other end.
func portEntry(n *domain.Node, p *domain.Port, flags bpfobj.TcRdrPortFlag) bpfobj.TcRdrPort {
	return bpfobj.TcRdrPort{
		Node: n.ID, Flags: uint16(flags | nodeFlags(n)), Ifindex: uint32(p.Ifindex), NetnsInum: n.Inum, Behind: p.VM,
	}
}

// nodeFlags are those that all ports of a node have, at any time.
func nodeFlags(n *domain.Node) (flags bpfobj.TcRdrPortFlag) {
	switch {
	case n.Apart != "":
		flags = flagsApart
	case n.Header != "":
		flags = bpfobj.TcRdrPortFlagRDR_PF_HEADER
	}
	if n.Late {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_LATE
	}
	return flags
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
		if peer := d.PortByID(uint16(p.Peer)); p.Peer >= 0 && peer != nil && !peer.Removed {
			entry.Towards = peer.Node + 1
		}
		if err := h.putPort(p.ID, entry); err != nil {
			return fmt.Errorf("set port %s: %w", merge.PortName(d, p), err)
		}
	}
	return nil
}

// flagsOf is what a port's programs do when all is attached.
func flagsOf(p *domain.Port) bpfobj.TcRdrPortFlag {
	flags := bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT
	switch {
	case p.Open:
		flags = 0
	case p.Place == domain.BridgePort: // what the bridge sends there met a source before
		flags = bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN
	case p.VM != 0: // it sees true bits, and may be the source of what comes from there
		flags |= bpfobj.TcRdrPortFlagRDR_PF_INTERNAL | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN
	case p.Place == domain.Bridge, p.Role == domain.Internal:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_INTERNAL
	case p.Forced && p.Link != "":
		// What comes from the link met a source before. What is marked comes too, the
		// user's word only restores what is sent; of flooded copies it may be the last.
	default:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN
	}
	if merge.HasQueue(p) {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_QUEUE
	}
	if p.Tunnel && p.Role == domain.Internal {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_TUNNEL
	}
	if p.True && p.Role == domain.Internal {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_TRUE
	}
	return flags | restoreFlags(p)
}

// restoreFlags is what they do before and after: restore, and source nothing.
func restoreFlags(p *domain.Port) (flags bpfobj.TcRdrPortFlag) {
	if p.L3 {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_L3
	}
	if p.VM != 0 { // its keys are all that what is in there can be found by
		flags |= bpfobj.TcRdrPortFlagRDR_PF_TRUE
	}
	switch p.Place {
	case domain.BridgePort:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_BRIDGE_PORT
	case domain.Bridge:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_BRIDGE
	}
	return flags
}

// setMember makes the loss hook know a member of a bridge.
func (h *Handle) setMember(d *domain.Domain, dev *bpfobj.TcRdrDev, in merge.Insider) error {
	if in.Number != in.Bridge {
		bridge := d.PortByID(in.Bridge)
		entry := portEntry(d.NodeByID(bridge.Node), bridge, restoreFlags(bridge))
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
