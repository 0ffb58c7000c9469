// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	c, err := parseCPU("cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8\n")
	if want := 2.43; err != nil || c.busy != want || c.softirq != 0.07 {
		t.Errorf("%+v, %v; want %v s busy, 0.07 s in softirqs", c, err, want)
	}
	before := cpuTimes{at: c.at.Add(-2 * time.Second)}
	if got := c.share(before, c.busy); got < 121 || got > 122 {
		t.Errorf("%v %% of a core", got)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h i"} {
		if _, err := parseCPU(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

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
