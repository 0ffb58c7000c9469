// SPDX-License-Identifier: Apache-2.0

// Package join finds radar's own stories of packets that switches inside a domain report
// (docs/design/0019-postcards-inside.md). It stands above what collects reports and what reads a domain:
// neither knows the other.
package join

import (
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// Stories are those of a domain on this machine. It is for one goroutine at a time.
type Stories struct {
	name   string
	reader *agent.Reader // nil: nothing is attached
	own    bool          // reader is ours to close
	layout *program.Layout
	due    time.Time // when to look at the domain again
}

// lookEvery is how often it is looked whether a domain has changed, or has come or gone.
const lookEvery = 200 * time.Millisecond

// Open returns the stories of a domain, which may be attached later, or anew. The caller closes them.
func Open(name string) *Stories { return &Stories{name: name, own: true} }

// Of returns the stories of a domain that somebody reads, and keeps up to date. nil: none can be told.
func Of(reader *agent.Reader) *Stories {
	layout, err := program.LayoutOf(reader.Domain.Options)
	if err != nil {
		return nil
	}
	return &Stories{reader: reader, layout: layout}
}

// Close ends reading.
func (s *Stories) Close() {
	if s.own && s.reader != nil {
		s.reader.Close()
		s.reader = nil
	}
}

// look brings the reader up to date: whether there is one.
func (s *Stories) look() bool {
	if !s.own || time.Now().Before(s.due) {
		return s.reader != nil
	}
	s.due = time.Now().Add(lookEvery)
	if s.reader != nil && s.reader.Update() != nil { // detached, or attached anew
		s.Close()
	}
	if s.reader != nil {
		return true
	}
	s.due = time.Now().Add(time.Second) // if there is none
	reader, err := agent.OpenRing(s.name)
	if err != nil {
		return false
	}
	if s.layout, err = program.LayoutOf(reader.Domain.Options); err != nil {
		reader.Close()
		return false
	}
	s.reader = reader
	return true
}

var mismatches = [...]collect.Unjoined{
	backpack.Matches: collect.Joins, backpack.Stale: collect.Stale, backpack.Foreign: collect.Foreign, backpack.Unproven: collect.Unproven,
}

// Find returns the story of a packet that a report quotes (collect.Stories).
func (s *Stories) Find(q *collect.Quote) (collect.Story, collect.Unjoined) {
	h := &q.Header
	if !s.look() || h.Version != 4 {
		return collect.Story{}, collect.Unnumbered
	}
	index, ok := s.layout.Index(h.ID, h.TTL, h.DSCP)
	if !ok {
		return collect.Story{}, collect.Unnumbered
	}
	seen := backpack.Quoted{Index: uint64(index), Proto: h.Proto, Len: h.Len, L4: q.L4, At: uint64(q.At - s.reader.Decoder.WallOffset())}
	seen.Src, seen.Dst = packet.AddrFrom4(h.Src.As4()), packet.AddrFrom4(h.Dst.As4())
	seen.SrcPort, seen.DstPort = h.SrcPort, h.DstPort
	if h.HasEcho {
		seen.SrcPort, seen.DstPort = h.EchoID, h.EchoSeq
	}
	pos, why := backpack.FindQuoted(s.reader.Maps, s.reader.Decoder, &seen, clock.Monotonic())
	if why != backpack.Matches {
		return collect.Story{}, mismatches[why]
	}
	return collect.Story{Epoch: s.reader.Domain.Epoch, Pos: pos}, collect.Joins
}

// Packet returns the packet of a story as it stands; nil: the ring has forgotten it, or the domain is gone.
func (s *Stories) Packet(of collect.Story) *packet.Packet {
	if !s.look() {
		return nil
	}
	p, _, err := backpack.FindAt(s.reader.Maps, s.reader.Decoder, backpack.Position(of), clock.Monotonic())
	if err != nil {
		return nil
	}
	return p
}

// Scope is what the numbers of packets mean that Packet has just returned.
func (s *Stories) Scope() packet.Scope { return s.reader.Decoder }

// NodeName is what a node of a packet that Packet has just returned is called.
func (s *Stories) NodeName(node uint16) string { return s.reader.Decoder.NodeName(node) }

// Record makes the record of such a packet.
func (s *Stories) Record(p *packet.Packet) record.Record { return s.reader.Decoder.Record(p) }
