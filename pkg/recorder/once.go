// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// KeepOnce keeps in a directory what there is of a domain now: packets of its ring that have ended, and those
// of the reports of switches that were kept. The error is domain.ErrNotAttached if there is neither.
func KeepOnce(ctx context.Context, name, dir, radar string) ([]answer.Note, error) {
	all, err := answer.Select(filter.Spec{})
	if err != nil {
		return nil, err
	}
	sources, notes, err := answer.Open(name, all)
	if err != nil {
		return nil, err
	}
	defer sources.Close()
	if sources.Domain() != nil {
		if err := keepRing(ctx, Options{Domain: name, Dir: dir, Selection: all, History: true, Radar: radar, Segments: segments.Options{MaxAge: time.Hour}}); err != nil {
			return notes, err
		}
	}
	meta := segments.Meta{Radar: radar, Host: host.Name(), Domain: name, Created: time.Now()}
	if d := sources.Domain(); d != nil {
		meta.Epoch, meta.Slots = d.Epoch, uint64(d.Options.Slots)
	}
	w, err := segments.Create(dir, meta, segments.Options{MaxAge: time.Hour})
	if err != nil {
		return notes, err
	}
	more, err := sources.Reported(ctx, all, func(p *collect.Reported, of packet.Scope) error {
		if err := awaitRoom(ctx, w); err != nil {
			return err
		}
		kept := store.Recorded(p)
		return w.Add(&kept, of)
	})
	err = errors.Join(err, w.Close())
	return append(notes, more...), err
}

// keepRing keeps packets of the ring that have ended by now.
func keepRing(ctx context.Context, o Options) error {
	r, err := New(o)
	if err != nil {
		return err
	}
	r.waits = ctx
	now, cancel := context.WithCancel(ctx)
	cancel() // it ends with what is there
	err = r.Run(now)
	if errors.Is(err, domain.ErrNotAttached) {
		err = nil
	}
	result, closed := r.Close()
	if err = errors.Join(err, closed); err != nil {
		return err
	}
	for cause, n := range result.NotKept {
		if cause != Overwritten { // which holds of every question to a ring
			return fmt.Errorf("%d packets were not kept for the query: %s", n, cause)
		}
	}
	return nil
}
