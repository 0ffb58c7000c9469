// SPDX-License-Identifier: Apache-2.0

// Package recording reads what was recorded in segments: packets, each once, with their records, and the domain as it
// was.
package recording

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// Recording is a directory of segments that is read, or one of them alone. Records are for one goroutine.
type Recording struct {
	Dir   *segments.Dir
	Scope packet.Scope
	Last  State

	names *packet.Recorder
}

// Open opens one.
func Open(path string) (*Recording, error) {
	dir, err := segments.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %w", err)
	}
	r := &Recording{Dir: dir, Scope: dir.Scope(), names: packet.NewRecorder(dir.Scope())}
	if err := r.Last.read(dir); err != nil {
		return nil, fmt.Errorf("read recording %s: %w", path, err)
	}
	return r, nil
}

// Again is the same recording for another goroutine.
func (r *Recording) Again() *Recording {
	return r.In(r.Scope)
}

// In is the same recording for another goroutine, whose nodes and ports have the names that a scope gives them.
func (r *Recording) In(scope packet.Scope) *Recording {
	own := *r
	own.Scope, own.names = scope, packet.NewRecorder(scope)
	return &own
}

// Record makes the record of a packet that was kept. It shares no memory with it.
func (r *Recording) Record(p *segments.Packet) *record.Record {
	rec := new(record.Record)
	r.names.Fill(rec, &p.Packet, new(packet.Memory))
	rec.ID, rec.GUID, rec.Inner, rec.Source, rec.Host = p.ID, p.GUID, p.Inner, p.Source, p.Host
	rec.Time = record.TimeString(rec.TNs)
	for i := range min(len(rec.Hops), len(p.INT)) {
		rec.Hops[i].INT = p.INT[i].Map()
	}
	if p.Source == record.INT {
		reportedRecord(rec, p)
	}
	return rec
}

// reportedRecord corrects what differs for a packet that only reports have shown: nodes are no domain's, and have no
// clock in common.
func reportedRecord(r *record.Record, p *segments.Packet) {
	r.Unordered = p.Tree
	for i := range r.Hops {
		h := &r.Hops[i]
		h.NodeID, h.AtNs, h.Prev = 0, nil, nil
		if p.Nodes != nil {
			h.Node = p.Nodes[i]
		}
		if p.Links != nil && p.Links[i] != packet.NoTime {
			ns := p.Links[i]
			h.LinkNs = &ns
		}
		switch {
		case p.Tree:
			none := -1
			h.Prev, h.Role = &none, record.Transit
		case i == 0:
			h.Role = record.Source
		case i == len(r.Hops)-1:
			h.Role = record.Sink
		default:
			h.Role = record.Transit
		}
	}
	if r.Loss != nil {
		r.Loss.Node, r.Loss.Port = "?", ""
		if at := p.LossHop - 1; at >= 0 && at < len(r.Hops) {
			r.Loss.Node, r.Loss.Port = r.Hops[at].Node, r.Hops[at].Port
		}
	}
}

// Read calls fn for every packet, oldest first. One that is there twice, of a recorder and of a collector, comes
// once: as the recorder has kept it, with what switches have said. More packets with one first stamp than are kept
// in memory are merged in parts.
func (r *Recording) Read(ctx context.Context, since, until time.Time, fn func(*segments.Packet) error) error {
	m := merge{fn: fn}
	if err := r.Dir.Read(ctx, since, until, m.add); err != nil {
		return err
	}
	return m.give()
}

// Cloned is a packet in memory of its own.
func Cloned(p *segments.Packet) *segments.Packet {
	c := new(segments.Packet)
	copyPacket(c, p)
	return c
}

// copyPacket makes to the same packet, in memory that to has.
func copyPacket(to, p *segments.Packet) {
	hops, drops := to.Hops[:0], to.Drops[:0]
	*to = *p
	to.Hops, to.Drops = append(hops, p.Hops...), append(drops, p.Drops...)
	to.INT, to.Nodes, to.Links = slices.Clone(p.INT), slices.Clone(p.Nodes), slices.Clone(p.Links)
}
