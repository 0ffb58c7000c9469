// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"testing"
	"time"
)

// However long events go on, what is done for them takes a tenth of the time in the end; some that come now and then are not
// held up.
func TestPacedShare(t *testing.T) {
	const gap = 10 * time.Millisecond
	p := Paced{Gap: gap, Burst: time.Second, Share: 10}
	now := time.Unix(1000, 0)
	do := func(took time.Duration) (wait time.Duration) {
		p.Did(now, now.Add(took))
		wait = p.next.Sub(now.Add(took))
		now = p.next
		return wait
	}
	for i := range 10 {
		if wait := do(100 * time.Millisecond); wait != gap {
			t.Errorf("event %d: the next one has to wait %v", i, wait)
		}
	}
	began, taken := now, time.Duration(0)
	for range 1000 {
		do(100 * time.Millisecond)
		taken += 100 * time.Millisecond
	}
	if share := float64(taken) / float64(now.Sub(began)); share > 0.11 || share < 0.08 {
		t.Errorf("it took %.3f of the time", share)
	}
	now = now.Add(time.Minute)
	if wait := do(100 * time.Millisecond); wait != gap {
		t.Errorf("after a minute the next one has to wait %v", wait)
	}
}

// Events that come before their time are one, which is done then.
func TestPacedGap(t *testing.T) {
	events := make(chan struct{}, 9)
	p := Paced{Events: events, Gap: time.Minute, Burst: time.Hour, Share: 10}
	begin := time.Now()
	for range 9 {
		events <- struct{}{}
	}
	if <-p.C(); !p.IsDue(begin) {
		t.Fatal("the first event waits")
	}
	p.Did(begin, begin.Add(time.Millisecond))
	soon := p.next.Add(-time.Millisecond) // as if a minute had almost gone by
	if <-p.C(); p.IsDue(soon) {
		t.Fatal("the second event is due before the gap is over")
	}
	if <-p.C(); !p.IsDue(p.next) {
		t.Fatal("what waited is not due")
	}
	if len(events) != 7 {
		t.Errorf("%d events are left: those that come while one waits are not taken", len(events))
	}
}
