// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// CheckCounts compares paths, flows and losses, in all that is counted, with the
// captures.
func (c *Comparison) CheckCounts(a *Answers) []*Row {
	list := c.passages()
	return append([]*Row{c.checkPaths(a.Paths, list), c.checkFlows(a.Flows, list)}, c.checkLosses(a, list)...)
}

func (c *Comparison) checkPaths(answers []PathAnswer, list []passage) *Row {
	row := &Row{Check: "radar paths: packets, bytes, flows, ends"}
	type counts struct{ packets, bytes, arrived, gone, flows int }
	truth := map[string]*counts{}
	flows := map[string]map[string]bool{}
	for _, p := range list {
		n := truth[p.path]
		if n == nil {
			n = &counts{}
			truth[p.path], flows[p.path] = n, map[string]bool{}
		}
		n.packets++
		n.bytes += p.bytes
		if p.arrived() {
			n.arrived++
		} else {
			n.gone++
		}
		if p.from.Frag&maskOffset == 0 {
			flows[p.path][p.flow] = true
		}
	}
	for _, r := range answers {
		row.Compared++
		got := counts{r.Packets, r.Bytes, r.Delivered + r.Left, r.Lost + r.Expired, r.Flows}
		want := truth[r.key()]
		if want == nil {
			row.bad("%s: %d packets, but nothing went there", r.key(), r.Packets)
			continue
		}
		want.flows = len(flows[r.key()])
		if got != *want {
			row.bad("%s: %+v, really %+v", r.key(), got, *want)
		}
		delete(truth, r.key())
	}
	for path, n := range truth {
		row.bad("%s: missing, with %d packets", path, n.packets)
	}
	row.Note = fmt.Sprintf("%d paths", row.Compared)
	return row
}

func (c *Comparison) checkFlows(answers []FlowAnswer, list []passage) *Row {
	row := &Row{Check: "radar flows: packets, bytes, ends, paths"}
	truth := c.flowTruths(list)
	for _, r := range answers {
		row.Compared++
		want := truth[r.key()]
		delete(truth, r.key())
		if want == nil {
			row.bad("%s: %d packets, but there was no such flow", r.key(), r.Packets)
			continue
		}
		paths := map[string]int{}
		for _, p := range r.PathList {
			paths[p.Path] += p.Packets
		}
		got := [4]int{r.Packets, r.Bytes, r.Delivered + r.Left, r.Lost + r.Expired}
		if really := [4]int{want.packets, want.bytes, want.arrived, want.gone}; got != really {
			row.bad("%s: packets, bytes, arrived, gone %v, really %v", r.key(), got, really)
		}
		if !maps.Equal(paths, want.paths) {
			row.bad("%s: paths %v, really %v", r.key(), paths, want.paths)
		}
	}
	for name, f := range truth {
		row.bad("%s: missing, with %d packets", name, f.packets)
	}
	row.Note = fmt.Sprintf("%d flows", row.Compared)
	return row
}

