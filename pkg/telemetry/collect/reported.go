// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"strconv"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Reported is a packet that reports tell of, as numbers. Those of its nodes and ports are the
// Translator's, of an own packet the domain's; its stamps are of the same clock.
type Reported struct {
	packet.Packet
	// Own is radar's own packet, to whose story nodes have added what they said. Zero: reports alone
	// tell of it.
	Own Story
	// Said is what the node of each hop has said. Of an own packet those that have said nothing have
	// no field.
	Said []intwire.Values

	links  []int64 // ns from the hop before, by hop; empty: none is known
	lostAt int     // the hop at which it was lost, if it was
	id     reportID
	of     *Translator
}

// reportID is what a record of a report is named by: the number of the datagram, and the report's among
// those that quote a packet in it, from 1.
type reportID struct {
	datagram uint64
	nth      int
}

// IsOwn reports whether it is one of radar's own packets.
func (p *Reported) IsOwn() bool { return p.Own != (Story{}) }

// Copy makes to the same packet, in memory that to has.
func (p *Reported) Copy(to *Reported) {
	hops, drops, said, links := to.Hops[:0], to.Drops[:0], to.Said[:0], to.links[:0]
	*to = *p
	to.Hops, to.Drops = append(hops, p.Hops...), append(drops, p.Drops...)
	to.Said, to.links = append(said, p.Said...), append(links, p.links...)
}

// reset makes it a packet of reports alone, without hops, in the memory that it has.
func (p *Reported) reset(t *Translator, at int64, id reportID) {
	hops, links := p.Hops[:0], p.links[:0]
	*p = Reported{of: t, id: id, lostAt: -1, links: links}
	p.T0, p.State, p.LatencyNs, p.Segs = uint64(at-t.offset()), record.Left, packet.NoTime, 1
	p.Apart, p.Undated = true, true
	p.Hops = hops
}

// add adds the hop of a node. unit is how many ns its latency counts by.
func (p *Reported) add(v *intwire.Values, unit uint32) {
	h := packet.Hop{
		Node: packet.NoNode, In: packet.NoPort, Out: packet.NoPort,
		InNs: packet.NoTime, OutNs: packet.NoTime, DequeueNs: packet.NoTime,
	}
	if raw, ok := v.Get(intwire.HopLatency); ok {
		h.InNs, h.OutNs = 0, int64(raw)*int64(unit)
	}
	if numbers := p.of.Numbers; numbers != nil {
		if id, ok := v.Get(intwire.NodeID); ok {
			h.Node = p.of.number(uint32(id))
		}
		if port, ok := v.Get(intwire.L1In); ok {
			h.In = numbers.Port(h.Node, port)
		}
		if port, ok := v.Get(intwire.L1Out); ok {
			h.Out = numbers.Port(h.Node, port)
		}
	}
	p.Hops = append(p.Hops, h)
}

// sum sets the latency to the time in all nodes; not known unless all say theirs.
func (p *Reported) sum() {
	p.LatencyNs = packet.NoTime
	sum := int64(0)
	for i := range p.Hops {
		ns := p.Hops[i].NodeNs()
		if ns == packet.NoTime {
			return
		}
		sum += ns
	}
	if len(p.Hops) > 0 && sum >= 0 {
		p.LatencyNs = sum
	}
}

// lose says that the node at a hop dropped the packet; -1: nobody has said which.
func (p *Reported) lose(at int, reason string) {
	p.State, p.Lost, p.lostAt = record.Lost, true, at
	p.Loss = packet.Drop{Node: packet.NoNode, Port: packet.NoPort, At: record.AtNode, Reason: reason, AtNs: packet.NoTime, First: true}
	if at >= 0 {
		p.Loss.Node, p.Loss.Port = p.Hops[at].Node, p.Hops[at].Out
	}
}

