// SPDX-License-Identifier: Apache-2.0

package packet

import "github.com/vnetradar/radar/pkg/record"

// mostAddresses bounds the cache of rendered addresses.
const mostAddresses = 1 << 14

// Recorder makes records of the packets of a Scope: of all that a Packet has. What it has not, such as the
// record's ID, GUID and Time, whoever has measured the packet adds.
type Recorder struct {
	of    Scope
	addrs map[address]string
}

// address is an address and its IP version.
type address struct {
	Addr
	ipv6 bool
}

// NewRecorder makes a Recorder of the packets of a Scope.
func NewRecorder(of Scope) *Recorder { return &Recorder{of: of, addrs: make(map[address]string)} }

// Memory is what a record points to, in a few allocations. It can be used again.
type Memory struct {
	// Bare leaves out the function that freed a packet after delivery for a reason that is known: looking
	// it up takes a while.
	Bare bool

	hops  []record.Hop
	times []int64
	ints  []int
	loss  record.Loss
}

// reset makes room for a record with so many hops: its pointers must stay valid
// while the slices fill.
func (m *Memory) reset(hops int) {
	if cap(m.hops) < hops || m.hops == nil { // a record without hops has an empty list
		m.hops = make([]record.Hop, hops)
		m.times = make([]int64, 0, 5*hops+2)
		m.ints = make([]int, 0, 3*hops+16)
	}
	m.hops, m.times, m.ints = m.hops[:hops], m.times[:0], m.ints[:0]
}

// time keeps ns; nil if it is not known.
func (m *Memory) time(ns int64) *int64 {
	if ns == NoTime {
		return nil
	}
	m.times = append(m.times, ns)
	return &m.times[len(m.times)-1]
}

func (m *Memory) int(n int) *int {
	m.ints = append(m.ints, n)
	return &m.ints[len(m.ints)-1]
}

// Fill sets all of r that p has, and keeps in m what that points to.
func (d *Recorder) Fill(r *record.Record, p *Packet, m *Memory) {
	m.reset(len(p.Hops))
	*r = record.Record{
		V:         record.Version,
		Source:    record.EBPF,
		Host:      d.of.Host(),
		State:     p.State,
		TNs:       p.UnixNs(d.of),
		Segs:      p.Segs,
		LatencyNs: m.time(p.LatencyNs),
		Hops:      m.hops,
		Moved:     p.Moved,
		Truncated: p.Truncated,
	}
	p.FillHeader(r, func(a Addr) string { return d.addrString(a, p.IPv6) }, m.int)
	d.fillHops(r.Hops, p, m)
	d.fillDrops(r, p)
	if p.Lost || p.LocalDrop || p.Missing {
		loss := p.Loss
		if m.Bare && p.LocalDrop && !p.Lost && !p.Missing && loss.Reason != "" && loss.Reason != record.NotSpecified {
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

func (d *Recorder) fillHops(hops []record.Hop, p *Packet, m *Memory) {
	for i := range p.Hops {
		h := &p.Hops[i]
		hops[i] = record.Hop{
			Node:        d.of.NodeName(h.Node),
			NodeID:      int(h.Node),
			InPort:      d.of.PortName(h.In),
			Port:        d.of.PortName(h.Out),
			Role:        role(p, i),
			AtNs:        m.time(p.StampNs(i)),
			NodeNs:      m.time(h.NodeNs()),
			QueueNs:     m.time(h.QueueNs()),
			LinkNs:      m.time(p.LinkNs(i)),
			LatencyNs:   m.time(p.HopNs(i)),
			QueueUnseen: h.QueueUnseen,
			Copy:        h.Copy,
			Gap:         h.Gap,
			Outcome:     h.Outcome,
		}
		if prev := p.Prev(i); prev != i-1 {
			hops[i].Prev = m.int(prev)
		}
		if h.Node == NoNode {
			hops[i].NodeID = 0
		}
		if h.Changed {
			d.fillChange(&hops[i], p, p.TupleBefore(i), h.Tuple, m)
		}
	}
}

// fillChange sets those fields of the tuple that changed in a hop.
func (d *Recorder) fillChange(h *record.Hop, p *Packet, from, to Tuple, m *Memory) {
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
func role(p *Packet, i int) record.Role {
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
func (d *Recorder) fillDrops(r *record.Record, p *Packet) {
	for i := range p.Drops {
		dr := &p.Drops[i]
		l := record.BranchLoss{Hop: dr.Hop, AfterDelivery: dr.Local}
		d.fillLoss(&l.Loss, &dr.Drop, new(Memory))
		r.Losses = append(r.Losses, l)
	}
}

func (d *Recorder) fillLoss(l *record.Loss, dr *Drop, m *Memory) {
	*l = record.Loss{
		Node:     d.of.NodeName(dr.Node),
		Port:     d.of.PortName(dr.Port),
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
func (d *Recorder) addrString(a Addr, ipv6 bool) string {
	key := address{a, ipv6}
	s, ok := d.addrs[key]
	if !ok {
		s = a.Text(ipv6)
		if len(d.addrs) < mostAddresses {
			d.addrs[key] = s
		}
	}
	return s
}
