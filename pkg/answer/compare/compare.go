// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/words"
)

// Options say what is a difference.
type Options struct {
	Alpha     float64 // chance that equal runs differ anywhere
	LeastTime int64   // ns: a time that differs by less does not count
	LeastLoss float64 // the same of shares of packets
	LeastPart float64 // the same of times and rates, as a share of the first run's
}

// DefaultOptions are those of who asks for none.
var DefaultOptions = Options{Alpha: 0.01, LeastTime: 50_000, LeastLoss: 0.001, LeastPart: 0.1}

// Change is one difference that is more than noise.
type Change struct {
	Kind   string  `json:"kind"`   // latency, loss, path, flow or rate
	What   string  `json:"what"`   // the place, or the flow
	Metric string  `json:"metric"` // p50_ns, p99_ns, share, path, new_path, path_gone, packets or rate_bps
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Low and High are the bounds of the difference, with the confidence of the report.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// P is that of the test that decided, for all comparisons together (Holm); nil: none did, as it is there in one
	// run and not in the other, and needs none.
	P    *float64 `json:"p,omitempty"`
	Text string   `json:"text"` // in words

	weight float64            // by which changes are sorted
	lost   float64            // by how many packets losses differ
	lostBy map[string]float64 // of more than one place: where those packets were lost, by What; nil: at one
	most   float64            // packets lost, in the run that lost more
	large  bool               // it is told even if it is not proven
}

// Summary of a run.
type Summary struct {
	Name       string `json:"name"`
	Packets    uint64 `json:"packets"`
	Flows      int    `json:"flows"`
	DurationNs int64  `json:"duration_ns"`
	Runs       int    `json:"runs,omitempty"` // of a group; 0: it is one run
}

// Report is what differs between two runs.
type Report struct {
	Before      Summary  `json:"before"`
	After       Summary  `json:"after"`
	Different   bool     `json:"different"`
	Comparisons int      `json:"comparisons"`
	Untested    int      `json:"untested"` // pairs with too few packets to compare, or of which a run had no room for one
	Alpha       float64  `json:"alpha"`
	Changes     []Change `json:"changes"` // the most important first
	// Unproven are large differences that may be chance: they do not make the runs different.
	Unproven []Unproven `json:"unproven"`
}

// comparison is a test that was made, and what it says if it is more than noise.
type comparison struct {
	Change
	p       float64
	certain bool // it needs no test: it is there in one run and not in the other
	bursts  int  // see Unproven
	first   bool // it is one of the few that say most: see weights
}

// weights are how much of the level each comparison has. Those that say most have one half together: losses by place and
// over all, and times end to end. All others, which are many, have the other half.
func weights(first []bool) []float64 {
	n := 0
	for _, is := range first {
		if is {
			n++
		}
	}
	list := make([]float64, len(first))
	for i, is := range first {
		list[i] = 1 / float64(max(1, len(first)-n))
		if is {
			list[i] = 1 / float64(n)
		}
	}
	return list
}

// comparer collects comparisons of two runs.
type comparer struct {
	a, b *Run
	o    Options
	rng  *rand.Rand

	list     []comparison
	untested int
	unproven []Unproven
}

// Compare says what differs. It has the same answer each time.
func Compare(a, b *Run, o Options) *Report {
	c := &comparer{a: a, b: b, o: o, rng: stats.Rand(1)}
	c.times()
	c.losses()
	c.flows()
	r := &Report{Before: a.summary(), After: b.summary(), Comparisons: len(c.list), Untested: c.untested, Alpha: o.Alpha, Changes: []Change{}}
	p, first := make([]float64, len(c.list)), make([]bool, len(c.list))
	for i := range c.list {
		p[i], first[i] = c.list[i].p, c.list[i].first
	}
	for i, adjusted := range stats.Holm(p, weights(first)) {
		one := c.list[i]
		switch {
		case adjusted < o.Alpha:
			one.P = &adjusted
			r.Changes = append(r.Changes, one.Change)
		case one.certain:
			r.Changes = append(r.Changes, one.Change)
		case one.large:
			one.P = &adjusted
			c.unproven = append(c.unproven, Unproven{Change: one.Change, PAlone: &one.p, Bursts: one.bursts})
		}
	}
	r.Unproven = unprovenOf(c.unproven, r.Changes)
	slices.SortStableFunc(r.Changes, func(x, y Change) int { return cmp.Compare(y.weight, x.weight) })
	r.Different = len(r.Changes) > 0
	return r
}

func (r *Run) summary() Summary {
	return Summary{Name: r.Name, Packets: r.packets, Flows: len(r.flows), DurationNs: r.last - r.first}
}

