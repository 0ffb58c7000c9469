// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// emptiness is what can be why an answer is empty.
type emptiness struct {
	measured  uint64
	underWay  int                  // match, but for their state, and have not ended
	ended     map[record.State]int // match, but for their state
	truncated int                  // do not match; but their records lack hops
	forgot    bool
	oldest    time.Time // that the ring remembers
}

// noteEmpty says why an answer about what is selected is empty. Whether an agent runs, and what
// could not be measured, noteDomain has said.
func (a *app) noteEmpty(r *agent.Reader, s *selection) {
	a.warn(a.withHandle(func(h *datapath.Handle) error {
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		e, err := a.lookForCause(r, s)
		if err != nil {
			return err
		}
		e.measured = agent.NewTotals(counters, aggregate.Totals{}).Measured
		since := a.clockTime(r.Domain.Created)
		if e.measured == 0 {
			a.notef("no packet was measured since %s", since)
		} else {
			a.notef("no packet matches; %s measured since %s", plural(int(e.measured), "packet"), since)
		}
		for _, text := range a.causes(e, s, r, counters) {
			a.noteOnce(text, text)
		}
		return nil
	}))
	a.noteUnsent(r, s)
}

// clockTime is a time of today, or with its date.
func (a *app) clockTime(t time.Time) string {
	t = t.In(a.location)
	if t.Format(time.DateOnly) != a.now().In(a.location).Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// lookForCause looks through the ring for what is nearly what was asked for.
func (a *app) lookForCause(r *agent.Reader, s *selection) (emptiness, error) {
	e := emptiness{ended: make(map[record.State]int)}
	look := backpack.Select{Match: func(p *packet.Packet, of packet.Scope) bool {
		switch {
		case s.matchAnyState(p, of) && p.State == record.InFlight:
			e.underWay += p.Segs
		case s.match(p, of): // it has ended only now
		case s.matchAnyState(p, of):
			e.ended[p.State] += p.Segs
		case p.Truncated && s.keepFlow(p):
			e.truncated += p.Segs
		}
		return false
	}}
	stats, err := backpack.ScanFunc(r.Maps, r.Decoder, backpack.ScanOptions{Select: look}, func(*record.Record) error { return nil })
	if err != nil {
		return e, fmt.Errorf("read the ring: %w", err)
	}
	e.forgot = stats.Forgot
	e.oldest = time.Unix(0, int64(stats.Oldest)+r.Decoder.WallOffset())
	return e, nil
}

// causes are full sentences.
func (a *app) causes(e emptiness, s *selection, r *agent.Reader, counters []datapath.Counter) []string {
	var texts []string
	if e.underWay > 0 {
		texts = append(texts, fmt.Sprintf("%s under way: in no answer before they have ended (not seen for %v, they have expired)",
			packetsAre(e.underWay), r.Domain.Options.Timeout))
	}
	var ended []string
	for state, n := range e.ended {
		ended = append(ended, fmt.Sprintf("%d %s", n, state))
	}
	if slices.Sort(ended); len(ended) > 0 {
		texts = append(texts, "what matches but for --state: "+strings.Join(ended, ", "))
	}
	if e.forgot && s.since.Before(e.oldest) {
		texts = append(texts, fmt.Sprintf("the ring remembers packets from %s on; older ones are forgotten (attach with more --slots)",
			a.clockTime(e.oldest)))
	}
	if e.truncated > 0 {
		texts = append(texts, fmt.Sprintf("%s: what is asked for may be among what they lack (attach with more --max-hops)", incompleteText(uint64(e.truncated))))
	}
	for _, c := range counters {
		if text := unmeantTexts[c.Name]; text != "" && c.Value > 0 {
			texts = append(texts, packetsWere(c.Value)+" not measured: "+text)
		}
	}
	return texts
}

// unmeantTexts explain counters of what noteDomain leaves out, see unmeant.
var unmeantTexts = map[string]string{
	"not_measured_watch": "the domain's --watch does not match them",
	"not_measured_ipv6":  "of IPv6, which the domain does not measure (attach with another --ipv6)",
	"not_measured_lease": "no agent renewed the lease then",
}

func packetsAre(n int) string {
	if n == 1 {
		return "1 packet is"
	}
	return plural(n, "packet") + " are"
}

// incompleteText says that records are not complete.
func incompleteText(n uint64) string {
	if n == 1 {
		return "1 packet has an incomplete record"
	}
	return decimal(n) + " packets have incomplete records"
}

// noteIncomplete says that records lack something.
func (a *app) noteIncomplete(n uint64) {
	if n > 0 {
		a.notef("%s: more happened than a record has room for (attach anew, with more --max-hops), or it was partly overwritten", incompleteText(n))
	}
}
