// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func packets(k *kit.Kit, ctx context.Context, q packetQuery) error {
	if q.follow {
		return k.ReadRing(q.Selection, func(ring *answer.Ring) error {
			k.Note(ring.Lacks())
			return packetFollow(k, ctx, ring, q)
		})
	}
	return k.ReadSources(q.Selection, func(s *answer.Sources) error {
		return k.RowsFirst(func() error {
			k.Note(s.Lacks())
			return packetList(k, context.WithoutCancel(ctx), s, q)
		})
	})
}

// packetFollow shows packets as they end, until ctx or the domain does, or enough
// have been shown.
func packetFollow(k *kit.Kit, ctx context.Context, ring *answer.Ring, q packetQuery) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	follower, err := ring.Follow(q.Selection, q.history)
	if err != nil {
		return err
	}
	printer := packetPrinter(k, q)
	for shown, done := 0, false; !done; {
		k.ShowNames(ring.Domain)
		printer.Shown = k.Shown
		rows, err := follower.Poll()
		if q.count > 0 {
			rows = rows[:min(len(rows), q.count-shown)]
			done = shown+len(rows) >= q.count
		}
		shown += len(rows)
		if err == nil {
			err = printer.Print(rows)
		}
		if err := errors.Join(err, k.Out.Flush()); err != nil {
			return err
		}
		if errors.Is(ring.Update(), domain.ErrNotAttached) {
			fmt.Fprintf(k.Stderr, "radar: domain %s was detached\n", k.Domain)
			break
		}
		if !done && !kit.Wait(ctx, kit.FollowEvery) {
			break
		}
	}
	k.Note(follower.Notes())
	return nil
}
