// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

// withVMs is the description with virtual machines added, or replaced where it has one
// of that name.
func withVMs(d *domain.Domain, vms []topo.VM) *domain.Domain {
	d = cloneDomain(d)
	for i := range vms {
		vm := vms[i].Domain()
		at := slices.IndexFunc(d.VMs, func(have domain.VM) bool { return have.Name == vm.Name })
		if at < 0 {
			d.VMs = append(d.VMs, vm)
			continue
		}
		vm.ID = d.VMs[at].ID
		d.VMs[at] = vm
	}
	return d
}

// bindVMs numbers new virtual machines and finds the ports of all of them, by name: a
// machine that starts again makes its taps anew.
func (c *change) bindVMs() (err error) {
	of := make(map[string]uint16)
	for i := range c.next.VMs {
		vm := &c.next.VMs[i]
		if vm.ID == 0 {
			if vm.ID, err = freeNodeID(c.next); err != nil {
				return err
			}
		}
		for _, port := range vm.Ports {
			if other, ok := of[port]; ok && other != vm.ID {
				return usagef("%s is a port of two virtual machines: name it once", port)
			}
			of[port] = vm.ID
		}
		c.locals[vm.ID] = vm.Addrs
	}
	for i := range c.next.Ports {
		p := &c.next.Ports[i]
		p.VM = 0
		if !p.Removed && p.Peer == noPeer && p.Link == "" {
			p.VM = of[portName(c.next, p)]
		}
		if p.VM != 0 {
			p.Role = domain.Internal
		}
	}
	return nil
}
