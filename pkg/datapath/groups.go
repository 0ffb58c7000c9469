// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net/netip"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

// localPort is RDR_LOCAL_PORT: what marks keys of `locals` for what ports take.
const localPort = 0x10000

func groupKey(port uint16, group netip.Addr) bpfobj.TcRdrLocal {
	return bpfobj.TcRdrLocal{Node: localPort | uint32(port), Addr: wireAddr(group)}
}

// SyncGroups brings what the programs know of memberships in line with what the nodes'
// interfaces have joined. Call it about once a second: the kernel tells nobody. Nodes
// in which nothing has changed since the last call cost one read each.
func (h *Handle) SyncGroups() error {
	changed := false
	now := make(map[uint16]string)
	for i := range h.Domain.Nodes {
		n := &h.Domain.Nodes[i]
		if n.Removed {
			continue
		}
		text, err := specOf(*n).Memberships()
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		now[n.ID] = text
		known, ok := h.memberships[n.ID]
		changed = changed || !ok || known != text
	}
	if !changed && len(now) == len(h.memberships) {
		return nil
	}
	if err := h.writeGroups(h.Domain); err != nil {
		return err
	}
	h.memberships = now
	return nil
}

// writeGroups writes what every port of d takes of groups, and removes the rest.
func (h *Handle) writeGroups(d *domain.Domain) error {
	keep := make(map[bpfobj.TcRdrLocal]bool)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Removed {
			continue
		}
		groups, err := specOf(*n).Groups()
		if errors.Is(err, topo.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		for _, p := range d.Ports {
			if p.Node != n.ID || p.Removed {
				continue
			}
			for _, group := range groups[p.Ifindex] {
				keep[groupKey(p.ID, group)] = true
			}
		}
	}
	m := h.maps[bpfobj.TcMapLocals]
	if err := putKeys(m, keep); err != nil {
		return err
	}
	dropKeys(m, func(key bpfobj.TcRdrLocal) bool { return key.Node&localPort != 0 && !keep[key] })
	return nil
}
