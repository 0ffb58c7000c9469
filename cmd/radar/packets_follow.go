// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/domain"
)

func (a *app) packets(ctx context.Context, q packetQuery) error {
	if q.follow {
		return a.readRing(q.Selection, func(ring *answer.Ring) error {
			a.note(ring.Lacks())
			return a.packetFollow(ctx, ring, q)
		})
	}
	return a.readSources(q.Selection, func(s *answer.Sources) error {
		a.note(s.Lacks())
		return a.packetList(context.WithoutCancel(ctx), s, q)
	})
}

// packetFollow shows packets as they end, until ctx or the domain does, or enough
// have been shown.
func (a *app) packetFollow(ctx context.Context, ring *answer.Ring, q packetQuery) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	follower, err := ring.Follow(q.Selection, q.history)
	if err != nil {
		return err
	}
	printer := a.packetPrinter(q)
	for shown, done := 0, false; !done; {
		a.showNames(ring.Domain)
		printer.shown = a.shown
		rows, err := follower.Poll()
		if q.count > 0 {
			rows = rows[:min(len(rows), q.count-shown)]
			done = shown+len(rows) >= q.count
		}
		shown += len(rows)
		if err == nil {
			err = printer.print(rows)
		}
		if err := errors.Join(err, a.out.Flush()); err != nil {
			return err
		}
		if errors.Is(ring.Update(), domain.ErrNotAttached) {
			fmt.Fprintf(a.stderr, "radar: domain %s was detached\n", a.domain)
			break
		}
		if !done && !wait(ctx, followEvery) {
			break
		}
	}
	a.note(follower.Notes())
	return nil
}
