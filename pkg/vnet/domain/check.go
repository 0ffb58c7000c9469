// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Limits of what a description can say. MaxNodes and MaxPorts are RDR_MAX_NODES and
// RDR_MAX_PORTS of the ABI: numbers lie below, and none is 0.
const (
	MaxNodes = 4096
	MaxPorts = 16384

	MinSlots   = 1 << 12
	MaxSlots   = 1 << 24
	MinKeys    = 1 << 8
	MaxKeys    = 1 << 22
	MinTimeout = 100 * time.Millisecond
	MaxTimeout = 15 * time.Minute // event times hold 18 minutes

	lineBytes    = 64
	minSlotBytes = 2 * lineBytes
	maxSlotBytes = 8 * lineBytes
)

// check says what makes no sense in a description that was read. Everything that follows relies on it: numbers that another part of the
// description names are there, and sizes are those that a domain can have.
func (d *Domain) check() error {
	d.sort()
	if err := d.Options.check(); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	return d.CheckNumbers()
}

// CheckNumbers says which numbers of a description cannot be: each is there once, and those that another part names
// are there.
func (d *Domain) CheckNumbers() error {
	if err := d.checkNodes(); err != nil {
		return err
	}
	if err := d.checkPorts(); err != nil {
		return err
	}
	return d.checkMembers()
}

func (o *Options) check() error {
	switch {
	case o.Slots < MinSlots || o.Slots > MaxSlots || bits.OnesCount32(o.Slots) != 1:
		return fmt.Errorf("%d slots", o.Slots)
	case o.SlotBytes < minSlotBytes || o.SlotBytes > maxSlotBytes || o.SlotBytes%lineBytes != 0:
		return fmt.Errorf("slots of %d bytes", o.SlotBytes)
	case o.Keys < MinKeys || o.Keys > MaxKeys:
		return fmt.Errorf("%d keys", o.Keys)
	case o.Timeout < MinTimeout || o.Timeout > MaxTimeout:
		return fmt.Errorf("a timeout of %v", o.Timeout)
	case o.MinAge < 0 || o.MinAge > o.Timeout:
		return fmt.Errorf("a minimum age of %v", o.MinAge)
	case o.Lease < 0:
		return fmt.Errorf("a lease of %v", o.Lease)
	case o.Hook != "tcx" && o.Hook != "clsact":
		return fmt.Errorf("hook %q", o.Hook)
	}
	return nil
}

// checkNodes looks at nodes and virtual machines, which share their numbers.
func (d *Domain) checkNodes() error {
	var used [MaxNodes]bool
	take := func(id uint16, name string) error {
		if id == 0 || id >= MaxNodes {
			return fmt.Errorf("node %q has the number %d", name, id)
		}
		if used[id] {
			return fmt.Errorf("two nodes have the number %d", id)
		}
		used[id] = true
		return nil
	}
	for i := range d.Nodes {
		if err := take(d.Nodes[i].ID, d.Nodes[i].Name); err != nil {
			return err
		}
	}
	for i := range d.VMs {
		if err := take(d.VMs[i].ID, d.VMs[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// checkPorts looks at ports, which are in the order of their numbers.
func (d *Domain) checkPorts() error {
	for i := range d.Ports {
		p := &d.Ports[i]
		switch {
		case p.ID == 0 || p.ID >= MaxPorts:
			return fmt.Errorf("port %q has the number %d", p.Name, p.ID)
		case i > 0 && p.ID == d.Ports[i-1].ID:
			return fmt.Errorf("two ports have the number %d", p.ID)
		case d.NodeByID(p.Node) == nil:
			return fmt.Errorf("port %d is of node %d, which is not there", p.ID, p.Node)
		case p.Ifindex < 0:
			return fmt.Errorf("port %d is interface %d", p.ID, p.Ifindex)
		case p.Role != Internal && p.Role != Edge:
			return fmt.Errorf("port %d has the role %q", p.ID, p.Role)
		case p.Place != "" && p.Place != BridgePort && p.Place != Bridge:
			return fmt.Errorf("port %d has the place %q", p.ID, p.Place)
		case p.Peer < -1 || p.Peer >= MaxPorts || p.Peer > 0 && d.PortByID(uint16(p.Peer)) == nil:
			return fmt.Errorf("port %d has the peer %d, which is not there", p.ID, p.Peer)
		case p.VM != 0 && d.VMByID(p.VM) == nil:
			return fmt.Errorf("port %d is of virtual machine %d, which is not there", p.ID, p.VM)
		}
		for _, id := range p.Beside {
			if d.PortByID(id) == nil {
				return fmt.Errorf("port %d is beside port %d, which is not there", p.ID, id)
			}
		}
	}
	return nil
}

// checkMembers looks at members, which share the numbers of ports.
func (d *Domain) checkMembers() error {
	used := make(map[uint16]bool)
	for i := range d.Members {
		m := &d.Members[i]
		switch {
		case m.ID == 0 || m.ID >= MaxPorts:
			return fmt.Errorf("member %q has the number %d", m.Name, m.ID)
		case used[m.ID] || d.PortByID(m.ID) != nil:
			return fmt.Errorf("two ports have the number %d", m.ID)
		case d.NodeByID(m.Node) == nil:
			return fmt.Errorf("member %d is of node %d, which is not there", m.ID, m.Node)
		case m.Ifindex < 0:
			return fmt.Errorf("member %d is interface %d", m.ID, m.Ifindex)
		}
		used[m.ID] = true
	}
	return nil
}

// dropLost removes ports of nodes that are not there, of a description that is not checked.
func (d *Domain) dropLost() {
	d.Ports = slices.DeleteFunc(d.Ports, func(p Port) bool { return d.NodeByID(p.Node) == nil })
}
