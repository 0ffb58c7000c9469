// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// Verdict on a promise.
type Verdict string

// The verdicts.
const (
	Holds Verdict = "holds"
	Fails Verdict = "fails"
)

// Result is what became of an assertion.
type Result struct {
	Name     string             `json:"name"`
	Line     int                `json:"line"`
	Column   int                `json:"column"`
	Check    string             `json:"check"`
	Verdict  Verdict            `json:"verdict"`
	Promised string             `json:"promised"`           // in words
	Measured string             `json:"measured"`           // the same
	Values   map[string]float64 `json:"values,omitempty"`   // what was measured, in numbers
	Packets  uint64             `json:"packets"`            // that were selected and have ended
	Cause    string             `json:"cause,omitempty"`    // why there is none, or too few
	Evidence []Evidence         `json:"evidence,omitempty"` // the packets that speak most against it

	// Undecided: there were too few packets to judge, or they could not be judged. Then the verdict is Fails (or what
	// if_empty says), since a promise must be shown to hold; who waits for one to be broken has seen nothing yet.
	Undecided bool `json:"-"`
}

// Evidence is a packet, and what it has met.
type Evidence struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

// mostEvidence is how many packets a result names.
const mostEvidence = 5

// Trial holds an assertion against packets.
type Trial struct {
	of      *Assertion
	measure measure
	packets uint64
	share   *share
}

// measure is one check against packets.
type measure interface {
	// add takes a packet that has ended; the sooner it was sent, the earlier. In a trial of NewUnsorted any may be next.
	add(r *record.Record)
	// judge fills in what was promised and measured, and the verdict.
	judge(to *Result)
}

// New makes a Trial of an assertion that Read has read.
func New(a *Assertion) *Trial { return newTrial(a, newShare()) }

// NewUnsorted is New for packets that come in another order than they were sent. What it keeps of flows is in the room
// until Free.
func NewUnsorted(a *Assertion, in *Room) *Trial {
	t := newTrial(a, &share{of: in})
	if a.NoReordering != nil {
		t.measure = &unsortedMeasure{share: t.share, flows: make(map[string][]arrival)}
	}
	return t
}

func newTrial(a *Assertion, of *share) *Trial {
	t := &Trial{of: a, share: of}
	switch {
	case a.NoLoss != nil:
		t.measure = &lossMeasure{of: Loss{AtMost: new(Number)}}
	case a.Loss != nil:
		t.measure = &lossMeasure{of: *a.Loss}
	case a.Latency != nil:
		t.measure = newLatencyMeasure(a.Latency)
	case a.Path != nil:
		t.measure = &pathMeasure{share: of, path: a.Path}
	case a.Crosses != nil:
		t.measure = &pathMeasure{share: of, crosses: a.Crosses}
	case a.NeverCrosses != nil:
		t.measure = &pathMeasure{share: of, never: a.NeverCrosses}
	case a.Balance != nil:
		t.measure = newBalanceMeasure(a.Balance, of)
	case a.NAT != nil:
		t.measure = &natMeasure{of: *a.NAT}
	case a.NoReordering != nil:
		t.measure = newOrderMeasure(of)
	case a.Rate != nil:
		t.measure = &rateMeasure{of: *a.Rate}
	case a.Explains():
		t.measure = &causeMeasure{among: a.Cause, never: a.NeverCause}
	default:
		t.measure = &quantityMeasure{of: *a.Packets}
	}
	return t
}

// Add takes a packet. Those that have not ended are left out.
func (t *Trial) Add(r *record.Record) {
	if r.State == record.InFlight {
		return
	}
	t.packets += uint64(r.Segs)
	t.measure.add(r)
}

// Free gives back the room of what is kept. The trial is at its end.
func (t *Trial) Free() { t.share.give(t.share.kept) }

// IsOver reports whether there was no room for a packet: it may be why the result is undecided.
func (t *Trial) IsOver() bool { return t.share.over > 0 }