// Record makes the record of the packet, which shares no memory with it.
func (p *Reported) Record() *record.Record {
	if p.IsOwn() {
		r := p.of.Stories.Record(&p.Packet)
		for i := range r.Hops {
			r.Hops[i].INT = p.INT(i)
		}
		return &r
	}
	r := &record.Record{
		V: record.Version, Source: record.INT, Host: p.of.host(), ID: p.of.recordID(p.id), State: p.State, TNs: int64(p.T0) + p.of.offset(),
		Segs: p.Segs, Truncated: p.Truncated, Unordered: p.Tree, LatencyNs: knownNs(p.LatencyNs), Hops: make([]record.Hop, len(p.Hops)),
	}
	r.Time = record.TimeString(r.TNs)
	p.FillHeader(r, func(a packet.Addr) string { return a.Text(p.IPv6) }, func(n int) *int { return &n })
	for i := range p.Hops {
		p.fillHop(r, i)
	}
	if p.Lost {
		r.Loss = &record.Loss{Node: "?", At: p.Loss.At, Reason: p.Loss.Reason, Skbs: 1}
		if at := p.lostAt; at >= 0 {
			r.Loss.Node, r.Loss.Port = r.Hops[at].Node, r.Hops[at].Port
		}
	}
	return r
}

// fillHop sets what a record says of a hop. Names are those that nodes give themselves, of which there
// may be more than there are numbers.
func (p *Reported) fillHop(r *record.Record, i int) {
	h, v := &r.Hops[i], &p.Said[i]
	*h = record.Hop{Node: "?", InPort: portName(v, intwire.L1In), Port: portName(v, intwire.L1Out), NodeNs: knownNs(p.Hops[i].NodeNs()), INT: p.INT(i)}
	if id, ok := v.Get(intwire.NodeID); ok {
		h.Node = p.of.NodeName(uint32(id))
	}
	if len(p.links) > 0 {
		h.LinkNs = knownNs(p.links[i])
	}
	switch {
	case p.Tree:
		none := -1
		h.Prev, h.Role = &none, record.Transit
	case i == 0:
		h.Role = record.Source
	case i == len(p.Hops)-1:
		h.Role = record.Sink
	default:
		h.Role = record.Transit
	}
}

func portName(v *intwire.Values, f intwire.Field) string {
	port, ok := v.Get(f)
	if !ok {
		return ""
	}
	return strconv.FormatUint(port, 10)
}

// knownNs is a time; nil if it is not known.
func knownNs(ns int64) *int64 {
	if ns == packet.NoTime {
		return nil
	}
	return &ns
}

// INT is what the node of a hop has said, by the names of docs/int/decode.md; nil: nothing.
func (p *Reported) INT(hop int) map[string]uint64 {
	if hop >= len(p.Said) || p.Said[hop].Has == 0 {
		return nil
	}
	said := make(map[string]uint64)
	for f := range intwire.NumFields {
		if value, ok := p.Said[hop].Get(f); ok {
			said[f.String()] = value
		}
	}
	return said
}

// ID is the record's.
func (p *Reported) ID() string { return p.of.recordID(p.id) }

// Nodes are what the nodes of the hops are called, where one of them has no number; else nil. Of packets that reports
// alone tell of.
func (p *Reported) Nodes() []string {
	if !slices.ContainsFunc(p.Hops, func(h packet.Hop) bool { return h.Node == packet.NoNode }) {
		return nil
	}
	names := make([]string, len(p.Hops))
	for i := range names {
		names[i] = "?"
		if id, ok := p.Said[i].Get(intwire.NodeID); ok {
			names[i] = p.of.NodeName(uint32(id))
		}
	}
	return names
}

// Links are the ns from the hop before, by hop, packet.NoTime where not known; empty: none is.
func (p *Reported) Links() []int64 { return p.links }

// LostAt is the hop at which it was lost; -1: nobody has said which, or it was not.
func (p *Reported) LostAt() int { return p.lostAt }
