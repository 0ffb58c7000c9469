// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// FollowOptions tune a Follower; zero values are the defaults.
type FollowOptions struct {
	// Settle is how long nothing must have happened after a packet's end before the end
	// counts: a drop may be withdrawn, or a drop after delivery be added. Default 50 ms.
	Settle time.Duration
	// Hold is the same for losses inside a node, where a copy may live on: the
	// time for which the programs keep such slots. Default 2 s.
	Hold time.Duration
	// Refresh, if not nil, returns the domain's description. It is called when a packet
	// names a port that is not in it, at most once a poll.
	Refresh func() (*domain.Domain, error)
	// Moves, if not nil, calls the Decoder's SetMoves. It is called before a packet counts
	// as not seen again, at most once a poll.
	Moves func()
	// Select says which packets are handed out.
	Select Select
	// Now is the clock, CLOCK_MONOTONIC in ns; nil: the real one.
	Now func() uint64
}

// FollowStats counts packets, each segment of a train as one.
type FollowStats struct {
	InFlight uint64 `json:"in_flight"` // seen, and their end has not settled yet
	// Unread positions were overwritten before they were read. A Follower that was
	// away for more than one revolution of the ring cannot separate unused positions from
	// used ones: then it is an upper bound.
	Unread uint64 `json:"unread"`
	Torn   uint64 `json:"torn"` // overwritten while they were read
}

// Follower hands out every packet once, when its story is final: delivered, left or
// lost for the settle time, or expired. It must poll before the ring comes round;
// packets that it missed count as unread. With its state (AppendState, Restore)
// another process continues at the same packet.
type Follower struct {
	src  Source
	ring *Ring
	dec  *Decoder
	opts FollowOptions
	once bool // AsItStands

	fresh   bool                 // nothing has been read yet: begin with the oldest
	next    uint64               // all positions below are done, in open, or in pending
	open    []Range              // given to CPUs, not used by them yet
	pending []entry              // seen, not final
	most    int                  // of pending at a poll of late; forgotten by an eighth each time
	orphans []entry              // the same, found while repeat goes through pending
	parts   map[uint64]*segments // which segments of a cut train are done, by head
	stats   FollowStats
	moves   uint64 // changes of the state

	// The current poll's.
	cursor    uint64
	train     Range // of the last train whose head was read
	pollNow   uint64
	refreshed bool // Refresh was called
	asked     bool // Moves was called
	err       error
	emit      func(*packet.Packet)

	// Scratch.
	head, member slot
	story        story
	choice       selector
	held, spare  []Range
}

// AsItStands makes every end count at once, even if it may still be withdrawn. It is
// for one reading: a loss of a moment ago is shown, and only packets without an end are
// in flight.
func (f *Follower) AsItStands() { f.once = true }

// NewFollower follows src from the oldest packet of the ring on.
func NewFollower(src Source, dec *Decoder, o FollowOptions) *Follower {
	o.Settle = cmp.Or(o.Settle, 50*time.Millisecond)
	o.Hold = cmp.Or(o.Hold, 2*time.Second)
	if o.Now == nil {
		o.Now = clock.Monotonic
	}
	return &Follower{
		src: src, ring: src.Ring(), dec: dec, opts: o,
		fresh: true, parts: make(map[uint64]*segments), choice: newSelector(o.Select, dec),
	}
}

// FromStart begins with the first packet of all, instead of the oldest that is still there.
// Packets that were overwritten before the first poll count as unread.
func (f *Follower) FromStart() { f.fresh, f.next = false, f.src.Start() }

// SkipToNow forgets all that was sent before now.
func (f *Follower) SkipToNow() error {
	cursor := f.src.Cursor()
	held, err := f.src.Held(nil)
	if err != nil {
		return err
	}
	f.fresh, f.next, f.pending = false, cursor, nil
	clear(f.parts)
	f.open = clip(merge(held), Range{0, cursor}, nil)
	return nil
}

// Stats returns the counts since the state began.
func (f *Follower) Stats() FollowStats {
	s := f.stats
	for i := range f.pending {
		s.InFlight += uint64(f.pending[i].left)
	}
	return s
}

// Handed returns whether the packet at a position has been handed out, or passed over, by the last Poll or one before.
// What it returns stays as it is.
func (f *Follower) Handed() func(pos uint64) bool {
	next, open := f.next, slices.Clone(f.open)
	left := make(map[uint64]bool, len(f.pending)) // segments that have not
	for _, e := range f.pending {
		done := f.parts[e.pos]
		for k := range max(e.segs, 1) {
			if done == nil || !done.has(k) {
				left[e.pos+uint64(k)] = true
			}
		}
	}
	return func(pos uint64) bool {
		return pos < next && !left[pos] && !slices.ContainsFunc(open, func(r Range) bool { return r.From <= pos && pos < r.To })
	}
}

