// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// movedFrom returns the port whose interface and programs the new one takes over, nil
// if there is none.
func (a *applier) movedFrom(p *domain.Port) *domain.Port {
	if id, ok := a.c.Moved[p.ID]; ok {
		return a.c.Next.PortByID(id)
	}
	return nil
}

// exchanged says whether the filters of a removed port are another port's now.
func (a *applier) exchanged(id uint16) bool {
	if a.c.Next.Options.Hook != program.HookClsact {
		return false
	}
	for _, was := range a.c.Moved {
		if was == id {
			return true
		}
	}
	return false
}

// restorePorts takes removePorts back as far as the interfaces are still there: the
// other ports mark as before. Their flags are lower's to restore.
func (a *applier) restorePorts(ids []uint16) {
	nodes, of := byNode(a.c.Next, ids)
	for _, n := range nodes {
		_ = inNode(n, topo.NodeSpec.Open, func() error {
			for _, p := range of[n.ID] {
				_ = a.restorePort(n, p)
			}
			return nil
		})
	}
}

func (a *applier) restorePort(n *domain.Node, p *domain.Port) error {
	if err := a.h.setDevice(n, p); err != nil {
		return err
	}
	entry := tables.Port(n, p, tables.RestoreFlags(p))
	if err := a.h.maps[bpfobj.TcMapPorts].Put(uint32(p.ID), &entry); err != nil {
		return err
	}
	if a.exchanged(p.ID) {
		return nil // undoing the exchange brings its filters back
	}
	return a.attachHooks(nil, p)
}
