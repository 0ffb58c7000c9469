// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"strconv"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Record makes the record of a packet. It shares no memory with p.
func (d *Decoder) Record(p *packet.Packet) record.Record {
	var r record.Record
	d.record(&r, p, new(memory))
	return r
}

// record makes the record of a packet, and keeps in m what that points to.
func (d *Decoder) record(r *record.Record, p *packet.Packet, m *memory) {
	d.fill(r, p, m)
	b := Position{d.epoch, p.Pos}.appendID(d.text[:0])
	id := len(b)
	b = strconv.AppendUint(append(b, "0x"...), p.Pos&(d.slots-1), 16)
	guid := len(b)
	b = record.AppendTime(b, &d.clock, r.TNs)
	d.text = b
	text := string(b) // one for all
	r.ID, r.GUID, r.Time = text[:id], text[id:guid], text[guid:]
}

// Recorder makes records one after the other, all in the same memory.
type Recorder struct {
	dec *Decoder
	rec record.Record
	mem memory
}

// NewRecorder makes a Recorder for the packets of a Decoder. Bare records lack what takes a while
// and only some want: ID, GUID and Time, and the function that freed a packet after delivery for a
// reason that is known.
func NewRecorder(d *Decoder, bare bool) *Recorder {
	return &Recorder{dec: d, mem: memory{bare: bare}}
}

// Record makes the record of a packet, which is valid until the next call.
func (m *Recorder) Record(p *packet.Packet) *record.Record {
	if m.mem.bare {
		m.dec.fill(&m.rec, p, &m.mem)
	} else {
		m.dec.record(&m.rec, p, &m.mem)
	}
	return &m.rec
}

// memory is what a record points to, in a few allocations.
type memory struct {
	hops  []record.Hop
	times []int64
	ints  []int
	loss  record.Loss
	bare  bool // see NewRecorder
}

// reset makes room for a record with so many hops: its pointers must stay valid
// while the slices fill.
func (m *memory) reset(hops int) {
	if cap(m.hops) < hops || m.hops == nil { // a record without hops has an empty list
		m.hops = make([]record.Hop, hops)
		m.times = make([]int64, 0, 5*hops+2)
		m.ints = make([]int, 0, 3*hops+10)
	}
	m.hops, m.times, m.ints = m.hops[:hops], m.times[:0], m.ints[:0]
}

// time keeps ns; nil if it is not known.
func (m *memory) time(ns int64) *int64 {
	if ns == packet.NoTime {
		return nil
	}
	m.times = append(m.times, ns)
	return &m.times[len(m.times)-1]
}

func (m *memory) int(n int) *int {
	m.ints = append(m.ints, n)
	return &m.ints[len(m.ints)-1]
}

// fill sets all of r but ID, GUID and Time.
func (d *Decoder) fill(r *record.Record, p *packet.Packet, m *memory) {
	m.reset(len(p.Hops))
	*r = record.Record{
		V:         record.Version,
		Source:    record.EBPF,
		Host:      d.host,
		State:     p.State,
		TNs:       p.UnixNs(d),
		Segs:      p.Segs,
		LatencyNs: m.time(p.LatencyNs),
		Hops:      m.hops,
		Moved:     p.Moved,
		Truncated: p.Truncated,
	}
	if p.Inner != 0 {
		r.Inner = d.id(p.Inner)
	}
	p.FillHeader(r, func(a packet.Addr) string { return d.addrString(a, p.IPv6) }, m.int)
	d.fillHops(r.Hops, p, m)
	d.fillDrops(r, p)
	if p.Lost || p.LocalDrop || p.Missing {
		loss := p.Loss
		if m.bare && p.LocalDrop && !p.Lost && !p.Missing && loss.Reason != "" && loss.Reason != record.NotSpecified {
			loss.Function = nil
		}
		d.fillLoss(&m.loss, &loss, m)
	}
	if p.Lost || p.Missing {
		r.Loss = &m.loss
	}
	if p.LocalDrop {
		r.LocalDrop = &m.loss
	}
}

