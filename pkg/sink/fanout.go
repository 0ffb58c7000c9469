// SPDX-License-Identifier: Apache-2.0

// Package sink gives what radar collect finds to others: JSON lines, InfluxDB, and by
// pkg/api an HTTP server. docs/design/0012-outputs.md says why it is as it is.
//
//   - A Fanout copies each event, and from time to time a snapshot of all values, into one bounded
//     queue for each output. It never waits: what a full queue drops is counted.
//   - Lines and Influx are outputs, as is api.Reports, each in a goroutine of its own.
package sink

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// queued is how many events may wait for an output: 3 MB, and 160 ms at 100,000 events a second.
const queued = 1 << 14

// DefaultGrace is how long outputs may take at the end for what waits.
const DefaultGrace = 3 * time.Second

// unwind is how long an output may take then to count what it has in hand. All but one that
// hangs in a write need a moment for that, but on a busy machine a moment may be seconds. Who
// stops a container kills it after 10 s; before that all must have been said.
const unwind = 5 * time.Second

// Source is whose events and values go out: a collect.Collector. Its methods are called by several
// goroutines.
type Source interface {
	// Rows are the values at a time; zero: when the newest report came.
	Rows(now time.Time) []metrics.Row
	Info() collect.Info
}

// Output is one way out.
type Output interface {
	// Name is what counters and messages call it.
	Name() string
	// Run takes items until q is closed. What it has not got rid of when ctx is done, it counts
	// as given up, and returns. An error means that nobody will take anything any more.
	Run(ctx context.Context, q <-chan Item, n *Tally) error
}

// Beginner is an Output that asks the source itself, or says how the others do. Begin is called
// before Run, and does not wait.
type Beginner interface {
	Begin(source Source, f *Fanout)
}

// Item is an event, or a snapshot.
type Item struct {
	Number   uint64 // of events, from 1
	Event    metrics.Event
	Snapshot *Snapshot // nil: it is an event

	onWay *atomic.Bool // of the queue: until it is released there is no other snapshot
}

// Release is called for a snapshot that has been dealt with.
func (it *Item) Release() { it.onWay.Store(false) }

// Snapshot is all values at a time. Outputs share its rows: nobody changes them.
type Snapshot struct {
	At   int64 // Unix ns
	Rows []metrics.Row
}

// Tally is what became of what an output was given. An event, and each row of a snapshot, is one.
type Tally struct {
	Written       atomic.Uint64
	DroppedEvents atomic.Uint64 // the queue was full
	DroppedValues atomic.Uint64
	GivenUp       atomic.Uint64 // refused by who was to have it, or left at the end
	Retries       atomic.Uint64 // attempts after one that failed
}

type queue struct {
	output Output
	items  chan Item
	onWay  atomic.Bool // a snapshot is
	tally  Tally
	done   chan struct{}
}

// Fanout gives events and snapshots to outputs.
type Fanout struct {
	// Failed is called when an output has ended with an error, by its goroutine. nil: nobody asks.
	Failed func(error)
	// Wait, if not nil, makes Event wait for outputs until it is closed, for events from a file.
	Wait <-chan struct{}
	// Grace is how long outputs may take at the end for what waits, and Unwind how long after
	// that to count what they have in hand. 0: DefaultGrace, and 5 s.
	Grace, Unwind time.Duration

	queues []*queue
	source Source
	number uint64
	cancel context.CancelFunc
	stop   chan struct{} // no more snapshots
	ticks  sync.WaitGroup
}

// Add adds an output, before Start.
func (f *Fanout) Add(o Output) {
	f.queues = append(f.queues, &queue{output: o, items: make(chan Item, queued+2), done: make(chan struct{})})
}

// Start starts the outputs. every is the time between snapshots; 0: there are none.
func (f *Fanout) Start(source Source, every time.Duration) {
	f.source = source
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.stop = cancel, make(chan struct{})
	f.Grace, f.Unwind = cmp.Or(f.Grace, DefaultGrace), cmp.Or(f.Unwind, unwind)
	for _, q := range f.queues {
		if b, ok := q.output.(Beginner); ok {
			b.Begin(source, f)
		}
		go func() {
			defer close(q.done)
			err := q.output.Run(ctx, q.items, &q.tally)
			if err != nil && f.Failed != nil {
				f.Failed(err)
			}
			q.giveUp()
		}()
	}
	if every > 0 && len(f.queues) > 0 {
		f.ticks.Go(func() { f.snapshots(every) })
	}
}

