// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Note is what the rows of an answer do not say.
type Note = note.Note

// Source is where packets come from. It is for one goroutine.
type Source interface {
	// Lacks says what every answer of the source lacks now, whatever is asked.
	Lacks() []Note
	// HasNode reports whether packets of the source can have visited a node of that name.
	HasNode(name string) bool
	// Count adds the packets that are asked for to counts, and sets its Names to those of the packets that it
	// had and of these.
	Count(ctx context.Context, q *Question, to *Counts) ([]Note, error)
	// Records calls fn for the record of each packet that is selected, oldest first, until fn fails. fn may keep
	// the record. Notes say what is missing, and why there is none.
	Records(ctx context.Context, s *Selection, fn func(*record.Record) error) ([]Note, error)
	// WhyEmpty says why nothing matches.
	WhyEmpty(ctx context.Context, s *Selection) []Note
}

// Singles is a source of which single packets are asked for.
type Singles interface {
	Source
	// Chosen returns the records that are selected, the newest last; the slowest n of them, the slowest first, if
	// n is not 0.
	Chosen(ctx context.Context, s *Selection, n int) ([]*record.Record, error)
	// Find returns the packets of IDs; the error is about those that are not there.
	Find(ids ...string) ([]*backpack.Found, error)
	// Of is the domain; nil: there is none.
	Of() *domain.Domain
	// Stories tell of packets. The notes say what they lack.
	Stories(ctx context.Context, found []*backpack.Found, now time.Time) ([]*story.Story, []Note, error)
}

var (
	_, _, _ Source  = (*Ring)(nil), (*Reports)(nil), (*Sources)(nil)
	_       Singles = (*Ring)(nil)
)

// Sources are all that there is of a domain: its ring, if it is attached, and reports that were kept; or what was
// recorded of it. It is a Source itself. The caller closes it.
type Sources struct {
	domain   string    // "": the ring, or the recording, is all that there is
	ring     *Ring     // nil: nothing is attached
	reports  *Reports  // nil: none are kept
	recorded *Recorded // nil: the others are asked
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
	all := &Sources{domain: name, ring: ring}
	var notes []Note
	all.reports, err = OpenReports(name, ring)
	switch {
	case err != nil && ring == nil:
		return nil, nil, err
	case err != nil:
		notes = append(notes, note.ReportsDamaged{Err: err})
	case all.reports == nil && ring == nil:
		return nil, nil, notAttached
	}
	if err := all.check(s); err != nil {
		all.Close()
		return nil, nil, err
	}
	return all, notes, nil
}

// Only returns a source that is a ring alone. Closing it closes the ring.
func Only(ring *Ring) *Sources { return &Sources{ring: ring} }

// Close ends reading.
func (s *Sources) Close() {
	if s.ring != nil {
		s.ring.Close()
	}
}

// Domain is the domain that is attached, or was recorded; nil: there is none.
func (s *Sources) Domain() *domain.Domain {
	switch {
	case s.recorded != nil:
		return s.recorded.Last.Domain
	case s.ring == nil:
		return nil
	}
	return s.ring.Domain
}

// Recorded is the recording that is asked; nil: it is none.
func (s *Sources) Recorded() *Recorded { return s.recorded }

// Singles is what single packets are asked of; nil: there are reports alone.
func (s *Sources) Singles() Singles {
	switch {
	case s.recorded != nil:
		return s.recorded
	case s.ring != nil:
		return s.ring
	}
	return nil
}

// wallOffset is from the stamps of packets to Unix time, ns.
func (s *Sources) wallOffset() int64 {
	switch {
	case s.recorded != nil:
		return s.recorded.Scope.WallOffset()
	case s.ring != nil:
		return s.ring.Decoder.WallOffset()
	}
	return 0
}

// Interfaces are those of a node, as they are now or were at the end of the recording; nil: not known.
func (s *Sources) Interfaces(node uint16) map[int]topo.Interface {
	switch {
	case s.recorded != nil:
		return s.recorded.Last.Interfaces[node]
	case s.ring != nil:
		return placenow.InterfacesOf(s.ring.Domain, node)
	}
	return nil
}

// links are of the domain that is attached, or was recorded; nil: there is none.
func (s *Sources) links(ctx context.Context) *placenow.Links {
	switch {
	case s.recorded != nil:
		return s.recorded.links()
	case s.ring != nil:
		return placenow.NewLinks(ctx, s.ring.Domain)
	}
	return nil
}

