// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// emptiness is what can be why an answer is empty.
type emptiness struct {
	underWay  int                  // match, but for their state, and have not ended
	ended     map[record.State]int // match, but for their state
	truncated int                  // do not match; but their records lack hops
	forgot    bool
	oldest    time.Time // that the ring remembers
}

// WhyEmpty implements Source. Whether an agent runs, and what could not be measured, Lacks says.
func (r *Ring) WhyEmpty(ctx context.Context, s *Selection) (notes []Note) {
	err := withHandle(r.Domain.Name, func(h *datapath.Handle) error {
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		e, err := r.lookForCause(s)
		if err != nil {
			return err
		}
		if measured := agent.NewTotals(counters, aggregate.Totals{}).Measured; measured == 0 {
			notes = append(notes, NothingMeasured{r.Domain.Created})
		} else {
			notes = append(notes, NothingMatches{measured, r.Domain.Created})
		}
		notes = append(notes, e.notes(s, r.Domain.Options.Timeout)...)
		notes = append(notes, notMeantNotes(counters)...)
		return nil
	})
	now := placenow.NewLinks(ctx, r.Domain)
	notes = append(appendWarning(notes, err), r.unsentNotes(s, now)...)
	notes = append(notes, portsNotUp(now, nil)...)
	notes = append(notes, unusable(now)...)
	notes = append(notes, noRouteOut(now)...)
	return append(notes, SilentNodes(now)...)
}

// lookForCause looks through the ring for what is nearly what was asked for.
func (r *Ring) lookForCause(s *Selection) (emptiness, error) {
	e := emptiness{ended: make(map[record.State]int)}
	look := backpack.Select{Match: func(p *packet.Packet, of packet.Scope) bool {
		switch {
		case s.matchAnyState(p, of) && p.State == record.InFlight:
			e.underWay += p.Segs
		case s.Match(p, of): // it has ended only now
		case s.matchAnyState(p, of):
			e.ended[p.State] += p.Segs
		case p.Truncated && s.keepFlow(p):
			if rec := r.Decoder.Record(p); lacksHops(&rec) {
				e.truncated += p.Segs
			}
		}
		return false
	}}
	stats, err := backpack.ScanFunc(r.Maps, r.Decoder, backpack.ScanOptions{Select: look}, func(*record.Record) error { return nil })
	if err != nil {
		return e, fmt.Errorf("read the ring: %w", err)
	}
	e.forgot, e.oldest = stats.Forgot, r.oldest(&stats)
	return e, nil
}

func (e *emptiness) notes(s *Selection, timeout time.Duration) (notes []Note) {
	if e.underWay > 0 {
		notes = append(notes, UnderWay{e.underWay, timeout})
	}
	if len(e.ended) > 0 {
		notes = append(notes, OtherStates{e.ended})
	}
	if e.forgot && s.Since.Before(e.oldest) {
		notes = append(notes, Forgotten{e.oldest})
	}
	if e.truncated > 0 {
		notes = append(notes, MayBeMissing{uint64(e.truncated)})
	}
	return notes
}

// notMeantNotes are of what NotMeasuredNotes leaves out.
func notMeantNotes(counters []datapath.Counter) (notes []Note) {
	for _, c := range counters {
		reason, is := strings.CutPrefix(c.Name, notMeasured)
		if is && c.Value > 0 && (reason == Watch || reason == IPv6 || reason == Leaseless) {
			notes = append(notes, NotMeant{reason, c.Value})
		}
	}
	return notes
}
