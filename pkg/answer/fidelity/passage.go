// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/record"
)

// passage is one packet, or one train, through a port.
type passage struct {
	enqueued int64 // Unix ns: when it came to the port's queue
	wait     int64 // ns in the queue, or, if that is not known, on the link with it
	bits     int64 // with link headers
	trains   bool  // it stands for several packets
	flow     int
	twice    bool // a second copy came out at the other end
}

func (p *passage) left() int64 { return p.enqueued + p.wait }

// mostPassages is how many are kept of a port; the first ones, since rates need packets that follow each other.
const mostPassages = 1 << 18

// passages are those of one port.
type passages struct {
	list  []passage
	lost  stats.Batches
	flows map[string]int
	over  uint64 // not kept
}

// Meter takes packets, and has what each of the declared ports did to them.
type Meter struct {
	ports  []Port
	byPort map[string]*passages
}

// NewMeter returns one for these ports.
func NewMeter(ports []Port) *Meter {
	m := &Meter{ports: ports, byPort: make(map[string]*passages)}
	for _, p := range ports {
		m.byPort[p.Name] = &passages{flows: make(map[string]int)}
	}
	return m
}

// Add takes a packet. One that has not ended is left out.
func (m *Meter) Add(r *record.Record) {
	if r.State == record.InFlight {
		return
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		of := m.byPort[h.Node+"/"+h.Port]
		if of == nil || h.AtNs == nil || h.Copy {
			continue
		}
		m.pass(of, r, i)
	}
	if l := r.Loss; l != nil && (l.At == record.AtQueue || l.At == record.AtEgress) && r.State == record.Lost {
		if of := m.byPort[l.Node+"/"+l.Port]; of != nil {
			of.lost.Add(true, 1)
		}
	}
}

// pass takes the visit of hop i, which went out by a port that is measured.
func (m *Meter) pass(of *passages, r *record.Record, i int) {
	h := &r.Hops[i]
	next := 0 // hops that it leads to
	var link *int64
	for j := i + 1; j < len(r.Hops); j++ {
		if r.PrevOf(j) == i {
			if next++; r.Hops[j].LinkNs != nil {
				link = r.Hops[j].LinkNs
			}
		}
	}
	if next > 0 || r.State == record.Delivered || r.State == record.Left {
		of.lost.Add(false, 1)
	}
	if next == 0 {
		return // lost behind it, or the port is an edge
	}
	if len(of.list) >= mostPassages {
		of.over++
		return
	}
	p := passage{enqueued: r.TNs + *h.AtNs, trains: r.Segs > 1, twice: next > 1, flow: of.flowNumber(r)}
	switch {
	case h.QueueNs != nil:
		p.wait = *h.QueueNs
	case link != nil:
		p.wait = *link
	default:
		return
	}
	p.bits = int64(r.Len+r.Segs*m.header(h.Node+"/"+h.Port)) * 8
	of.list = append(of.list, p)
}

// judged is the share of passages that are kept; nil: all are.
func (of *passages) judged() *float64 {
	if of.over == 0 {
		return nil
	}
	kept := float64(len(of.list))
	share := kept / (kept + float64(of.over))
	return &share
}

func (m *Meter) header(name string) int {
	i := slices.IndexFunc(m.ports, func(p Port) bool { return p.Name == name })
	return m.ports[i].Header
}

// mostFlowNumbers bounds the memory for flows of a port.
const mostFlowNumbers = 4096

func (of *passages) flowNumber(r *record.Record) int {
	key := r.Src + " " + r.Dst + " " + r.Proto
	if r.Sport != nil && r.Dport != nil {
		key += fmt.Sprintf(" %d %d", *r.Sport, *r.Dport)
	}
	n, known := of.flows[key]
	if !known && len(of.flows) < mostFlowNumbers {
		n = len(of.flows)
		of.flows[key] = n
	}
	return n
}

// behind says of each passage, in the order in which they came to the queue, whether it found another one there,
// that is not just on its way for the declared delay.
func (of *passages) behind(delay float64) []bool {
	slices.SortStableFunc(of.list, func(x, y passage) int { return cmp.Compare(x.enqueued, y.enqueued) })
	list, last := make([]bool, len(of.list)), int64(0)
	for i := range of.list {
		p := &of.list[i]
		list[i] = last > p.enqueued+int64(delay)
		last = max(last, p.left())
	}
	return list
}

// busy are the bits of packets that left right behind another one, and the time since that one.
func (of *passages) busy(delay float64) (bits, gaps []float64) {
	order := slices.Clone(of.list)
	slices.SortStableFunc(order, func(x, y passage) int { return cmp.Compare(x.left(), y.left()) })
	for i := 1; i < len(order); i++ {
		if p, before := &order[i], order[i-1].left(); before > p.enqueued+int64(delay) {
			bits, gaps = append(bits, float64(p.bits)), append(gaps, float64(p.left()-before))
		}
	}
	return bits, gaps
}

// shareOf is the share of passages of which something holds.
func (of *passages) shareOf(holds func(i int, p *passage) bool) float64 {
	if len(of.list) == 0 {
		return 0
	}
	n := 0
	for i := range of.list {
		if holds(i, &of.list[i]) {
			n++
		}
	}
	return float64(n) / float64(len(of.list))
}
