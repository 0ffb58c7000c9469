// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"math/rand/v2"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// TestFindLoop: the first hop that was met before, of few hops and of many.
func TestFindLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	loops := 0
	for range 20_000 {
		n := rng.IntN(40)
		hops, passed := make([]record.LoopHop, n), make([]bool, n)
		for i := range hops {
			hops[i] = record.LoopHop{Node: string(rune('a' + rng.IntN(3*n))), In: "e0", Out: "e1"}
			passed[i] = rng.IntN(4) > 0
		}
		wantFirst, wantAgain, want := 0, 0, false
		for i := 0; i < n && !want; i++ {
			for j := 0; j < i && !want; j++ {
				if passed[i] && passed[j] && hops[i] == hops[j] {
					wantFirst, wantAgain, want = j, i, true
				}
			}
		}
		first, again, ok := record.FindLoop(n, func(i int) (record.LoopHop, bool) { return hops[i], passed[i] })
		if first != wantFirst || again != wantAgain || ok != want {
			t.Fatalf("%v, passed %v: %d, %d, %v; want %d, %d, %v", hops, passed, first, again, ok, wantFirst, wantAgain, want)
		}
		if ok {
			loops++
		}
	}
	if loops == 0 {
		t.Error("no path goes round in a circle")
	}
}
