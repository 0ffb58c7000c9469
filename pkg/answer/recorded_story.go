// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// ErrNotRecorded says that the recording has no packet of an ID.
var ErrNotRecorded = errors.New("the recording does not have it")

// Chosen implements Singles.
func (r *Recorded) Chosen(ctx context.Context, s *Selection, n int) ([]*record.Record, error) {
	slowest := Slowest{N: n}
	if _, err := r.Records(ctx, s, func(rec *record.Record) error {
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

// Find implements Singles. Errors are ErrNotRecorded.
func (r *Recorded) Find(ids ...string) (found []*backpack.Found, err error) {
	places := make([]*backpack.Found, len(ids))
	wanted := make([]backpack.Position, len(ids)) // zero: no number of a ring
	for i, id := range ids {
		if epoch, pos, err := backpack.ParseID(id); err == nil {
			wanted[i] = backpack.Position{Epoch: epoch, Pos: pos}
		}
	}
	err = r.Read(context.Background(), time.Time{}, time.Time{}, func(p *segments.Packet) error {
		for i, id := range ids {
			switch segment, is := segmentOf(p, wanted[i]); {
			case p.ID == id:
				places[i] = &backpack.Found{Record: *r.Record(p)}
			case is && places[i] == nil:
				places[i] = &backpack.Found{Record: *r.Record(p), Segment: segment}
			}
		}
		return nil
	})
	if err != nil {
		return nil, r.failed(err)
	}
	var errs []error
	for i, f := range places {
		if f == nil {
			errs = append(errs, fmt.Errorf("%s: %w", ids[i], ErrNotRecorded))
			continue
		}
		found = append(found, f)
	}
	return found, errors.Join(errs...)
}

// segmentOf is the place, from 1, of the packet with that number in a train whose story p is.
func segmentOf(p *segments.Packet, number backpack.Position) (segment int, is bool) {
	if p.Segs <= 1 || number.Pos <= p.Pos || number.Pos >= p.Pos+uint64(p.Segs) {
		return 0, false
	}
	epoch, _, err := backpack.ParseID(p.ID)
	return int(number.Pos-p.Pos) + 1, err == nil && epoch == number.Epoch
}

// Stories implements Singles.
func (r *Recorded) Stories(ctx context.Context, found []*backpack.Found, now time.Time) ([]*story.Story, []Note, error) {
	d, outers := r.Last.Domain, make(map[string][]record.Record)
	if d == nil {
		d = &domain.Domain{}
	}
	if slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return p.Tunnel }) {
		wanted := make(map[string]bool)
		for _, f := range found {
			wanted[f.Record.ID] = true
		}
		err := r.Read(ctx, time.Time{}, time.Time{}, func(p *segments.Packet) error {
			if wanted[p.Inner] {
				outers[p.Inner] = append(outers[p.Inner], *r.Record(p))
			}
			return nil
		})
		if err != nil {
			return nil, nil, r.failed(err)
		}
	}
	return story.All(found, d, outers, r.links(ctx), now), nil, nil
}
