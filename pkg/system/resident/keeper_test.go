// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/system"
)

// keep runs a keeper until the test ends, or stop says how it has.
func keep(t *testing.T, k *Keeper) (ended <-chan error) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	c := make(chan error, 1)
	done := make(chan struct{})
	k.Warn = func(string, error) {}
	go func() { c <- k.Run(ctx); close(done) }()
	t.Cleanup(func() { end(); <-done })
	return c
}

// What is heard is looked at; a domain that is gone ends the agent.
func TestKeeperLooks(t *testing.T) {
	var until uint64
	heard, looks := make(chan struct{}), make(chan struct{})
	gone := make(chan struct{})
	k := &Keeper{Lease: system.LeaseAt(&until), Heard: heard, Looks: time.Hour, State: func() (time.Duration, bool) { return 0, false }}
	k.Look = func() error {
		select {
		case looks <- struct{}{}:
			return nil
		case <-gone:
			return system.ErrNotAttached
		}
	}
	ended := keep(t, k)
	<-looks // as it begins
	for range 3 {
		heard <- struct{}{}
		<-looks
	}
	close(gone)
	heard <- struct{}{}
	if err := <-ended; !errors.Is(err, system.ErrNotAttached) {
		t.Errorf("a domain that is gone: %v", err)
	}
}

// A domain without ports is looked at once more when its lease is over, and then its agent ends; a lease that becomes shorter is
// renewed in time.
func TestKeeperDeserted(t *testing.T) {
	var until uint64
	lease := system.LeaseAt(&until)
	life, deserted, looks := make(chan time.Duration, 1), make(chan bool, 1), make(chan struct{}, 1000)
	life <- time.Hour
	deserted <- false
	get := func() (time.Duration, bool) {
		l, d := <-life, <-deserted
		life <- l
		deserted <- d
		return l, d
	}
	k := &Keeper{Lease: lease, Looks: time.Hour, State: get, Look: func() error { looks <- struct{}{}; return nil }}
	ended := keep(t, k)
	<-looks
	<-life
	life <- 300 * time.Millisecond
	nstest.WaitFor(t, "the shorter lease", func() bool { left, _ := lease.Left(); return left < time.Minute })
	if every, err := k.renew(); err != nil || every != 100*time.Millisecond {
		t.Errorf("it is renewed every %v, %v", every, err)
	}
	if <-deserted; len(looks) > 0 {
		t.Error("it looks without having heard of anything")
	}
	deserted <- true
	if err := <-ended; !errors.Is(err, ErrDeserted) || len(looks) != 1 {
		t.Errorf("%v, after %d looks", err, len(looks))
	}
	if left, _ := lease.Left(); left > 0 {
		t.Errorf("the lease goes on for %v", left)
	}
}
