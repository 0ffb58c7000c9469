// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"context"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestPulse: loops that are busy miss beats, and hold nobody up.
func TestPulse(t *testing.T) {
	p := new(Pulse)
	busy, second := p.Quick(), p.Second()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	quick := p.Quick() // while it runs
	for range 2 {
		<-quick
	}
	<-second
	<-busy
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	nstest.WaitFor(t, "the last beats", func() bool {
		select {
		case <-quick:
			return false
		case <-busy:
			return false
		default:
			return true
		}
	})
}

// TestRest: what matters only while packets pass is looked at at once when they begin to, each second while they go
// on, and seldom while there are none.
func TestRest(t *testing.T) {
	p := new(Pulse)
	r := Rest{Pulse: p}
	now := time.Unix(1000, 0)
	for i, c := range []struct {
		after time.Duration
		moved bool
		due   bool
	}{
		{0, false, true}, // the first look
		{QuickEvery, false, false},
		{QuickEvery, true, true}, // it begins
		{QuickEvery, true, false},
		{SecondEvery, true, true}, // it goes on
		{QuickEvery, true, false},
		{SecondEvery, false, true}, // it has moved since the last look
		{SecondEvery, false, false},
		{SecondEvery, false, true}, // it rests
		{SecondEvery, false, false},
		{SecondEvery, false, true},
		{QuickEvery, true, true},
	} {
		now = now.Add(c.after)
		if c.moved {
			p.moved.Add(1)
		}
		if due := r.IsDue(now); due != c.due {
			t.Errorf("%d: due is %v, want %v", i, due, c.due)
		}
	}
}
