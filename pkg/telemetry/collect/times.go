// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math"
	"net/netip"
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Times of two nodes say something only if one clock is behind them, which no report shows: users
// say so of their sources.

// mostBetween is how long a packet may be under way from one node to another, ns. What is longer is
// no time of one clock.
const mostBetween = int64(time.Minute)

// clock names the clock of a source's times.
type clock struct {
	shared bool       // it is that of all the source's nodes
	of     netip.Addr // of this source alone; not valid: of all sources that share it
}

func (s *Source) clock(from netip.Addr) clock {
	switch {
	case s.Clock:
		return clock{shared: true}
	case s.Profile != nil && s.Profile.OneClock:
		return clock{shared: true, of: from}
	}
	return clock{}
}

// stay is when a packet was in a node, by a clock.
type stay struct {
	clock         clock
	unit          uint32 // ns that times count by
	short         bool   // they have 32 bits
	in, out       uint64
	hasIn, hasOut bool
}

// stay is that of the ith hop. Of the node that reports, TR 1.0 has the ingress in its own header.
// Where a node says how long it had the packet, the time at which it left follows.
func (o *Observed) stay(i int) (s stay) {
	s.clock, s.unit, s.short = o.clock, o.TimeNs, o.Short
	s.in, s.hasIn = o.Hops[i].Get(intwire.IngressTS)
	s.out, s.hasOut = o.Hops[i].Get(intwire.EgressTS)
	if !s.hasIn && o.IngressTS != 0 && o.Own && i == len(o.Hops)-1 {
		s.in, s.hasIn, s.short = uint64(o.IngressTS), true, true
	}
	if latency, ok := o.Hops[i].Get(intwire.HopLatency); ok && s.hasIn && !s.hasOut {
		s.out, s.hasOut = s.in+latency*uint64(o.LatencyNs)/uint64(s.unit), true
	}
	return s
}

// begin is when the packet came, or, where that is not known, left.
func (s *stay) begin() (at uint64, ok bool) {
	if s.hasIn {
		return s.in, true
	}
	return s.out, s.hasOut
}

// compare is below 0 if a packet was in s before it was in the other one; 0: that is not known.
func (s *stay) compare(other *stay) int {
	at, ok := s.begin()
	then, known := other.begin()
	if !ok || !known || !s.clock.shared || s.clock != other.clock || at == then {
		return 0
	}
	if _, before := s.since(at, other, then); before {
		return -1
	}
	if _, behind := other.since(then, s, at); behind {
		return 1
	}
	return 0
}

// end is 1 of a node that says only when a packet came, -1 of one that says only when it left.
func (s *stay) end() int {
	switch {
	case s.hasIn && !s.hasOut:
		return 1
	case s.hasOut && !s.hasIn:
		return -1
	}
	return 0
}

// appendStays appends those of all hops.
func (o *Observed) appendStays(list []stay) []stay {
	for i := range o.Hops {
		list = append(list, o.stay(i))
	}
	return list
}

// since is the time from then, a time of s's clock, to now, one of the other's; ns.
func (s *stay) since(then uint64, other *stay, now uint64) (ns int64, ok bool) {
	unit := int64(s.unit)
	switch {
	case s.unit == other.unit && (s.short || other.short):
		ns = int64(int32(uint32(now) - uint32(then)))
	case s.short || other.short:
		return 0, false
	case s.unit == other.unit:
		ns = int64(now - then)
	default:
		ns, unit = int64(now*uint64(other.unit)-then*uint64(s.unit)), 1
	}
	if ns < 0 || ns > mostBetween/unit {
		return 0, false
	}
	return ns * unit, true
}

// passed counts times that cannot be.
func (t *Translator) passed(ns int64, ok bool) (int64, bool) {
	if !ok {
		t.Counts.ClockFaults++
	}
	return ns, ok
}

// link is the time from where the packet left a node to where it came to the next one.
func (t *Translator) link(from, to *stay) (ns int64, ok bool) {
	if !from.clock.shared || from.clock != to.clock || !from.hasOut || !to.hasIn {
		return 0, false
	}
	return t.passed(from.since(from.out, to, to.in))
}

