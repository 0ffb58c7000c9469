// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestBins: bins lose nothing, are bounded, and do not depend on the order in which things come.
func TestBins(t *testing.T) {
	add := func(to, from *int) { *to += *from }
	for _, spread := range []int64{1, 1e5, 1e9, 1e15, math.MaxInt64 / 2} {
		rng := rand.New(rand.NewPCG(1, uint64(spread)))
		type one struct {
			ns  int64
			key int
		}
		var list []one
		for range 30_000 {
			list = append(list, one{rng.Int64N(spread) - spread/3, rng.IntN(300)})
		}
		a, b := newBins[int](add), newBins[int](add)
		for _, o := range list {
			*a.at(o.ns, o.key)++
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, o := range list {
			*b.at(o.ns, o.key)++
		}
		sum, cells := 0, 0
		for i, of := range a.cells {
			for key, n := range of {
				sum += *n
				cells++
				if cells%1000 != 0 {
					continue
				}
				want := 0
				for _, o := range list {
					if o.key == key && o.ns >= i*a.width && o.ns-i*a.width < a.width {
						want++
					}
				}
				if *n != want {
					t.Errorf("spread %d: bin %d of %d has %d, want %d", spread, i, key, *n, want)
				}
			}
		}
		if sum != len(list) || cells > mostCells || cells != a.n || len(a.cells) > mostBins {
			t.Errorf("spread %d: %d in %d cells (%d), %d bins", spread, sum, cells, a.n, len(a.cells))
		}
		if a.width != b.width || !reflect.DeepEqual(a.cells, b.cells) {
			t.Errorf("spread %d: another order has other bins: %d and %d ns wide", spread, a.width, b.width)
		}
	}
}
