// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"math/bits"

	"github.com/vnetradar/radar/pkg/packet"
)

// MaxSums bounds the sums that are kept: one for each flow and place, about 100 bytes each.
const MaxSums = 1 << 18

// Place is where packets are counted without being measured: a port of a node, and a direction.
type Place struct {
	Node, Port uint16 // packet.NoPort: at the node as a whole
	Out        bool   // packets that leave by the port; else those that come in
}

// FlowSum is what was counted of one flow at one place. Sums of the same flow and place add up, so whoever reads a
// counter that only grows gives the difference to its last reading.
type FlowSum struct {
	Key   FlowKey
	Place Place

	Packets, Bytes uint64 // bytes of IP
	First, Last    uint64 // stamps of the first and the last packet, by the clock of packets' stamps
}

// sum is what was counted of a flow at one place.
type sum struct {
	packets, bytes uint64
	first, last    uint64
}

// add adds what was counted from one stamp to another. Signed: stamps of others may be older than the clock.
func (s *sum) add(o sum) {
	if s.packets == 0 || int64(o.first) < int64(s.first) {
		s.first = o.first
	}
	if s.packets == 0 || int64(o.last) > int64(s.last) {
		s.last = o.last
	}
	s.packets += o.packets
	s.bytes += o.bytes
}

// AddSum counts packets of a flow that passed a place and were not measured one by one: what became of them, how long
// they took and by which path they went stays unknown. A flow may be counted at many places, and be measured as well.
func (a *Aggregates) AddSum(s *FlowSum) {
	if s.Packets == 0 {
		return
	}
	places := a.sums[s.Key]
	of := places[s.Place]
	if of == nil {
		if a.sumCount >= MaxSums {
			a.totals.OverSums += s.Packets
			return
		}
		if places == nil {
			places = make(map[Place]*sum)
			a.sums[s.Key] = places
		}
		of = new(sum)
		places[s.Place] = of
		a.sumCount++
	}
	of.add(sum{s.Packets, s.Bytes, s.First, s.Last})
}

// total is what the sums of a flow say together. A packet is counted at every place that it passes, so places do not add
// up: the one that counted most packets stands for all. That is never more than the flow had, unless packets went round in
// a circle; it is less where its packets were spread over ports of which none saw all of them. Of places that counted
// alike, the one with most bytes counts. The times are those of all places.
func total(places map[Place]*sum) (t sum) {
	all := sum{}
	for _, s := range places {
		all.add(*s)
		if s.packets > t.packets || s.packets == t.packets && s.bytes > t.bytes {
			t.packets, t.bytes = s.packets, s.bytes
		}
	}
	t.first, t.last = all.first, all.last
	return t
}

// widen makes the flow one of all packets that were counted. Measured packets are counted at places as well, so they are
// not added up either: the sums count if they have more.
func (f *flow) widen(t sum) (unmeasured uint64) {
	if t.packets == 0 {
		return 0
	}
	if f.packets == 0 || int64(t.first) < int64(f.first) {
		f.first = t.first
	}
	if f.packets == 0 || int64(t.last) > int64(f.last) {
		f.last = t.last
	}
	if t.packets <= f.packets {
		return 0
	}
	unmeasured = t.packets - f.packets
	f.packets, f.bytes = t.packets, t.bytes
	return unmeasured
}

// summedFlows calls fn with each flow as sums make it, and how many of its packets were not measured. fn may not keep
// the flow, which is a copy.
func (a *Aggregates) summedFlows(fn func(measured, all *flow, unmeasured uint64)) {
	for key, places := range a.sums {
		measured := a.flows[key]
		all := flow{key: key, head: -1, tail: -1}
		if measured != nil {
			all = *measured
		}
		fn(measured, &all, all.widen(total(places)))
	}
}

// unmeasured are the packets and bytes that only sums have. Packets without a flow of their own may be the same ones, so
// these are taken off. How many bytes these have is not known: as many each as the rest.
func (a *Aggregates) unmeasured() (packets, bytes uint64) {
	a.summedFlows(func(measured, all *flow, unmeasured uint64) {
		if unmeasured == 0 {
			return
		}
		packets, bytes = packets+unmeasured, bytes+all.bytes
		if measured != nil {
			bytes -= min(all.bytes, measured.bytes)
		}
	})
	known := a.totals.OverFlows + a.totals.NoFlow
	if known >= packets {
		return 0, 0
	}
	left := packets - known
	high, low := bits.Mul64(bytes, left)
	bytes, _ = bits.Div64(high, low, packets) // left is less than packets, so the quotient has room
	return left, bytes
}

// counted are the packets and bytes at each port, by direction, that sums have.
func (a *Aggregates) counted() map[Place]sum {
	all := make(map[Place]sum)
	for _, places := range a.sums {
		for place, s := range places {
			if place.Port != packet.NoPort {
				t := all[place]
				t.add(*s)
				all[place] = t
			}
		}
	}
	return all
}

// visited are the packets and bytes that came to each node or began there. What came in and what went out are the same
// packets but for those that began or ended there, so of each flow the larger of the two counts.
func (a *Aggregates) visited() map[uint16]sum {
	all := make(map[uint16]sum)
	for _, places := range a.sums {
		nodes := make(map[uint16]*[2]sum)
		for place, s := range places {
			of := nodes[place.Node]
			if of == nil {
				of = new([2]sum)
				nodes[place.Node] = of
			}
			if place.Out {
				of[1].add(*s)
			} else {
				of[0].add(*s)
			}
		}
		for node, of := range nodes {
			more := of[0]
			if of[1].packets > more.packets {
				more = of[1]
			}
			t := all[node]
			t.add(more)
			all[node] = t
		}
	}
	return all
}
