// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/pcapng"
	"github.com/vnetradar/radar/pkg/system"
)

// Frames are known once their packet has ended. So long they wait for others, so that they stand in
// order: behind it come only those of packets that end late, such as expired ones. Who reads a pipe
// waits with them.
const (
	waitPipe = 500 * time.Millisecond
	waitFile = 3 * time.Second
)

// Query says what is followed.
type Query struct {
	*answer.Selection
	History bool // with packets that have ended already
	Count   int  // packets, after which it ends; 0: no limit
	Ports   Ports
	Quiet   bool // say only what is missing
	Payload *PayloadQuery
}

// untilSignal ends with a signal. A second one kills: who reads a pipe may have stopped reading, so that a write blocks.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Follow writes packets as they end, until ctx or the domain does, or there are enough.
func Follow(ctx context.Context, k *kit.Kit, ring *answer.Ring, q Query, path string) error {
	if err := q.Ports.Check(ring.Domain); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	payload, err := q.Payload.open(k, ring.Domain) // before the first packet that is followed
	if err != nil {
		return err
	}
	defer payload.close()
	follower, err := ring.Follow(q.Selection, q.History, false)
	if err != nil {
		return err
	}
	file, err := Open(ctx, k, path, ring.Domain, q.Ports, q.Payload)
	if errors.Is(err, context.Canceled) { // nobody has come to read
		return nil
	} else if err != nil {
		return err
	}
	if !q.Quiet {
		fmt.Fprintf(k.Stderr, "radar: capturing domain %s%s, Ctrl-C ends\n", ring.Domain.Name, payload.where())
	}
	err = follow(ctx, k, ring, follower, q.Count, file, payload)
	if err = errors.Join(err, file.Close(), payload.say(k, file, q.Quiet)); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	if !q.Quiet {
		fmt.Fprintf(k.Stderr, "radar: %s; %d packets were overwritten before they were read\n", file.Summary(), follower.Unread())
	} else {
		k.Note(follower.Notes())
	}
	return nil
}

func follow(ctx context.Context, k *kit.Kit, ring *answer.Ring, follower *answer.Follower, count int, file *File, payload *payloadCapture) error {
	wait := waitFile
	if file.Pipe {
		wait = waitPipe
	}
	to := limit{file: file, count: count}
	return file.repeat(ctx, func() (more bool, err error) {
		payload.drain() // a packet is handed out some time after its end
		err = follower.Poll(func(p *packet.Packet) error { return to.add(follower.Record(p), payload.take(p.Pos)) })
		now := int64(clock.Monotonic()) + ring.Decoder.WallOffset()
		if err = errors.Join(err, file.Pass(now-int64(wait))); err != nil {
			return false, err
		}
		if errors.Is(ring.Update(), system.ErrNotAttached) {
			fmt.Fprintf(k.Stderr, "radar: domain %s was detached\n", ring.Domain.Name)
			return false, nil
		}
		return !to.full(), nil
	})
}

// repeat polls until that has no more, or nobody reads any longer. When ctx ends, it polls once more: what has ended
// since belongs to the capture, too.
func (f *File) repeat(ctx context.Context, poll func() (more bool, err error)) error {
	for ended := false; ; {
		if more, err := poll(); err != nil || !more || ended {
			return err
		}
		ended = !kit.Wait(ctx, kit.FollowEvery)
		if f.unread() {
			return nil
		}
	}
}

// limit takes so many packets that the file has frames of.
type limit struct {
	file     *File
	count, n int // count 0: no limit
}

func (l *limit) full() bool { return l.count > 0 && l.n >= l.count }

func (l *limit) add(r *record.Record, payload []pcapng.Payload) error {
	if l.full() {
		return nil
	}
	before := l.file.Stats().Packets
	err := l.file.Add(r, payload)
	if l.file.Stats().Packets > before {
		l.n++
	}
	return err
}

// List writes packets that there are; with slowest they are those that took longest, of which 0 stands
// for all, and -1 for any.
func List(ctx context.Context, k *kit.Kit, s *answer.Sources, q Query, slowest int, path string) error {
	d := s.Domain()
	if d != nil {
		if err := q.Ports.Check(d); err != nil {
			return err
		}
	}
	file, err := Open(ctx, k, path, d, q.Ports, nil)
	if err != nil {
		return err
	}
	slow := answer.Slowest{N: slowest}
	notes, err := s.Records(ctx, q.Selection, func(r *record.Record) error {
		if slowest >= 0 {
			slow.Add(r)
			return nil
		}
		if err := file.Add(r, nil); err != nil {
			return err
		}
		return file.Pass(r.TNs) // others were sent later
	})
	for _, r := range slow.Records() {
		err = errors.Join(err, file.Add(r, nil))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		k.Note(notes)
		return err
	}
	fmt.Fprintf(k.Stderr, "radar: %s\n", file.Summary())
	k.Note(notes)
	return nil
}
