// SPDX-License-Identifier: Apache-2.0

package live

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
)

// sampler chooses packets evenly out of those of one poll: no more than so many a second. What a second does not use
// is left for bursts of the next.
type sampler struct {
	rate   float64 // a second
	room   float64 // packets that may be chosen now
	last   time.Time
	most   int // of this poll
	seen   int // in this poll
	chosen []packet.Packet
	left   uint64 // packets that were not chosen, since take was called last
}

func newSampler(rate int, now time.Time) *sampler {
	return &sampler{rate: float64(rate), room: float64(rate), last: now}
}

// begin begins a poll.
func (s *sampler) begin(now time.Time) {
	s.room = min(s.rate, s.room+s.rate*now.Sub(s.last).Seconds())
	s.last, s.most, s.seen, s.chosen = now, int(s.room), 0, s.chosen[:0]
}

// add offers a packet: each of n has the same chance to be among the chosen (algorithm R).
func (s *sampler) add(p *packet.Packet) {
	s.seen++
	switch {
	case len(s.chosen) < s.most:
		s.chosen = append(s.chosen, copyOf(p))
	default:
		s.left += uint64(p.Segs)
		if i := rand.IntN(s.seen); i < len(s.chosen) {
			s.left += uint64(s.chosen[i].Segs) - uint64(p.Segs)
			s.chosen[i] = copyOf(p)
		}
	}
}

// end ends a poll: the chosen, those that were sent first before the others.
func (s *sampler) end() []packet.Packet {
	s.room -= float64(len(s.chosen))
	slices.SortFunc(s.chosen, func(a, b packet.Packet) int {
		if a.T0 < b.T0 {
			return -1
		}
		return 1
	})
	return s.chosen
}

func copyOf(p *packet.Packet) packet.Packet {
	c := *p
	c.Hops, c.Drops = slices.Clone(p.Hops), slices.Clone(p.Drops)
	return c
}
