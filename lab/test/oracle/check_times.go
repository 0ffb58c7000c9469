// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// quantileError is the relative error that a quantile of radar's may have, because its
// histograms have buckets.
const quantileError = 0.01

// timeRow collects differences of times and checks each against a bound.
type timeRow struct {
	*Row
	bounds Bounds
	exact  bool  // by records: only quantiles may be off, by quantileError
	most   int64 // greatest difference, ns
}

func newTimeRow(check string, b Bounds) *timeRow { return &timeRow{Row: b.row(check), bounds: b} }

// newExactRow is for answers that must agree with the records.
func newExactRow(check string) *timeRow {
	return &timeRow{Row: &Row{Check: check + ", by the records"}, exact: true}
}

// compare wants got within the bound and 1 % of want.
func (r *timeRow) compare(what string, got, want int64) {
	r.Compared++
	diff := got - want
	r.most = max(r.most, diff, -diff)
	if float64(max(diff, -diff)) > float64(r.bounds.P99)+float64(want)*quantileError+1 {
		r.off("%s: %.2f us, really %.2f us", what, us(got), us(want))
	}
}

// same wants got to be what the records say.
func (r *timeRow) same(what string, got, want int64) {
	r.Compared++
	if got != want {
		r.bad("%s: %.3f us, really %.3f us", what, us(got), us(want))
	}
}

func (r *timeRow) done() *Row {
	r.Note = fmt.Sprintf("greatest difference %.2f us, bound %.0f us + 1 %%", us(r.most), us(int64(r.bounds.P99)))
	return r.Row
}

// times compares quantiles; sorted must not be empty.
func (r *timeRow) times(what string, got *TimesAnswer, sorted []int64) {
	if got == nil || got.Count != len(sorted) {
		r.bad("%s: %+v, really %d times", what, got, len(sorted))
		return
	}
	if r.exact {
		r.same(what+", min", got.Min, sorted[0])
		r.same(what+", max", got.Max, sorted[len(sorted)-1])
	} else {
		r.compare(what+", min", got.Min, sorted[0])
	}
	r.compare(what+", p50", got.P50, rank(sorted, 0.5))
	r.compare(what+", p90", got.P90, rank(sorted, 0.9))
	// With fewer than 100 it is the greatest, which by captures depends most on the machine.
	if len(sorted) >= 100 || r.exact {
		r.compare(what+", p99", got.P99, rank(sorted, 0.99))
	}
}

// CheckFlowTimes compares the times and the order of flows whose packets were never in
// trains: exactly with the records, within bounds with the captures.
func (c *Comparison) CheckFlowTimes(answers []FlowAnswer, b Bounds) []*Row {
	return append(c.flowTimesByRecords(answers), c.flowTimesByCaptures(answers, b)...)
}

// flowTimesByRecords returns one row. It relies on a record for every packet.
func (c *Comparison) flowTimesByRecords(answers []FlowAnswer) []*Row {
	row := newExactRow("radar flows: completion, rate, latency, jitter, reordering")
	truth := c.flowTruths(c.transits(), byRecords)
	for i := range answers {
		r := &answers[i]
		f := truth[r.key()]
		if f == nil || !f.alone {
			continue
		}
		row.same(r.key()+", completion", r.Duration, f.last-f.first)
		if really := float64(f.bytes) * 8e9 / float64(f.last-f.first); f.last > f.first && math.Abs(deref(r.Rate)-really) > 1 {
			row.bad("%s: %.0f bit/s, really %.0f", r.key(), deref(r.Rate), really)
		}
		if len(f.times) > 0 {
			row.times(r.key(), r.Latency, f.times)
		}
		if len(f.times) > 1 && r.Jitter != nil {
			row.compare(r.key()+", jitter", *r.Jitter, int64(f.jitter))
		} else if len(f.times) > 1 {
			row.bad("%s: no jitter, really %.2f us", r.key(), f.jitter/1e3)
		}
		row.Compared++
		if r.Reordered != f.reordered {
			row.bad("%s: %d packets reordered, really %d", r.key(), r.Reordered, f.reordered)
		}
		if f.arrived > 0 && (r.Ratio == nil || math.Abs(*r.Ratio-float64(r.Reordered)/float64(f.arrived)) > 1e-9) {
			row.bad("%s: ratio %v, really of %d packets", r.key(), deref(r.Ratio), f.arrived)
		}
	}
	return []*Row{row.done()}
}