// both are the keys of either map, in an order that does not change.
func both[K comparable, A, B any](a map[K]A, b map[K]B, text func(K) string) []K {
	seen := make(map[K]bool)
	for k := range a {
		seen[k] = true
	}
	for k := range b {
		seen[k] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(x, y K) int { return cmp.Compare(text(x), text(y)) })
}

// times compares the times at each place.
func (c *comparer) times() {
	for _, place := range both(c.a.places, c.b.places, Place.String) {
		a, b := c.a.places[place], c.b.places[place]
		if a == nil || b == nil {
			continue // packets go elsewhere: paths say so
		}
		share := float64(c.a.passed[place]+c.b.passed[place]) / float64(c.a.packets+c.b.packets)
		if place.Name == "" {
			share *= 0.25 // what places say more exactly
		}
		c.quantiles(place.String(), share, a, b, place.Name == "", place.Name == "")
	}
}

// How many values a quantile needs, and how often a series is resampled.
const (
	leastMedian = 30
	leastTail   = 1000
	rounds      = 300
)

// quantiles compares the median of two series, and their 99th percentile where there are enough. First: see weights;
// whole: the times are of the whole way, so that a large difference is told even if it is not proven.
func (c *comparer) quantiles(what string, weight float64, seriesA, seriesB *stats.Series, first, whole bool) {
	a, b := seriesA.Values, seriesB.Values
	shares, metrics := []float64{0.5, 0.99}, []string{"p50", "p99"}
	switch n := min(len(a), len(b)); {
	case n < leastMedian:
		c.untested++
		return
	case n < leastTail:
		shares = shares[:1]
	}
	sortedA, sortedB := stats.Sorted(a), stats.Sorted(b)
	for q, share := range shares {
		before, after := stats.Quantile(sortedA, share), stats.Quantile(sortedB, share)
		least := c.least(before, float64(c.o.LeastTime))
		bounds := c.bounds(stats.Bootstrap(a, share, rounds, c.rng), stats.Bootstrap(b, share, rounds, c.rng))
		p := 1.0
		switch {
		case !outside(bounds, least):
		case share > 0.5:
			p = stats.TailTest(seriesA, seriesB, share, least)
		default:
			p = stats.QuantileTest(a, b, share, least)
		}
		c.list = append(c.list, comparison{p: p, first: first, Change: Change{
			Kind: "latency", What: what, Metric: metrics[q] + "_ns", Before: before, After: after,
			Low: &bounds.Low, High: &bounds.High, weight: weight * ratio(before, after),
			large: whole && share > 0.5 && math.Abs(after-before) >= least && largeTail(a, b, before, after, &c.o),
			Text:  fmt.Sprintf("%s: %s from %s to %s (%s)", what, metrics[q], words.Duration(before), words.Duration(after), sign(after-before, words.Duration)),
		}})
	}
}

// least is by how much two values must differ to count.
func (c *comparer) least(before, least float64) float64 {
	return max(least, c.o.LeastPart*math.Abs(before))
}

// bounds are those of the difference of two values, of each of which as many were drawn.
func (c *comparer) bounds(drawnA, drawnB []float64) stats.Interval {
	differences := make([]float64, len(drawnA))
	for i := range drawnA {
		differences[i] = drawnB[i] - drawnA[i]
	}
	return stats.Percentiles(differences, 1-c.o.Alpha)
}

// outside reports whether all that lies within the bounds counts.
func outside(bounds stats.Interval, least float64) bool {
	return bounds.Low >= least || bounds.High <= -least
}

// ratio is how often one of two values must be doubled to be the other, up to 10.
func ratio(before, after float64) float64 {
	low, high := min(before, after), max(before, after)
	if low <= 0 {
		return 10
	}
	return min(10, math.Log2(high/low))
}

// sign is a difference in words.
func sign(v float64, text func(float64) string) string {
	if v < 0 {
		return "-" + text(-v)
	}
	return "+" + text(v)
}

// losses compares the shares of packets that were lost at each place. Bursts at one place say nothing of another.
func (c *comparer) losses() {
	if c.a.packets == 0 || c.b.packets == 0 {
		return
	}
	places := both(c.a.lostAt, c.b.lostAt, LossPlace.String)
	placed := 0.0
	for _, place := range places {
		a, b := c.a.lossesAt(place, c.a.packets), c.b.lossesAt(place, c.b.packets)
		c.loss(atPlace(place), a, b, 1, nil)
		placed += a.K + b.K
	}
	if lost := c.a.lost.K + c.b.lost.K; lost > placed || len(places) > 1 { // else the place says it
		c.loss(endToEnd, &c.a.lost, &c.b.lost, 0.25, (*Run).lostBy)
	}
}

// lostBy are all losses by place.
func (r *Run) lostBy() map[LossPlace]float64 {
	list := make(map[LossPlace]float64)
	for place, at := range r.lostAt {
		list[place] = at.K
	}
	return list
}