// InFlight calls fn with every packet that the last Poll has seen and not handed out. The Packet is valid during
// the call only.
func (f *Follower) InFlight(fn func(*packet.Packet)) {
	for _, e := range f.pending {
		if _, _, ok := f.ring.read(e.pos, &f.head); !ok {
			continue
		}
		if f.head.fields().Seg > 0 {
			f.dec.decode(&f.story, nil, &f.head, f.pollNow)
		} else {
			f.dec.decode(&f.story, &f.head, nil, f.pollNow)
		}
		f.story.Packet.Segs = int(e.left)
		fn(&f.story.Packet)
	}
}

// Final returns the time (CLOCK_MONOTONIC, ns) up to which all arrivals have been
// handed out of packets whose latency was at most latencyNs.
func (f *Follower) Final(latencyNs int64) uint64 {
	if f.once {
		return math.MaxUint64
	}
	// A drop soon after delivery makes it settle once more; settle says how often a
	// packet is looked at.
	wait := 2*uint64(f.opts.Settle) + min(uint64(latencyNs)/8, uint64(time.Second))
	return f.pollNow - min(wait, f.pollNow)
}

// Progress grows with every change of what AppendState would append.
func (f *Follower) Progress() uint64 { return f.moves }

// Poll calls fn for every packet that has become final since the last poll. The
// Packet is valid during the call only. After an error, the next Poll goes on as if
// this one had not happened. Errors of Refresh come after all packets are handed out.
func (f *Follower) Poll(fn func(*packet.Packet)) error {
	// The order matters: what a CPU was given before the cursor was read is either
	// still held, or used.
	f.cursor = f.src.Cursor()
	held, err := f.src.Held(f.held[:0])
	if err != nil {
		return err
	}
	f.held = merge(held)
	f.pollNow, f.emit, f.err, f.refreshed, f.asked = f.opts.Now(), fn, nil, false, false
	f.repeat()

	// Positions that were held when the ring had come round to them were given up.
	given := f.behind(f.next)
	open := f.spare[:0]
	for _, r := range f.open {
		open = f.takeNew(r, given, open)
	}
	if f.cursor > f.next {
		quiet := uint64(0)
		if f.fresh {
			quiet = f.behind(f.cursor)
		}
		open = f.takeNew(Range{f.next, f.cursor}, quiet, open)
		f.next = f.cursor
		f.moves++
	}
	f.spare, f.open = f.open, open
	f.fresh = false
	f.emit = nil
	return f.err
}

// behind returns the first position whose slot is not given away again when the cursor
// is there.
func (f *Follower) behind(cursor uint64) uint64 {
	if cursor < f.ring.slots {
		return 0
	}
	return cursor - f.ring.slots
}

// takeNew reads the positions of r that no CPU holds and appends the others to open.
// Positions below quiet are not counted as unread.
func (f *Follower) takeNew(r Range, quiet uint64, open []Range) []Range {
	open = clip(f.held, r, open)
	from := r.From
	for _, h := range f.held {
		if h.To <= from || h.From >= r.To {
			continue
		}
		if h.From > from {
			f.takeSettled(Range{from, h.From}, quiet)
		}
		from = h.To
	}
	if from < r.To {
		f.takeSettled(Range{from, r.To}, quiet)
	}
	return open
}

// takeSettled reads positions that no CPU holds.
func (f *Follower) takeSettled(r Range, quiet uint64) {
	f.moves++
	if r.To-r.From > f.ring.slots {
		// At most one revolution of them can still be there: look which.
		behind := Range{r.From, r.To - f.ring.slots}
		f.takeBehind(behind, quiet)
		r.From = behind.To
	}
	for pos := r.From; pos < r.To; pos++ {
		f.take(pos, quiet)
	}
}

// takeBehind is takeSettled for more positions than there are slots.
func (f *Follower) takeBehind(r Range, quiet uint64) {
	lost := r.To - min(max(r.From, quiet), r.To)
	var t trains
	for i := range f.ring.slots {
		g := f.ring.peek(i)
		pos, member := g.pos, t.member(i, g)
		if member != 0 {
			pos = member // its head is there
		}
		if pos < r.From || pos >= r.To {
			continue
		}
		if member == 0 {
			f.take(pos, quiet)
		}
		if pos >= quiet {
			lost--
		}
	}
	f.stats.Unread += lost
}
