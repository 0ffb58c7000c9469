// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Flight says what a flight recorder waits for, and how much it keeps before and after.
type Flight struct {
	On            []*Condition // one of them is enough
	Before, After time.Duration
}

// flight keeps packets only around moments at which a condition is met. It remembers no packet: the ring does.
type flight struct {
	*Flight
	conditions []*watch
	windows    []window // by time; the last one may still be open
	timeout    time.Duration
	cursors    []cursor // of the polls within reach, oldest first
	lastMet    map[*Condition]int64
	triggers   uint64
	unopened   error // why the directory could not be opened
	flushed    int64 // the end of the window that is finished
}

// window is a time of which all packets are kept: those that began before its end, and ended after its begin. As T0.
type window struct{ from, until int64 }

func (w window) has(p *packet.Packet) bool {
	return int64(p.T0) <= w.until && int64(p.T0)+max(p.LastNs, 0) >= w.from
}

// cursor is where the ring was at some time.
type cursor struct {
	at  int64
	pos uint64
}

// late is how long after a window its packets can still end, beside the domain's timeout.
const late = 4 * time.Second

func newFlight(f *Flight, ring *answer.Ring) *flight {
	all := &flight{Flight: f, timeout: ring.Domain.Options.Timeout, lastMet: make(map[*Condition]int64)}
	for _, c := range f.On {
		all.conditions = append(all.conditions, newWatch(c, ring.Decoder))
	}
	return all
}

// reach is how far back a window may begin that is still to come. What breaks a promise may lie its TIME back, and what a
// packet shows that has expired the domain's timeout.
func (f *flight) reach() int64 {
	within := time.Duration(0)
	for _, c := range f.On {
		within = max(within, c.within)
	}
	return int64(f.Before + within + f.timeout + late)
}

// begin begins a poll, with the ring as it stands.
func (f *flight) begin(now int64, pos uint64) {
	reach := f.reach()
	f.cursors = append(f.cursors, cursor{now, pos})
	for len(f.cursors) > 1 && f.cursors[1].at <= now-reach {
		f.cursors = f.cursors[1:]
	}
	// Those are kept of which packets can be in a window that is still to come, and the last one: none may come twice.
	for len(f.windows) > 1 && f.windows[0].until+int64(f.timeout)+reach < now {
		f.windows = f.windows[1:]
	}
}

// take takes a packet that has ended, and reports whether it is to be kept.
func (f *flight) take(p *packet.Packet) bool {
	for _, w := range f.conditions {
		w.add(p)
	}
	return f.isKept(p)
}

// isKept reports whether a packet is of a window.
func (f *flight) isKept(p *packet.Packet) bool {
	return slices.ContainsFunc(f.windows, func(w window) bool { return w.has(p) })
}

// trigger looks whether conditions are met, and keeps what has ended of the time around.
func (r *Recorder) trigger() error {
	var all []met
	for _, w := range r.flight.conditions {
		all = append(all, w.met()...)
		for _, note := range w.notes {
			r.Say(w.Text + ": " + note)
		}
		w.notes = nil
	}
	slices.SortStableFunc(all, func(x, y met) int { return cmp.Compare(x.at, y.at) })
	for i := range all {
		if err := r.meet(&all[i]); err != nil {
			return err
		}
	}
	return r.finish()
}

// begins reports whether a window begins with it; else it falls into the last one.
func (f *flight) begins(m *met) bool {
	n := len(f.windows)
	return n == 0 || m.at-int64(f.Before) > f.windows[n-1].until
}

// meet makes a window, or lengthens the last one, and keeps what has ended of it. A directory that cannot be opened is
// tried again when a condition is met next.
func (r *Recorder) meet(m *met) error {
	f, begins := r.flight, r.flight.begins(m)
	isNew := f.isNew(m)
	if isNew {
		f.triggers++
	}
	if r.writer == nil {
		if f.unopened = r.open(); f.unopened != nil {
			if isNew {
				r.Say(fmt.Sprintf("%s: %s, but nothing is kept: %v", m.of.Text, m.value, f.unopened))
			}
			return nil
		}
		isNew = true // the event is written once, whenever that works
	}
	if isNew {
		r.event(recording.EventTrigger, map[string]any{
			"condition": m.of.Text, "value": m.value, "at": record.TimeString(m.at + r.ring.Decoder.WallOffset()), "merged": !begins,
		})
		r.Say(fmt.Sprintf("%s: %s", m.of.Text, m.value))
	}
	wanted := window{m.at - int64(f.Before), m.last + int64(f.After)}
	if begins {
		r.keepPast(wanted)
		f.windows = append(f.windows, wanted)
		return r.failed
	}
	last := &f.windows[len(f.windows)-1]
	if wanted.from < last.from || last.until < f.cursors[len(f.cursors)-1].at {
		r.keepPast(wanted) // packets of it have ended that were in no window
	}
	last.from, last.until = min(last.from, wanted.from), max(last.until, wanted.until)
	return r.failed
}

