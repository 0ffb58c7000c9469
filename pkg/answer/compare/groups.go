// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/words"
)

// LeastRuns is how many runs a group has at least: one does not say how far runs differ.
const LeastRuns = 2

// Repetition is what is kept of a run to compare it with others like it: a value for each measure.
type Repetition struct {
	Summary
	over  bool // there was no room for all flows
	flows map[Flow]choice
	all   map[measure]measured
	// Packets lost, and those of them by what a change of their place is called; of the zero Flow: of all.
	lost   map[Flow]float64
	lostBy map[Flow]map[string]float64
}

// measure is what has one value in each run.
type measure struct {
	kind, what, metric string
	flow               Flow // of its packets; the zero Flow: of all
	path               string
}

// measured is the value of a measure in a run, and how many packets it is of. main is the part of a path's share that a
// hash explains: see choice.
type measured struct{ value, packets, main float64 }

// choice is what a run's flows of one Flow say of how nodes choose among paths. A hash sends all packets of a flow one
// way, so flows are what varies, not packets.
type choice struct {
	arrived float64 // packets
	flows   float64 // by ports, as many as would be of one size: large ones count for more
	hashes  uint64  // of their ports: the same where the flows are
}

// Repetition keeps of the run what CompareGroups needs.
func (r *Run) Repetition() *Repetition {
	p := &Repetition{Summary: r.summary(), over: r.Over > 0, flows: make(map[Flow]choice), all: make(map[measure]measured), lost: make(map[Flow]float64), lostBy: make(map[Flow]map[string]float64)}
	quantiles := func(m measure, values []float64, packets uint64) {
		if m.kind = "latency"; len(values) < leastMedian {
			return
		}
		sorted := stats.Sorted(values)
		m.metric = "p50_ns"
		p.all[m] = measured{value: stats.Quantile(sorted, 0.5), packets: float64(packets)}
		if m.metric = "p99_ns"; len(values) >= leastTail {
			p.all[m] = measured{value: stats.Quantile(sorted, 0.99), packets: float64(packets)}
		}
	}
	for place, s := range r.places {
		quantiles(measure{what: place.String()}, s.Values, r.passed[place])
	}
	for place, lost := range r.lostAt {
		p.all[measure{kind: "loss", what: atPlace(place), metric: "share"}] = measured{value: lost.K / float64(r.packets), packets: float64(r.packets)}
	}
	p.all[measure{kind: "loss", what: endToEnd, metric: "share"}] = measured{value: r.lost.K / float64(r.packets), packets: float64(r.packets)}
	p.lost[Flow{}], p.lostBy[Flow{}] = r.lost.K, byName(r.lostBy())
	seconds := float64(max(1, r.last-r.first)) / 1e9
	for key, f := range r.flows {
		packets := float64(f.packets)
		if f.lost.K > 0 {
			p.lost[key], p.lostBy[key] = f.lost.K, byName(f.lostAt)
		}
		quantiles(measure{what: key.String(), flow: key}, f.times.Values, f.packets)
		p.all[measure{kind: "loss", what: key.String(), metric: "share", flow: key}] = measured{value: f.lost.K / packets, packets: packets}
		p.all[measure{kind: "rate", what: key.String(), metric: "rate_bps", flow: key}] = measured{value: float64(f.bytes) * 8 / seconds, packets: packets}
		of, main := f.choice()
		p.flows[key] = of
		for path := range f.ways {
			p.all[measure{kind: "path", what: key.String(), metric: "share", flow: key, path: path}] = measured{f.part(path), of.arrived, main[path]}
		}
	}
	return p
}

// choice is how nodes chose among paths, and the part of each path's share that a hash explains: that of flows most of
// whose packets took it, in so far as most did. A flow whose packets are spread one by one was sent by no hash.
func (f *flow) choice() (choice, map[string]float64) {
	type ports struct{ sport, dport int } // an echo's identifier is in no hash
	flows := make(map[ports]map[string]uint64)
	for exact, paths := range f.paths {
		key := ports{exact.sport, exact.dport}
		if flows[key] == nil {
			flows[key] = make(map[string]uint64)
		}
		for path, packets := range paths {
			flows[key][path] += packets
		}
	}
	c, main, squares := choice{arrived: float64(f.arrived)}, make(map[string]float64), 0.0
	for key, paths := range flows {
		packets := 0.0
		for _, n := range paths {
			packets += float64(n)
		}
		path := mostTaken(paths)
		main[path] += max(0, 2*float64(paths[path])-packets) / c.arrived
		squares += packets * packets
		c.hashes ^= maphash.Comparable(portsSeed, key)
	}
	if squares > 0 {
		c.flows = c.arrived * c.arrived / squares
	}
	return c, main
}