// Event gives a copy of an event to each output; it is meant for collect.Collector.Changed, whose
// calls are never two at a time.
func (f *Fanout) Event(e *metrics.Event) {
	f.number++
	it := Item{Number: f.number, Event: *e}
	it.Event.Path, it.Event.WasPath = slices.Clone(e.Path), slices.Clone(e.WasPath)
	for _, q := range f.queues {
		if !f.put(q, it) {
			q.tally.DroppedEvents.Add(1)
		}
	}
}

// put says whether the item found room. The last two places are for snapshots: for one that is
// on its way, and for the last one of all.
func (f *Fanout) put(q *queue, it Item) bool {
	if it.Snapshot != nil || len(q.items) < queued {
		select {
		case q.items <- it:
			return true
		default:
		}
	}
	if f.Wait == nil {
		return false
	}
	select {
	case q.items <- it:
		return true
	case <-f.Wait:
		return false
	}
}

// giveUp counts what waits, until no more comes.
func (q *queue) giveUp() {
	for it := range q.items {
		q.tally.GivenUp.Add(it.size())
	}
}

// snapshots gives one every so often, and one at the end.
func (f *Fanout) snapshots(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			f.snapshot(now, false)
		case <-f.stop:
			f.snapshot(time.Now(), true)
			return
		}
	}
}

// snapshot gives one to the outputs that are done with the one before. The last one has the
// values that stay, so that it waits for none.
func (f *Fanout) snapshot(now time.Time, last bool) {
	s := &Snapshot{now.UnixNano(), f.Rows(now)}
	for _, q := range f.queues {
		if !q.onWay.CompareAndSwap(false, true) && !last {
			q.tally.DroppedValues.Add(uint64(len(s.Rows)))
		} else if !f.put(q, Item{Snapshot: s, onWay: &q.onWay}) {
			q.onWay.Store(false)
			q.tally.DroppedValues.Add(uint64(len(s.Rows)))
		}
	}
}

// Rows are the source's. A file's values do not age by today's clock.
func (f *Fanout) Rows(now time.Time) []metrics.Row {
	if f.Wait != nil {
		now = time.Time{}
	}
	return f.source.Rows(now)
}

// Close ends the outputs when all that waits is out, or their time is over; then Tally counts what
// was left. Nobody may call Event then.
func (f *Fanout) Close() {
	if f.cancel == nil {
		return
	}
	close(f.stop)
	f.ticks.Wait()
	all := make(chan struct{})
	go func() {
		for _, q := range f.queues {
			<-q.done
		}
		close(all)
	}()
	for _, q := range f.queues {
		close(q.items)
	}
	if f.Wait != nil { // until Ctrl-C
		select {
		case <-all:
		case <-f.Wait:
		}
	}
	if !within(all, f.Grace) {
		f.cancel()
		within(all, f.Unwind)
	}
	f.cancel()
	for _, q := range f.queues {
		q.giveUp() // of one that hangs in a write: nobody can interrupt it
	}
}

// within waits, and says whether done was closed in time.
func within(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// size is how many events and rows the item is.
func (it *Item) size() uint64 {
	if it.Snapshot != nil {
		return uint64(len(it.Snapshot.Rows))
	}
	return 1
}

// Each calls fn for each output and what became of what it was given.
func (f *Fanout) Each(fn func(name string, n *Tally)) {
	for _, q := range f.queues {
		fn(q.output.Name(), &q.tally)
	}
}

// Info says how each output does.
func (f *Fanout) Info() (list []collect.OutputInfo) {
	for _, q := range f.queues {
		n := &q.tally
		list = append(list, collect.OutputInfo{
			Name: q.output.Name(), Waiting: len(q.items), Written: n.Written.Load(), DroppedEvents: n.DroppedEvents.Load(),
			DroppedValues: n.DroppedValues.Load(), GivenUp: n.GivenUp.Load(), Retries: n.Retries.Load(),
		})
	}
	return list
}
