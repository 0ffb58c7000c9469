// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/claim"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// every is how often the ring is read.
const every = 100 * time.Millisecond

// Overwritten is the cause of packets that the ring came round to before they were read.
const Overwritten = "overwritten before they were read"

// Options say what is kept, and where.
type Options struct {
	Domain    string
	Dir       string
	Segments  segments.Options
	Selection *answer.Selection
	History   bool    // what has ended already comes first
	Radar     string  // version, for those who read the files
	Flight    *Flight // nil: everything is kept

	// Say reports what happens; nil: nobody listens.
	Say func(text string)
	// Changed reports a new status; nil: nobody listens.
	Changed func(Status)
}

// Result is what became of the packets.
type Result struct {
	Kept    uint64            `json:"kept"`
	NotKept map[string]uint64 `json:"not_kept,omitempty"` // by cause
	// LastError is why the disk did not take what was to be kept.
	LastError string `json:"last_error,omitempty"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	Triggers  uint64 `json:"triggers,omitempty"`
}

// Recorder keeps packets. It is for one goroutine.
type Recorder struct {
	Options
	ring     *answer.Ring
	follower *answer.Follower
	writer   *segments.Writer // nil: a flight recorder that has kept nothing
	claim    *claim.Dir       // of the directory, until the writer has it
	flight   *flight          // nil: everything is kept
	begun    time.Time        // when the recording did
	watched  watched
	kept     segments.Packet // scratch
	failed   error           // of the writer, in a poll
	missed   uint64          // packets that a trigger came too late for
	waits    context.Context // packets wait for the disk until it ends; nil: they do not wait
}

// New opens a domain's ring, and, unless it is a flight recorder, the directory. The caller closes it.
func New(o Options) (_ *Recorder, err error) {
	r := &Recorder{Options: o}
	if r.Say == nil {
		r.Say = func(string) {}
	}
	if r.ring, err = answer.OpenRing(o.Domain); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.ring.Close()
		}
	}()
	if r.follower, err = r.ring.Follow(o.Selection, o.History && o.Flight == nil, true); err != nil {
		return nil, err
	}
	if o.Flight != nil {
		if err = r.claimDir(); err == nil {
			err = r.claim.Try() // it is opened when a condition is met, which may be hours away
		}
		if err != nil {
			r.release()
			return nil, err
		}
		r.flight = newFlight(o.Flight, r.ring)
		return r, nil
	}
	if err = r.open(); err != nil {
		r.release()
	}
	return r, err
}

// release gives a directory back in which nothing was kept.
func (r *Recorder) release() {
	if r.claim != nil {
		r.claim.Release()
		r.claim = nil
	}
}

// Domain is the domain as it is attached.
func (r *Recorder) Domain() *domain.Domain { return r.ring.Domain }

// claimDir claims the directory, also where somebody has removed the one that was claimed.
func (r *Recorder) claimDir() (err error) {
	if r.claim != nil && r.claim.Stands() {
		return nil
	}
	r.release()
	r.claim, err = claim.Take(r.Dir)
	return err
}

// open opens the directory.
func (r *Recorder) open() error {
	d := r.ring.Domain
	description, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := r.claimDir(); err != nil {
		return err
	}
	r.writer, err = segments.CreateIn(r.claim, segments.Meta{
		Radar: r.Radar, Kernel: kernel.Release(), Host: d.Host, Domain: d.Name, Epoch: d.Epoch, Slots: uint64(d.Options.Slots),
		Layout: domain.Version, WallOffset: r.ring.Decoder.WallOffset(), Created: d.Created, Description: description,
	}, r.Segments)
	if err != nil {
		return fmt.Errorf("open %s: %w", r.Dir, err)
	}
	r.claim = nil
	r.begun = time.Now()
	r.event(recording.EventBegin, map[string]any{"domain": d.Name, "epoch": fmt.Sprintf("%08x", d.Epoch)})
	r.observe(true)
	return nil
}

// Run keeps packets until ctx or the domain ends. It returns domain.ErrNotAttached if that was the domain.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := r.poll()
		if err == nil {
			if err = r.ring.Update(); !errors.Is(err, domain.ErrNotAttached) {
				err = nil // it is tried again
			}
		}
		if errors.Is(err, domain.ErrNotAttached) { // a poll can notice it, too
			return errors.Join(r.last(), err)
		}
		if err != nil {
			return err
		}
		r.observe(false)
		select {
		case <-ctx.Done():
			return r.last()
		case <-tick.C:
		}
	}
}

// last takes what has ended up to now.
func (r *Recorder) last() error {
	r.follower.AsItStands()
	if r.flight != nil {
		for _, w := range r.flight.conditions {
			w.ending = true
		}
	}
	return r.poll()
}

// poll takes what has ended.
func (r *Recorder) poll() error {
	if r.flight != nil {
		r.flight.begin(int64(clock.Monotonic()), r.ring.Maps.Cursor())
	}
	err := r.follower.Poll(func(p *packet.Packet) error {
		if r.flight == nil || r.flight.take(p) {
			r.keep(p)
		}
		return nil
	})
	if err != nil && !errors.Is(err, domain.ErrNotAttached) { // before it says that, all packets have come
		return err
	}
	failed := r.failed
	if r.flight != nil {
		failed = r.trigger()
	}
	return errors.Join(err, failed)
}

// keep adds a packet to the segments.
func (r *Recorder) keep(p *packet.Packet) {
	if r.failed == nil && r.waits != nil {
		r.failed = awaitRoom(r.waits, r.writer)
	}
	if r.failed != nil {
		return
	}
	r.kept = segments.Packet{Packet: *p, Source: record.EBPF, Host: r.ring.Domain.Host}
	r.failed = r.writer.Add(&r.kept, r.ring.Decoder)
}

// awaitRoom waits until a packet that is added is not lost because the disk is slow.
func awaitRoom(ctx context.Context, w *segments.Writer) error {
	for ctx.Err() == nil && !w.HasRoom() {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// event adds an event, if there is a recording. That it cannot be kept, Stats count.
func (r *Recorder) event(kind string, fields map[string]any) {
	if r.writer != nil {
		_ = r.writer.AddEvent(time.Now(), kind, fields)
	}
}

// notKept are the packets that were not kept, by cause.
func (r *Recorder) notKept() map[string]uint64 {
	all := make(map[string]uint64)
	if r.writer != nil {
		for cause, n := range r.writer.Stats().NotKept {
			all[recording.CauseText(cause)] += n
		}
	}
	if n := r.follower.Unread() + r.missed; n > 0 {
		all[Overwritten] = n
	}
	return all
}

// Close finishes the recording. The result is known then.
func (r *Recorder) Close() (Result, error) {
	var result Result
	var err error
	if r.writer != nil {
		r.watched.whole = time.Time{} // all of it stands in the newest file, whatever is removed then
		r.observe(true)
		end := func() {
			r.event(recording.EventEnd, map[string]any{"domain": r.ring.Domain.Name, "kept": r.writer.Stats().Kept})
		}
		end()
		if err = r.writer.Flush(); err != nil { // it is known now what was not kept, and it may be said where packets have no room
			r.observe(true)
			end()
		}
		err = cmp.Or(err, r.writer.Close())
		stats := r.writer.Stats()
		result.Kept, result.Files, result.Bytes, result.LastError = stats.Kept, stats.Segments, stats.Bytes, stats.LastError
		r.report()
	}
	r.release()
	result.NotKept = r.notKept()
	if r.flight != nil {
		result.Triggers = r.flight.triggers
		if r.flight.unopened != nil {
			result.LastError = r.flight.unopened.Error()
		}
	}
	if r.Changed != nil {
		r.Changed(Status{Dir: r.Dir, NotKept: result.NotKept, LastError: result.LastError, Kept: &result.Kept})
	}
	return result, errors.Join(err, r.ring.Close())
}
