// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Sources are all that is asked at once: the ring of a domain that is attached and reports that were kept of it, what was
// recorded of one or several. The caller closes it.
type Sources struct {
	domain string         // whose reports may come and go; "": the list stays as it is
	list   []Source       // a ring comes before the reports beside it
	scopes *packet.Scopes // of several domains; nil: there is one at most
}

// ErrReportsRemoved says that there were reports, and nothing else.
var ErrReportsRemoved = errors.New("the reports were removed")

// Open opens what there is of a domain, if that can have what is selected: the error is *NoSuchNode if not.
// Without anything it is domain.ErrNotAttached.
func Open(name string, s *Selection) (*Sources, []Note, error) {
	ring, err := OpenRing(name)
	if err != nil && !errors.Is(err, domain.ErrNotAttached) {
		return nil, nil, err
	}
	notAttached := err
	all := &Sources{domain: name}
	if ring != nil {
		all.list = append(all.list, ring)
	}
	var notes []Note
	reports, err := OpenReports(name, ring)
	switch {
	case err != nil && ring == nil:
		return nil, nil, err
	case err != nil:
		notes = append(notes, note.ReportsDamaged{Err: err})
	case reports != nil:
		all.list = append(all.list, reports)
	case ring == nil:
		return nil, nil, notAttached
	}
	if err := all.check(s); err != nil {
		all.Close()
		return nil, nil, err
	}
	return all, notes, nil
}

// Only returns a source that is a ring alone. Closing it closes the ring.
func Only(ring *Ring) *Sources { return &Sources{list: []Source{ring}} }

// Close ends reading.
func (s *Sources) Close() {
	for _, source := range s.list {
		if of, is := source.(closing); is {
			of.Close()
		}
	}
}

// Update follows what has changed. It returns domain.ErrNotAttached if the domain was detached, and
// ErrReportsRemoved if nothing is left.
func (s *Sources) Update() error {
	if s.domain != "" {
		ring, _ := one[*Ring](s)
		reports, err := OpenReports(s.domain, ring)
		s.list = slices.DeleteFunc(s.list, func(of Source) bool { _, is := of.(*Reports); return is })
		if err != nil {
			return err
		}
		if reports != nil {
			s.list = append(s.list, reports)
		}
	}
	if len(s.list) == 0 {
		return ErrReportsRemoved
	}
	for _, source := range s.list {
		if of, is := source.(updating); is {
			if err := of.Update(); errors.Is(err, domain.ErrNotAttached) {
				return err
			}
		}
	}
	return nil
}

// Ring is that of the domain that is attached; nil: there is none.
func (s *Sources) Ring() *Ring {
	ring, _ := one[*Ring](s)
	return ring
}

// Recorded is the recording that is asked; nil: it is none.
func (s *Sources) Recorded() *Recorded {
	r, _ := one[*Recorded](s)
	return r
}

// Singles is what single packets are asked of; nil: there is nothing, or there are several domains.
func (s *Sources) Singles() Singles {
	if s.scopes != nil {
		return nil
	}
	of, _ := one[Singles](s)
	return of
}

// Domain is the domain that is attached, or was recorded; nil: there is none, or there are several.
func (s *Sources) Domain() *domain.Domain {
	if of, ok := one[ofDomain](s); ok && s.scopes == nil {
		return of.Of()
	}
	return nil
}

// isMeasured reports whether a domain has measured any of it.
func (s *Sources) isMeasured() bool {
	return slices.ContainsFunc(s.list, func(source Source) bool { return !isForeign(source) })
}

// HasReports reports whether there are any beside what a domain has measured, or nothing else.
func (s *Sources) HasReports() bool { return slices.ContainsFunc(s.list, isForeign) }

// isForeign reports whether no domain is known that has measured what a source has.
func isForeign(source Source) bool {
	of, is := source.(ofDomain)
	return !is || of.Of() == nil
}

// wallOffset is from the stamps of packets to Unix time, ns.
func (s *Sources) wallOffset() int64 {
	if s.scopes != nil {
		return s.scopes.WallOffset()
	}
	if of, ok := one[clocked](s); ok {
		return of.WallOffset()
	}
	return 0
}

// Interfaces are those of a node, as they are now or were at the end of the recording; nil: not known.
func (s *Sources) Interfaces(node uint16) map[int]topo.Interface {
	if of, ok := one[located](s); ok && s.scopes == nil {
		return of.Interfaces(node)
	}
	return nil
}

// links are of the domain that is attached, or was recorded; nil: there is none, or there are several.
func (s *Sources) links(ctx context.Context) *placenow.Links {
	if of, ok := one[located](s); ok && s.scopes == nil {
		return of.links(ctx)
	}
	return nil
}

// LinksNow asks the nodes of the domain that is attached; nil: there is none. Of a recording nobody can be asked.
func (s *Sources) LinksNow(ctx context.Context) *placenow.Links {
	if of, ok := one[located](s); ok && of.isNow() {
		return s.links(ctx)
	}
	return nil
}

// check refuses names of nodes that no source has.
func (s *Sources) check(selected *Selection) error {
	for _, name := range selected.Nodes() {
		switch {
		case s.HasNode(name):
		case s.scopes != nil:
			return s.noSuchNode(name)
		case s.Domain() == nil:
			return &NoSuchNode{Name: name}
		default:
			return noSuchNode(name, s.Domain())
		}
	}
	return nil
}

