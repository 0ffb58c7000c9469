// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"fmt"
	"math"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// latencyMeasure counts how many packets take as long as a bound, which decides exactly, and keeps a sketch of all
// times for what is shown.
type latencyMeasure struct {
	of     Latency
	bounds []bound
	over   []uint64 // packets that do not take less, by bound
	n      uint64
	max    int64
	sketch map[int]uint64 // packets by logarithm
	worst  worst

	left   bool   // a packet has been seen leaving the queue
	direct uint64 // packets that were not: they did not wait, if any packet is seen there
}

func newLatencyMeasure(l *Latency) *latencyMeasure {
	bounds := l.bounds()
	return &latencyMeasure{of: *l, bounds: bounds, over: make([]uint64, len(bounds)), sketch: make(map[int]uint64)}
}

func (m *latencyMeasure) add(r *record.Record) {
	for _, ns := range m.times(r) {
		n := uint64(r.Segs)
		m.n += n
		m.max = max(m.max, ns)
		m.sketch[bucket(ns)] += n
		for i, b := range m.bounds {
			if ns >= b.ns {
				m.over[i] += n
			}
		}
		m.worst.add(r.ID, float64(ns), func() string { return words.Duration(float64(ns)) + " on " + words.Path(r) })
	}
}

// times are those of a packet that the assertion is about: one for each visit.
func (m *latencyMeasure) times(r *record.Record) (list []int64) {
	add := func(ns *int64) {
		if ns != nil {
			list = append(list, *ns)
		}
	}
	if len(m.of.places()) == 0 {
		if arrived(r) {
			add(r.LatencyNs)
		}
		return list
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Node == m.of.Node {
			add(h.NodeNs)
		}
		m.left = m.left || h.QueueNs != nil && h.Node+"/"+h.Port == m.of.Queue
		prev := r.PrevOf(i)
		if prev < 0 {
			continue
		}
		from := &r.Hops[prev]
		port := from.Node + "/" + from.Port
		switch {
		case from.Node == m.of.Hop:
			add(h.LatencyNs)
		case port == m.of.Link:
			add(h.LinkNs)
		case port == m.of.Queue && from.QueueNs != nil:
			add(from.QueueNs)
		case port == m.of.Queue:
			m.direct += uint64(r.Segs)
		}
	}
	return list
}

// perOctave is how finely the sketch divides a power of two: within 0.6 %.
const perOctave = 64

func bucket(ns int64) int {
	if ns <= 0 {
		return -1
	}
	return int(math.Floor(math.Log2(float64(ns)) * perOctave))
}

// quantile is one of what the sketch has, by nearest rank.
func (m *latencyMeasure) quantile(share float64) int64 {
	if share == 1 {
		return m.max
	}
	need, sum := uint64(math.Ceil(share*float64(m.n))), uint64(0)
	for i := -1; i < 64*perOctave; i++ {
		if sum += m.sketch[i]; sum >= need {
			if i < 0 {
				return 0
			}
			return min(m.max, int64(math.Exp2((float64(i)+0.5)/perOctave)))
		}
	}
	return m.max
}

func (m *latencyMeasure) judge(to *Result) {
	if m.left { // bounds are above 0, so none of these is over one
		m.n, m.sketch[bucket(0)] = m.n+m.direct, m.sketch[bucket(0)]+m.direct
	}
	var promised, measured []string
	to.Verdict = Holds
	for i, b := range m.bounds {
		need := uint64(math.Ceil(b.share * float64(m.n)))
		holds := m.n > 0 && m.n-m.over[i] >= need
		value := m.quantile(b.share)
		if holds { // the sketch is not exact, the count is
			value = min(value, b.ns-1)
		} else {
			value, to.Verdict = max(value, b.ns), Fails
		}
		promised = append(promised, fmt.Sprintf("%s below %s", b.name, words.Duration(float64(b.ns))))
		measured = append(measured, fmt.Sprintf("%s %s", b.name, words.Duration(float64(value))))
		to.Values[b.name+"_ns"] = float64(value)
	}
	to.Promised, to.Measured = strings.Join(promised, ", "), strings.Join(measured, ", ")
	for _, place := range m.of.places() {
		to.Promised += " (" + place + ")"
	}
	to.Values["count"] = float64(m.n)
	if m.n == 0 {
		to.Measured, to.Verdict, to.Values, to.Undecided = "no time", Fails, nil, true
		to.Cause = "no packet that was selected has a time there"
		if m.direct > 0 {
			to.Cause = "no packet that was selected is seen leaving that queue: whether any waited is not known"
		}
		return
	}
	to.Evidence = m.worst.evidence()
}
