// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// Values of the lease that are no time. Sources mark while CLOCK_MONOTONIC is
// less than the lease.
const (
	leaseNone      = 0              // not attached to the end yet
	leaseDetaching = 1              // nobody may renew it
	leaseForever   = math.MaxUint64 // --lease 0
)

// leasesPerLife is how often a lease is renewed before it would end.
const leasesPerLife = 3

func (h *Handle) lease() *uint64 {
	return &(*bpfobj.TcRdrControl)(unsafe.Pointer(&h.control[0])).LeaseNs
}

// hashKeys are the domain's.
func (h *Handle) hashKeys() program.HashKeys {
	return (*bpfobj.TcRdrControl)(unsafe.Pointer(&h.control[0])).Hash
}

// Renew lets the sources mark for another lease. ErrDetaching: someone is
// detaching the domain, stop renewing.
func (h *Handle) Renew() error {
	until := uint64(leaseForever)
	if h.Domain.Options.Lease > 0 {
		until = clock.Monotonic() + uint64(h.Domain.Options.Lease)
	}
	for {
		was := atomic.LoadUint64(h.lease())
		if was == leaseDetaching {
			return fmt.Errorf("domain %q: %w", h.Domain.Name, ErrDetaching)
		}
		if atomic.CompareAndSwapUint64(h.lease(), was, until) {
			return nil
		}
	}
}

// checkStays refuses a domain that somebody is detaching: ErrDetaching.
func (h *Handle) checkStays() error {
	if atomic.LoadUint64(h.lease()) == leaseDetaching {
		return fmt.Errorf("domain %q: %w", h.Domain.Name, ErrDetaching)
	}
	return nil
}

// RenewEvery returns how often to call Renew, 0 if the lease never ends.
func (h *Handle) RenewEvery() time.Duration { return h.Domain.Options.Lease / leasesPerLife }

// LeaseLeft returns for how long sources go on without Renew; not positive if
// they have stopped. ends is false for a lease that never ends.
func (h *Handle) LeaseLeft() (left time.Duration, ends bool, err error) {
	until := atomic.LoadUint64(h.lease())
	if until == leaseForever {
		return 0, false, nil
	}
	return time.Duration(until - clock.Monotonic()), true, nil
}

// StopSources ends the lease for good: no packet is marked any more, packets
// under way are restored as before. Only Detach can follow.
func (h *Handle) StopSources() error {
	atomic.StoreUint64(h.lease(), leaseDetaching)
	return nil
}
