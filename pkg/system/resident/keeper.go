// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"context"
	"errors"
	"time"

	"github.com/vnetradar/radar/pkg/system"
)

// Keeper is the loop of an agent that keeps its domain: it renews the lease, and looks at interfaces as soon as something is heard
// of one, and now and then in case nothing was.
type Keeper struct {
	Lease system.Lease
	// State is asked before each renewal: for how long (0: for ever), and whether all ports are gone.
	State func() (life time.Duration, isDeserted bool)
	// Look reads the description if it has changed, and brings up to date what programs know. Its only error is
	// system.ErrNotAttached: another process has taken the domain off.
	Look  func() error
	Heard <-chan struct{} // of system.ListenLinks; nil: the kernel says nothing
	Looks time.Duration   // where nothing is heard; 0: SecondEvery
	Warn  func(what string, err error)
}

// What was heard is looked at once in lookGap at most. Whoever controls a node can change its interfaces without end, and programs
// are loaded for one that is new: in the long run that takes one part in lookShare of a core.
const (
	lookGap   = 10 * time.Millisecond
	lookBurst = time.Second
	lookShare = 10
)

// Run keeps the domain until ctx ends, which is an error, or the domain is gone: system.ErrNotAttached, or ErrDeserted.
func (k *Keeper) Run(ctx context.Context) error {
	heard := Paced{Events: k.Heard, Gap: lookGap, Burst: lookBurst, Share: lookShare}
	var looked time.Time
	looks, due := k.Looks, true
	if looks == 0 {
		looks = SecondEvery
	}
	for {
		every, err := k.renew()
		if !errors.Is(err, system.ErrDetaching) { // its detaching ends the agent
			k.Warn(RenewLease, err)
		}
		if HasEnded(err, k.Lease) {
			if err := k.Look(); err != nil { // what is known may be a second old
				return err
			}
			if every, err = k.renew(); errors.Is(err, ErrDeserted) {
				return err
			}
		}
		if (err == nil || errors.Is(err, ErrDeserted)) && (due || time.Since(looked) >= looks) {
			due, looked = false, time.Now()
			if err := k.Look(); err != nil {
				return err
			}
			heard.Did(looked, time.Now())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		case <-heard.C():
			due = heard.IsDue(time.Now()) || due
		}
	}
}

// renew also says when to renew again: a lease can become shorter.
func (k *Keeper) renew() (every time.Duration, err error) {
	life, isDeserted := k.State()
	every = SecondEvery
	if life > 0 {
		every = min(every, life/system.RenewsPerLife)
	}
	return every, Renew(k.Lease, life, isDeserted)
}
