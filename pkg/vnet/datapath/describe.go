// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/vnetradar/radar/pkg/vnet/domain"

// describe changes the description of a domain, which programs and maps do not depend on. change
// says whether it has changed anything; then the description is saved.
//
// Errors: domain.ErrNotAttached.
func describe(name string, change func(*domain.Domain) bool) (bool, error) {
	unlock, err := domain.Lock(name)
	if err != nil {
		return false, err
	}
	defer unlock()
	d, err := domain.Load(name)
	if err != nil {
		domain.Kind.ForgetUnused(name)
		return false, err
	}
	if !change(d) {
		return false, nil
	}
	return true, d.Save()
}

// SetSwitch notes in the description of a domain which process forwards the packets of a node
// itself; "": none does any more. It says whether that is new.
//
// Errors: domain.ErrNotAttached.
func SetSwitch(name string, node uint16, process string) (bool, error) {
	return describe(name, func(d *domain.Domain) bool {
		n := d.NodeByID(node)
		if n == nil || n.Removed || n.Switch == process {
			return false
		}
		n.Switch = process
		return true
	})
}

// SetNetworks notes in the description of a domain which networks bridges are, by port. What is no
// bridge any more stays as it is. It says whether anything is new.
//
// Errors: domain.ErrNotAttached.
func SetNetworks(name string, networks map[uint16]string) (bool, error) {
	return describe(name, func(d *domain.Domain) (changed bool) {
		for id, network := range networks {
			if p := d.PortByID(id); p != nil && !p.Removed && p.Place == domain.Bridge && p.Network != network {
				p.Network, changed = network, true
			}
		}
		return changed
	})
}
