// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// leastSweep is how many packets pass at least until flows are forgotten of which no packet can be overtaken.
const leastSweep = 1024

// orderMeasure looks for packets that arrive behind one of their flow that was sent later (RFC 4737, 3.3).
type orderMeasure struct {
	*share              // of arrivals
	flows               map[string][]arrival
	untilSweep          int
	arrived, misordered uint64
	worst               worst
}

// arrival is a packet of a flow that a later one can still overtake. Those of a flow are in the order of arrival.
type arrival struct {
	at, sent int64
	segs     int
	id       string
}

func newOrderMeasure(of *share) *orderMeasure {
	return &orderMeasure{share: of, flows: make(map[string][]arrival), untilSweep: leastSweep}
}

func (m *orderMeasure) add(r *record.Record) {
	if !arrived(r) || r.LatencyNs == nil {
		return
	}
	m.take(flowOf(r), arrival{r.TNs + *r.LatencyNs, r.TNs, r.Segs, r.ID})
}

// take takes the next packet that was sent.
func (m *orderMeasure) take(key string, now arrival) {
	m.arrived += uint64(now.segs)
	list := m.flows[key]
	for n := len(list); n > 0 && list[n-1].at > now.at; n-- {
		late := list[n-1]
		m.misordered += uint64(late.segs)
		m.worst.add(late.id, float64(late.at-now.at), func() string {
			return fmt.Sprintf("arrived %s after %s, which was sent %s later", words.Duration(float64(late.at-now.at)), now.id, words.Duration(float64(now.sent-late.sent)))
		})
		list = list[:n-1]
		m.give(1)
	}
	if m.fits(now.segs) {
		list = append(list, now)
	}
	m.keep(key, list, now.sent)
	if m.untilSweep--; m.untilSweep <= 0 {
		for key, list := range m.flows {
			m.keep(key, list, now.sent)
		}
		m.untilSweep = max(leastSweep, m.kept)
	}
}

// keep keeps those of a flow that arrived after something was sent: nothing that is sent from then on overtakes others.
func (m *orderMeasure) keep(key string, list []arrival, sent int64) {
	i := slices.IndexFunc(list, func(a arrival) bool { return a.at > sent })
	if i < 0 {
		m.give(len(list))
		delete(m.flows, key)
		return
	}
	m.flows[key] = list[i:]
	m.give(i)
}

// flowOf names the flow of a packet, one direction.
func flowOf(r *record.Record) string {
	text := r.Proto + " " + words.Endpoint(r.Src, r.Sport) + " > " + words.Endpoint(r.Dst, r.Dport)
	if r.ICMPType != nil && r.ICMPID != nil {
		text += fmt.Sprintf(" type %d id %d", *r.ICMPType, *r.ICMPID)
	}
	return text
}

func (m *orderMeasure) judge(to *Result) {
	to.Promised = "no packet behind one that was sent later"
	to.Measured, to.Verdict = fmt.Sprintf("%d of %d reordered", m.misordered, m.arrived), verdict(m.misordered == 0)
	to.Values["reordered"] = float64(m.misordered)
	to.Evidence = m.worst.evidence()
	if m.arrived == 0 {
		to.Measured, to.Verdict, to.Cause, to.Undecided = "nothing arrived", Fails, "no packet that was selected arrived with a time", true
	}
	if m.over > 0 {
		to.Verdict, to.Undecided = Fails, m.misordered == 0
		to.Cause = fmt.Sprintf("for %s there was no room: %d others were on their way at once, select fewer", packets(m.over), mostKept)
	}
}

// unsortedMeasure is orderMeasure for packets that come in another order than they were sent. It keeps all of them.
type unsortedMeasure struct {
	*share
	flows map[string][]arrival
}

func (m *unsortedMeasure) add(r *record.Record) {
	if !arrived(r) || r.LatencyNs == nil || !m.fits(r.Segs) {
		return
	}
	key := flowOf(r)
	m.flows[key] = append(m.flows[key], arrival{r.TNs + *r.LatencyNs, r.TNs, r.Segs, r.ID})
}

func (m *unsortedMeasure) judge(to *Result) {
	sorted := newOrderMeasure(newShare())
	for key, list := range m.flows {
		slices.SortStableFunc(list, func(a, b arrival) int { return cmp.Compare(a.sent, b.sent) })
		for _, a := range list {
			sorted.take(key, a)
		}
		delete(sorted.flows, key) // the next flow begins at another time
		sorted.give(sorted.kept)
	}
	sorted.over = m.over
	sorted.judge(to)
}
