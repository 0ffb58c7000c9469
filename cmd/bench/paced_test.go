// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

// What is paced is sent as often as it should be, also when it could not be for a while, and never much faster.
func TestPaced(t *testing.T) {
	const perSecond = 10_000
	sent, start := 0, time.Now()
	send := paced(perSecond, func() error { sent++; return nil })
	for sent < 500 {
		_ = send()
	}
	if took := time.Since(start); took < 49*time.Millisecond {
		t.Errorf("500 in %v", took)
	}
	time.Sleep(200 * time.Millisecond)
	before, start := sent, time.Now()
	for time.Since(start) < 10*time.Millisecond {
		_ = send()
	}
	if due := time.Since(start).Seconds()*perSecond + perSecond/50 + 1; float64(sent-before) > due {
		t.Errorf("%d in a burst, at most %.0f", sent-before, due)
	}
	if paced(0, func() error { sent = -1; return nil })(); sent != -1 {
		t.Error("what is not paced is not sent at once")
	}
}
