// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/vnetradar/radar/pkg/domain"

// SetSwitch notes in the description of a domain which process forwards the packets of a node
// itself; "": none does any more. It says whether that is new.
//
// Errors: domain.ErrNotAttached.
func SetSwitch(name string, node uint16, process string) (bool, error) {
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
	n := d.NodeByID(node)
	if n == nil || n.Removed || n.Switch == process {
		return false, nil
	}
	n.Switch = process
	return true, d.Save()
}
