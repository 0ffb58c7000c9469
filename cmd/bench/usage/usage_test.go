// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const text = "4711 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 123"
	if got, err := parseStat(text); err != nil || got != 3*time.Second {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1 2", "1 (x) S 1 2 3 4 5 6 7 8 9 10 many 50 0"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if _, err := CPUTime(os.Getpid()); err != nil {
		t.Error(err)
	}
}

func TestParseCPU(t *testing.T) {
	c, err := parseCPU("cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8\n")
	if want := 2.43; err != nil || c.busy != want || c.softirq != 0.07 {
		t.Errorf("%+v, %v; want %v s busy, 0.07 s in softirqs", c, err, want)
	}
	before := CPUTimes{at: c.at.Add(-2 * time.Second)}
	if got := c.share(before, c.busy); got < 121 || got > 122 {
		t.Errorf("%v %% of a core", got)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h i"} {
		if _, err := parseCPU(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
