// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

func (a *app) packets(ctx context.Context, q packetQuery) error {
	if q.follow {
		return a.readRing(&q.selection, nil, func(reader *agent.Reader) error {
			a.noteDomain()
			return a.packetFollow(ctx, reader, q)
		})
	}
	return a.readSources(&q.selection, func(s sources) error {
		if s.ring == nil {
			return a.printReports(s.reports, q)
		}
		a.noteDomain()
		if s.reports != nil {
			return a.printBoth(s, q)
		}
		return a.packetList(s.ring, q)
	})
}

// followEvery is how often new packets are looked for.
const followEvery = 100 * time.Millisecond

// packetFollow shows packets as they end, until ctx or the domain does, or enough
// have been shown.
func (a *app) packetFollow(ctx context.Context, reader *agent.Reader, q packetQuery) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := &packetFollower{
		printer:  a.packetPrinter(q),
		follower: backpack.NewFollower(reader.Maps, reader.Decoder, backpack.FollowOptions{Refresh: reader.Refresh, Moves: reader.UpdateMoves, Select: q.packets()}),
		decoder:  reader.Decoder,
		query:    q,
	}
	if !q.history {
		if err := f.follower.SkipToNow(); err != nil {
			return fmt.Errorf("read the ring: %w", err)
		}
	}
	unreadBefore := uint64(0)
	for first := true; ; first = false {
		a.showNames(reader.Domain)
		f.printer.shown = a.shown
		done, err := f.poll(first && q.history)
		if err := errors.Join(err, a.out.Flush()); err != nil {
			return err
		}
		if first {
			unreadBefore = f.follower.Stats().Unread
		}
		gone := errors.Is(reader.Update(), domain.ErrNotAttached)
		if gone {
			fmt.Fprintf(a.stderr, "radar: domain %s was detached\n", a.domain)
		}
		if done || gone || !wait(ctx, followEvery) {
			break
		}
	}
	if unread := f.follower.Stats().Unread - unreadBefore; unread > 0 {
		fmt.Fprintf(a.stderr, "radar: up to %d packets were overwritten before they could be read (attach with more --slots)\n", unread)
	}
	return nil
}

// wait waits, and says whether ctx still lives.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// packetFollower prints packets as they end.
type packetFollower struct {
	printer  *packetPrinter
	follower *backpack.Follower
	decoder  *backpack.Decoder
	query    packetQuery
	shown    int
}

// poll prints what has ended since the last poll; of the first one, the history,
// only the newest packets that the query asks for. done says that enough have
// been shown.
func (f *packetFollower) poll(history bool) (done bool, err error) {
	var rows []*record.Record
	err = f.follower.Poll(func(p *packet.Packet) {
		r := f.decoder.Record(p)
		rows = append(rows, &r)
	})
	if err != nil {
		return false, fmt.Errorf("read the ring: %w", err)
	}
	slices.SortStableFunc(rows, func(a, b *record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	if history && f.query.last > 0 && len(rows) > f.query.last {
		rows = rows[len(rows)-f.query.last:]
	}
	if f.query.count > 0 {
		rows = rows[:min(len(rows), f.query.count-f.shown)]
		done = f.shown+len(rows) >= f.query.count
	}
	f.shown += len(rows)
	return done, f.printer.print(rows)
}