// checkLosses compares places of losses with the flows that they hit. Losses for
// which the kernel ran no tracing program may be missing (see Unseen).
func (c *Comparison) checkLosses(a *Answers, list []passage) []*Row {
	places := &Row{Check: "radar loss: packets, bytes and flows of each place", MayBeEmpty: true}
	flows := &Row{Check: "radar loss --by flow: packets of each flow and place", MayBeEmpty: true}
	for i := range c.drops {
		d := &c.drops[i]
		want, bytes, slack := map[string]int{}, 0, 0
		for _, p := range list {
			if p.fate.drop == d {
				want[p.flow]++
				bytes += p.bytes
				if c.taken[p.j] {
					slack++
				}
			}
		}
		got, named := LossAnswer{}, map[string]int{}
		for _, r := range a.Losses {
			if d.explains(Losses{Node: r.Node, Port: r.Port, At: r.At, Reason: r.Reason}) && d.Node != "" {
				got.Packets, got.Bytes, got.Flows = got.Packets+r.Packets, got.Bytes+r.Bytes, max(got.Flows, r.Flows)
			}
		}
		for _, r := range a.FlowLosses {
			if d.explains(Losses{Node: r.Node, Port: r.Port, At: r.At, Reason: r.Reason}) && d.Node != "" {
				named[r.FlowName.key()] += r.LossAnswer.Packets
			}
		}
		if d.Node == "" {
			continue
		}
		places.Compared += len(want)
		if got.Packets+slack != total(want) || slack == 0 && (got.Bytes != bytes || got.Flows != len(want)) {
			places.bad("%s: %d packets, %d bytes, %d flows; really %d, %d, %d", d.Name, got.Packets, got.Bytes, got.Flows, total(want), bytes, len(want))
		}
		flows.Compared += len(named)
		if total(named)+slack != total(want) || slack == 0 && !maps.Equal(named, want) {
			flows.bad("%s: %v, really %v", d.Name, named, want)
		}
	}
	places.Note = fmt.Sprintf("%d flows hit", places.Compared)
	return []*Row{places, flows}
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

// timeRow collects differences of times and checks each against a bound.
type timeRow struct {
	*Row
	bounds Bounds
	most   int64 // greatest difference, ns
}

func newTimeRow(check string, b Bounds) *timeRow {
	return &timeRow{Row: &Row{Check: check, Timed: true}, bounds: b}
}

// compare wants got within the bound and 1 % of want.
func (r *timeRow) compare(what string, got, want int64) {
	r.Compared++
	diff := got - want
	r.most = max(r.most, diff, -diff)
	if float64(max(diff, -diff)) > float64(r.bounds.P99)+float64(want)/100 {
		r.bad("%s: %.2f us, really %.2f us", what, us(got), us(want))
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
	r.compare(what+", min", got.Min, sorted[0])
	r.compare(what+", p50", got.P50, rank(sorted, 0.5))
	r.compare(what+", p90", got.P90, rank(sorted, 0.9))
	if len(sorted) >= 100 { // of fewer, it is the greatest, which says most about the machine
		r.compare(what+", p99", got.P99, rank(sorted, 0.99))
	}
}

// CheckFlowTimes compares the times of flows whose packets were never in trains.
func (c *Comparison) CheckFlowTimes(answers []FlowAnswer, b Bounds) []*Row {
	truth := c.flowTruths(c.passages())
	completion, latency, jitter := newTimeRow("radar flows: completion time", b), newTimeRow("radar flows: latency quantiles", b),
		newTimeRow("radar flows: jitter (RFC 3550)", b)
	rate := &Row{Check: "radar flows: rate", Timed: true}
	order := &Row{Check: "radar flows: reordering (RFC 4737)"}
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
				rate.bad("%s: %.0f bit/s, really %.0f", r.key(), *r.Rate, really)
			}
		}
		if len(f.times) > 0 {
			latency.times(r.key(), r.Latency, f.times)
		}
		if len(f.times) > 1 {
			if r.Jitter == nil {
				jitter.bad("%s: none, really %.2f us", r.key(), f.jitter/1e3)
			} else {
				jitter.compare(r.key(), *r.Jitter, int64(f.jitter))
			}
		}
		order.Compared++
		reordered += f.reordered
		if distance(r.Reordered, f.reordered) > f.unsure {
			order.bad("%s: %d, really %d (captures are not sure of %d)", r.key(), r.Reordered, f.reordered, f.unsure)
		}
		if f.arrived > 0 && (r.Ratio == nil || math.Abs(*r.Ratio-float64(r.Reordered)/float64(f.arrived)) > 1e-9) {
			order.bad("%s: ratio %v, really of %d packets", r.key(), deref(r.Ratio), f.arrived)
		}
	}
	order.Note = fmt.Sprintf("%d packets reordered", reordered)
	return []*Row{completion.done(), rate, latency.done(), jitter.done(), order}
}

// CheckLatency compares quantiles of nodes, links, paths and pairs of nodes, of whichever
// was asked. No packet must have been in a train. Captures see a packet behind its queue: time in the node and in
// the queue are compared together with radar's time in the queue: the node's share is within the bound.
func (c *Comparison) CheckLatency(a *Answers, b Bounds) []*Row {
	truth := c.latencyTruths()
	var rows []*Row
	for _, by := range slices.Sorted(maps.Keys(a.Latency)) {
		row := newTimeRow("radar latency --by "+by+": quantiles", b)
		for _, r := range a.Latency[by] {
			if truth[by][r.key()] == nil && (by != "node" || !c.hasQueue(r.Name)) {
				row.bad("%s: %d times, but nothing passed", r.key(), r.Count)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(truth[by])) {
			i := slices.IndexFunc(a.Latency[by], func(r LatencyAnswer) bool { return r.key() == name })
			switch {
			case i < 0:
				row.bad("%s: missing", name)
			case by == "node" && c.hasQueue(name): // some of its packets went into the queue
			default:
				row.times(name, &a.Latency[by][i].TimesAnswer, truth[by][name])
			}
		}
		rows = append(rows, row.done())
	}
	return rows
}

// latencyTruths are the times of each group by name, sorted.
func (c *Comparison) latencyTruths() map[string]map[string][]int64 {
	truth := map[string]map[string][]int64{"node": {}, "queue": {}, "link": {}, "path": {}, "end-to-end": {}}
	add := func(by, name string, ns int64) { truth[by][name] = append(truth[by][name], ns) }
	for _, p := range c.passages() {
		for i, v := range p.fate.hops {
			switch {
			case v.in == nil || v.out == nil:
			case c.queued(v.out):
				add("queue", v.out.place.ref().String(), v.out.at-v.in.at)
			default:
				add("node", v.node, v.out.at-v.in.at)
			}
			if i == 0 || v.in == nil {
				continue
			}
			prev := p.fate.hops[i-1]
			add("link", linkName(prev.out, v.in), v.in.at-prev.out.at)
		}
		if p.arrived() {
			hops := p.fate.hops
			add("end-to-end", hops[0].node+" > "+hops[len(hops)-1].node, p.ns())
			add("end-to-end", "all", p.ns())
			add("path", p.path, p.ns())
		}
	}
	for _, groups := range truth {
		for _, times := range groups {
			slices.Sort(times)
		}
	}
	return truth
}

func (c *Comparison) queued(u *unit) bool { return c.truth.topo.port(u.place.ref()).Queue != nil }

func (c *Comparison) hasQueue(node string) bool {
	n := c.truth.topo.node(node)
	return n != nil && slices.ContainsFunc(n.Ports, func(p Port) bool { return p.Queue != nil })
}
