// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/vnetradar/radar/pkg/domain"

// SetNetworks notes in the description of a domain which networks bridges are, by port. What is no
// bridge any more stays as it is. It says whether anything is new.
//
// Errors: domain.ErrNotAttached.
func SetNetworks(name string, networks map[uint16]string) (bool, error) {
	unlock, err := domain.Lock(name)
	if err != nil {
		return false, err
	}
	defer unlock()
	d, err := domain.Load(name)
	if err != nil {
		removeUnused(name)
		return false, err
	}
	changed := false
	for id, network := range networks {
		if p := d.PortByID(id); p != nil && !p.Removed && p.Place == domain.Bridge && p.Network != network {
			p.Network, changed = network, true
		}
	}
	if !changed {
		return false, nil
	}
	return true, d.Save()
}
