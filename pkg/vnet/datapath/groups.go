// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// SyncGroups brings what the programs know of memberships in line with what the nodes'
// interfaces have joined. Call it about once a second: the kernel tells nobody. Nodes
// in which nothing has changed since the last call cost one read each. The error says
// also that there was no room for all; then the next call tries again.
func (h *Handle) SyncGroups() error {
	changed := make(map[uint16]bool)
	now := make(map[uint16]string)
	for i := range h.Domain.Nodes {
		n := &h.Domain.Nodes[i]
		if n.Removed {
			continue
		}
		text, err := topo.SpecOf(*n).Memberships()
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		now[n.ID] = text
		if known, ok := h.memberships[n.ID]; !ok || known != text {
			changed[n.ID] = true
		}
	}
	if len(changed) > 0 {
		left, err := h.writeGroups(h.Domain, func(node uint16) bool { return changed[node] })
		if err != nil {
			return err
		}
		if left > 0 {
			return errors.New(groupsLeft(left))
		}
	}
	h.memberships = now
	return nil
}

// groupsLeft says what it means that the table has no room for so many.
func groupsLeft(left int) string {
	return fmt.Sprintf("%s: %d memberships of groups and broadcast addresses are left out, what is delivered for them shows as ignored or expired", crowdedText, left)
}

// writeGroups writes what every port of some nodes of d takes of groups, and removes the
// rest. It returns how many did not fit.
func (h *Handle) writeGroups(d *domain.Domain, of func(node uint16) bool) (left int, err error) {
	keep := make(map[bpfobj.TcRdrLocal]bool)
	ports := make(map[uint32]bool) // of other nodes
	for _, p := range d.Ports {
		if !p.Removed && !of(p.Node) {
			ports[tables.OfPort|uint32(p.ID)] = true
		}
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Removed || !of(n.ID) {
			continue
		}
		groups, err := topo.SpecOf(*n).Groups()
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, p := range d.Ports {
			if p.Node != n.ID || p.Removed {
				continue
			}
			for _, group := range groups[p.Ifindex] {
				keep[tables.GroupKey(p.ID, group)] = true
			}
		}
	}
	m := h.maps[bpfobj.TcMapLocals]
	if left, err = putKeys(m, keep); err != nil {
		return 0, err
	}
	dropKeys(m, func(key bpfobj.TcRdrLocal) bool { return key.Node&tables.OfPort != 0 && !ports[key.Node] && !keep[key] })
	if left > 0 {
		return putKeys(m, keep) // there may be room now
	}
	return 0, nil
}

// dropGroups makes room for addresses, which matter more. writeGroups brings back what
// fits beside them.
func (h *Handle) dropGroups() {
	dropKeys(h.maps[bpfobj.TcMapLocals], func(key bpfobj.TcRdrLocal) bool { return key.Node&tables.OfPort != 0 })
}