// portsSeed is of hashes that are compared between runs.
var portsSeed = maphash.MakeSeed()

// of is the value of a measure in a run. Where nothing was lost, sent, or seen on a path it is 0; false: it is not known.
func (p *Repetition) of(m measure) (measured, bool) {
	v, is := p.all[m]
	switch {
	case is:
		return v, true
	case m.kind == "loss" && m.flow == Flow{}:
		return measured{packets: float64(p.Packets)}, true
	case m.kind == "rate":
		return measured{}, !p.over
	case m.kind == "path":
		of := p.flows[m.flow]
		return measured{packets: of.arrived}, of.arrived > 0
	}
	return measured{}, false
}

// CompareGroups says what differs between two groups of runs. Runs are independent, whatever their packets are: each has
// one value of each measure, and Welch's t test compares the means of both groups.
func CompareGroups(a, b []*Repetition, o Options) *Report {
	r := &Report{Before: groupSummary(a), After: groupSummary(b), Alpha: o.Alpha, Changes: []Change{}}
	var list []Change
	var p []float64
	var first []bool
	var unproven []Unproven
	for _, m := range measuresOf(a, b) {
		x, knownA := group(a, m)
		y, knownB := group(b, m)
		if !knownA || !knownB {
			r.Untested++
			continue
		}
		change, one, tested := m.compare(x, y, float64(r.Before.Packets+r.After.Packets), &o)
		if m.kind == "loss" && !m.isPlace() {
			worse := a
			if change.After > change.Before {
				worse = b
			}
			change.most, change.lostBy = lostOf(worse, m.flow)
		}
		if !tested {
			if r.Untested++; change.large {
				unproven = append(unproven, Unproven{Change: change})
			}
			continue
		}
		list, p, first = append(list, change), append(p, one), append(first, m.first())
	}
	r.Comparisons = len(list)
	for i, adjusted := range stats.Holm(p, weights(first)) {
		switch list[i].P = &adjusted; {
		case adjusted < o.Alpha:
			r.Changes = append(r.Changes, list[i])
		case list[i].large:
			unproven = append(unproven, Unproven{Change: list[i], PAlone: &p[i]})
		}
	}
	r.Unproven = unprovenOf(unproven, r.Changes)
	slices.SortStableFunc(r.Changes, func(x, y Change) int { return cmp.Compare(y.weight, x.weight) })
	r.Different = len(r.Changes) > 0
	return r
}

func groupSummary(list []*Repetition) (s Summary) {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
		s.Packets, s.DurationNs, s.Flows = s.Packets+p.Packets, s.DurationNs+p.DurationNs, max(s.Flows, p.Flows)
	}
	s.Name, s.Runs = strings.Join(names, ", "), len(list)
	return s
}

// measuresOf are those that a run has, in an order that does not change. A loss of a flow that has none is left out.
func measuresOf(groups ...[]*Repetition) (all []measure) {
	seen := make(map[measure]float64)
	for _, g := range groups {
		for _, p := range g {
			for m, v := range p.all {
				seen[m] += v.value
			}
		}
	}
	whole := measure{kind: "loss", what: endToEnd, metric: "share"}
	for m, sum := range seen {
		if m.kind == "loss" && m != whole && m.flow == (Flow{}) && sum == seen[whole] {
			delete(seen, whole) // one place says it
			break
		}
	}
	for m, sum := range seen {
		if m.kind != "loss" || sum > 0 {
			all = append(all, m)
		}
	}
	text := func(m measure) string {
		return strings.Join([]string{m.kind, m.what, m.metric, m.path, m.flow.String()}, "\x00")
	}
	slices.SortFunc(all, func(x, y measure) int { return cmp.Compare(text(x), text(y)) })
	return all
}

// values are those of a measure in a group.
type values struct {
	list          []float64
	packets, most float64 // of all runs, and of the one that has most

	main   float64 // of a path: the mean part of its share that a hash explains
	few    float64 // sum of 1 / flows: runs count alike, so one of few flows makes the mean vary
	hashes []uint64
}

