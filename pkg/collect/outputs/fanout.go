// SPDX-License-Identifier: Apache-2.0

// Package outputs gives what radar collect finds to others: JSON lines, an HTTP server
// (Prometheus, server-sent events), InfluxDB. docs/design/0012-outputs.md says why it is as it is.
//
//   - A Fanout copies each event, and from time to time a snapshot of all values, into one bounded
//     queue for each output. It never waits; what finds a queue full is shed, and counted.
//   - Lines, Server and Influx are the outputs, each in a goroutine of its own.
package outputs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/collect/metrics"
)

// queued is how many events may wait for an output: 3 MB, and 160 ms at 100,000 events a second.
const queued = 1 << 14

// grace is how long outputs may take at the end for what waits.
const grace = 3 * time.Second

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
	// run takes items until q is closed. What it has not got rid of when ctx is done, it counts
	// as given up, and returns. An error means that nobody will take anything any more.
	run(ctx context.Context, q <-chan item, n *Tally) error
}

// item is an event, or a snapshot.
type item struct {
	number uint64 // of events, from 1
	event  metrics.Event
	rows   *snapshot    // or
	onWay  *atomic.Bool // of the queue: until it is released there is no other snapshot
}

// release is called for a snapshot that has been dealt with.
func (it *item) release() { it.onWay.Store(false) }

// snapshot is all values at a time. Outputs share its rows: nobody changes them.
type snapshot struct {
	at   int64 // Unix ns
	rows []metrics.Row
}

// Tally is what became of what an output was given. An event, and each row of a snapshot, is one.
type Tally struct {
	Written    atomic.Uint64
	ShedEvents atomic.Uint64 // the queue was full
	ShedValues atomic.Uint64
	GivenUp    atomic.Uint64 // refused by who was to have it, or left at the end
	Retries    atomic.Uint64 // attempts after one that failed
}

type queue struct {
	output Output
	items  chan item
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

	queues []*queue
	source Source
	number uint64
	cancel context.CancelFunc
	stop   chan struct{} // no more snapshots
	grace  time.Duration
	unwind time.Duration
	ticks  sync.WaitGroup
}

// Add adds an output, before Start.
func (f *Fanout) Add(o Output) {
	f.queues = append(f.queues, &queue{output: o, items: make(chan item, queued+2), done: make(chan struct{})})
}

// Start starts the outputs. every is the time between snapshots; 0: there are none.
func (f *Fanout) Start(source Source, every time.Duration) {
	f.source = source
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.stop = cancel, make(chan struct{})
	f.grace, f.unwind = cmp.Or(f.grace, grace), cmp.Or(f.unwind, unwind)
	for _, q := range f.queues {
		if s, ok := q.output.(*Server); ok {
			s.begin(source, f)
		}
		go func() {
			defer close(q.done)
			err := q.output.run(ctx, q.items, &q.tally)
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
	it := item{number: f.number, event: *e}
	it.event.Path, it.event.WasPath = slices.Clone(e.Path), slices.Clone(e.WasPath)
	for _, q := range f.queues {
		if !f.put(q, it) {
			q.tally.ShedEvents.Add(1)
		}
	}
}

// put says whether the item found room. The last two places are for snapshots: for one that is
// on its way, and for the last one of all.
func (f *Fanout) put(q *queue, it item) bool {
	if it.rows != nil || len(q.items) < queued {
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
	s := &snapshot{now.UnixNano(), f.rows(now)}
	for _, q := range f.queues {
		if !q.onWay.CompareAndSwap(false, true) && !last {
			q.tally.ShedValues.Add(uint64(len(s.rows)))
		} else if !f.put(q, item{rows: s, onWay: &q.onWay}) {
			q.onWay.Store(false)
			q.tally.ShedValues.Add(uint64(len(s.rows)))
		}
	}
}

// rows are the source's. A file's values do not age by today's clock.
func (f *Fanout) rows(now time.Time) []metrics.Row {
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
	if !within(all, f.grace) {
		f.cancel()
		within(all, f.unwind)
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
func (it *item) size() uint64 {
	if it.rows != nil {
		return uint64(len(it.rows.rows))
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
			Name: q.output.Name(), Waiting: len(q.items), Written: n.Written.Load(), ShedEvents: n.ShedEvents.Load(),
			ShedValues: n.ShedValues.Load(), GivenUp: n.GivenUp.Load(), Retries: n.Retries.Load(),
		})
	}
	return list
}
