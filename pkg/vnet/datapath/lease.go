// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

func (h *Handle) controlPage() *bpfobj.TcRdrControl {
	return &h.control[0]
}

// Lease says up to when sources mark. Renew it every RenewEvery.
func (h *Handle) Lease() system.Lease { return system.LeaseAt(&h.controlPage().LeaseNs) }

// hashKeys are the domain's.
func (h *Handle) hashKeys() program.HashKeys { return h.controlPage().Hash }

// Renew lets the sources mark for another lease. system.ErrDetaching: someone is
// detaching the domain, stop renewing.
func (h *Handle) Renew() error {
	if err := h.Lease().Renew(h.Domain.Options.Lease); err != nil {
		return fmt.Errorf("domain %q %w", h.Domain.Name, err)
	}
	return nil
}

// IsDeserted reports whether the namespaces of all nodes that users have attached are gone, and none can come: the domain
// follows no containers, and has no virtual machines.
func (h *Handle) IsDeserted() bool {
	if h.ReloadChanged() != nil || h.Domain.WatchContainers || len(h.Domain.VMs) > 0 {
		return false
	}
	left, _ := living(h.Domain)
	return len(left) == 0
}

// checkStays refuses a domain that somebody is detaching: system.ErrDetaching.
func (h *Handle) checkStays() error {
	if h.Lease().IsDetaching() {
		return fmt.Errorf("domain %q %w", h.Domain.Name, system.ErrDetaching)
	}
	return nil
}

// RenewEvery returns how often to call Renew, 0 if the lease never ends.
func (h *Handle) RenewEvery() time.Duration { return h.Domain.Options.Lease / system.RenewsPerLife }
