// SPDX-License-Identifier: Apache-2.0

package main

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
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Error(err)
	}
}
