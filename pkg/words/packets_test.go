// SPDX-License-Identifier: Apache-2.0

package words

import (
	"math/rand/v2"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// TestStraightPath: a path without branches is written as record.PathText writes any.
func TestStraightPath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		r := record.Record{Hops: make([]record.Hop, rng.IntN(6)), Truncated: rng.IntN(4) == 0}
		steps, gap := make([]record.Step, len(r.Hops)), false
		for i := range r.Hops {
			h := &r.Hops[i]
			h.Node, h.Gap = string(rune('a'+i)), rng.IntN(5) == 0
			h.Outcome = []record.State{"", "", record.Delivered, record.InFlight, record.Ignored}[rng.IntN(5)]
			if rng.IntN(8) == 0 {
				prev := rng.IntN(i+1) - 1
				h.Prev, h.Copy = &prev, rng.IntN(2) == 0
			}
			gap = gap || h.Gap
			steps[i] = record.Step{Text: h.Node + outcomeText(h.Outcome), Arrow: gapArrow(h), Prev: r.PrevOf(i), Same: r.SameAs(i)}
		}
		want := record.PathText(steps)
		if r.Truncated && !gap {
			want += record.IncompleteMark
		}
		if got := Path(&r); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}
