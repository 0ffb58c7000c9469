// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// WithVMs is the description with virtual machines added, or replaced where it has one
// of that name.
func WithVMs(d *domain.Domain, vms []topo.VM) *domain.Domain {
	d = Clone(d)
	for i := range vms {
		vm := vms[i].Domain()
		have := d.VMNamed(vm.Name)
		if have == nil {
			d.VMs = append(d.VMs, vm)
			continue
		}
		vm.ID = have.ID
		*have = vm
	}
	return d
}

// WithoutVMs is the description without virtual machines of these names, and how many it
// had.
func WithoutVMs(d *domain.Domain, names []string) (*domain.Domain, int) {
	d = Clone(d)
	removed := 0
	for _, name := range names {
		if vm := d.VMNamed(name); vm != nil {
			vm.Removed = true
			removed++
		}
	}
	return d, removed
}

// CheckNames refuses a new node that is named like a virtual machine of the domain.
func CheckNames(d *domain.Domain, nodes []topo.NodeSpec) error {
	for _, n := range nodes {
		if d.VMNamed(n.Name) != nil {
			return fault.Usage.Errorf("node %s (%s): a virtual machine of domain %q has that name: name the node otherwise (NAME=%s), or detach the machine first", n.Name, n.Spec, d.Name, n.Spec)
		}
	}
	return nil
}

// bindVMs numbers new virtual machines and finds the ports of all of them, by name: a
// machine that starts again makes its taps anew.
func (c *Change) bindVMs() error {
	of := make(map[string]uint16)
	for i := range c.Next.VMs {
		vm := &c.Next.VMs[i]
		if vm.Removed {
			continue
		}
		if vm.ID == 0 {
			if vm.ID = nextNodeID(c.Next); vm.ID == 0 {
				return fault.Usage.Errorf("%s: %s", vm.Name, NumbersUsedUp(c.Next))
			}
		}
		for _, port := range vm.Ports {
			if other, ok := of[port]; ok && other != vm.ID {
				return fault.Usage.Errorf("%s is a port of two virtual machines: name it once", port)
			}
			of[port] = vm.ID
		}
		c.Locals[vm.ID] = vm.Addrs
	}
	for i := range c.Next.Ports {
		p := &c.Next.Ports[i]
		p.VM = 0
		if !p.Removed && p.Peer == noPeer && p.Link == "" {
			p.VM = of[PortName(c.Next, p)]
		}
		if p.VM != 0 {
			p.Role = domain.Internal
		}
	}
	return nil
}
