// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/vnetradar/radar/pkg/record"
)

// Bounds of a request. A packet is in one as a whole. Collectors take 4 MiB at least, as gRPC does by default.
const (
	mostSpans = 512
	mostBytes = 1 << 20
	mostQueue = 64       // requests that wait
	mostWaits = 32 << 20 // bytes of these, and of the one under way
)

// Of what fails for a while: how long the first wait is, the longest one, and for how long a request is tried.
const (
	firstWait = 500 * time.Millisecond
	mostWait  = 30 * time.Second
	mostTried = 2 * time.Minute
)

// MostAway is for how long what there is waits for a collector that takes nothing.
const MostAway = 10 * time.Minute

// request is spans under way.
type request struct {
	data    tracepb.TracesData
	by      map[Resource]*tracepb.ScopeSpans
	spans   int
	packets int
	bytes   int
}

// scopeName says who made the spans.
const scopeName = "github.com/vnetradar/radar"

func (q *request) add(version string) func(Resource, *tracepb.Span) {
	return func(of Resource, span *tracepb.Span) {
		scope := q.by[of]
		if scope == nil {
			scope = &tracepb.ScopeSpans{Scope: scopeOf(version)}
			pb := &tracepb.ResourceSpans{Resource: of.pb(), ScopeSpans: []*tracepb.ScopeSpans{scope}}
			q.by[of] = scope
			q.data.ResourceSpans = append(q.data.ResourceSpans, pb)
			q.bytes += proto.Size(pb)
		}
		scope.Spans = append(scope.Spans, span)
		q.spans++
		q.bytes += proto.Size(span)
	}
}

// Answer is what a collector said to a request.
type Answer struct {
	Rejected uint64 // spans that it did not take, of those that it was sent
	Why      string
	Err      error         // it took none
	Retry    bool          // it may take them later
	After    time.Duration // not before; 0: it does not say
}

// Transport sends a request and waits for the answer.
type Transport interface {
	Export(ctx context.Context, data *tracepb.TracesData) Answer
	Close()
}

// Counts are of spans, by what became of them.
type Counts struct {
	Packets   uint64            `json:"packets"`    // of which spans were made
	Spans     uint64            `json:"spans"`      // that were made; the others sum up to it
	Sent      uint64            `json:"sent"`       // the collector took them
	Rejected  uint64            `json:"rejected"`   // the collector took the request, not these
	Failed    uint64            `json:"failed"`     // in requests that failed
	QueueFull uint64            `json:"queue_full"` // there was no room to wait
	AtEnd     uint64            `json:"at_end"`     // they waited when the export ended
	Requests  uint64            `json:"requests"`   // that were answered
	Retries   uint64            `json:"retries"`
	Errors    map[string]uint64 `json:"errors,omitempty"` // requests that failed, and rejections, by why; warnings, too
}

// mostErrors bounds Errors.
const mostErrors = 16

// Sender sends spans behind the back of who adds them. Add and Close are for one goroutine.
type Sender struct {
	Version string
	// Away is for how long requests are tried while the collector takes none; 0: each for two minutes, whatever becomes
	// of others. After that they fail at once. Set before Add, as the next one.
	Away time.Duration
	// Again is called when requests are tried again, once until one is taken; nil: nobody asks.
	Again func(why error)

	maker     *Maker
	transport Transport
	under     *request // being filled
	queue     chan *request
	room      *semaphore.Weighted // bytes
	ended     chan struct{}
	stop      context.CancelFunc
	why       error     // a request is tried again; nil: none is
	since     time.Time // that, for the one who sends

	mu     sync.Mutex
	counts Counts
}

// NewSender begins to send.
func NewSender(maker *Maker, transport Transport, version string) *Sender {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sender{Version: version, maker: maker, transport: transport, queue: make(chan *request, mostQueue), room: semaphore.NewWeighted(mostWaits), ended: make(chan struct{}), stop: stop}
	go s.run(ctx)
	return s
}

// Counts are those until now.
func (s *Sender) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Errors = make(map[string]uint64, len(s.counts.Errors))
	for text, n := range s.counts.Errors {
		c.Errors[text] = n
	}
	return c
}

func (s *Sender) count(fn func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.counts)
}

// failed counts why something was not taken.
func (c *Counts) failed(why string) {
	if c.Errors == nil {
		c.Errors = make(map[string]uint64)
	}
	why = cutText(why, mostName)
	if _, known := c.Errors[why]; !known && len(c.Errors) >= mostErrors {
		why = "others"
	}
	c.Errors[why]++
}

