// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/export"
)

// Sampler chooses packets. What it chooses follows from the packets alone, so that every process chooses the same ones.
type Sampler struct {
	OneIn      uint64 // 1 packet in so many; 0 and 1: all
	Flows      bool   // 1 flow in so many, with all of its packets, in both directions
	KeepLosses bool   // lost packets too, whatever is chosen
	Rate       uint64 // at most so many packets of a second, by the time at which they were sent; 0: all

	seconds [window]second
	SampleCounts
}

// SampleCounts are of packets that are not sent, or were only because they were lost.
type SampleCounts struct {
	NotSampled uint64 `json:"not_sampled"`
	OverRate   uint64 `json:"over_rate"`
	KeptLosses uint64 `json:"kept_losses"`
}

// window is how many seconds are counted at a time: packets come as they end, not as they were sent.
const window = 16

type second struct {
	unix int64
	n    uint64
}

// Take says whether a packet is chosen.
func (s *Sampler) Take(r *record.Record) bool {
	subject := r.ID
	if s.Flows {
		subject = flowOf(r)
	}
	chosen := export.Sampled(subject, s.OneIn)
	kept := !chosen && s.KeepLosses && (r.State == record.Lost || r.Loss != nil)
	switch {
	case !chosen && !kept:
		s.NotSampled++
		return false
	case s.Rate > 0 && !s.inRate(r.TNs/1e9):
		s.OverRate++
		return false
	}
	if kept {
		s.KeptLosses++
	}
	return true
}

// inRate counts a packet of a second.
func (s *Sampler) inRate(unix int64) bool {
	at := &s.seconds[uint64(unix)%window]
	if at.unix != unix {
		*at = second{unix: unix}
	}
	at.n++
	return at.n <= s.Rate
}

// flowOf names the flow of a packet, the same for both directions.
func flowOf(r *record.Record) string {
	end := func(address string, port *int) string {
		if port == nil {
			return address
		}
		return fmt.Sprintf("%s %d", address, *port)
	}
	a, b := end(r.Src, r.Sport), end(r.Dst, r.Dport)
	if b < a {
		a, b = b, a
	}
	id := 0
	if r.ICMPID != nil {
		id = *r.ICMPID
	}
	return fmt.Sprintf("%s > %s %s %d", a, b, r.Proto, id)
}
