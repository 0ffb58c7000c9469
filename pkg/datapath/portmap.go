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
	_ = h.maps[bpfobj.TcMapPorts].Put(uint32(p.ID), &bpfobj.TcRdrPort{Node: n.ID, Flags: uint16(restoreFlags(p))})
}

// writeFlags sets the flags of all ports that are attached.
func (h *Handle) writeFlags(d *domain.Domain, flags func(*domain.Port) bpfobj.TcRdrPortFlag) error {
	inums := make(map[uint16]uint32, len(d.Nodes))
	for _, n := range d.Nodes {
		inums[n.ID] = n.Inum
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Removed {
			continue
		}
		entry := bpfobj.TcRdrPort{Node: p.Node, Flags: uint16(flags(p)), Ifindex: uint32(p.Ifindex), NetnsInum: inums[p.Node]}
		if err := h.maps[bpfobj.TcMapPorts].Update(uint32(p.ID), &entry, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("set port %s: %w", portName(d, p), err)
		}
	}
	return nil
}
