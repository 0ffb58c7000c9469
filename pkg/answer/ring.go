// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Ring is the ring of a domain that is attached on this machine: a Source. The caller closes it.
type Ring struct{ *agent.Reader }

// OpenRing opens a domain's ring. The error is domain.ErrNotAttached if there is no such domain.
func OpenRing(name string) (*Ring, error) {
	reader, err := agent.OpenRing(name)
	if err != nil {
		return nil, err
	}
	return &Ring{reader}, nil
}

// Check refuses a selection that names nodes that the domain does not have: *NoSuchNode.
func (r *Ring) Check(s *Selection) error { return Only(r).check(s) }

// Abilities implements Source.
func (r *Ring) Abilities() Abilities { return Abilities{Source: "the ring", Can: OfAll} }

// WallOffset is from the stamps of its packets to Unix time, ns.
func (r *Ring) WallOffset() int64 { return r.Decoder.WallOffset() }

// Interfaces are those of a node, as they are now.
func (r *Ring) Interfaces(node uint16) map[int]topo.Interface {
	return placenow.InterfacesOf(r.Domain, node)
}

func (r *Ring) links(ctx context.Context) *placenow.Links { return placenow.NewLinks(ctx, r.Domain) }
func (r *Ring) isNow() bool                               { return true }
func (r *Ring) streams()                                  {}

// Of implements Singles.
func (r *Ring) Of() *domain.Domain { return r.Domain }

// HasNode implements Source.
func (r *Ring) HasNode(name string) bool { return hasNode(r.Domain, name) }

// Lacks implements Source.
func (r *Ring) Lacks() []Note { return DomainNotes(r.Domain.Name) }

// Late says which names could not be looked up, after rows were made.
func (r *Ring) Late() []Note { return appendWarning(nil, r.SymbolsErr()) }

// Count implements Source. What is asked since attach, of all packets or of flows, the domain's own counts
// answer; anything else what the ring remembers.
func (r *Ring) Count(ctx context.Context, q *Question, to *Counts) (notes []Note, err error) {
	isFirst := to.scope == nil
	to.From(r.Decoder)
	to.timeout = r.Domain.Options.Timeout
	if !q.sinceAttach(r.Domain.Created) || !isFirst { // its own counts stand for all, and would replace others
		return r.countScanned(ctx, q, to)
	}
	unused, err := r.Collect()
	if err != nil {
		return nil, err
	}
	if unused != "" {
		notes = append(notes, note.SnapshotUnused{Why: unused})
	}
	to.sums = r.Collector.Aggregates()
	all := r.Collector.Totals()
	to.gaps = unused != "" || all.Unread+all.Torn > 0
	// Each of them is decoded, up to a whole ring: most questions do not ask for it.
	to.late = func() {
		r.Collector.InFlight(func(p *packet.Packet) { to.addUnderWay(p, q.matchAnyState(p, r.Decoder)) })
	}
	if q.filtered {
		to.matched = false
		to.keep = func(p *packet.Packet) bool {
			ok := q.keep(p, r.Decoder)
			to.matched = to.matched || ok
			return ok
		}
	}
	return notes, nil
}

// countScanned counts what the ring remembers.
func (r *Ring) countScanned(ctx context.Context, q *Question, to *Counts) (notes []Note, err error) {
	found := 0
	scan := q.ScanEnded()
	ended := scan.Match
	scan.States = nil // what is under way counts, whatever state was asked for
	scan.Match = func(p *packet.Packet, of packet.Scope) bool {
		// With Last a scan looks at some only, and at some twice.
		to.addUnderWay(p, q.Last == 0 && p.State == record.InFlight && q.matchAnyState(p, of))
		return ended(p, of)
	}
	stats := backpack.ScanPackets(r.Maps, r.Decoder, scan, func(p *packet.Packet) {
		to.Add(p)
		found++
	})
	since := q.Since
	if since.Before(r.Domain.Created) {
		since = r.Domain.Created
	}
	if oldest := r.oldest(&stats); stats.Forgot && oldest.After(since) && (q.Last == 0 || found < q.Last) {
		notes = append(notes, note.OlderMissing{From: oldest})
	}
	if stats.Torn > 0 {
		notes = append(notes, note.Overwritten{Packets: stats.Torn})
	}
	return notes, ctx.Err()
}

// oldest is when the oldest packet that a scan met was sent.
func (r *Ring) oldest(stats *backpack.ScanStats) time.Time {
	return time.Unix(0, int64(stats.Oldest)+r.Decoder.WallOffset())
}

// met is what a scan met.
type met struct {
	incomplete uint64 // packets
	torn       int
}

// lacksHops reports whether a record may lack a hop that it has nowhere else: a circle's further rounds are no
// such hops.
func lacksHops(r *record.Record) bool {
	if !r.Truncated {
		return false
	}
	_, _, loop := r.Loop()
	return !loop
}

func (r *Ring) scan(ctx context.Context, o backpack.ScanOptions, fn func(*record.Record) error) (m met, err error) {
	stats, err := backpack.ScanFunc(r.Maps, r.Decoder, o, func(rec *record.Record) error {
		if lacksHops(rec) {
			m.incomplete += uint64(rec.Segs)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(rec)
	})
	m.torn = stats.Torn
	if err != nil && !errors.Is(err, errEnough) {
		return m, fmt.Errorf("read the ring: %w", err)
	}
	return m, nil
}

// Records implements Source.
func (r *Ring) Records(ctx context.Context, s *Selection, fn func(*record.Record) error) (read Read, err error) {
	m, err := r.scan(ctx, s.Scan(), s.first(fn))
	if m.torn > 0 {
		read.Notes = append(read.Notes, note.Overwritten{Packets: m.torn})
	}
	read.Incomplete = m.incomplete
	return read, err
}
