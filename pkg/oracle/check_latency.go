// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Bounds on the difference between radar's times and the captures'.
type Bounds struct {
	P99  time.Duration // of its absolute value
	Bias time.Duration // of its median, and of its mean without the outer 1 %
}

// maxFrame is the longest packet, in IP bytes, whose times are compared: the
// packet tap copies every byte between its stamp and radar's, for a 64 KB train
// longer than the bound.
const maxFrame = 1500

// differences of one kind: radar's time minus the captures', ns.
type differences struct {
	name string
	ns   []int64
}

// Latency compares the times of packets that were alone in their buffer. Between
// two ports without a queue the stamps stand side by side. A queue lies between
// radar's egress stamp and the tap's: there time in the node and wait together
// are compared.
func (c *Comparison) Latency(b Bounds) []*Row {
	node := &differences{name: "time inside nodes"}
	link := &differences{name: "time on links"}
	queue := &differences{name: "time through queues"}
	hop := &differences{name: "egress to egress"}
	total := &differences{name: "first to last"}
	for _, p := range c.pairs {
		if p.r.Segs == 1 && p.j.first().Len <= maxFrame && len(p.r.Hops) == len(p.fate.hops) {
			c.hopTimes(p, node, link, queue, hop)
			c.totalTime(p, total)
		}
	}
	var rows []*Row
	for _, d := range []*differences{node, link, queue, hop, total} {
		rows = append(rows, d.row(b))
	}
	rows[2].MayBeEmpty = true
	rows[3].MayBeEmpty = true
	return rows
}

func (c *Comparison) queues(v visit) bool {
	return v.out != nil && c.truth.topo.port(v.out.place.ref()).Queue != nil
}

// hopTimes compares hop by hop. An absent time is no difference: what must be
// there is the path's business.
func (c *Comparison) hopTimes(p pair, node, link, queue, hop *differences) {
	for i, v := range p.fate.hops {
		h := p.r.Hops[i]
		if v.in != nil && v.out != nil && !c.queues(v) && v.out.segs == 1 {
			node.add(h.NodeNs, v.out.at-v.in.at)
		}
		if i == 0 || v.in == nil || v.in.segs > 1 {
			continue
		}
		prev := p.fate.hops[i-1]
		switch {
		case !c.queues(prev):
			link.add(h.LinkNs, v.in.at-prev.out.at)
			if v.out != nil && !c.queues(v) {
				hop.add(h.LatencyNs, v.out.at-prev.out.at)
			}
		case prev.in != nil && h.LinkNs != nil && p.r.Hops[i-1].NodeNs != nil:
			sum := *h.LinkNs + *p.r.Hops[i-1].NodeNs
			queue.add(&sum, v.in.at-prev.in.at)
		}
	}
}

// totalTime compares from the first stamp to the last, where neither is
// followed by a queue.
func (c *Comparison) totalTime(p pair, total *differences) {
	first, last := p.fate.hops[0], p.fate.hops[len(p.fate.hops)-1]
	from := first.in
	if from == nil {
		from = first.out
		if c.queues(first) {
			return
		}
	}
	to := last.out
	if to == nil {
		to = last.in
	} else if c.queues(last) {
		return
	}
	if p.fate.drop == nil && to.segs == 1 && from != to {
		total.add(p.r.LatencyNs, to.at-from.at)
	}
}

func (d *differences) add(radar *int64, capture int64) {
	if radar != nil {
		d.ns = append(d.ns, *radar-capture)
	}
}

func (d *differences) row(b Bounds) *Row {
	row := &Row{Check: d.name, Compared: len(d.ns), Timed: true}
	if len(d.ns) == 0 {
		return row
	}
	slices.Sort(d.ns)
	abs := make([]int64, len(d.ns))
	for i, v := range d.ns {
		abs[i] = max(v, -v)
	}
	slices.Sort(abs)
	median, mean, p99 := d.ns[len(d.ns)/2], trimmedMean(d.ns), rank(abs, 0.99)
	row.Note = fmt.Sprintf("radar - capture: median %+.2f us, mean %+.2f us; |difference| p50 %.2f us, p99 %.2f us",
		us(median), mean/1e3, us(rank(abs, 0.5)), us(p99))
	if time.Duration(p99) > b.P99 {
		row.bad("p99 of the difference is %.2f us, at most %v allowed", us(p99), b.P99)
	}
	if bias := max(math.Abs(float64(median)), math.Abs(mean)); bias > float64(b.Bias) {
		row.bad("bias is %.2f us, at most %v allowed", bias/1e3, b.Bias)
	}
	return row
}

func us(ns int64) float64 { return float64(ns) / 1e3 }

// rank is the smallest value that a share q of the sorted values does not exceed.
func rank(sorted []int64, q float64) int64 {
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// trimmedMean of sorted values without the lowest and highest 1 %.
func trimmedMean(sorted []int64) float64 {
	cut := len(sorted) / 100
	sorted = sorted[cut : len(sorted)-cut]
	sum := 0.0
	for _, v := range sorted {
		sum += float64(v)
	}
	return sum / float64(len(sorted))
}
