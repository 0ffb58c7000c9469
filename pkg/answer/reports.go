// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/join"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Reports are the reports of switches that were kept for a domain: a Source.
type Reports struct {
	domain string
	info   *collect.Info
	ring   *Ring  // whose packets these may be; nil: nothing is attached
	path   string // of a capture file; "": the reports are those that were kept
}

// OpenReports opens the reports that were kept for a domain; nil: none were. ring may be nil. Packets that it has
// are radar's own: Count leaves them out, and so does Records.
func OpenReports(domain string, ring *Ring) (*Reports, error) {
	info, err := store.Load(domain)
	if errors.Is(err, store.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Reports{domain: domain, info: info, ring: ring}, nil
}

// Abilities implements Source.
func (r *Reports) Abilities() Abilities { return Abilities{Source: "reports", Can: OfAll} }

// Lacks implements Source.
func (r *Reports) Lacks() []Note { return nil }

// HasNode implements Source.
func (r *Reports) HasNode(name string) bool {
	if strings.HasPrefix(name, "int-") {
		return true
	}
	for _, given := range r.info.Names {
		if given == name {
			return true
		}
	}
	return false
}

// WhyEmpty implements Source: it says what was collected. Beside a ring, that one says why.
func (r *Reports) WhyEmpty(context.Context, *Selection) []Note {
	if r.ring != nil {
		return nil
	}
	return []Note{note.NoReportMatches{Reports: r.info.Next - r.info.First, Since: r.info.Since}}
}

// Count implements Source.
func (r *Reports) Count(ctx context.Context, q *Question, to *Counts) ([]Note, error) {
	window := collect.Newest{Last: q.Last}
	numbers, notes, err := r.each(ctx, q.Selection, func(p *collect.Reported) {
		switch {
		case p.IsOwn(): // which the ring's own count has
		case q.Last > 0:
			window.Add(p)
		default:
			to.Add(&p.Packet)
		}
	})
	to.From(numbers)
	if err != nil {
		return notes, err
	}
	for p := range window.All() {
		to.Add(&p.Packet)
	}
	if numbers.Over > 0 {
		notes = append(notes, note.Unnamed{Visits: numbers.Over})
	}
	return notes, nil
}

// Records implements Source.
func (r *Reports) Records(ctx context.Context, s *Selection, fn func(*record.Record) error) (read Read, err error) {
	rows, own, notes, err := r.selected(ctx, s)
	read.Notes, read.Add = notes, own.add
	if err != nil && r.ring != nil {
		return read, fmt.Errorf("read reports: %w", err)
	}
	for _, rec := range rows {
		if err == nil {
			err = fn(rec)
		}
	}
	return read, err
}

// Reported calls fn for each packet of which kept reports tell, oldest first, and with what its numbers mean.
func (s *Sources) Reported(ctx context.Context, selected *Selection, fn func(*collect.Reported, packet.Scope) error) (notes []Note, err error) {
	reports, ok := one[*Reports](s)
	if !ok {
		return nil, nil
	}
	var failed error
	_, notes, err = reports.eachOf(ctx, selected, func(p *collect.Reported, of packet.Scope) {
		if failed == nil {
			failed = fn(p, of)
		}
	})
	return notes, errors.Join(failed, err)
}

// selected are the records that are selected, oldest first, and what switches say of radar's own packets.
func (r *Reports) selected(ctx context.Context, s *Selection) (rows []*record.Record, own said, notes []Note, err error) {
	window := collect.Newest{Last: s.Last}
	own = make(said)
	_, notes, err = r.each(ctx, s, func(p *collect.Reported) {
		switch {
		case own.take(p):
		case s.Last > 0:
			window.Add(p)
		case s.First == 0 || len(rows) < s.First:
			rows = append(rows, p.Record())
		}
	})
	for p := range window.All() {
		if s.First > 0 && len(rows) == s.First {
			break
		}
		rows = append(rows, p.Record())
	}
	return rows, own, notes, err
}

// each calls fn for every packet of reports that is selected, oldest first; it is valid until fn returns. It
// returns the names of nodes and ports, beside those of the domain that is attached.
func (r *Reports) each(ctx context.Context, s *Selection, fn func(*collect.Reported)) (*packet.Registry, []Note, error) {
	return r.eachOf(ctx, s, func(p *collect.Reported, _ packet.Scope) { fn(p) })
}

// eachOf is each for a fn that needs the names as packets come.
func (r *Reports) eachOf(ctx context.Context, s *Selection, fn func(*collect.Reported, packet.Scope)) (*packet.Registry, []Note, error) {
	numbers, i := &packet.Registry{}, r.info
	if r.path == "" {
		numbers.Machine = host.Name() // of a capture file nobody knows
	}
	if r.ring != nil {
		numbers.Domain = r.ring.Decoder
	}
	var notes []Note
	if i.First > 0 {
		notes = append(notes, note.ReportsKept{Datagrams: i.Next, Kept: i.Next - i.First})
	}
	if !i.All && i.Metrics.Unchanged > 0 {
		notes = append(notes, note.ReportsUnchanged{Reports: i.Metrics.Unchanged})
	}
	if i.Gaps > 0 {
		notes = append(notes, note.ReportsMissing{Reports: i.Gaps})
	}
	if i.Counts.NoArrival > 0 {
		notes = append(notes, note.NoArrival{Hops: i.Counts.NoArrival})
	}
	selected := func(p *collect.Reported) {
		if s.Match(&p.Packet, numbers) {
			fn(p, numbers)
		}
	}
	if r.path != "" {
		_, _, err := store.CapturePackets(r.path, i, numbers, selected)
		return numbers, notes, errors.Join(err, ctx.Err())
	}
	err := store.Packets(r.domain, i, r.stories(), numbers, selected)
	return numbers, notes, errors.Join(err, ctx.Err())
}

// stories are those of the domain that is attached; nil: there is none.
func (r *Reports) stories() collect.Stories {
	if r.ring == nil {
		return nil
	}
	if s := join.Of(r.ring.Reader); s != nil {
		return s
	}
	return nil
}

// said is what switches have reported of radar's own packets, by the packets' IDs.
type said map[string][]saidHop

// saidHop is what the switch at one hop has said.
type saidHop struct {
	hop  int
	node uint16
	what map[string]uint64
}

// take keeps what switches have said of p, and reports whether p is one of radar's own packets.
func (s said) take(p *collect.Reported) bool {
	if !p.IsOwn() {
		return false
	}
	id := backpack.Position(p.Own).ID()
	for i := range p.Hops {
		if what := p.INT(i); what != nil {
			s[id] = append(s[id], saidHop{i, p.Hops[i].Node, what})
		}
	}
	return true
}

// add adds to r what switches have said of it.
func (s said) add(r *record.Record) {
	for _, of := range s[r.ID] {
		if of.hop < len(r.Hops) && r.Hops[of.hop].NodeID == int(of.node) {
			r.Hops[of.hop].INT = of.what
		}
	}
}

// AddReported adds to records of the ring what switches have reported of them.
func (r *Ring) AddReported(records []*record.Record) error {
	reports, err := OpenReports(r.Domain.Name, r)
	if err != nil || reports == nil {
		return err
	}
	all := make(said)
	err = store.Packets(reports.domain, reports.info, reports.stories(), nil, func(p *collect.Reported) { all.take(p) })
	for _, rec := range records {
		all.add(rec)
	}
	return err
}
