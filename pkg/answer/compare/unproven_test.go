// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"math/rand/v2"
	"testing"
)

// bursts lose so many packets at once, at each of some places in a run.
func bursts(length int, at ...int) func(int) string {
	return func(i int) string {
		for _, from := range at {
			if i >= from && i < from+length {
				return "r1"
			}
		}
		return ""
	}
}

// Losses that are many and in few bursts are no proof, and are told all the same. A flow is not told beside its place.
func TestUnproven(t *testing.T) {
	none := func(int) string { return "" }
	r := Compare(lossy(7262, none), lossy(7262, bursts(301, 1000, 3000, 5000)), DefaultOptions)
	if r.Different || len(r.Unproven) != 1 {
		t.Fatalf("%+v, %+v", r.Changes, r.Unproven)
	}
	u := r.Unproven[0]
	if u.What != "at r1 (node)" || u.Bursts != 3 || u.PAlone == nil || *u.PAlone < 1e-6 || u.P == nil || *u.P < *u.PAlone {
		t.Errorf("%+v", u)
	}
	if r = Compare(lossy(30, none), lossy(30, bursts(20, 5)), DefaultOptions); len(r.Unproven) != 1 || r.Unproven[0].PAlone != nil {
		t.Errorf("20 of 30 packets, too few to test: %+v", r.Unproven)
	}
	group := func(shares ...int) (list []*Repetition) {
		for _, lost := range shares {
			list = append(list, lossy(2000, bursts(lost, 100)).Repetition())
		}
		return list
	}
	if r = CompareGroups(group(0, 0), group(0, 400), DefaultOptions); r.Different || len(r.Unproven) != 1 {
		t.Errorf("a burst in one run of two: %+v, %+v", r.Changes, r.Unproven)
	}
	if r = CompareGroups(group(0, 0, 0), group(400, 390, 395), DefaultOptions); !r.Different || len(r.Unproven) != 0 {
		t.Errorf("a burst in each run of one group: %+v, %+v", r.Changes, r.Unproven)
	}
}

// Of equal runs nothing is said, although they lose packets in bursts, and a few of few.
func TestUnprovenOfEqual(t *testing.T) {
	told := 0
	for seed := range uint64(40) {
		a, b := base(2*seed), base(2*seed+1)
		a.loss, b.loss, a.burst, b.burst = 0.02, 0.02, 30, 30
		told += len(Compare(a.run("a"), b.run("b"), DefaultOptions).Unproven)
		rng := rand.New(rand.NewPCG(seed, 3))
		few := func(int) string { return map[bool]string{true: "r1"}[rng.IntN(40) == 0] }
		told += len(Compare(lossy(60, few), lossy(60, few), DefaultOptions).Unproven)
	}
	if told > 1 {
		t.Errorf("%d large differences among 80 equal pairs", told)
	}
}
