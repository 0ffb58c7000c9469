// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
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
			notes = append(notes, note.NothingMeasured{Since: r.Domain.Created})
		} else {
			notes = append(notes, note.NothingMatches{Measured: measured, Since: r.Domain.Created})
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
		notes = append(notes, note.UnderWay{Packets: e.underWay, Timeout: timeout})
	}
	if len(e.ended) > 0 {
		notes = append(notes, note.OtherStates{Packets: e.ended, Expired: s.Wants(record.Expired)})
	}
	if e.forgot && s.Since.Before(e.oldest) {
		notes = append(notes, note.Forgotten{From: e.oldest})
	}
	if e.truncated > 0 {
		notes = append(notes, note.MayBeMissing{Packets: uint64(e.truncated)})
	}
	return notes
}

// notMeantNotes are of what NotMeasuredNotes leaves out.
func notMeantNotes(counters []datapath.Counter) (notes []Note) {
	for _, c := range counters {
		reason, is := strings.CutPrefix(c.Name, notMeasured)
		if is && c.Value > 0 && (reason == note.Watch || reason == note.IPv6 || reason == note.Leaseless) {
			notes = append(notes, note.NotMeant{Reason: reason, Packets: c.Value})
		}
	}
	return notes
}
