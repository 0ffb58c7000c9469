// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A small heap may have more garbage than the share that a large one may, and is not collected for each bit of it.
func TestGarbage(t *testing.T) {
	for base, want := range map[uint64]int{0: 800, 4 << 20: 200, 16 << 20: 50, 80 << 20: 10, 200 << 20: 10} {
		if got := percentOf(base); got != want {
			t.Errorf("beside %d bytes: %d %%, want %d", base, got, want)
		}
	}
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	set := func() int {
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent
	}
	g := NewGarbage()
	large := make([]byte, 200<<20)
	runtime.GC()
	g.Adjust()
	if got := set(); got != garbagePercent {
		t.Errorf("%d %% with a large heap, want %d", got, garbagePercent)
	}
	runtime.KeepAlive(large)
	large = nil
	runtime.GC()
	g.Adjust()
	if got := set(); got <= 2*garbagePercent {
		t.Errorf("%d %% with a small heap again", got)
	}
	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	NewGarbage().Adjust()
	if got := set(); got != 70 {
		t.Errorf("%d %% where the user says 70", got)
	}
}
