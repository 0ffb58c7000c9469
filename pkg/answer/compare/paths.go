// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/vnetradar/radar/pkg/answer/stats"
)

// paths compares by which paths the packets of a Flow went, path by path.
//
// Where nodes choose by a hash, flows are independent, and packets of one are not: then flows that took a path are
// compared. Packets decide where no hash explains what they did: a flow took a path beside its own, or flows with the
// same hash took another one, of which a run knew no choice. Where neither run knew one, a path that one run lacks, and
// that matters in the other, needs no test: for how long it was taken in one go is no matter.
func (c *comparer) paths(key Flow, a, b *flow, share float64) {
	names := both(a.ways, b.ways, func(s string) string { return s })
	if len(names) < 2 || a.arrived == 0 || b.arrived == 0 {
		return
	}
	chosenA, chosenB := a.byPath(), b.byPath()
	choosesA, choosesB := c.a.chooses(key), c.b.chooses(key)
	same, fixed := !choosesA || !choosesB, !choosesA && !choosesB
	if len(a.ways) == 1 && len(b.ways) == 1 {
		one := pathTest{key: key, a: a, b: b, name: names[0], same: same}
		ofA, ofB := slices.Collect(maps.Keys(a.ways))[0], slices.Collect(maps.Keys(b.ways))[0]
		c.list = append(c.list, comparison{p: one.p(chosenA, chosenB), certain: fixed && one.common(), Change: Change{
			Kind: "path", What: key.String(), Metric: "path", Before: sum(chosenA), After: sum(chosenB), weight: 10 * share,
			Text: fmt.Sprintf("%s: took %s, then %s", key, ofA, ofB),
		}})
		return
	}
	if len(names) == 2 { // the other one says the same
		only := func(name string) bool { return a.ways[name] == nil || b.ways[name] == nil }
		if only(names[1]) && !only(names[0]) {
			names = names[1:]
		}
		names = names[:1]
	}
	for _, name := range names {
		one := pathTest{key: key, a: a, b: b, name: name, same: same}
		before, after, p := a.part(name), b.part(name), one.p(chosenA, chosenB)
		if math.Abs(after-before) < c.o.LeastLoss {
			p = 1
		}
		change := Change{
			Kind: "path", What: key.String(), Metric: "share", Before: before, After: after, weight: 10 * share * math.Abs(after-before),
			Text: fmt.Sprintf("%s: %s from %s to %s of the packets", key, name, percent(before), percent(after)),
		}
		switch {
		case before == 0:
			change.Metric, change.Text = "new_path", fmt.Sprintf("%s: new path %s, of %s of the packets", key, name, percent(after))
		case after == 0:
			change.Metric, change.Text = "path_gone", fmt.Sprintf("%s: no packet took %s any more (%s before)", key, name, percent(before))
		}
		alone := (before == 0 || after == 0) && math.Abs(after-before) >= c.o.LeastPart
		c.list = append(c.list, comparison{p: p, certain: alone && fixed && one.common(), Change: change})
	}
}

// pathTest tests whether as many took a path.
type pathTest struct {
	key  Flow
	a, b *flow
	name string
	same bool // a run knows no choice among paths: what has the same hash goes the same way
}

// p is the p-value of the test that decides.
func (t *pathTest) p(chosenA, chosenB map[string]float64) float64 {
	p := stats.TwoProportions(chosenA[t.name], sum(chosenA), chosenB[t.name], sum(chosenB))
	tests := 1.0
	packets := func(ofA, ofB func(exactFlow) bool, aside bool) {
		kA, nA := t.a.took(t.name, ofA, aside)
		kB, nB := t.b.took(t.name, ofB, aside)
		if kA+kB > 0 && nA > 0 && nB > 0 {
			tests++
			p = min(p, t.a.way(t.name).CompareSome(kA, nA, t.b.way(t.name), kB, nB))
		}
	}
	every := func(exactFlow) bool { return true }
	packets(every, every, true)
	if t.same && t.common() {
		packets(t.b.hasHash, t.a.hasHash, false)
	}
	return min(1, p*tests)
}

// common reports whether a flow of both runs has the same hash at nodes that choose paths by it.
func (t *pathTest) common() bool {
	for exact := range t.a.paths {
		if t.b.hasHash(exact) {
			return true
		}
	}
	return false
}

// hasHash reports whether a flow has the hash of another one at nodes that choose paths by it: the same ports, or none.
// An echo's identifier is in no such hash.
func (f *flow) hasHash(of exactFlow) bool {
	if of.sport == anyPort {
		return true
	}
	_, is := f.paths[of]
	return is
}

// took counts packets of some flows, and those that took a path; aside: beside the one that most packets of their flow
// took.
func (f *flow) took(name string, some func(exactFlow) bool, aside bool) (k, n float64) {
	for exact, paths := range f.paths {
		if !some(exact) {
			continue
		}
		for path, packets := range paths {
			if n += float64(packets); path == name && !(aside && mostTaken(paths) == name) {
				k += float64(packets)
			}
		}
	}
	return k, n
}

// part is the share of packets that took a path.
func (f *flow) part(name string) float64 {
	if f.ways[name] == nil {
		return 0
	}
	return f.ways[name].K / float64(f.arrived)
}

// chooses reports whether flows between the two ends of a Flow took more than one path in a run.
func (r *Run) chooses(key Flow) bool {
	seen := make(map[string]bool)
	for other, f := range r.flows {
		if other.Src != key.Src || other.Dst != key.Dst {
			continue
		}
		for path := range f.byPath() {
			seen[path] = true
		}
	}
	return len(seen) > 1
}

func sum(m map[string]float64) (n float64) {
	for _, v := range m {
		n += v
	}
	return n
}