// loss compares two shares, unless the packets are too few to tell bursts from losses that are independent. lostBy is
// where a run lost them, if that may be more than one place.
func (c *comparer) loss(what string, a, b *stats.Batches, weight float64, lostBy func(*Run) map[LossPlace]float64) {
	before, after := a.K/a.N, b.K/b.N
	change := Change{
		Kind: "loss", What: what, Metric: "share", Before: before, After: after,
		weight: weight * (1 + 10*math.Abs(after-before)) * ratio(before, after),
		lost:   math.Abs(after-before) * (a.N + b.N) / 2, large: isLarge(a.K, a.N, b.K, b.N, &c.o),
		Text: lossText(what, before, after),
	}
	if lostBy != nil {
		worse := c.a
		if change.most = a.K; after > before {
			worse, change.most = c.b, b.K
		}
		change.lostBy = byName(lostBy(worse))
	}
	if !a.Known() || !b.Known() {
		if c.untested++; change.large {
			c.unproven = append(c.unproven, Unproven{Change: change})
		}
		return
	}
	p := a.CompareBursts(b)
	if math.Abs(after-before) < c.o.LeastLoss {
		p = 1
	}
	c.list = append(c.list, comparison{p: p, Change: change, bursts: a.Bursts() + b.Bursts(), first: lostBy == nil || what == endToEnd})
}

// byName are losses by what a change of their place is called.
func byName(places map[LossPlace]float64) map[string]float64 {
	list := make(map[string]float64)
	for place, n := range places {
		list[atPlace(place)] += n
	}
	return list
}

func atPlace(place LossPlace) string { return "at " + place.String() }

// endToEnd is all of the way, and of the packets.
const endToEnd = "end to end"

func lossText(what string, before, after float64) string {
	return fmt.Sprintf("%s: lost from %s to %s of the packets", what, percent(before), percent(after))
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", share*100) }

// flows compares Flow by Flow.
func (c *comparer) flows() {
	for _, key := range both(c.a.flows, c.b.flows, Flow.String) {
		a, b := c.a.flows[key], c.b.flows[key]
		switch {
		case a == nil && c.a.Over > 0, b == nil && c.b.Over > 0: // it may be one of those for which there was no room
			c.untested++
			continue
		case a == nil || b == nil:
			c.presence(key, a, b)
			continue
		}
		share := float64(a.packets+b.packets) / float64(c.a.packets+c.b.packets) / 2
		c.quantiles(key.String(), share, &a.times, &b.times, false, true)
		if a.lost.K+b.lost.K > 0 {
			c.loss(key.String(), &a.lost, &b.lost, share, func(r *Run) map[LossPlace]float64 { return r.flows[key].lostAt })
		}
		c.rate(key, a, b, share)
		c.paths(key, a, b, share)
	}
}

// presence tests whether a Flow that one run has is more than a few stray packets.
func (c *comparer) presence(key Flow, a, b *flow) {
	before, after, word := 0.0, 0.0, "appeared"
	if a != nil {
		before, word = float64(a.packets), "disappeared"
	} else {
		after = float64(b.packets)
	}
	share := (before + after) / float64(max(1, c.a.packets+c.b.packets))
	p := stats.TwoProportions(before, float64(c.a.packets), after, float64(c.b.packets))
	c.list = append(c.list, comparison{p: p, Change: Change{
		Kind: "flow", What: key.String(), Metric: "packets", Before: before, After: after, weight: 10 * share,
		Text: fmt.Sprintf("%s %s (%.0f packets)", key, word, before+after),
	}})
}

// leastBins is how many intervals a rate needs.
const leastBins = 20

// rate compares what a Flow sent in a second.
func (c *comparer) rate(key Flow, a, b *flow, share float64) {
	before, after := a.rate.rates(), b.rate.rates()
	if min(len(before), len(after)) < leastBins {
		c.untested++
		return
	}
	x, y := stats.Mean(before), stats.Mean(after)
	least := c.least(x, 0)
	bounds := c.bounds(stats.DrawnMeans(before, rounds, c.rng), stats.DrawnMeans(after, rounds, c.rng))
	p := 1.0
	if outside(bounds, least) {
		p = stats.MeanTest(before, after, least)
	}
	rate := func(v float64) string { return words.Rate(uint64(v)) }
	c.list = append(c.list, comparison{p: p, Change: Change{
		Kind: "rate", What: key.String(), Metric: "rate_bps", Before: x, After: y, Low: &bounds.Low, High: &bounds.High,
		weight: share * ratio(x, y), large: math.Abs(y-x) >= least && largeOf(before, after, least, &c.o),
		Text: fmt.Sprintf("%s: sent from %s to %s (%s)", key, rate(x), rate(y), sign(y-x, rate)),
	}})
}