func (c *Comparison) flowTimesByCaptures(answers []FlowAnswer, b Bounds) []*Row {
	truth := c.flowTruths(c.transits(), byCaptures)
	completion, latency, jitter := newTimeRow("radar flows: completion time", b), newTimeRow("radar flows: latency quantiles", b),
		newTimeRow("radar flows: jitter (RFC 3550)", b)
	rate, order := b.row("radar flows: rate"), b.row("radar flows: reordering (RFC 4737)")
	reordered := 0
	for i := range answers {
		r := &answers[i]
		f := truth[r.key()]
		if f == nil || !f.alone {
			continue
		}
		completion.compare(r.key(), r.Duration, f.last-f.first)
		if really := float64(f.bytes) * 8e9 / float64(f.last-f.first); r.Rate != nil && f.last > f.first {
			rate.Compared++
			if math.Abs(*r.Rate/really-1) > 0.01+float64(b.P99)/float64(f.last-f.first) {
				rate.off("%s: %.0f bit/s, really %.0f", r.key(), *r.Rate, really)
			}
		}
		if len(f.times) > 0 {
			latency.times(r.key(), r.Latency, f.times)
		}
		if len(f.times) > 1 && r.Jitter != nil {
			jitter.compare(r.key(), *r.Jitter, int64(f.jitter))
		}
		order.Compared++
		reordered += f.reordered
		if distance(r.Reordered, f.reordered) > f.unsure {
			order.off("%s: %d, really %d (captures are not sure of %d)", r.key(), r.Reordered, f.reordered, f.unsure)
		}
	}
	order.Note = fmt.Sprintf("%d packets reordered", reordered)
	return []*Row{completion.done(), rate, latency.done(), jitter.done(), order}
}

// CheckLatency compares quantiles of nodes, links, paths and pairs of nodes, for each group
// that the answers have: exactly with the records, within bounds with the captures. No packet
// may have been in a train. Captures see a packet behind its queue, so their time in node and
// queue is compared with radar's time in the queue: the time in the node is within the bound.
func (c *Comparison) CheckLatency(a *Answers, b Bounds) []*Row {
	seen, recorded := c.latencyTruths(byCaptures), c.latencyTruths(byRecords)
	var rows []*Row
	for _, by := range slices.Sorted(maps.Keys(a.Latency)) {
		name := "radar latency --by " + by + ": quantiles"
		rows = append(rows, c.latencyRow(newExactRow(name), by, a, recorded[by]), c.latencyRow(newTimeRow(name, b), by, a, seen[by]))
	}
	return rows
}

func (c *Comparison) latencyRow(row *timeRow, by string, a *Answers, truth map[string][]int64) *Row {
	for _, r := range a.Latency[by] {
		if truth[r.key()] == nil && (by != "node" || !c.hasQueue(r.Name)) {
			row.bad("%s: %d times, but nothing passed", r.key(), r.Count)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(truth)) {
		i := slices.IndexFunc(a.Latency[by], func(r LatencyAnswer) bool { return r.key() == name })
		switch {
		case i < 0:
			row.bad("%s: missing", name)
		case by == "node" && c.hasQueue(name): // some of its packets went into the queue
		case by == "queue" && !row.exact && a.Latency[by][i].Count < len(truth[name]):
			// Sometimes the kernel runs no tracing program: then radar adds the wait to the link.
			row.off("%s: %d waits, really %d", name, a.Latency[by][i].Count, len(truth[name]))
		default:
			row.times(name, &a.Latency[by][i].TimesAnswer, truth[name])
		}
	}
	return row.done()
}

// latencyTruths are the times of each group by name, sorted.
func (c *Comparison) latencyTruths(w witness) map[string]map[string][]int64 {
	truth := map[string]map[string][]int64{"node": {}, "queue": {}, "link": {}, "path": {}, "end-to-end": {}}
	add := func(by, name string, from, to *int64) {
		if from != nil && to != nil {
			truth[by][name] = append(truth[by][name], *to-*from)
		}
	}
	for _, p := range c.transits() {
		var left *int64 // the node before
		for i, h := range p.outcome.hops {
			m := p.moments(w, i)
			queued := h.out != nil && c.queued(h.out)
			switch {
			case queued && w == byRecords:
				add("queue", h.out.place.ref().String(), m.out, m.left)
			case queued:
				add("queue", h.out.place.ref().String(), m.in, m.out)
			case h.out != nil:
				add("node", h.node, m.in, m.out)
			}
			if i > 0 && h.in != nil {
				add("link", linkName(p.outcome.hops[i-1].out, h.in), left, m.in)
			}
			if left = m.left; left == nil {
				left = m.out
			}
		}
		if p.arrived() {
			if from, to, two := p.span(w); two {
				add("end-to-end", p.outcome.hops[0].node+" > "+p.outcome.hops[len(p.outcome.hops)-1].node, &from, &to)
				add("end-to-end", "all", &from, &to)
				add("path", p.ports, &from, &to)
			}
		}
	}
	for _, groups := range truth {
		for _, times := range groups {
			slices.Sort(times)
		}
	}
	return truth
}