// isNew reports whether a condition was not met for its time before. A promise is met only where it has held in between.
func (f *flight) isNew(m *met) bool {
	before, known := f.lastMet[m.of]
	f.lastMet[m.of] = max(before, m.last)
	return !known || m.of.kind == promises || m.at-before > int64(max(m.of.within, time.Second))
}

// keepPast keeps what was handed out already of a window, and is of no window before: the ring still has it.
func (r *Recorder) keepPast(w window) {
	handed, now := r.follower.Handed(), int64(clock.Monotonic())
	scan := backpack.ScanOptions{Select: r.Selection.Ring()}
	if age := now - w.from; age > 0 {
		scan.Since = time.Duration(age) + r.flight.timeout // it may have begun before, and ended in the window
	}
	stats := backpack.ScanPackets(r.ring.Maps, r.ring.Decoder, scan, func(p *packet.Packet) {
		if p.State != record.InFlight && w.has(p) && !r.flight.isKept(p) && handed(p.Pos) {
			r.keep(p)
		}
	})
	n, earlier := r.flight.overwritten(w.from, uint64(r.ring.Domain.Options.Slots))
	earlier = earlier && stats.Forgot && stats.Oldest > uint64(max(w.from, 0)) // else the ring has that time, too
	r.missed += n
	const advice = " (more slots, or a shorter time before)"
	switch {
	case n > 0 && earlier:
		r.Say(fmt.Sprintf("the ring has come round: up to %d packets of the time before are gone, and maybe more from before the recorder began"+advice, n))
	case n > 0:
		r.Say(fmt.Sprintf("the ring has come round: up to %d packets of the time before are gone"+advice, n))
	case earlier:
		r.Say("the ring has come round: packets from before the recorder began may be gone" + advice)
	}
}

// overwritten is how many packets that were sent from some time on the ring does not have any more, at most: positions
// of which some may not have been used. In the time of windows packets were kept as they ended. earlier: there may be
// more, from before the oldest poll.
func (f *flight) overwritten(from int64, slots uint64) (n uint64, earlier bool) {
	last := f.cursors[len(f.cursors)-1].pos
	if last <= slots {
		return 0, false
	}
	gone := last - slots
	count := func(from, until int64) {
		if begin, end := f.posAt(from), min(f.posAt(until), gone); begin < end {
			n += end - begin
		}
		earlier = earlier || from < f.cursors[0].at
	}
	for _, w := range f.windows {
		if w.from > from {
			count(from, w.from)
		}
		from = max(from, w.until)
	}
	if from < f.cursors[len(f.cursors)-1].at {
		count(from, math.MaxInt64)
	}
	return n, earlier
}

// posAt is where the ring was at a time, or at the last poll before it. Before the oldest one it is not known.
func (f *flight) posAt(at int64) uint64 {
	after := sort.Search(len(f.cursors), func(i int) bool { return f.cursors[i].at > at })
	return f.cursors[max(after-1, 0)].pos
}

// finish finishes the segment when the last window has ended, so that it can be read.
func (r *Recorder) finish() error {
	f, now := r.flight, int64(clock.Monotonic())
	n := len(f.windows)
	if n == 0 || r.writer == nil || f.flushed == f.windows[n-1].until || f.windows[n-1].until+int64(f.timeout+late) > now {
		return r.failed
	}
	f.flushed = f.windows[n-1].until
	if err := r.writer.Flush(); err != nil { // what that cost Stats count
		r.Say(fmt.Sprintf("the time after has passed, and not all of it is kept: %v", err))
		return r.failed
	}
	r.Say(fmt.Sprintf("the time after has passed: %d packets are kept in all", r.writer.Stats().Kept))
	return r.failed
}
