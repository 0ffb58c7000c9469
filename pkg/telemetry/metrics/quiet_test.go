// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// within reports whether a report's values lie in the bands of q.
func within(r *Report, q *Quiet) bool {
	sum := uint64(0)
	in := func(b Band, n uint64) bool { return b.Lo <= n && n <= b.Hi }
	for i := range r.Hops {
		h := &r.Hops[i]
		sum += h.LatencyNs
		if !in(q.Hops[i].Latency, h.LatencyNs) ||
			q.Hops[i].Occupancy.Has && !in(q.Hops[i].Occupancy.Band, h.Occupancy) ||
			q.Hops[i].Utilization.Has && !in(q.Hops[i].Utilization.Band, h.Utilization) {
			return false
		}
	}
	return in(q.Sum, sum)
}

// TestQuiet: of two engines one hears every report, the other only those that are not quiet, and
// of the rest how many there were. Both raise the same events and have the same values; bands
// of shared values are what Moved has said last.
func TestQuiet(t *testing.T) {
	quiet, loud, replaced := 0, 0, uint64(0)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := shares()
		if c.Flows = 40; seed%4 == 0 {
			c.Flows = 5
		}
		if seed%3 > 0 {
			c.Congested = seed % 3 * 100
		}
		if seed%7 == 0 {
			c.Thresholds[HopLatency].Absolute, c.Thresholds[FlowLatency].Absolute = 12, 25
		}
		if seed%5 == 0 {
			for m := range c.Thresholds {
				c.Thresholds[m] = Threshold{Absolute: uint64(rng.IntN(30))}
			}
		}
		all, some := New(c), New(c)
		if seed%2 == 0 { // nodes go for others
			all.most, some.most = 2, 2
		}
		shared := make(map[uint32]Band)
		some.Moved = func(index uint32, b Band) {
			if int(index) >= c.MaxShared() {
				t.Fatalf("index %d of %d", index, c.MaxShared())
			}
			shared[index] = b
		}
		var q Quiet
		for n := range 3000 {
			r, more := randomReport(rng), uint64(0)
			r.At = int64(n) * 1e9
			var want, got []string
			all.Add(&r, func(e *Event) { want = append(want, text(e)) })
			if some.Quiet(&r, &q) && within(&r, &q) {
				quiet++
				for range rng.IntN(3) { // more like it
					all.Add(&r, nil)
					more++
				}
				some.Same(&r, 1+more)
			} else {
				loud++
				some.Add(&r, func(e *Event) { got = append(got, text(e)) })
			}
			if !slices.Equal(want, got) {
				t.Fatalf("seed %d, report %d %+v: raised %q, quiet %v, want %q", seed, n, r, got, q, want)
			}
			for _, h := range q.Hops {
				for _, s := range []Shared{h.Occupancy, h.Utilization} {
					if s.Has && shared[s.Index] != s.Band && len(got) == 0 {
						t.Fatalf("seed %d, report %d: band %d is %v, said %v", seed, n, s.Index, s.Band, shared[s.Index])
					}
				}
			}
			if n%500 == 499 {
				all.Forget(r.At)
				some.Forget(r.At)
			}
		}
		if a, b := fmt.Sprintf("%+v", all.Rows()), fmt.Sprintf("%+v", some.Rows()); a != b {
			t.Errorf("seed %d: values differ\n%s\n%s", seed, a, b)
		}
		replaced += all.Counts.Replaced
		if all.Counts != some.Counts {
			t.Errorf("seed %d: %+v and %+v", seed, all.Counts, some.Counts)
		}
	}
	if replaced == 0 {
		t.Error("no node has gone for another")
	}
	if quiet < loud/10 {
		t.Errorf("%d quiet, %d loud", quiet, loud)
	}
}

func randomReport(rng *rand.Rand) Report {
	near := func(n int) uint64 { return uint64(n + rng.IntN(1+n/6)) }
	r := Report{HasFlow: rng.IntN(10) > 0, Flow: flowN(rng.IntN(6)), WholePath: rng.IntN(8) > 0}
	first := uint32(rng.IntN(2))
	if rng.IntN(10) == 0 {
		first = uint32(rng.IntN(4))
	}
	for i := range 1 + rng.IntN(2) {
		h := at(first+uint32(i), near(100), near(100), near(60))
		if rng.IntN(30) == 0 {
			h.Occupancy, h.LatencyNs = near(200), near(300)
		}
		if rng.IntN(20) == 0 {
			h.Has &^= Has(1 << rng.IntN(6))
		}
		h.Queue = uint32(rng.IntN(2))
		if rng.IntN(10) == 0 {
			h.Has |= HasFlag
			h.Flag = rng.IntN(3) == 0
		}
		if rng.IntN(40) == 0 {
			h.Has |= HasCongestion
			h.Congestion = uint64(rng.IntN(2))
		}
		r.Hops = append(r.Hops, h)
	}
	for i := range r.Hops { // as measured gives them
		h := &r.Hops[i]
		for _, f := range []struct {
			has   Has
			value *uint64
		}{{HasLatency, &h.LatencyNs}, {HasOccupancy, &h.Occupancy}, {HasUtilization, &h.Utilization}} {
			if h.Has&f.has == 0 {
				*f.value = 0
			}
		}
	}
	return r
}
