// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"math"
	"slices"
)

// maxWaiting is how many arrivals wait to be put in order, at most (24 bytes each).
const maxWaiting = 65536

// order is what the order of arrival says about a flow. A train of segments is one
// arrival: its segments come at once and in order.
type order struct {
	arrivals  uint64 // packets, each segment
	reordered uint64 // packets, each segment (RFC 4737, 3.3)
	steps     uint64 // from one arrival to the next
	jitter    float64
	lastAt    uint64 // stamps of the last arrival, CLOCK_MONOTONIC ns
	lastSent  uint64
	maxSent   uint64
}

// arrival is one packet or train that has arrived.
type arrival struct {
	at, sent uint64 // last and first stamp, CLOCK_MONOTONIC ns
	n        uint32 // packets
	next     int32  // of the same flow, in the order in which they became known; -1: none
}

// arrive keeps an arrival until all that came before it are known: packets become
// final in the order in which they were sent, not in that of arrival.
func (a *Aggregates) arrive(f *flow, at, sent, n uint64) {
	if len(a.waiting) >= maxWaiting {
		// Half of them go; what arrived before those and is not known yet has been
		// overtaken by 32,768 packets.
		limit := a.middleArrival()
		a.settle(func(int64) uint64 { return limit })
	}
	a.wait(f, arrival{at: at, sent: sent, n: uint32(n), next: -1})
}

func (a *Aggregates) wait(f *flow, x arrival) {
	i := int32(len(a.waiting))
	x.next = -1
	a.waiting = append(a.waiting, x)
	if f.tail < 0 {
		f.head = i
		a.busy = append(a.busy, f)
	} else {
		a.waiting[f.tail].next = i
	}
	f.tail = i
}

// middleArrival is about the median time of those that wait.
func (a *Aggregates) middleArrival() uint64 {
	const every = 64
	var sample []uint64
	for i := 0; i < len(a.waiting); i += every {
		sample = append(sample, a.waiting[i].at)
	}
	slices.Sort(sample)
	return sample[len(sample)/2]
}

// settle puts in order, flow by flow, what arrived up to limit and waits. limit is
// asked with the longest time that a packet of the flow took.
func (a *Aggregates) settle(limit func(latencyNs int64) uint64) {
	waiting, busy := a.waiting, a.busy
	a.mostWaiting.note(len(waiting))
	a.mostBusy.note(len(busy))
	a.waiting, a.busy = reuse(a.spareWaiting, a.mostWaiting), reuse(a.spareBusy, a.mostBusy)
	a.list = reuse(a.list, a.mostWaiting)
	for _, f := range busy {
		list := a.list[:0]
		sorted := true
		for i := f.head; i >= 0; i = waiting[i].next {
			if k := len(list); k > 0 && compareArrivals(list[k-1], waiting[i]) > 0 {
				sorted = false
			}
			list = append(list, waiting[i])
		}
		f.head, f.tail, f.same = -1, -1, false
		if !sorted {
			slices.SortFunc(list, compareArrivals)
		}
		until := limit(f.times.max)
		for _, x := range list {
			if x.at > until {
				a.wait(f, x)
			} else if !f.order.add(x) {
				a.totals.OverOrder += uint64(x.n)
			}
		}
		a.list = list
	}
	a.spareWaiting, a.spareBusy = waiting, busy
}

// ofLate is how many there were at most of late: a maximum that is forgotten by an eighth each time.
type ofLate int

func (m *ofLate) note(n int) { *m = max(ofLate(n), *m-*m/8) }

// reuse empties a slice of which most elements were used of late. One with room for far more is given back:
// when the agent was not run for a second, as many arrivals as may wait do so, and at other
// times a tenth of them. A single time with few says nothing: traffic comes in bursts.
func reuse[T any](s []T, most ofLate) []T {
	const least = 1024 // elements that are not worth it
	if cap(s) > max(4*int(most), least) {
		return make([]T, 0, most)
	}
	return s[:0]
}

// compareArrivals sorts by arrival; what arrives at once, as it was sent.
func compareArrivals(x, y arrival) int {
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.sent, y.sent))
}

// settleAll puts in order all that is known.
func (a *Aggregates) settleAll() { a.settle(func(int64) uint64 { return math.MaxUint64 }) }

// add takes the next arrival. False: it is late, and what it would have said cannot
// be made good; it does not count.
func (o *order) add(x arrival) bool {
	if o.arrivals > 0 && x.at < o.lastAt {
		return false
	}
	if o.arrivals > 0 {
		// D(i-1,i) = (R_i - S_i) - (R_i-1 - S_i-1), RFC 3550, 6.4.1.
		d := float64(int64(x.at-x.sent) - int64(o.lastAt-o.lastSent))
		o.jitter += (math.Abs(d) - o.jitter) / 16
		o.steps++
	}
	if x.sent < o.maxSent {
		o.reordered += uint64(x.n)
	}
	o.maxSent = max(o.maxSent, x.sent)
	o.lastAt, o.lastSent = x.at, x.sent
	o.arrivals += uint64(x.n)
	return true
}
