// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Bounds on the difference between radar's times and the captures'. Only a quiet machine
// keeps them: between radar's stamp and the capture's, the CPU may do something else.
// CheckStamps checks what holds on every machine.
type Bounds struct {
	P99   time.Duration // of its absolute value
	Bias  time.Duration // of its median, less what is the observer's
	Clock time.Duration // of the moment of each first stamp
	// Observer is how long a packet tap takes for one packet (see ObserverTime).
	// At egress the tap comes after radar's stamp, at ingress before it: so a
	// capture sees links shorter by that much, and nodes longer.
	Observer time.Duration
	// Unjudged: how far times are off is shown, and is no fault.
	Unjudged bool
}

// row returns an empty row about times.
func (b *Bounds) row(check string) *Row {
	return &Row{Check: check, Timed: true, Unjudged: b.Unjudged}
}

// maxFrame is the longest packet, in IP bytes, whose times are compared. The
// packet tap copies every byte between its stamp and radar's: for a 64 KB train
// that takes longer than the bound.
const maxFrame = 1500

// differences of one kind: radar's time minus the captures', ns.
type differences struct {
	name string
	raw  []int64
	fair []int64 // less the observer's part
}

// Latency compares the times of packets that were alone in their buffer. At a port
// without a queue, radar's stamp and the tap's are side by side. A queue lies between
// radar's egress stamp and the tap's: there the sum of time in the node and wait is
// compared, and the link behind it by itself. A wait that radar did not see is
// compared together with the link.
func (c *Comparison) Latency(b Bounds) []*Row {
	l := latency{
		Comparison: c, bounds: b,
		node: &differences{name: "time inside nodes"}, link: &differences{name: "time on links"},
		queue: &differences{name: "time through queues"}, hop: &differences{name: "egress to egress"},
		total: &differences{name: "first to last"},
	}
	for _, p := range c.pairs {
		if p.r.Segs == 1 && p.path.first().Len <= maxFrame && len(p.r.Hops) == len(p.outcome.hops) {
			l.hopTimes(p)
			l.totalTime(p)
		}
	}
	rows := []*Row{l.row(l.node), l.row(l.link), l.row(l.queue), l.row(l.hop), l.row(l.total)}
	rows[2].MayBeEmpty = true
	rows[3].MayBeEmpty = true
	return rows
}

// Clock compares the absolute time of every record with the capture's.
func (c *Comparison) Clock(b Bounds) *Row {
	row := b.row("time of the first stamp")
	var gaps []int64
	for _, p := range c.pairs {
		if p.n > 0 || p.r.Segs > 1 {
			continue
		}
		row.Compared++
		gap := p.r.TNs - p.enters
		gaps = append(gaps, max(gap, -gap))
		if gaps[len(gaps)-1] > int64(b.Clock) {
			row.off("%s: %s: %.2f us from the capture", p.r.ID, describe(p.path), us(gap))
		}
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		row.Note = fmt.Sprintf("|radar - capture| p50 %.2f us, p99 %.2f us, max %.2f us",
			us(rank(gaps, 0.5)), us(rank(gaps, 0.99)), us(gaps[len(gaps)-1]))
	}
	return row
}

// latency collects differences by kind.
type latency struct {
	*Comparison
	bounds                        Bounds
	node, link, queue, hop, total *differences
}

func (l *latency) queues(h hop) bool {
	return h.out != nil && l.truth.topo.port(h.out.place.ref()).Queue != nil
}

// hopTimes compares hop by hop. An absent time is no difference: paths checks which
// hops must be there.
func (l *latency) hopTimes(p pair) {
	for i, h := range p.outcome.hops {
		said := p.r.Hops[i]
		switch {
		case h.in == nil || h.out == nil || h.out.segs > 1:
		case !l.queues(h):
			l.add(l.node, said.NodeNs, h.in, h.out)
		case said.NodeNs != nil && said.QueueNs != nil:
			sum := *said.NodeNs + *said.QueueNs
			l.add(l.queue, &sum, h.in, h.out)
		}
		if i == 0 || h.in == nil || h.in.segs > 1 {
			continue
		}
		prev := p.outcome.hops[i-1]
		switch {
		case p.r.Hops[i-1].QueueNs != nil:
			l.add(l.link, said.LinkNs, prev.out, h.in)
		case !l.queues(prev):
			l.add(l.link, said.LinkNs, prev.out, h.in)
			if h.out != nil && !l.queues(h) {
				l.add(l.hop, said.LatencyNs, prev.out, h.out)
			}
		case prev.in != nil && said.LinkNs != nil && p.r.Hops[i-1].NodeNs != nil:
			sum := *said.LinkNs + *p.r.Hops[i-1].NodeNs
			l.add(l.queue, &sum, prev.in, h.in)
		}
	}
}

