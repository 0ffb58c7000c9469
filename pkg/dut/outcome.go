// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Outcome is what became of a trial's packets.
type Outcome struct {
	Trial
	Tried   int    // numbers that the sender has used
	Sent    int    // packets that left the port, and were stamped
	Resized uint64 // packets that came with another length
	Late    uint64 // packets of trials before
	In, Out Counters

	SentPPS float64 // between the first packet and the last one
	Streams []Stream
}

// Directions of streams.
const (
	Forward = "forward" // from in to out
	Reverse = "reverse" // back
	Round   = "round"   // both together, without the time between
)

// Stream is what became of the packets in one direction.
type Stream struct {
	Direction  string
	Sent       int
	Received   int
	Duplicated int // more copies than one of each packet
	Reordered  int // packets that came after one with a higher number (RFC 4737)
	Delays     []int64
	// CamePPS is the rate at which the later half of the packets came: a burst at the beginning, which
	// a bucket of tokens lets pass, is not in it. 0: there are too few.
	CamePPS float64
	// Standing is how much longer each of that half took than the fastest packet of all, in ns: the
	// wait in a queue that was never empty.
	Standing int64
}

// Lost is how many packets did not come.
func (s *Stream) Lost() int { return s.Sent - s.Received }

func newOutcome(t Trial, stamps []bpfobj.DutStamps, round bool) *Outcome {
	o := &Outcome{Trial: t}
	var first, last uint64
	for i := range stamps {
		if at := stamps[i].AtNs[pointSent]; at != 0 {
			if o.Sent++; first == 0 {
				first = at
			}
			last = at // they are sent in their order
		}
	}
	if o.Sent > 1 && last > first {
		o.SentPPS = float64(o.Sent-1) * 1e9 / float64(last-first)
	}
	o.Streams = append(o.Streams, newStream(Forward, stamps, pointSent, pointReceived))
	if round {
		o.Streams = append(o.Streams, newStream(Reverse, stamps, pointReturned, pointBack), newRound(stamps))
	}
	return o
}

// arrival is when a packet came, and how long it took.
type arrival struct {
	at, took uint64
	seq      int
}

// later looks at the later half of packets, in the order in which they came.
func (s *Stream) later(came []arrival) {
	n := len(came)
	if n < 4 {
		return
	}
	half := came[n/2:]
	if from, to := came[n/2-1].at, came[n-1].at; to > from {
		s.CamePPS = float64(len(half)) * 1e9 / float64(to-from)
	}
	least := func(list []arrival) uint64 {
		return slices.MinFunc(list, func(a, b arrival) int { return cmp.Compare(a.took, b.took) }).took
	}
	s.Standing = int64(least(half) - least(came))
}

// newStream is what came at a point of what was seen at one before it.
func newStream(direction string, stamps []bpfobj.DutStamps, from, to bpfobj.DutPoint) Stream {
	s := Stream{Direction: direction}
	var came []arrival
	for i := range stamps {
		p := &stamps[i]
		if p.AtNs[from] == 0 {
			continue
		}
		s.Sent++
		if p.AtNs[to] == 0 {
			continue
		}
		s.Received++
		s.Duplicated += max(int(p.Seen[to])-int(p.Seen[from]), 0)
		s.Delays = append(s.Delays, int64(p.AtNs[to]-p.AtNs[from]))
		came = append(came, arrival{p.AtNs[to], p.AtNs[to] - p.AtNs[from], i})
	}
	slices.SortStableFunc(came, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	s.later(came)
	highest := -1
	for _, a := range came {
		if a.seq < highest {
			s.Reordered++
		}
		highest = max(highest, a.seq)
	}
	return s
}

// newRound joins both directions of each packet.
func newRound(stamps []bpfobj.DutStamps) Stream {
	s := newStream(Round, stamps, pointSent, pointBack)
	s.Delays = s.Delays[:0]
	for i := range stamps {
		at := &stamps[i].AtNs
		if at[pointSent] != 0 && at[pointBack] != 0 {
			s.Delays = append(s.Delays, int64(at[pointReceived]-at[pointSent]+at[pointBack]-at[pointReturned]))
		}
	}
	return s
}
