// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage there may be before it is collected: a share of what lives, and no less than some bytes. What lives
// in an agent is flows, seconds and snapshots, for long; at Go's default of 100 % as much again would be memory for
// nothing. With little allowed, collections come when it is reached, also when flows meet no new latencies: with 40 %
// they came every two minutes, as Go does without need, and how high the heap was by then, and the process's memory
// from then on, depended on how much garbage those minutes made. A collection of a full table takes 30 to 85 ms of CPU.
//
// A share alone is not enough: a tenth of a small heap is made in a tenth of a second, and a collection looks at 5 MB
// of globals, too. At 100,000 packets a second that was a quarter of what the agent took.
const (
	garbagePercent = 10
	garbageLeast   = 8 << 20
)

// Garbage sets when an agent collects its garbage, by what lives. GOGC overrides it. It is for one goroutine.
type Garbage struct {
	base    []metrics.Sample // what the share is one of, for Go: the heap that lives, and globals
	percent int              // as set; 0: not yet
	fixed   bool
}

// NewGarbage sets it for a heap that is small yet.
func NewGarbage() *Garbage {
	g := &Garbage{base: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}}, fixed: os.Getenv("GOGC") != ""}
	g.Adjust()
	return g
}

// Adjust follows what lives. Call it every second: to set another share stops all threads for a moment, so small
// changes of the heap change nothing.
func (g *Garbage) Adjust() {
	if g.fixed {
		return
	}
	metrics.Read(g.base)
	want := percentOf(g.base[0].Value.Uint64() + g.base[1].Value.Uint64())
	if d := want - g.percent; d > g.percent/4 || d < -g.percent/4 {
		debug.SetGCPercent(want)
		g.percent = want
	}
}

// percentOf is how much garbage there may be beside so many bytes, in percent of them.
func percentOf(base uint64) int {
	const small = 1 << 20 // before the first collection nothing is known
	return max(garbagePercent, int(100*garbageLeast/max(base, small)))
}
