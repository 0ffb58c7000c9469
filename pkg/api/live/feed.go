// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const (
	pollEvery = 100 * time.Millisecond
	loadEvery = time.Second
	// mostStreams is how many different streams there are of a domain: each looks at each packet.
	mostStreams = 64
)

// ErrTooMany: listeners already ask for as many different streams of a domain as there may be.
var ErrTooMany = errors.New("listeners ask for too many different streams of this domain: use a filter and rate that others use, or ask again later")

// Options are what a listener asks for.
type Options struct {
	Key       string // of Selection: equal ones select the same
	Selection *answer.Selection
	Rate      int  // of packets, a second
	Losses    bool // lost packets are events of their own
	Client    api.Client
}

// Feeds are those of all domains.
type Feeds struct {
	ctx  context.Context
	face fault.Face // of the listeners

	mu    sync.Mutex
	feeds map[string]*Feed
}

// New returns Feeds that end with ctx. Their sentences are for users of face.
func New(ctx context.Context, face fault.Face) *Feeds {
	return &Feeds{ctx: ctx, face: face, feeds: make(map[string]*Feed)}
}

// origin is the command that they are of, for listeners.
func (f *Feeds) origin() string { return f.face.Render("«serve»") }

// Feed follows one domain while somebody listens.
type Feed struct {
	name string
	of   *Feeds

	mu      sync.Mutex
	streams map[string]*Stream

	// The goroutine's.
	ring     *answer.Ring // nil: nothing is attached
	follower *answer.Follower
	sums     *aggregate.Aggregates
	since    time.Time // that is in sums
	unread   uint64
	state    state
	steered  uint64 // number of the last event of the INT service
}

// Join gives a listener its stream. It calls leave when it goes.
func (f *Feeds) Join(name string, o Options) (_ *Stream, leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	feed := f.feeds[name]
	if feed == nil {
		feed = &Feed{name: name, of: f, streams: make(map[string]*Stream)}
	}
	s, l, err := feed.join(o)
	if err != nil {
		return nil, nil, err
	}
	if f.feeds[name] == nil {
		f.feeds[name] = feed
		go feed.run(f.ctx)
	}
	return s, func() { feed.leave(s, l) }, nil
}

func (f *Feed) join(o Options) (*Stream, *listener, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := streamKey(o)
	s := f.streams[key]
	if s == nil {
		if len(f.streams) >= mostStreams && !f.dropIdle(0) && !f.dropFor(o.Client) {
			return nil, nil, ErrTooMany
		}
		s = newStream(f.of.origin(), key, o, time.Now())
		f.streams[key] = s
	}
	l := &listener{o.Client}
	s.listeners[l] = struct{}{}
	return s, l, nil
}

func (f *Feed) leave(s *Stream, l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(s.listeners, l)
	s.idle = time.Now()
}

// dropIdle ends streams that nobody has listened to for so long, and reports whether there were any.
func (f *Feed) dropIdle(than time.Duration) (dropped bool) {
	for key, s := range f.streams {
		if len(s.listeners) == 0 && time.Since(s.idle) >= than {
			s.Hub.Close()
			delete(f.streams, key)
			dropped = true
		}
	}
	return dropped
}

// dropFor ends a stream so that c gets one, if each client who listens to it has more than c would have: of all streams
// that whose least client has most. Else one client could ask for all the streams that there may be, and who shares one
// with such a client would lose it.
func (f *Feed) dropFor(c api.Client) bool {
	count := map[api.Client]int{c: 1}
	for _, s := range f.streams {
		for of := range s.clients() {
			count[of]++
		}
	}
	var key string
	most := count[c]
	for k, s := range f.streams {
		least := mostStreams + 1
		for of := range s.clients() {
			least = min(least, count[of])
		}
		if least > most {
			key, most = k, least
		}
	}
	if key == "" {
		return false
	}
	f.streams[key].Hub.Close()
	delete(f.streams, key)
	return true
}

// current are the streams now. Nobody is there to listen: the feed has ended.
func (f *Feed) current() (list []*Stream, ended bool) {
	f.of.mu.Lock() // before f.mu, as Join has them
	defer f.of.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropIdle(linger)
	for _, s := range f.streams {
		list = append(list, s)
	}
	if len(list) == 0 || f.of.ctx.Err() != nil {
		for _, s := range list {
			s.Hub.Close()
		}
		delete(f.of.feeds, f.name)
		return nil, true
	}
	return list, false
}

func (f *Feed) run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	defer f.detach()
	f.since = time.Now()
	for {
		streams, ended := f.current()
		if ended {
			return
		}
		now := time.Now()
		f.poll(streams, now)
		if span := now.Sub(f.since); span > loadEvery-pollEvery/2 {
			f.load(streams, now, span)
			f.since = now
			f.tell(streams, now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// attach opens the ring, if the domain is attached now.
func (f *Feed) attach() {
	ring, err := answer.OpenRing(f.name)
	if err != nil {
		return
	}
	follower, err := ring.Follow(&answer.Selection{}, false, false)
	if err != nil {
		ring.Close()
		return
	}
	f.ring, f.follower, f.unread = ring, follower, 0
	f.sums = aggregate.New(ring.Decoder.WallOffset())
}

func (f *Feed) detach() {
	if f.ring != nil {
		f.ring.Close()
	}
	f.ring, f.follower = nil, nil
}

// poll hands out what has ended since it was called last.
func (f *Feed) poll(streams []*Stream, now time.Time) {
	if f.ring != nil && errors.Is(f.ring.Update(), domain.ErrNotAttached) {
		f.detach()
	}
	if f.ring == nil {
		f.attach()
	}
	if f.ring == nil {
		return
	}
	for _, s := range streams {
		s.begin(now)
	}
	_ = f.follower.Poll(func(p *packet.Packet) error { // of a domain that has gone: seen at the next poll
		f.sums.Add(p)
		for _, s := range streams {
			s.add(p, f.ring.Decoder)
		}
		return nil
	})
	for _, s := range streams {
		s.send(func(p *packet.Packet) []byte { return EncodeRecord(f.follower.Record(p)) })
	}
}

// load sends what was counted since the last.
func (f *Feed) load(streams []*Stream, now time.Time, span time.Duration) {
	if f.ring == nil {
		return
	}
	l := newLoad(f.sums, f.ring.Decoder, f.ring.Domain, now, span)
	l.Notes = f.notes(now)
	unread := f.follower.Unread()
	l.Unread, f.unread = unread-f.unread, unread
	f.sums = aggregate.New(f.ring.Decoder.WallOffset())
	encoded := encodeLoad(l)
	for _, s := range streams {
		s.load(encoded)
	}
}
