// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Tail calls fn with the record of every packet that is sent from now on, when its
// story is final. It polls at the given interval; within one poll, records come in
// the order of their begin. It returns nil when ctx ends, and fn's error.
func Tail(ctx context.Context, src Source, dec *Decoder, o FollowOptions, every time.Duration, fn func(*record.Record) error) error {
	f := NewFollower(src, dec, o)
	if err := f.SkipToNow(); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var batch []record.Record
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		batch = batch[:0]
		err := f.Poll(func(p *packet.Packet) { batch = append(batch, dec.Record(p)) })
		slices.SortStableFunc(batch, func(a, b record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
		for i := range batch {
			r := batch[i]
			if err := fn(&r); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