// id is the id of the packet at a position.
func (d *Decoder) id(pos uint64) string { return Position{d.epoch, pos}.ID() }

func (d *Decoder) fillHops(hops []record.Hop, p *packet.Packet, m *memory) {
	for i := range p.Hops {
		h := &p.Hops[i]
		hops[i] = record.Hop{
			Node:      d.NodeName(h.Node),
			NodeID:    int(h.Node),
			InPort:    d.PortName(h.In),
			Port:      d.PortName(h.Out),
			Role:      role(p, i),
			AtNs:      m.time(p.StampNs(i)),
			NodeNs:    m.time(h.NodeNs()),
			QueueNs:   m.time(h.QueueNs()),
			LinkNs:    m.time(p.LinkNs(i)),
			LatencyNs: m.time(p.HopNs(i)),
			Copy:      h.Copy,
			Gap:       h.Gap,
			Outcome:   h.Outcome,
		}
		if prev := p.Prev(i); prev != i-1 {
			hops[i].Prev = m.int(prev)
		}
		if h.Node == packet.NoNode {
			hops[i].NodeID = 0
		}
		if h.Changed {
			d.fillChange(&hops[i], p, p.TupleBefore(i), h.Tuple, m)
		}
	}
}

// fillChange sets those fields of the tuple that changed in a hop.
func (d *Decoder) fillChange(h *record.Hop, p *packet.Packet, from, to packet.Tuple, m *memory) {
	if !p.HasTuple || from.Src != to.Src {
		h.Src = d.addrString(to.Src, p.IPv6)
	}
	if !p.HasTuple || from.Dst != to.Dst {
		h.Dst = d.addrString(to.Dst, p.IPv6)
	}
	if !p.HasPorts() {
		return
	}
	if from.SrcPort != to.SrcPort {
		h.Sport = m.int(int(to.SrcPort))
	}
	if from.DstPort != to.DstPort {
		h.Dport = m.int(int(to.DstPort))
	}
}

// role is the role that hop i played.
func role(p *packet.Packet, i int) record.Role {
	switch {
	case i == 0 && p.HasTuple: // with the head, the log begins with the source
		return record.Source
	case p.Tree:
		if s := p.Hops[i].Outcome; s == record.Delivered || s == record.Left {
			return record.Sink
		}
	case i == len(p.Hops)-1 && !p.Open && (p.State == record.Delivered || p.State == record.Left):
		return record.Sink
	}
	return record.Transit
}

// fillDrops lists where copies of a packet were freed.
func (d *Decoder) fillDrops(r *record.Record, p *packet.Packet) {
	for i := range p.Drops {
		dr := &p.Drops[i]
		l := record.BranchLoss{Hop: dr.Hop, AfterDelivery: dr.Local}
		d.fillLoss(&l.Loss, &dr.Drop, new(memory))
		r.Losses = append(r.Losses, l)
	}
}

func (d *Decoder) fillLoss(l *record.Loss, dr *packet.Drop, m *memory) {
	*l = record.Loss{
		Node:     d.NodeName(dr.Node),
		Port:     d.PortName(dr.Port),
		At:       dr.At,
		Reason:   dr.Reason,
		Qdisc:    dr.Qdisc,
		Function: dr.Function.Name(),
		AtNs:     m.time(dr.AtNs),
	}
	if dr.First {
		l.Skbs = 1
	}
}

// addrString renders an address, with a bounded cache: few hosts send most packets.
func (d *Decoder) addrString(a packet.Addr, ipv6 bool) string {
	key := address{a, ipv6}
	s, ok := d.addrs[key]
	if !ok {
		s = a.Text(ipv6)
		if len(d.addrs) < maxNames {
			d.addrs[key] = s
		}
	}
	return s
}
