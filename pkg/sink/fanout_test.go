// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// soon is a Fanout's grace where a test waits until it is over. Where all must be out, it is Patience.
const soon = 300 * time.Millisecond

// stuck is an output that takes nothing until it is let go; hangs: not even at the end.
type stuck struct {
	name  string
	let   chan struct{}
	hangs bool
	err   error

	events, values, snapshots atomic.Int64
	last                      atomic.Uint64
}

func newStuck(name string) *stuck { return &stuck{name: name, let: make(chan struct{})} }

func (s *stuck) Name() string { return s.name }

func (s *stuck) Run(ctx context.Context, q <-chan sink.Item, n *sink.Tally) error {
	if s.err != nil {
		return s.err
	}
	end := ctx.Done()
	if s.hangs {
		end = nil
	}
	select {
	case <-s.let:
	case <-end:
	}
	for it := range q {
		if it.Snapshot != nil {
			it.Release()
			s.snapshots.Add(1)
			s.values.Add(int64(len(it.Snapshot.Rows)))
			continue
		}
		if it.Number <= s.last.Swap(it.Number) {
			panic("order")
		}
		s.events.Add(1)
		n.Written.Add(1)
	}
	return nil
}

// TestFanout: an output that takes nothing holds up neither the source nor another output, and
// what it does not get is counted.
func TestFanout(t *testing.T) {
	t.Parallel()
	slow, fast := newStuck("slow"), newStuck("fast")
	close(fast.let)
	w := sinktest.NewWorld(t, slow, fast).Start(0)
	for len(w.Events) < 3*sink.Queued {
		w.Feed(100)
		w.Written("fast", len(w.Events))
	}
	over := len(w.Events) - sink.Queued
	if n := w.Tally("slow").DroppedEvents.Load(); n != uint64(over) {
		t.Errorf("%d dropped of %d, want %d", n, len(w.Events), over)
	}
	if n := w.Tally("fast").DroppedEvents.Load(); n != 0 {
		t.Errorf("the other one dropped %d", n)
	}
	// With its queue full it still gets a snapshot: one, until that is dealt with.
	w.Fan.Snapshot()
	w.Fan.Snapshot()
	rows := len(w.Rows(time.Time{}))
	if n := w.Tally("slow").DroppedValues.Load(); n != uint64(rows) {
		t.Errorf("%d values dropped, want those of one snapshot, %d", n, rows)
	}
	close(slow.let)
	w.Close()
	if slow.events.Load() != sink.Queued || int(fast.events.Load()) != len(w.Events) {
		t.Errorf("got %d and %d", slow.events.Load(), fast.events.Load())
	}
	if slow.values.Load() != int64(rows) || fast.snapshots.Load() < 1 {
		t.Errorf("got %d values of %d, %d snapshots", slow.values.Load(), rows, fast.snapshots.Load())
	}
}

// TestFanoutSnapshots: they come as often as they should, and one at the end.
func TestFanoutSnapshots(t *testing.T) {
	t.Parallel()
	o := newStuck("o")
	close(o.let)
	w := sinktest.NewWorld(t, o).Start(20 * time.Millisecond)
	nstest.WaitFor(t, "five snapshots", func() bool { return o.snapshots.Load() >= 5 })
	if o.values.Load() != 0 {
		t.Errorf("%d values of nothing", o.values.Load())
	}
	before := o.snapshots.Load()
	w.Feed(10)
	w.Close()
	if o.snapshots.Load() <= before || o.values.Load() < int64(len(w.Rows(time.Time{}))) {
		t.Errorf("%d values, want %d at least", o.values.Load(), len(w.Rows(time.Time{})))
	}
}

// TestFanoutLastSnapshot: the values at the end come, though the output is not yet done with those
// before.
func TestFanoutLastSnapshot(t *testing.T) {
	t.Parallel()
	o := newStuck("o")
	w := sinktest.NewWorld(t, o).Start(time.Hour)
	w.Fan.Snapshot() // waits, as the output does
	w.Feed(10)
	want := int64(len(w.Rows(time.Time{})))
	time.AfterFunc(100*time.Millisecond, func() { close(o.let) })
	w.Close()
	if o.snapshots.Load() != 2 || o.values.Load() < want {
		t.Errorf("%d snapshots with %d values, want 2 with %d at least", o.snapshots.Load(), o.values.Load(), want)
	}
}

