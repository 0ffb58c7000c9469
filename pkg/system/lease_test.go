// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
)

// TestLease: sources go on up to a time, or for ever, and stop for good when somebody detaches.
func TestLease(t *testing.T) {
	var until uint64
	l := LeaseAt(&until)
	left, ends := l.Left()
	if !l.IsNone() || l.IsDetaching() || left > 0 || !ends {
		t.Errorf("nobody has renewed it: %v left, ends is %v", left, ends)
	}
	before := clock.Monotonic()
	if err := l.Renew(time.Hour); err != nil {
		t.Fatal(err)
	}
	if until < before+uint64(time.Hour) || until > clock.Monotonic()+uint64(time.Hour) || l.IsNone() {
		t.Errorf("it ends at %d, an hour after %d", until, before)
	}
	if left, ends := l.Left(); left <= 0 || left > time.Hour || !ends {
		t.Errorf("%v left of an hour, ends is %v", left, ends)
	}
	if err := l.Renew(0); err != nil || until != math.MaxUint64 {
		t.Errorf("for ever: %d, %v", until, err)
	}
	if _, ends := l.Left(); ends {
		t.Error("what never ends ends")
	}
	l.Stop()
	if err := l.Renew(time.Hour); !errors.Is(err, ErrDetaching) || !l.IsDetaching() {
		t.Errorf("renewed while it is detached: %v", err)
	}
	if left, ends := l.Left(); left > 0 || !ends {
		t.Errorf("%v left while it is detached", left)
	}
	l.Resume(time.Hour)
	if left, _ := l.Left(); left <= 0 || l.IsDetaching() {
		t.Errorf("%v left after Resume", left)
	}
}
