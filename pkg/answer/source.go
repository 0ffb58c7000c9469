// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
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

// Source is where packets, or sums of them, come from. What it can do beside this it says by implementing the interfaces
// below. It is for one goroutine.
type Source interface {
	// Abilities says which questions it can answer.
	Abilities() Abilities
	// Lacks says what every answer of the source lacks now, whatever is asked.
	Lacks() []Note
	// HasNode reports whether packets of the source can have visited a node of that name.
	HasNode(name string) bool
	// Count adds what is asked for to counts: Counts.From says whose numbers they have.
	Count(ctx context.Context, q *Question, to *Counts) ([]Note, error)
	// Records calls fn for the record of each packet that is selected, oldest first, until fn fails. fn may keep
	// the record. Where it ends by Selection.First, that is no error, and notes are given as ever.
	Records(ctx context.Context, s *Selection, fn func(*record.Record) error) (Read, error)
	// WhyEmpty says why nothing matches; nothing if a source beside it says so.
	WhyEmpty(ctx context.Context, s *Selection) []Note
}

// Read is what there is to say of records that were read.
type Read struct {
	Notes      []Note // what is missing
	Incomplete uint64 // packets whose records lack something
	// Add adds to another source's record what this one knows of the same packet; nil: nothing.
	Add func(*record.Record)
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

// What else a source can do.
type (
	// clocked has a clock of its own: from its stamps to Unix time, ns.
	clocked interface{ WallOffset() int64 }
	// ofDomain is what a domain measured; nil: it is not described.
	ofDomain interface{ Of() *domain.Domain }
	// located knows nodes, their interfaces and links: as they are now, or were last.
	located interface {
		Interfaces(node uint16) map[int]topo.Interface
		links(ctx context.Context) *placenow.Links
		isNow() bool
	}
	// late says what becomes known only as rows are made.
	late interface{ Late() []Note }
	// updating follows what changes.
	updating interface{ Update() error }
	// streaming gives each record as it is read.
	streaming interface{ streams() }
	// withUnsent knows what nodes dropped before it was sent.
	withUnsent interface {
		unsentNotes(s *Selection, now *placenow.Links) []Note
	}
	closing interface{ Close() error }
)

// one returns the first source that can do what T says.
func one[T any](s *Sources) (can T, ok bool) {
	for _, source := range s.list {
		if can, ok = source.(T); ok {
			return can, true
		}
	}
	return can, false
}

var (
	_, _, _ Source  = (*Ring)(nil), (*Reports)(nil), (*Recorded)(nil)
	_, _    Singles = (*Ring)(nil), (*Recorded)(nil)

	_, _ clocked    = (*Ring)(nil), (*Recorded)(nil)
	_, _ located    = (*Ring)(nil), (*Recorded)(nil)
	_, _ streaming  = (*Ring)(nil), (*Recorded)(nil)
	_    late       = (*Ring)(nil)
	_    updating   = (*Ring)(nil)
	_    withUnsent = (*Ring)(nil)
	_    closing    = (*Ring)(nil)
)
