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
	"github.com/vnetradar/radar/pkg/cli/wire"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/system"
)

func packets(k *kit.Kit, ctx context.Context, q packetQuery) error {
	if q.follow {
		return k.ReadRing(q.Selection, func(ring *answer.Ring) error {
			k.Note(ring.Lacks())
			if q.write != "" {
				return wire.Follow(ctx, k, ring, q.wire(), q.write)
			}
			return packetFollow(k, ctx, ring, q)
		})
	}
	return k.ReadSources(q.Selection, func(s *answer.Sources) error {
		return k.RowsFirst(func() error {
			k.Note(s.Lacks())
			if q.write != "" {
				return wire.List(context.WithoutCancel(ctx), k, s, q.wire(), q.slowest, q.write)
			}
			return packetList(k, context.WithoutCancel(ctx), s, q)
		})
	})
}

// wire is the query of a capture.
func (q packetQuery) wire() wire.Query {
	return wire.Query{Selection: q.Selection, History: q.history, Count: q.count, Ports: q.at, Payload: q.payload}
}

// packetFollow shows packets as they end, until ctx or the domain does, or enough
// have been shown.
func packetFollow(k *kit.Kit, ctx context.Context, ring *answer.Ring, q packetQuery) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	follower, err := ring.Follow(q.Selection, q.history, !kit.ShowsNames(k.Output))
	if err != nil {
		return err
	}
	printer := packetPrinter(k, q)
	for shown, first, done := 0, true, false; !done; first = false {
		k.ShowNames(ring.Domain)
		printer.Shown = k.Shown
		last := 0
		if first && q.history {
			last = q.Last
		}
		n, err := showEnded(k, follower, printer, last, q.count-shown)
		if err != nil {
			return err
		}
		shown += n
		done = q.count > 0 && shown >= q.count
		if errors.Is(ring.Update(), system.ErrNotAttached) {
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

// showEnded shows packets that have ended, and returns how many: of the newest last of them, the
// first most. 0 and less stand for all.
func showEnded(k *kit.Kit, follower *answer.Follower, printer *kit.PacketPrinter, last, most int) (n int, err error) {
	err = follower.Poll(func(p *packet.Packet) error { return printer.AddPacket(p, follower) })
	printer.Sort()
	if last > 0 {
		printer.KeepLast(last)
	}
	if most > 0 {
		printer.KeepFirst(most)
	}
	n = printer.Len()
	if err == nil {
		err = printer.Flush()
	}
	return n, errors.Join(err, k.Out.Flush())
}
