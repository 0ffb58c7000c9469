// SPDX-License-Identifier: Apache-2.0

// Package system is what every attached system has, whatever it measures. Package resident, below, is its living part.
package system

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
)

// ErrDetaching says that another process takes the domain off: nobody may renew its lease.
var ErrDetaching = errors.New("is being detached")

// Values of a lease that are no time.
const (
	none      = 0              // not attached to the end yet
	detaching = 1              // nobody may renew it
	forever   = math.MaxUint64 // it never ends
)

// RenewsPerLife is how often a lease is to be renewed before it would end.
const RenewsPerLife = 3

// Lease says up to when a domain's sources begin to measure packets: CLOCK_MONOTONIC in ns, in memory that programs
// share. What is under way when it ends is dealt with as before. Its methods may be called from any goroutine, and in
// any process.
type Lease struct{ until *uint64 }

// LeaseAt is the lease at that place of a control page, which stays the caller's.
func LeaseAt(until *uint64) Lease { return Lease{until} }

// Renew lets sources go on for so long from now; 0: for ever. ErrDetaching: nobody may.
func (l Lease) Renew(life time.Duration) error {
	until := uint64(forever)
	if life > 0 {
		until = clock.Monotonic() + uint64(life)
	}
	for {
		was := atomic.LoadUint64(l.until)
		if was == detaching {
			return ErrDetaching
		}
		if atomic.CompareAndSwapUint64(l.until, was, until) {
			return nil
		}
	}
}

// Left is how long sources go on if nobody renews the lease; not positive if they have stopped. ends is false for a
// lease that never ends.
func (l Lease) Left() (left time.Duration, ends bool) {
	until := atomic.LoadUint64(l.until)
	if until == forever {
		return 0, false
	}
	return time.Duration(until - clock.Monotonic()), true
}

// IsNone reports whether nobody has ever renewed it: the domain is not attached to the end.
func (l Lease) IsNone() bool { return atomic.LoadUint64(l.until) == none }

// IsDetaching reports whether another process takes the domain off.
func (l Lease) IsDetaching() bool { return atomic.LoadUint64(l.until) == detaching }

// Stop ends the lease for good: only detaching can follow, or Resume.
func (l Lease) Stop() { atomic.StoreUint64(l.until, detaching) }

// Resume undoes Stop, with a new lease.
func (l Lease) Resume(life time.Duration) {
	atomic.StoreUint64(l.until, none)
	_ = l.Renew(life) // nobody detaches: the caller holds the domain's lock
}

// StopAt stops the sources of a domain whose control page cannot be mapped: the value to write.
const StopAt = detaching
