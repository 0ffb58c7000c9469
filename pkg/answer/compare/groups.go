// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
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
	flows map[Flow]bool
	all   map[measure]measured
}

// measure is what has one value in each run.
type measure struct {
	kind, what, metric string
	flow               Flow // of its packets; the zero Flow: of all
	path               string
}

// measured is the value of a measure in a run, and how many packets it is of.
type measured struct{ value, packets float64 }

// Repetition keeps of the run what CompareGroups needs.
func (r *Run) Repetition() *Repetition {
	p := &Repetition{Summary: r.summary(), over: r.Over > 0, flows: make(map[Flow]bool), all: make(map[measure]measured)}
	quantiles := func(m measure, values []float64, packets uint64) {
		if m.kind = "latency"; len(values) < leastMedian {
			return
		}
		sorted := stats.Sorted(values)
		m.metric = "p50_ns"
		p.all[m] = measured{stats.Quantile(sorted, 0.5), float64(packets)}
		if m.metric = "p99_ns"; len(values) >= leastTail {
			p.all[m] = measured{stats.Quantile(sorted, 0.99), float64(packets)}
		}
	}
	for place, s := range r.places {
		quantiles(measure{what: place.String()}, s.Values, r.passed[place])
	}
	for place, lost := range r.lostAt {
		p.all[measure{kind: "loss", what: "at " + place.String(), metric: "share"}] = measured{lost.K / float64(r.packets), float64(r.packets)}
	}
	seconds := float64(max(1, r.last-r.first)) / 1e9
	for key, f := range r.flows {
		p.flows[key] = true
		packets := float64(f.packets)
		quantiles(measure{what: key.String(), flow: key}, f.times.Values, f.packets)
		p.all[measure{kind: "loss", what: key.String(), metric: "share", flow: key}] = measured{f.lost.K / packets, packets}
		p.all[measure{kind: "rate", what: key.String(), metric: "rate_bps", flow: key}] = measured{float64(f.bytes) * 8 / seconds, packets}
		for path := range f.ways {
			p.all[measure{kind: "path", what: key.String(), metric: "share", flow: key, path: path}] = measured{f.part(path), float64(f.arrived)}
		}
	}
	return p
}

// of is the value of a measure in a run. Where nothing was lost, sent, or seen on a path it is 0; false: it is not known.
func (p *Repetition) of(m measure) (measured, bool) {
	v, is := p.all[m]
	switch {
	case is:
		return v, true
	case m.kind == "loss" && m.flow == Flow{}:
		return measured{0, float64(p.Packets)}, true
	case m.kind == "rate":
		return measured{}, !p.over
	case m.kind == "path":
		return measured{}, p.flows[m.flow]
	}
	return measured{}, false
}

// CompareGroups says what differs between two groups of runs. Runs are independent, whatever their packets are: each has
// one value of each measure, and Welch's t test compares the means of both groups.
func CompareGroups(a, b []*Repetition, o Options) *Report {
	r := &Report{Before: groupSummary(a), After: groupSummary(b), Alpha: o.Alpha, Changes: []Change{}}
	var list []Change
	var p []float64
	for _, m := range measuresOf(a, b) {
		x, knownA := group(a, m)
		y, knownB := group(b, m)
		if !knownA || !knownB {
			r.Untested++
			continue
		}
		change, one := m.compare(x, y, float64(r.Before.Packets+r.After.Packets), &o)
		list, p = append(list, change), append(p, one)
	}
	r.Comparisons = len(list)
	for i, adjusted := range stats.Holm(p) {
		if adjusted < o.Alpha {
			list[i].P = &adjusted
			r.Changes = append(r.Changes, list[i])
		}
	}
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
	list    []float64
	packets float64
}

func group(list []*Repetition, m measure) (v values, known bool) {
	for _, p := range list {
		one, is := p.of(m)
		if !is {
			return v, false
		}
		v.list, v.packets = append(v.list, one.value), v.packets+one.packets
	}
	return v, true
}

// compare is the change of a measure, and its p-value.
func (m *measure) compare(a, b values, packets float64, o *Options) (Change, float64) {
	before, after := stats.Mean(a.list), stats.Mean(b.list)
	least, variance := 0.0, 0.0
	switch m.kind {
	case "latency":
		least = max(float64(o.LeastTime), o.LeastPart*before)
	case "rate":
		least = o.LeastPart * before
	default: // shares of few packets vary even where those of all runs happen to be the same
		least = o.LeastLoss
		if share := (before + after) / 2; a.packets > 0 && b.packets > 0 {
			variance = share * (1 - share) * (1/a.packets + 1/b.packets)
		}
	}
	t := stats.Welch(a.list, b.list, variance)
	bounds := t.Bounds(1 - o.Alpha)
	share := (a.packets + b.packets) / max(1, packets)
	return Change{
		Kind: m.kind, What: m.what, Metric: m.metric, Before: before, After: after, Low: &bounds.Low, High: &bounds.High,
		weight: share * ratio(before, after), Text: m.text(before, after),
	}, t.P(least)
}

// text is a change in words.
func (m *measure) text(before, after float64) string {
	rate := func(v float64) string { return words.Rate(uint64(math.Round(v))) }
	switch m.kind {
	case "latency":
		return fmt.Sprintf("%s: %s from %s to %s (%s)", m.what, strings.TrimSuffix(m.metric, "_ns"), words.Duration(before), words.Duration(after), sign(after-before, words.Duration))
	case "loss":
		return fmt.Sprintf("%s: lost from %s to %s of the packets", m.what, percent(before), percent(after))
	case "path":
		return fmt.Sprintf("%s: %s from %s to %s of the packets", m.what, m.path, percent(before), percent(after))
	}
	return fmt.Sprintf("%s: sent from %s to %s (%s)", m.what, rate(before), rate(after), sign(after-before, rate))
}