// LinksNow asks the nodes of the domain that is attached; nil: there is none. Of a recording nobody can be asked.
func (s *Sources) LinksNow(ctx context.Context) *placenow.Links {
	if s.recorded != nil {
		return nil
	}
	return s.links(ctx)
}

// Late says what becomes known only as rows are made: names that could not be looked up.
func (s *Sources) Late() []Note {
	if s.ring == nil {
		return nil
	}
	return s.ring.Late()
}

// Update follows what has changed. It returns domain.ErrNotAttached if the domain was detached, and
// ErrReportsRemoved if nothing is left.
func (s *Sources) Update() (err error) {
	if s.recorded != nil {
		return nil
	}
	if s.domain != "" {
		if s.reports, err = OpenReports(s.domain, s.ring); err != nil {
			return err
		}
	}
	if s.ring == nil && s.reports == nil {
		return ErrReportsRemoved
	}
	if s.ring != nil {
		if err := s.ring.Update(); errors.Is(err, domain.ErrNotAttached) {
			return err
		}
	}
	return nil
}

// check refuses names of nodes that no source has.
func (s *Sources) check(selected *Selection) error {
	for _, name := range selected.Nodes() {
		if s.HasNode(name) {
			continue
		}
		if s.Domain() == nil {
			return &NoSuchNode{Name: name}
		}
		return noSuchNode(name, s.Domain())
	}
	return nil
}

// HasNode implements Source.
func (s *Sources) HasNode(name string) bool {
	return s.recorded != nil && s.recorded.HasNode(name) || s.ring != nil && s.ring.HasNode(name) || s.reports != nil && s.reports.HasNode(name)
}

// Lacks implements Source.
func (s *Sources) Lacks() []Note {
	switch {
	case s.recorded != nil:
		return s.recorded.Lacks()
	case s.ring == nil:
		return nil
	}
	return s.ring.Lacks()
}

// WhyEmpty implements Source.
func (s *Sources) WhyEmpty(ctx context.Context, selected *Selection) []Note {
	switch {
	case s.recorded != nil:
		return s.recorded.WhyEmpty(ctx, selected)
	case s.ring == nil:
		return s.reports.WhyEmpty(ctx, selected)
	}
	return s.ring.WhyEmpty(ctx, selected)
}

// Count implements Source.
func (s *Sources) Count(ctx context.Context, q *Question, to *Counts) (notes []Note, err error) {
	if s.recorded != nil {
		return s.recorded.Count(ctx, q, to)
	}
	if s.ring != nil {
		if notes, err = s.ring.Count(ctx, q, to); err != nil {
			return notes, err
		}
	}
	if s.reports == nil {
		return notes, nil
	}
	more, err := s.reports.Count(ctx, q, to)
	notes = append(notes, more...)
	if err == nil && q.Last > 0 && s.ring != nil {
		notes = append(notes, note.LastOfEach{Last: q.Last})
	}
	return notes, err
}

// Streams reports whether Records gives each record as it is read; else it gives all of them at the end.
func (s *Sources) Streams() bool { return s.reports == nil }

// Records implements Source. Where there are reports beside a ring, all records are collected first.
func (s *Sources) Records(ctx context.Context, selected *Selection, fn func(*record.Record) error) ([]Note, error) {
	switch {
	case s.recorded != nil:
		return s.recorded.Records(ctx, selected, fn)
	case s.reports == nil:
		return s.ring.Records(ctx, selected, fn)
	case s.ring == nil:
		return s.reports.Records(ctx, selected, fn)
	}
	rows, said, notes, err := s.reports.selected(ctx, selected)
	if err != nil {
		return notes, fmt.Errorf("read reports: %w", err)
	}
	met, err := s.ring.scan(ctx, selected.Scan(), func(r *record.Record) error {
		said.add(r)
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		return notes, err
	}
	if met.torn > 0 {
		notes = append(notes, note.Overwritten{Packets: met.torn})
	}
	slices.SortStableFunc(rows, func(x, y *record.Record) int { return cmp.Compare(x.TNs, y.TNs) })
	if selected.Last > 0 && len(rows) > selected.Last {
		rows = rows[len(rows)-selected.Last:]
	}
	if met.incomplete > 0 {
		notes = append(notes, note.Incomplete{Packets: met.incomplete})
	}
	if len(rows) == 0 {
		notes = append(notes, s.ring.WhyEmpty(ctx, selected)...)
	}
	for _, r := range rows {
		if err := fn(r); err != nil {
			return notes, err
		}
	}
	return notes, nil
}