// noSuchNode is the error of several domains.
func (s *Sources) noSuchNode(name string) error {
	e := &NoSuchNode{Name: name, Domain: strings.Join(s.scopes.Labels(), " or ")}
	for _, source := range s.list {
		if r, is := source.(*Recorded); is && r.Last.Domain != nil {
			for _, n := range namedNodes(r.Last.Domain) {
				if shown := r.named(n.name); !slices.Contains(e.Nodes, shown) {
					e.Nodes = append(e.Nodes, shown)
				}
			}
		}
	}
	return e
}

// HasNode reports whether packets can have visited a node of that name.
func (s *Sources) HasNode(name string) bool {
	return slices.ContainsFunc(s.list, func(source Source) bool { return source.HasNode(name) })
}

// merge puts together what each source has to say.
func (s *Sources) merge(of func(Source) []Note) (notes []Note) {
	for _, source := range s.list {
		notes = append(notes, of(source)...)
	}
	return notes
}

// Late says what becomes known only as rows are made: names that could not be looked up.
func (s *Sources) Late() []Note {
	return s.merge(func(source Source) []Note {
		if of, is := source.(late); is {
			return of.Late()
		}
		return nil
	})
}

// Lacks says what every answer lacks now, whatever is asked.
func (s *Sources) Lacks() []Note {
	notes := s.merge(Source.Lacks)
	if s.scopes != nil {
		notes = append(notes, note.SeveralDomains{Domains: s.scopes.Labels()})
	}
	return notes
}

// WhyEmpty says why nothing matches.
func (s *Sources) WhyEmpty(ctx context.Context, selected *Selection) []Note {
	return s.merge(func(source Source) []Note { return source.WhyEmpty(ctx, selected) })
}

// unsentNotes say what nodes dropped before it was sent. They are known only if isKnown.
func (s *Sources) unsentNotes(selected *Selection, now *placenow.Links) (notes []Note, isKnown bool) {
	if of, ok := one[withUnsent](s); ok {
		return of.unsentNotes(selected, now), true
	}
	return nil, false
}

// Count counts what all sources have.
func (s *Sources) Count(ctx context.Context, q *Question, to *Counts) (notes []Note, err error) {
	for _, source := range s.list {
		more, err := source.Count(ctx, q, to)
		if notes = append(notes, more...); err != nil {
			return notes, err
		}
	}
	if q.Last > 0 && len(s.list) > 1 {
		notes = append(notes, s.lastOfEach(q.Last))
	}
	return notes, nil
}

func (s *Sources) lastOfEach(last int) Note {
	if s.scopes != nil {
		return note.LastOfEachDomain{Last: last}
	}
	return note.LastOfEach{Last: last}
}

// Streams reports whether Records gives each record as it is read; else it gives all of them at the end.
func (s *Sources) Streams() bool {
	if len(s.list) != 1 {
		return false
	}
	_, is := s.list[0].(streaming)
	return is
}

// Records calls fn for the record of each packet that is selected, oldest first, until fn fails. fn may keep the record.
// Notes say what is missing, and why there is none. Of several sources all records are collected first.
func (s *Sources) Records(ctx context.Context, selected *Selection, fn func(*record.Record) error) (notes []Note, err error) {
	var read Read
	var rows []*record.Record // of several sources
	found := false
	if len(s.list) == 1 {
		read, err = s.list[0].Records(ctx, selected, func(r *record.Record) error {
			found = true
			return fn(r)
		})
	} else {
		rows, read, err = s.collect(ctx, selected)
		found = len(rows) > 0
	}
	if notes = read.Notes; err != nil {
		return notes, err
	}
	notes = append(notes, s.cannot(OfPackets)...)
	if read.Incomplete > 0 {
		notes = append(notes, note.Incomplete{Packets: read.Incomplete})
	}
	if !found {
		notes = append(notes, s.WhyEmpty(ctx, selected)...)
	}
	for _, r := range rows {
		if err := fn(r); err != nil {
			return notes, err
		}
	}
	return notes, nil
}

// errEnough ends the reading of packets of which no more were asked for: it is no error of Records.
var errEnough = errors.New("no more packets were asked for")

// first is fn until it has got as many records as s asks for.
func (s *Selection) first(fn func(*record.Record) error) func(*record.Record) error {
	if s.First == 0 {
		return fn
	}
	n := 0
	return func(r *record.Record) error {
		if err := fn(r); err != nil {
			return err
		}
		if n++; n == s.First {
			return errEnough
		}
		return nil
	}
}

// collect returns the records of all sources in order of time. Those beside a ring are read before it: a packet that ends
// meanwhile is not missing in both.
func (s *Sources) collect(ctx context.Context, selected *Selection) (rows []*record.Record, all Read, err error) {
	var adds []func(*record.Record)
	each := *selected
	if each.Last > 0 { // the newest of all are not known before
		each.First = 0
	}
	for _, source := range slices.Backward(s.list) {
		from := len(rows)
		read, err := source.Records(ctx, &each, func(r *record.Record) error {
			rows = append(rows, r)
			return nil
		})
		all.Notes, all.Incomplete = append(all.Notes, read.Notes...), all.Incomplete+read.Incomplete
		if err != nil {
			return nil, all, err
		}
		for _, r := range rows[from:] {
			for _, add := range adds {
				add(r)
			}
		}
		if read.Add != nil {
			adds = append(adds, read.Add)
		}
	}
	slices.SortStableFunc(rows, func(x, y *record.Record) int { return cmp.Compare(x.TNs, y.TNs) })
	if selected.Last > 0 && len(rows) > selected.Last {
		rows = rows[len(rows)-selected.Last:]
	}
	if selected.First > 0 && len(rows) > selected.First {
		rows = rows[:selected.First]
	}
	return rows, all, nil
}
