// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
		if r.LatencyNs == nil {
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

// Chosen returns the records that are selected, the newest last; the slowest n of them, the slowest first, if n
// is not 0.
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

// Find returns the packet of an ID.
func (r *Ring) Find(id string) (*backpack.Found, error) {
	return backpack.Find(r.Maps, r.Decoder, id, clock.Monotonic())
}

// Remembered says how far back the ring goes.
func (r *Ring) Remembered() backpack.Extent { return backpack.Remembered(r.Maps, r.Decoder) }

// Follower gives the records of packets as they end.
type Follower struct {
	follower *backpack.Follower
	decoder  *backpack.Decoder
	last     int  // of those that have ended already; 0: all
	polled   bool // once
	unread   uint64
}

// Follow begins to follow packets that are selected; with history, those that have ended already come first, the
// newest Last of them.
func (r *Ring) Follow(s *Selection, history bool) (*Follower, error) {
	f := &Follower{
		follower: backpack.NewFollower(r.Maps, r.Decoder, backpack.FollowOptions{Refresh: r.Refresh, Moves: r.UpdateMoves, Select: s.Ring()}),
		decoder:  r.Decoder,
	}
	if history {
		f.last = s.Last
		return f, nil
	}
	if err := f.follower.SkipToNow(); err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	return f, nil
}

// Poll returns what has ended since it was called last, by the time at which it was sent.
func (f *Follower) Poll() ([]*record.Record, error) {
	var rows []*record.Record
	err := f.follower.Poll(func(p *packet.Packet) {
		r := f.decoder.Record(p)
		rows = append(rows, &r)
	})
	if err != nil {
		return nil, fmt.Errorf("read the ring: %w", err)
	}
	slices.SortStableFunc(rows, func(a, b *record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	if !f.polled {
		f.polled, f.unread = true, f.follower.Stats().Unread
		if f.last > 0 && len(rows) > f.last {
			rows = rows[len(rows)-f.last:]
		}
	}
	return rows, nil
}

// Notes say what was overwritten before it could be read, since the first Poll.
func (f *Follower) Notes() []Note {
	if unread := f.follower.Stats().Unread - f.unread; unread > 0 {
		return []Note{Unread{unread}}
	}
	return nil
}