// Result is the verdict. why says what is known of why no packet was selected.
func (t *Trial) Result(why func() string) Result {
	a := t.of
	r := Result{Name: a.Name, Line: a.Line, Column: a.Column, Check: a.Check(), Packets: t.packets, Values: make(map[string]float64)}
	t.measure.judge(&r)
	if t.packets > 0 || a.Packets != nil {
		if t.packets == 0 {
			r.Cause = why()
		}
		return r
	}
	r.Measured, r.Values, r.Evidence, r.Verdict, r.Undecided = "no packet", nil, nil, Fails, true
	if r.Cause = why(); a.IfEmpty == Pass {
		r.Verdict = Holds
	}
	return r
}

// verdict is that of a condition.
func verdict(holds bool) Verdict {
	if holds {
		return Holds
	}
	return Fails
}

// arrived reports whether a packet has come to its end.
func arrived(r *record.Record) bool { return r.State == record.Delivered || r.State == record.Left }

// worst are the packets that are worst by a measure, the worst first.
type worst struct {
	list []weighed
}

type weighed struct {
	weight float64
	Evidence
}

// add takes a packet, if it is one of the worst. what is asked only then.
func (w *worst) add(id string, weight float64, what func() string) {
	i := len(w.list)
	for i > 0 && w.list[i-1].weight < weight {
		i--
	}
	if i == mostEvidence {
		return
	}
	w.list = append(w.list, weighed{})
	copy(w.list[i+1:], w.list[i:])
	w.list[i] = weighed{weight, Evidence{id, what()}}
	w.list = w.list[:min(len(w.list), mostEvidence)]
}

func (w *worst) evidence() (list []Evidence) {
	for _, one := range w.list {
		list = append(list, one.Evidence)
	}
	return list
}

// quantityMeasure counts.
type quantityMeasure struct {
	of Quantity
	n  uint64
}

func (m *quantityMeasure) add(r *record.Record) { m.n += uint64(r.Segs) }

func (m *quantityMeasure) judge(to *Result) {
	holds := true
	if low := m.of.AtLeast; low != nil {
		holds, to.Promised = m.n >= uint64(*low), fmt.Sprintf("at least %s", packets(uint64(*low)))
	}
	if high := m.of.AtMost; high != nil {
		holds = holds && m.n <= uint64(*high)
		to.Promised = and(to.Promised, fmt.Sprintf("at most %s", packets(uint64(*high))))
	}
	to.Measured, to.Verdict = packets(m.n), verdict(holds)
	to.Values["packets"] = float64(m.n)
}

func packets(n uint64) string { return words.Plural(int(n), "packet") }

func and(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// rateMeasure is what arrives in the time from the first packet to the last.
type rateMeasure struct {
	of          Rate
	bytes       uint64
	first, last int64 // Unix ns
	any         bool
}

func (m *rateMeasure) add(r *record.Record) {
	if !arrived(r) {
		return
	}
	end := r.TNs
	if r.LatencyNs != nil {
		end += *r.LatencyNs
	}
	if !m.any {
		m.any, m.first, m.last = true, r.TNs, end
	}
	m.bytes += uint64(r.Len)
	m.first, m.last = min(m.first, r.TNs), max(m.last, end)
}

func (m *rateMeasure) judge(to *Result) {
	rate, known := 0.0, m.last > m.first
	if known {
		rate = float64(m.bytes) * 8 / (float64(m.last-m.first) / 1e9)
		to.Values["rate_bps"] = rate
	}
	holds := true
	if low := m.of.AtLeast; low != nil {
		holds, to.Promised = rate >= float64(*low), "at least "+words.Rate(uint64(*low))
	}
	if high := m.of.AtMost; high != nil {
		holds = holds && rate <= float64(*high)
		to.Promised = and(to.Promised, "at most "+words.Rate(uint64(*high)))
	}
	to.Verdict, to.Measured = verdict(holds), words.Rate(uint64(rate))
	switch {
	case !m.any:
		to.Measured, to.Verdict, to.Cause = "nothing arrived", verdict(holds), "all packets were lost"
	case !known:
		to.Measured, to.Verdict, to.Cause, to.Undecided = "no rate", Fails, "a rate needs two packets", true
	}
}
