// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/store/parquet"
)

// writeEvents writes a file of events for each hour.
func (w *Writer) writeEvents(events []Event) (failed error) {
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	for len(events) > 0 {
		folder, n := folderOf(events[0].Time.UnixNano()), 1
		for n < len(events) && folderOf(events[n].Time.UnixNano()) == folder {
			n++
		}
		if err := w.writeEventFile(events[:n]); err != nil {
			failed = errors.Join(failed, err)
			w.mu.Lock()
			w.stats.EventsNotKept += uint64(n)
			w.cause = err
			w.mu.Unlock()
		}
		events = events[n:]
	}
	return failed
}

func (w *Writer) writeEventFile(events []Event) error {
	first, last := events[0].Time.UnixNano(), events[len(events)-1].Time.UnixNano()
	f, err := parquet.NewWriter(discard{}, eventSchema)
	if err != nil {
		return err
	}
	s, err := newSegment(w.dir, folderOf(first), kindEvents, &w.meta, first, f)
	if err != nil {
		return err
	}
	var kinds, fields texts
	at := make([]int64, len(events))
	kind, field := make([]uint32, len(events)), make([]uint32, len(events))
	for i, e := range events {
		at[i], kind[i], field[i] = e.Time.UnixNano(), kinds.add(e.Kind), fields.add(e.text)
	}
	f.Begin(len(events))
	f.Ints(nil, at)
	f.Texts(nil, kind, kinds.dict)
	f.Texts(nil, field, fields.dict)
	if err := f.End(); err != nil {
		s.drop()
		return err
	}
	s.rows, s.last = len(events), last
	done, err := s.finish(nil)
	if err == nil {
		w.keeper.add(done)
	}
	return err
}

// Events calls fn for each event, the oldest first.
func (d *Dir) Events(ctx context.Context, fn func(Event) error) error {
	var all []*open
	for _, s := range d.all {
		if s.kind == kindEvents {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *open) int { return int(min(max(a.first-b.first, -1), 1)) })
	for _, s := range all {
		for i := range s.r.Groups {
			if err := ctx.Err(); err != nil {
				return err
			}
			events, err := readEvents(s, i)
			if err != nil {
				d.damaged(s.name, err)
				continue
			}
			for _, e := range events {
				if err := fn(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func readEvents(s *open, group int) ([]Event, error) {
	g, err := s.r.Read(group)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	at, err := g.Column("t", parquet.Long)
	if err != nil {
		return nil, err
	}
	kind, err := g.Column("kind", parquet.Text)
	if err != nil {
		return nil, err
	}
	fields, err := g.Column("fields", parquet.Text)
	if err != nil {
		return nil, err
	}
	if at == nil || kind == nil || fields == nil {
		return nil, &parquet.Damage{Place: "schema", What: "a column of events is missing"}
	}
	events := make([]Event, len(at.Ints))
	for i := range events {
		events[i] = Event{Time: time.Unix(0, at.Ints[i]).UTC(), Kind: kind.Dict[kind.Index[i]]}
		if err := json.Unmarshal([]byte(fields.Dict[fields.Index[i]]), &events[i].Fields); err != nil {
			return nil, &parquet.Damage{Place: "column fields", What: err.Error()}
		}
	}
	return events, nil
}
