// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// simple are packets of one flow that took a path.
func simple(r *Run, sport, dport, packets int, path string) {
	for i := range packets {
		r.Add(&record.Record{
			State: record.Delivered, TNs: int64(i) * 1e6, Segs: 1, Len: 100, Proto: "udp", Src: "a", Dst: "b", Sport: &sport, Dport: &dport,
			Hops: []record.Hop{{Node: "h1"}, {Node: path}, {Node: "h2"}},
		})
	}
}

// drawn is a group of runs.
func drawn(runs int, add func(r *Run, i int)) (list []*Repetition) {
	for i := range runs {
		r := NewRun("")
		add(r, i)
		list = append(list, r.Repetition())
	}
	return list
}

// alarmsOf counts equal groups, of two runs and more, that differ.
func alarmsOf(groups int, one func(rng *rand.Rand, r *Run)) (alarms int) {
	for seed := range uint64(groups) {
		rng := rand.New(rand.NewPCG(seed, 7))
		add := func(r *Run, _ int) { one(rng, r) }
		runs := 2 + int(seed%4)
		if CompareGroups(drawn(runs, add), drawn(runs, add), DefaultOptions).Different {
			alarms++
		}
	}
	return alarms
}

// Where a hash sends all packets of a flow one way, runs of few flows differ by chance, however many packets these have.
func TestGroupsOfHashes(t *testing.T) {
	for name, flows := range map[string]int{"one flow": 1, "three flows": 3} {
		alarms := alarmsOf(400, func(rng *rand.Rand, r *Run) {
			for range flows {
				paths, first, port := [2]string{"r2", "r3"}, rng.IntN(2), 40000+rng.IntN(20000)
				simple(r, port, 53, 50, paths[first])
				if rng.IntN(2) == 0 { // a stray packet of the flow went the other way
					simple(r, port, 53, 1, paths[1-first])
				}
			}
		})
		if alarms > 8 { // one in a hundred is 4 of 400; more than 8 are a matter of 2 %
			t.Errorf("%s: %d of 400 equal groups differ", name, alarms)
		}
	}
	// What no hash explains is a difference: the same flow goes another way, or packets are spread one by one.
	same := func(path string) func(*Run, int) { return func(r *Run, _ int) { simple(r, 40000, 53, 500, path) } }
	other := CompareGroups(drawn(3, same("r2")), drawn(3, same("r3")), DefaultOptions)
	if len(other.Changes) == 0 || other.Changes[0].Kind != "path" {
		t.Errorf("the same flow on another path: %+v", other)
	}
	for name, every := range map[string]int{"every second packet": 2, "every fourth packet": 4} {
		spread := drawn(3, func(r *Run, i int) {
			for n := range 500 {
				simple(r, 50000+i, 53, 1, map[bool]string{true: "r4", false: "r2"}[n%every == 0])
			}
		})
		r := CompareGroups(drawn(3, func(r *Run, i int) { simple(r, 40000+i, 53, 500, "r2") }), spread, DefaultOptions)
		if !slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Kind == "path" && c.After > 0.2 && c.Before == 0 }) {
			t.Errorf("%s on another path: %+v", name, r.Changes)
		}
	}
}

// Few packets that some runs have by chance are no difference of rates.
func TestGroupsOfStrayPackets(t *testing.T) {
	usual := func(r *Run) { simple(r, 40000, 80, 200, "r2") }
	plain := drawn(4, func(r *Run, _ int) { usual(r) })
	for _, packets := range []int{1, 3} {
		stray := drawn(4, func(r *Run, _ int) {
			usual(r)
			simple(r, 41000, 53, packets, "r2")
		})
		if r := CompareGroups(plain, stray, DefaultOptions); r.Different || r.Untested == 0 {
			t.Errorf("%d packets of DNS in each run of one group: %d untested, %+v", packets, r.Untested, r.Changes)
		}
	}
	alarms := alarmsOf(400, func(rng *rand.Rand, r *Run) {
		usual(r)
		simple(r, 41000, 53, []int{0, 10}[rng.IntN(2)], "r2")
	})
	if alarms > 8 {
		t.Errorf("%d of 400 equal groups differ, in which a flow comes and goes", alarms)
	}
	more := drawn(4, func(r *Run, i int) {
		usual(r)
		simple(r, 41000, 443, 400+i, "r2")
	})
	if r := CompareGroups(plain, more, DefaultOptions); !slices.Contains(kinds(r), "rate udp a > b:443") {
		t.Errorf("a new flow of 400 packets: %+v", kinds(r))
	}
}

// Values that happen to be the same in all runs of a group do not say how far others would be: they have no test.
func TestGroupsWithoutVariance(t *testing.T) {
	took := func(ns int64) []*Repetition {
		return drawn(2, func(r *Run, _ int) {
			for i := range 200 {
				r.Add(&record.Record{State: record.Delivered, TNs: int64(i) * 1e6, Segs: 1, Len: 100, Proto: "icmp", Src: "a", Dst: "b", LatencyNs: &ns})
			}
		})
	}
	r := CompareGroups(took(1e6), took(2e6), DefaultOptions)
	if r.Untested == 0 || slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Kind == "latency" }) {
		t.Errorf("%d untested, %+v", r.Untested, r.Changes)
	}
}
