// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
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

// one is a packet of a connection: by its client's port, at a time, with a latency, lost at a node or not.
func one(i, port int, ns int64, node string) *record.Record {
	server := 80
	p := record.Record{State: record.Delivered, TNs: int64(i) * 1e6, Segs: 1, Len: 100, Proto: "tcp", Src: "a", Dst: "b", Sport: &port, Dport: &server, LatencyNs: &ns}
	if node != "" {
		p.State, p.LatencyNs, p.Loss = record.Lost, nil, &record.Loss{Node: node, At: record.AtNode}
	}
	return &p
}

// length is how many packets of a transfer a burst hits: of one far more than of the others, so that shares vary much.
func length(transfer int) int { return map[bool]int{true: 110, false: 10}[transfer%11 == 0] }

// swift is a run of 12000 packets of 60 transfers, one after the other. Of some transfers packets are lost and late, in a
// burst of a few.
func swift(hit func(transfer int) bool) *Run {
	r := NewRun("")
	for i := range 12000 {
		transfer, at := i/200, i%200
		ns, node := int64(30e3+i%7), ""
		if hit(transfer) && at >= 60 && at < 60+length(transfer) {
			if ns = 50e6; i%4 == 0 {
				node = "r1"
			}
		}
		r.Add(one(i, 40000+transfer, ns, node))
	}
	return r
}

// Short bursts of many connections, of which the other run has none, are many events: that is proven, of losses and of
// times. Those of three are not, and are told.
func TestEvents(t *testing.T) {
	before := swift(func(int) bool { return false })
	r := Compare(before, swift(func(n int) bool { return n%4 == 3 || n == 22 }), DefaultOptions)
	for _, want := range []string{"loss at r1 (node)", "latency end to end"} {
		if !slices.Contains(kinds(r), want) {
			t.Errorf("16 of 60 transfers were hit, and not said is %q: %v", want, kinds(r))
		}
	}
	r = Compare(before, swift(func(n int) bool { return n == 10 || n == 30 || n == 50 }), DefaultOptions)
	for _, c := range r.Changes {
		t.Errorf("3 of 60 transfers were hit: %+v", c)
	}
}

// A large difference of times or rates is told, though it is not proven: times of the whole way, and once.
func TestUnprovenTimes(t *testing.T) {
	run := func(late func(i int) bool) *Run {
		r := NewRun("")
		for i := range 4000 {
			ns := int64(30e3)
			if late(i) {
				ns = 50e6
			}
			r.Add(one(i, 40000, ns, ""))
		}
		return r
	}
	r := Compare(run(func(int) bool { return false }), run(func(i int) bool { return i > 1000 && i < 1150 }), DefaultOptions)
	if r.Different || len(r.Unproven) != 1 || r.Unproven[0].Kind != "latency" || r.Unproven[0].What != endToEnd || r.Unproven[0].PAlone == nil {
		t.Errorf("one long burst: %+v, %+v", r.Changes, r.Unproven)
	}
	sent := func(gap func(i int) int) *Run {
		r, at := NewRun(""), 0
		for i := range 2000 {
			at += gap(i)
			r.Add(one(at, 40000, 30e3, ""))
		}
		return r
	}
	r = Compare(sent(func(int) int { return 1 }), sent(func(i int) int { return map[bool]int{true: 3000, false: 1}[i == 1000] }), DefaultOptions)
	if r.Different || len(r.Unproven) != 1 || r.Unproven[0].Kind != "rate" {
		t.Errorf("a pause as long as the rest: %+v, %+v", r.Changes, r.Unproven)
	}
}

// What a flow lost is told, unless it was lost at places that are told: the largest place may have lost packets of others.
func TestUnprovenElsewhere(t *testing.T) {
	run := func(lost bool) *Run {
		r := NewRun("")
		for i := range 20000 {
			port, node := 40000, ""
			p := one(i, port, 30e3, "")
			if burst := i % 6000; i%20 == 0 {
				p.Src = "c"
				if lost && burst < 1000 && i < 15000 {
					node = "n" + strconv.Itoa(i%12000/20%40) // at each only a few
				}
			} else if lost && burst >= 2000 && burst < 3500 {
				node = "r1"
			}
			if node != "" {
				p.State, p.LatencyNs, p.Loss = record.Lost, nil, &record.Loss{Node: node, At: record.AtNode}
			}
			r.Add(p)
		}
		return r
	}
	r := Compare(run(false), run(true), DefaultOptions)
	var told []string
	for _, u := range r.Unproven {
		told = append(told, u.What)
	}
	for _, c := range r.Changes {
		told = append(told, c.What)
	}
	if !slices.Contains(told, "at r1 (node)") || !slices.Contains(told, "tcp c > b:80") || slices.Contains(told, "tcp a > b:80") {
		t.Errorf("told are %q", told)
	}
}

// What says most has half of the level, however many others there are.
func TestWeights(t *testing.T) {
	list := weights([]bool{true, false, false, false, true, false})
	if list[0]+list[4] != 1 || list[1]+list[2]+list[3]+list[5] != 1 || list[0] != list[4] || list[1] != list[5] {
		t.Errorf("weights %v", list)
	}
}
