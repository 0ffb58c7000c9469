// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Slowest keeps the N records that took longest, all if N is 0. What never arrived took no time that is known,
// and comes last.
type Slowest struct {
	N    int
	list []*record.Record
}

// Add takes a record, which it keeps.
func (s *Slowest) Add(r *record.Record) {
	if s.list = append(s.list, r); s.N > 0 && len(s.list) >= 2*s.N+1000 {
		s.list = s.Records()
	}
}

// Records are those that it keeps, the slowest first.
func (s *Slowest) Records() []*record.Record {
	took := func(r *record.Record) int64 {
		if r.LatencyNs == nil || r.IsLost() {
			return -1
		}
		return *r.LatencyNs
	}
	slices.SortStableFunc(s.list, func(x, y *record.Record) int { return cmp.Compare(took(y), took(x)) })
	if s.N > 0 && len(s.list) > s.N {
		s.list = s.list[:s.N:s.N]
	}
	return s.list
}

// Chosen implements Singles.
func (r *Ring) Chosen(ctx context.Context, s *Selection, n int) ([]*record.Record, error) {
	slowest := Slowest{N: n}
	if _, err := r.scan(ctx, s.Scan(), func(rec *record.Record) error {
		slowest.Add(rec)
		return nil
	}); err != nil {
		return nil, err
	}
	if n == 0 {
		return slowest.list, nil
	}
	return slowest.Records(), nil
}

// Find implements Singles. Errors are those of backpack.Find.
func (r *Ring) Find(ids ...string) (found []*backpack.Found, err error) {
	var errs []error
	for _, id := range ids {
		f, err := backpack.Find(r.Maps, r.Decoder, id, clock.Monotonic())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, f)
	}
	return found, errors.Join(errs...)
}

// Remembered says how far back the ring goes.
func (r *Ring) Remembered() backpack.Extent { return backpack.Remembered(r.Maps, r.Decoder) }

// Follower gives the records of packets as they end.
type Follower struct {
	follower *backpack.Follower
	decoder  *backpack.Decoder
	recorder *backpack.Recorder
	polled   bool // once
	unread   uint64
}

// NewFollower makes a Follower of a ring. It begins with the packets that have ended already. Bare records lack
// ID, GUID and Time, which take a while to write.
func NewFollower(src backpack.Source, dec *backpack.Decoder, o backpack.FollowOptions, bare bool) *Follower {
	return &Follower{follower: backpack.NewFollower(src, dec, o), decoder: dec, recorder: backpack.NewRecorder(dec, bare)}
}

// Follow begins to follow packets that are selected; with history, those that have ended already come first. bare
// is as for NewFollower.
func (r *Ring) Follow(s *Selection, history, bare bool) (*Follower, error) {
	f := NewFollower(r.Maps, r.Decoder, backpack.FollowOptions{Refresh: r.Refresh, Moves: r.UpdateMoves, Select: s.Ring()}, bare)
	if history {
		return f, nil
	}
	if err := f.follower.SkipToNow(); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	return f, nil
}

// Poll calls fn with what has ended since it was called last, not in the order in which it was sent. A packet is
// valid during the call only. It returns fn's first error, after all calls.
func (f *Follower) Poll(fn func(*packet.Packet) error) error {
	var failed error
	err := f.follower.Poll(func(p *packet.Packet) {
		if err := fn(p); err != nil && failed == nil {
			failed = err
		}
	})
	if !f.polled {
		f.polled, f.unread = true, f.follower.Stats().Unread
	}
	if err != nil {
		return fmt.Errorf("read the ring: %w", err)
	}
	return failed
}

// AsItStands makes every end count at once, for the last Poll of all.
func (f *Follower) AsItStands() { f.follower.AsItStands() }

// Handed returns whether a packet was handed out, by its position in the ring, as of now.
func (f *Follower) Handed() func(pos uint64) bool { return f.follower.Handed() }

// Record makes the record of a packet, which is valid until the next call.
func (f *Follower) Record(p *packet.Packet) *record.Record { return f.recorder.Record(p) }

// UnixNs is when a packet was sent.
func (f *Follower) UnixNs(p *packet.Packet) int64 { return p.UnixNs(f.decoder) }

// Unread is how many packets were overwritten before they could be read, since the first Poll.
func (f *Follower) Unread() uint64 { return f.follower.Stats().Unread - f.unread }

// Notes say what was overwritten before it could be read, since the first Poll.
func (f *Follower) Notes() []Note {
	if unread := f.Unread(); unread > 0 {
		return []Note{note.Unread{Packets: unread}}
	}
	return nil
}