func group(list []*Repetition, m measure) (v values, known bool) {
	for _, p := range list {
		one, is := p.of(m)
		if !is {
			return v, false
		}
		v.list, v.packets, v.most = append(v.list, one.value), v.packets+one.packets, max(v.most, one.packets)
		if m.kind == "path" {
			of := p.flows[m.flow]
			v.main += one.main / float64(len(list))
			v.few += 1 / of.flows
			v.hashes = append(v.hashes, of.hashes)
		}
	}
	return v, true
}

// perFlow is the variance of the mean share of a path in a group, if a hash chose it with that chance for each flow.
func (v *values) perFlow(share float64) float64 {
	n := float64(len(v.list))
	return share * (1 - share) * v.few / (n * n)
}

// sameFlows reports whether the same flows were in all runs: a hash sends these one way.
func sameFlows(a, b *values) bool {
	all := slices.Concat(a.hashes, b.hashes)
	return len(slices.Compact(all)) == 1
}

// poisson is the variance of the mean rate of a group, if nothing but chance says when each packet is sent.
func (v *values) poisson() float64 {
	if v.packets == 0 {
		return 0
	}
	mean := stats.Mean(v.list)
	return mean * mean / v.packets
}

// leastRate is how many packets of a flow one run has at least for its rate to be compared: fewer in one run, and none in
// another one, are stray packets (see presence).
const leastRate = 8

// compare is the change of a measure, and its p-value. It is not tested if nothing says how far it varies: that runs
// happen to have the same value is no sign that others would.
func (m *measure) compare(a, b values, packets float64, o *Options) (_ Change, p float64, tested bool) {
	before, after := stats.Mean(a.list), stats.Mean(b.list)
	least, variance := 0.0, 0.0
	switch m.kind {
	case "latency":
		least = max(float64(o.LeastTime), o.LeastPart*before)
	case "rate":
		if max(a.most, b.most) < leastRate {
			return Change{}, 1, false
		}
		least, variance = o.LeastPart*before, a.poisson()+b.poisson()
	default: // shares of few packets vary even where those of all runs happen to be the same
		least = o.LeastLoss
		if share := (before + after) / 2; a.packets > 0 && b.packets > 0 {
			variance = share * (1 - share) * (1/a.packets + 1/b.packets)
		}
		if m.kind == "path" && !sameFlows(&a, &b) {
			main := (a.main + b.main) / 2
			variance += a.perFlow(main) + b.perFlow(main)
		}
	}
	t := stats.Welch(a.list, b.list, variance)
	share := (a.packets + b.packets) / max(1, packets)
	change := Change{
		Kind: m.kind, What: m.what, Metric: m.metric, Before: before, After: after,
		weight: share * ratio(before, after), Text: m.text(before, after),
	}
	if m.kind == "loss" {
		change.large = isLarge(before*a.packets, a.packets, after*b.packets, b.packets, o)
		change.lost = math.Abs(after-before) * (a.packets + b.packets) / 2
	}
	if !t.Varies() && math.Abs(after-before) > least {
		return change, 1, false
	}
	bounds := t.Bounds(1 - o.Alpha)
	change.Low, change.High = &bounds.Low, &bounds.High
	return change, t.P(least), true
}

// isPlace reports whether losses are those at one place.
func (m *measure) isPlace() bool { return m.flow == Flow{} && m.what != endToEnd }

// first reports whether the measure is one of the few that say most: see weights.
func (m *measure) first() bool {
	return m.flow == (Flow{}) && (m.kind == "loss" || m.kind == "latency" && m.what == endToEnd)
}

// lostOf is how many packets of a Flow a group has lost, and where.
func lostOf(group []*Repetition, f Flow) (lost float64, by map[string]float64) {
	by = make(map[string]float64)
	for _, p := range group {
		lost += p.lost[f]
		for place, n := range p.lostBy[f] {
			by[place] += n
		}
	}
	return lost, by
}

// text is a change in words.
func (m *measure) text(before, after float64) string {
	rate := func(v float64) string { return words.Rate(uint64(math.Round(v))) }
	switch m.kind {
	case "latency":
		return fmt.Sprintf("%s: %s from %s to %s (%s)", m.what, strings.TrimSuffix(m.metric, "_ns"), words.Duration(before), words.Duration(after), sign(after-before, words.Duration))
	case "loss":
		return lossText(m.what, before, after)
	case "path":
		return fmt.Sprintf("%s: %s from %s to %s of the packets", m.what, m.path, percent(before), percent(after))
	}
	return fmt.Sprintf("%s: sent from %s to %s (%s)", m.what, rate(before), rate(after), sign(after-before, rate))
}
