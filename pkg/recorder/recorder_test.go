// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Where a poll finds that the domain has ended, packets are kept that have ended and would have waited.
func TestEndInPoll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, _ := waiting(dir)
	r.flight = nil
	var err error
	if r.writer, err = segments.Create(dir, segments.Meta{Slots: 64}, segments.Options{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	r.ring.Domain.Options = domain.Options{Slots: 64, Timeout: 10 * time.Second}
	r.ring.Decoder = backpack.NewDecoder(r.ring.Domain, nil)
	now := uint64(1000 * time.Second)
	ring := ringtest.New(64, 128, 1, 8)
	r.follower = answer.NewFollower(ring, r.ring.Decoder, backpack.FollowOptions{
		Now:     func() uint64 { return now },
		Refresh: func() (*domain.Domain, error) { return nil, domain.ErrNotAttached },
	}, true)
	sent := ringtest.Packet{Proto: record.ProtoUDP}
	ring.Send(0, sent, ringtest.Deliver, 99, now) // at a port that is new
	now += uint64(time.Second)
	ring.Send(0, sent, ringtest.Deliver, 4, now)
	if err := r.Run(context.Background()); !errors.Is(err, domain.ErrNotAttached) {
		t.Errorf("it ends with %v", err)
	}
	if n := r.writer.Stats().Kept; n != 2 {
		t.Errorf("%d packets are kept, want both", n)
	}
	_ = r.writer.Close()
}

// TestWaits: what need not keep up with a ring loses no packet to a slow disk, and ends when it is asked to.
func TestWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, _ := waiting(dir)
	var err error
	if r.writer, err = segments.Create(dir, segments.Meta{Slots: 64}, segments.Options{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.writer.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	r.waits = ctx
	p := &packet.Packet{State: record.Delivered, Hops: []packet.Hop{{Out: 1}, {Node: 1, In: 2}}}
	for p.Pos = range uint64(10 << 16) {
		r.keep(p)
	}
	if s := r.writer.Stats(); r.failed != nil || len(s.NotKept) > 0 || s.Kept != 10<<16 {
		t.Errorf("%d packets are kept, not %v, %v", s.Kept, s.NotKept, r.failed)
	}
	cancel()
	if r.keep(p); !errors.Is(r.failed, context.Canceled) || r.writer.Stats().Kept != 10<<16 {
		t.Errorf("then %v", r.failed)
	}
}
