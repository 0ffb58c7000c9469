// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	s, err := newSegment(w.dir, folderOf(first), kindEvents, &w.meta, first, "", f)
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
	if err != nil {
		return err
	}
	w.warn(done.unsynced)
	w.keeper.add(done)
	return nil
}

// HoldEvents reads the events into memory: Events gives them then, whatever becomes of the directory.
func (d *Dir) HoldEvents(ctx context.Context) error {
	var all []Event
	err := d.Events(ctx, func(e Event) error {
		all = append(all, e)
		return nil
	})
	if err == nil {
		d.events, d.held = all, true
	}
	return err
}

// Events calls fn for each event, the oldest first.
func (d *Dir) Events(ctx context.Context, fn func(Event) error) error {
	if d.held {
		for _, e := range d.events {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(e); err != nil {
				return err
			}
		}
		return nil
	}
	var all []*open
	for _, s := range d.all {
		if s.kind == kindEvents {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *open) int { return int(min(max(a.first-b.first, -1), 1)) })
	for _, s := range all {
		if err := d.eventsOf(ctx, s.name, fn); err != nil {
			return err
		}
	}
	return nil
}

// eventsOf calls fn for each event of a file. One that is gone was too old, unless the recording is gone as a whole.
func (d *Dir) eventsOf(ctx context.Context, name string, fn func(Event) error) error {
	s, err := openOne(d.dir, name, make(map[string]meta))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(d.dir); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
		return nil
	case isTooMany(err):
		return err
	case err != nil:
		d.damaged(name, err)
		return nil
	}
	defer s.f.Close()
	for i := range s.r.Groups {
		cols, err := eventColumns(s, i)
		if err != nil {
			d.damaged(name, err)
			continue
		}
		at, kind, fields := cols[0], cols[1], cols[2]
		for k := range at.Ints {
			if err := ctx.Err(); err != nil {
				return err
			}
			e := Event{Time: time.Unix(0, at.Ints[k]).UTC(), Kind: kind.Dict[kind.Index[k]], text: fields.Dict[fields.Index[k]]}
			if err := json.Unmarshal([]byte(e.text), &e.Fields); err != nil {
				d.damaged(name, &parquet.Damage{Place: "column fields", What: err.Error()})
				break
			}
			if err := fn(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventColumns are the columns of a row group of events, as eventSchema has them.
func eventColumns(s *open, group int) ([]*parquet.Values, error) {
	g, err := s.r.Read(group)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	cols := make([]*parquet.Values, len(eventSchema))
	for i := range eventSchema {
		v, err := g.Column(&eventSchema[i])
		if err != nil {
			return nil, err
		}
		if v == nil || max(len(v.Ints), len(v.Index)) != s.r.Groups[group].Rows {
			return nil, &parquet.Damage{Place: "column " + eventSchema[i].Path(), What: "it is missing"}
		}
		cols[i] = v
	}
	return cols, nil
}