// totalTime compares the time from the first stamp to the last, if no queue
// follows either.
func (l *latency) totalTime(p pair) {
	first, last := p.outcome.hops[0], p.outcome.hops[len(p.outcome.hops)-1]
	from := first.in
	if from == nil {
		from = first.out
		if l.queues(first) {
			return
		}
	}
	to := last.out
	if to == nil {
		to = last.in
	} else if l.queues(last) {
		return
	}
	if p.outcome.drop == nil && to.segs == 1 && from != to {
		l.add(l.total, p.r.LatencyNs, from, to)
	}
}

func (l *latency) add(d *differences, radar *int64, from, to *packet) {
	if radar == nil {
		return
	}
	raw := *radar - (to.at - from.at)
	d.raw = append(d.raw, raw)
	d.fair = append(d.fair, raw-l.lateness(to)+l.lateness(from))
}

// lateness is how much later radar's stamp is than the capture's because of the
// tap alone: half of its time is assumed to be before its stamp, half after it.
func (l *latency) lateness(pkt *packet) int64 {
	if pkt.place.out {
		return -int64(l.bounds.Observer) / 2
	}
	return int64(l.bounds.Observer) / 2
}

func (l *latency) row(d *differences) *Row {
	row := l.bounds.row(d.name)
	row.Compared = len(d.raw)
	if len(d.raw) == 0 {
		return row
	}
	abs := make([]int64, len(d.raw))
	for i, v := range d.raw {
		abs[i] = max(v, -v)
	}
	slices.Sort(d.raw)
	slices.Sort(d.fair)
	slices.Sort(abs)
	bias, p99 := d.fair[len(d.fair)/2], rank(abs, 0.99)
	row.Note = fmt.Sprintf("radar - capture: median %+.2f us, less the tap's part %+.2f us; |difference| p50 %.2f us, p99 %.2f us",
		us(d.raw[len(d.raw)/2]), us(bias), us(rank(abs, 0.5)), us(p99))
	if time.Duration(p99) > l.bounds.P99 {
		row.off("p99 of the difference is %.2f us, at most %v allowed", us(p99), l.bounds.P99)
	}
	if time.Duration(max(bias, -bias)) > l.bounds.Bias {
		row.off("bias is %+.2f us, at most %v allowed", us(bias), l.bounds.Bias)
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

// ObserverTime measures how long one packet tap takes for one packet: two
// captures of the same ports see each packet one after the other. A time of
// radar's contains the tap's where the capture's does not, or the reverse; so it
// is an error of neither. It returns the mean without the outer 1 %, which is finer
// than the captures' microseconds, and the number of packets seen by both.
func ObserverTime(t *Topology, node string, first, second io.Reader) (time.Duration, int, error) {
	type sight struct {
		place place
		bytes string
	}
	seen := map[sight][]int64{}
	var gaps []int64
	for i, r := range []io.Reader{first, second} {
		c, err := NewCaptures(t)
		if err != nil {
			return 0, 0, err
		}
		if err := c.AddWire(node, r); err != nil {
			return 0, 0, fmt.Errorf("capture %d of %s: %w", i+1, node, err)
		}
		for _, f := range c.frames {
			s := sight{*f.place, string(f.ip)}
			switch {
			case f.Len > maxFrame:
			case i == 0:
				seen[s] = append(seen[s], f.at)
			case len(seen[s]) > 0:
				gap := f.at - seen[s][0]
				gaps = append(gaps, max(gap, -gap))
				seen[s] = seen[s][1:]
			}
		}
	}
	if len(gaps) == 0 {
		return 0, 0, fmt.Errorf("the two captures of %s have no packet in common", node)
	}
	slices.Sort(gaps)
	return time.Duration(trimmedMean(gaps)), len(gaps), nil
}