// dated gives a packet the time at which the first node had it, if a clock that all nodes share says so, and that time is
// less than mostBetween from when the report came. Reports come in batches, and not in the order of what they report.
// Times of 32 bits are always that near, unless they go round slowly: they count only of a clock that is known.
func (p *Reported) dated(list []stay, came int64) {
	if len(list) == 0 || !list[0].clock.shared {
		return
	}
	raw, ok := list[0].begin()
	unit := uint64(list[0].unit)
	if list[0].short {
		if !list[0].clock.of.IsValid() && unit<<32 <= 2*uint64(mostBetween) {
			return
		}
		raw = whole(uint32(raw), uint64(came)/unit)
	}
	if !ok || raw > math.MaxInt64/unit {
		return
	}
	if ns := int64(raw * unit); max(ns, came)-min(ns, came) <= mostBetween {
		p.T0, p.Undated = uint64(ns-p.of.offset()), false
	}
}

// through is the time from the first node to the last, in which the packet was under way. At the ends
// a node may have seen it once: a source has no ingress, a sink no egress.
func (t *Translator) through(list []stay) (ns int64, ok bool) {
	if len(list) == 0 {
		return 0, false
	}
	first, last := &list[0], &list[len(list)-1]
	if !first.clock.shared || first.clock != last.clock || !first.hasIn && !first.hasOut || !last.hasIn && !last.hasOut {
		return 0, false
	}
	if len(list) == 1 && (!first.hasIn || !first.hasOut) {
		return 0, false
	}
	begin, end := first.in, last.out
	if !first.hasIn {
		begin = first.out
	}
	if !last.hasOut {
		end = last.in
	}
	return t.passed(first.since(begin, last, end))
}

// between gives a report the times between nodes; list has those of its hops.
func (t *Translator) between(r *metrics.Report, list []stay) {
	for i := 1; i < len(list); i++ {
		if ns, ok := t.link(&list[i-1], &list[i]); ok {
			r.Hops[i].Has |= metrics.HasLink
			r.Hops[i].LinkNs = uint64(ns)
		}
	}
	if ns, ok := t.through(list); ok && r.WholePath {
		r.HasThrough, r.ThroughNs = true, uint64(ns)
	}
}

// timed gives a packet the times between nodes; list has those of its hops. They are counted where
// they become metrics: here for readers, whose counts nobody sees.
func (t *Translator) timed(p *Reported, list []stay, came int64) {
	p.dated(list, came)
	faults := t.Counts.ClockFaults
	for i := 1; i < len(list); i++ {
		ns, ok := t.link(&list[i-1], &list[i])
		if !ok {
			continue
		}
		for len(p.links) < len(list) {
			p.links = append(p.links, packet.NoTime)
		}
		p.links[i] = ns
	}
	if ns, ok := t.through(list); ok {
		p.LatencyNs = ns
	}
	t.Counts.ClockFaults = faults
}

// told is when a report's packet was at the node that reports, by the report, Unix ns; 0: nobody
// asks, it does not say, or that cannot be.
func (t *Translator) told(o *Observed, at time.Time) int64 {
	if t.MostSkew == 0 {
		return 0
	}
	raw, short, ok := o.time()
	if !ok {
		t.Counts.Untimed++
		return 0
	}
	came, unit := at.UnixNano(), int64(o.TimeNs)
	if short {
		raw = whole(uint32(raw), uint64(came/unit))
	}
	if raw <= math.MaxInt64/uint64(unit) {
		if ns := int64(raw) * unit; ns > 0 && time.Duration(max(ns, came)-min(ns, came)) <= t.MostSkew {
			return ns
		}
	}
	t.Counts.Skewed++
	return 0
}

// time is when the packet left the node that reports, or came to it if it never left, or if nothing
// says so.
func (o *Observed) time() (raw uint64, short, ok bool) {
	if n := len(o.Hops); n > 0 {
		for _, f := range [...]intwire.Field{intwire.EgressTS, intwire.IngressTS} {
			if raw, ok = o.Hops[n-1].Get(f); ok {
				return raw, o.Short, true
			}
		}
	}
	return uint64(o.IngressTS), true, o.IngressTS != 0
}

// whole is the time of which 32 bits are known: that within three quarters of their period before
// now, or one quarter behind it. Reports come after what they tell; clocks differ either way.
func whole(low uint32, now uint64) uint64 {
	const period = 1 << 32
	if back := uint64(uint32(now) - low); back < period/4*3 {
		return now - back
	}
	return now + uint64(low-uint32(now))
}