// Add sends a packet, of which it keeps nothing. With wait it waits for room until ctx ends; else it counts what has
// none.
func (s *Sender) Add(ctx context.Context, r *record.Record, wait bool) {
	if s.under == nil {
		s.under = &request{by: make(map[Resource]*tracepb.ScopeSpans)}
	}
	before := s.under.spans
	s.maker.Spans(r, s.under.add(s.Version))
	s.under.packets++
	s.count(func(c *Counts) {
		c.Packets++
		c.Spans += uint64(s.under.spans - before)
	})
	if s.under.spans >= mostSpans || s.under.bytes >= mostBytes {
		s.Flush(ctx, wait)
	}
}

// Flush hands on what is being filled.
func (s *Sender) Flush(ctx context.Context, wait bool) {
	q := s.under
	if q == nil {
		return
	}
	s.under = nil
	if s.enqueue(ctx, q, wait) {
		return
	}
	s.count(func(c *Counts) {
		if wait {
			c.AtEnd += uint64(q.spans)
		} else {
			c.QueueFull += uint64(q.spans)
		}
	})
}

// enqueue makes a request wait, if there is room, or room comes before ctx ends.
func (s *Sender) enqueue(ctx context.Context, q *request, wait bool) bool {
	if !s.room.TryAcquire(q.weight()) && (!wait || s.room.Acquire(ctx, q.weight()) != nil) {
		return false
	}
	select {
	case s.queue <- q:
		return true
	default:
	}
	if wait {
		select {
		case s.queue <- q:
			return true
		case <-ctx.Done():
		}
	}
	s.room.Release(q.weight())
	return false
}

// weight is what a request takes of the room. There is room for one, however large it is.
func (q *request) weight() int64 { return int64(min(q.bytes, mostWaits)) }

// Close sends what waits, when ctx has ended for as long as patience, and ends.
func (s *Sender) Close(ctx context.Context, patience time.Duration) {
	sending, stop := context.WithCancel(context.Background())
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, stop) })()
	s.Flush(sending, true)
	close(s.queue)
	select {
	case <-s.ended:
	case <-sending.Done():
		s.stop()
		<-s.ended
	}
	s.stop()
	s.transport.Close()
}

func (s *Sender) run(ctx context.Context) {
	defer close(s.ended)
	for q := range s.queue {
		s.send(ctx, q)
		s.room.Release(q.weight())
	}
}

// send sends a request until it is taken, refused for good, or was tried for long enough.
func (s *Sender) send(ctx context.Context, q *request) {
	wait, begin, most := firstWait, time.Now(), mostTried
	if s.Away > 0 {
		if most = s.Away; s.why != nil {
			begin = s.since
		}
		if s.why != nil && time.Since(begin) > most { // a collector that hangs would take a time-out for each request
			s.count(func(c *Counts) {
				c.Failed += uint64(q.spans)
				c.failed(s.why.Error())
			})
			return
		}
	}
	var last error // why it is to be tried again
	for {
		if ctx.Err() != nil {
			s.count(func(c *Counts) {
				c.AtEnd += uint64(q.spans)
				if last != nil {
					c.failed(last.Error())
				}
			})
			return
		}
		a := s.transport.Export(ctx, &q.data)
		if a.Err == nil {
			s.why = nil
			s.taken(q, &a)
			return
		}
		if ctx.Err() != nil {
			continue
		}
		pause := max(a.After, wait/2+rand.N(wait/2)) // others have lost it at the same time
		if !a.Retry || time.Since(begin)+pause > most {
			s.count(func(c *Counts) {
				c.Failed += uint64(q.spans)
				c.failed(a.Err.Error())
			})
			return
		}
		if s.why == nil {
			if s.since = begin; s.Again != nil {
				s.Again(a.Err)
			}
		}
		last, s.why = a.Err, a.Err
		s.count(func(c *Counts) { c.Retries++ })
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, mostWait)
	}
}

func (s *Sender) taken(q *request, a *Answer) {
	rejected := min(a.Rejected, uint64(q.spans))
	s.count(func(c *Counts) {
		c.Requests++
		c.Sent += uint64(q.spans) - rejected
		c.Rejected += rejected
		switch {
		case rejected > 0:
			c.failed("rejected: " + a.Why)
		case a.Why != "": // it took all of them
			c.failed("warning: " + a.Why)
		}
	})
}
