// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Selection says which packets are asked for. The zero value asks for all.
type Selection struct {
	Since time.Time // sent then or later; zero: ever
	Until time.Time // sent before; zero: ever
	Last  int       // the newest so many; 0: all
	First int       // of these the oldest so many, where records are asked for; 0: all

	filter   *filter.Filter
	anyState *filter.Filter // the same, whatever became of the packet
	expr     *filter.Expr   // nil: none
	also     *Selection     // whose filter must match too; nil: none

	filtered  bool // filter or expr ask for anything
	flowsOnly bool // whether they want a packet is the same for all packets of its flow
	ofFlow    bool // some of what they ask is
}

// Select makes a Selection of values as users write them. Its error names the field of Spec, and says what
// that takes.
func Select(spec filter.Spec) (*Selection, error) {
	s := &Selection{flowsOnly: spec.OnlyFlow(), ofFlow: spec.AsksFlow()}
	s.filtered = s.ofFlow || !s.flowsOnly
	var err error
	if s.filter, err = filter.Parse(spec); err != nil {
		return nil, err
	}
	spec.State = ""
	if s.anyState, err = filter.Parse(spec); err != nil {
		return nil, err
	}
	return s, nil
}

// Narrow asks for what an expression in tcpdump's language matches, too. The error is filter.ErrNotBuilt, or
// says what is wrong with the text, or what records cannot tell.
func (s *Selection) Narrow(text string) error {
	e, err := filter.Compile(text)
	if err != nil {
		return err
	}
	return s.NarrowBy(e)
}

// NarrowBy is Narrow by a compiled expression.
func (s *Selection) NarrowBy(e *filter.Expr) error {
	if err := e.CheckRecords(); err != nil {
		return err
	}
	s.expr, s.filtered = e, true
	s.flowsOnly = s.flowsOnly && e.OnlyFlow()
	s.ofFlow = s.ofFlow || e.OnlyFlow()
	return nil
}

// IsAll reports whether every packet is asked for.
func (s *Selection) IsAll() bool {
	return !s.filtered && s.Since.IsZero() && s.Until.IsZero() && s.Last == 0 && s.First == 0
}

// Within asks for what another selection asks for, too: its times, Last and First become this one's.
func (s *Selection) Within(o *Selection) {
	s.Since, s.Until, s.Last, s.First, s.also = o.Since, o.Until, o.Last, o.First, o
	s.filtered = s.filtered || o.filtered
	s.flowsOnly = s.flowsOnly && o.flowsOnly
	s.ofFlow = s.ofFlow || o.ofFlow
}

// Nodes are the names of nodes of which a packet must have visited one; nil: any will do.
func (s *Selection) Nodes() []string { return s.filter.Nodes() }

// Wants reports whether packets in this state are asked for by name.
func (s *Selection) Wants(state record.State) bool { return slices.Contains(s.filter.States(), state) }

// Match reports whether a packet is asked for; of says what its numbers mean.
func (s *Selection) Match(p *packet.Packet, of packet.Scope) bool {
	return s.inTime(p, of) && s.keep(p, of)
}

// keep is Match at any time.
func (s *Selection) keep(p *packet.Packet, of packet.Names) bool {
	return s.filter.Match(p, of) && (s.expr == nil || s.expr.Match(p)) && (s.also == nil || s.also.keep(p, of))
}

// keepFlow reports whether packets of the packet's flow can be asked for.
func (s *Selection) keepFlow(p *packet.Packet) bool {
	return s.filter.MatchFlow(p) && (s.expr == nil || !s.expr.OnlyFlow() || s.expr.Match(p)) &&
		(s.also == nil || s.also.keepFlow(p))
}

// matchAnyState is Match, whatever became of the packet.
func (s *Selection) matchAnyState(p *packet.Packet, of packet.Scope) bool {
	return s.inTime(p, of) && s.anyState.Match(p, of) && (s.expr == nil || s.expr.Match(p)) &&
		(s.also == nil || s.also.keep(p, of))
}

// inTime reports whether the packet was sent when it is asked for.
func (s *Selection) inTime(p *packet.Packet, of packet.Scope) bool {
	return (s.Since.IsZero() || p.UnixNs(of) >= s.Since.UnixNano()) && (s.Until.IsZero() || p.UnixNs(of) < s.Until.UnixNano())
}

// Ring is what a reader of the ring is asked for; Last, First and times are not in it.
func (s *Selection) Ring() backpack.Select {
	p := backpack.Select{States: s.filter.States()}
	if s.ofFlow {
		p.Flow = s.keepFlow
	}
	if s.filtered || !s.Since.IsZero() || !s.Until.IsZero() {
		p.Match = s.Match
	}
	return p
}

// Scan is what one reading of the ring, which begins now, is asked for.
func (s *Selection) Scan() backpack.ScanOptions {
	o := backpack.ScanOptions{Last: s.Last, Select: s.Ring()}
	if !s.Since.IsZero() {
		// A little more than the time since then: the exact one is compared with each packet's.
		o.Since = max(time.Since(s.Since)+time.Second, time.Nanosecond)
	}
	return o
}

// ScanEnded is Scan without packets that are in flight.
func (s *Selection) ScanEnded() backpack.ScanOptions {
	o := s.Scan()
	o.Match = func(p *packet.Packet, of packet.Scope) bool { return p.State != record.InFlight && s.Match(p, of) }
	return o
}