// TestFanoutWaits: of a file nothing is dropped, until somebody has enough.
func TestFanoutWaits(t *testing.T) {
	t.Parallel()
	slow := newStuck("slow")
	w := sinktest.NewWorld(t, slow)
	enough := make(chan struct{})
	w.Fan.Wait = enough
	w.Start(0)
	go func() {
		time.Sleep(100 * time.Millisecond)
		close(slow.let)
	}()
	for len(w.Events) < 2*sink.Queued {
		w.Feed(100)
	}
	w.Close()
	if n := w.Tally("slow"); n.DroppedEvents.Load() != 0 || int(n.Written.Load()) != len(w.Events) {
		t.Errorf("of %d: written %d, dropped %d", len(w.Events), n.Written.Load(), n.DroppedEvents.Load())
	}

	never := newStuck("never")
	w = sinktest.NewWorld(t, never)
	w.Fan.Grace = soon
	enough = make(chan struct{})
	w.Fan.Wait = enough
	w.Start(0)
	time.AfterFunc(100*time.Millisecond, func() { close(enough) })
	for len(w.Events) < 2*sink.Queued {
		w.Feed(100)
	}
	if n := w.Tally("never").DroppedEvents.Load(); n == 0 {
		t.Error("after Ctrl-C nothing was dropped")
	}
	w.Close()
}

// TestFanoutHangs: an output that hangs in a write is left behind, and what it had is counted.
func TestFanoutHangs(t *testing.T) {
	t.Parallel()
	o := newStuck("o")
	o.hangs = true
	w := sinktest.NewWorld(t, o)
	w.Fan.Grace, w.Fan.Unwind = soon, soon
	w.Start(0)
	w.Feed(20)
	w.Close() // though it hangs until it is let go
	if n := w.Tally("o").GivenUp.Load(); n != uint64(len(w.Events)) {
		t.Errorf("%d of %d given up", n, len(w.Events))
	}
	close(o.let)
}

// TestFanoutFails: who asked is told that an output has ended, and what comes then is counted.
func TestFanoutFails(t *testing.T) {
	t.Parallel()
	o := newStuck("o")
	o.err = errors.New("nobody reads")
	w := sinktest.NewWorld(t, o)
	failed := make(chan error, 1)
	w.Fan.Failed = func(err error) { failed <- err }
	w.Start(0)
	if err := <-failed; !errors.Is(err, o.err) {
		t.Error(err)
	}
	w.Feed(20)
	w.Close()
	if n := w.Tally("o").GivenUp.Load(); n != uint64(len(w.Events)) {
		t.Errorf("%d of %d given up", n, len(w.Events))
	}
}

// BenchmarkEvent is what an event costs the collector, with three outputs that keep up or not.
func BenchmarkEvent(b *testing.B) {
	for _, keeps := range []bool{true, false} {
		b.Run(fmt.Sprintf("keeps up=%v", keeps), func(b *testing.B) {
			f := &sink.Fanout{}
			for i := range 3 {
				o := newStuck(fmt.Sprint(i))
				if keeps {
					close(o.let)
				}
				f.Add(o)
			}
			w := sinktest.New(func(*metrics.Event) {})
			w.Feed(1)
			f.Start(w, 0)
			b.ReportAllocs()
			for b.Loop() {
				f.Event(&w.Events[0])
			}
			b.StopTimer()
			f.Cancel()
			f.Close()
		})
	}
}

// TestSnapshotAfterSnapshot: each output says when it has dealt with one, and gets the next.
func TestSnapshotAfterSnapshot(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	server, err := api.ListenReports("0", nil, "d", sinktest.OddName, fault.Face{}, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	influx, err := sink.NewInflux(newAnswers(t, 204).URL+"/?db=radar", "", sinktest.OddName, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	w := sinktest.NewWorld(t, server, influx, sink.NewLines(io.Discard, sinktest.OddName, l.Logger())).Start(0)
	w.Feed(5)
	for range 3 {
		w.Fan.Snapshot()
		w.Fan.Each(func(name string, n *sink.Tally) {
			nstest.WaitFor(t, name+" to have a snapshot", func() bool { return !w.Fan.Waits(name) })
			if n := n.DroppedValues.Load(); n > 0 {
				t.Errorf("%s: %d values dropped", name, n)
			}
		})
	}
}
