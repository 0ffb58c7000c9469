// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"math/rand/v2"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/intwire"
)

// Maker makes the datagrams of a description, one after the other and without end. Packets come in
// batches of Description.Group, so that each node has its reports of a batch in one datagram.
type Maker struct {
	d           Description
	random      rand.PCG
	start       uint64 // ns
	addressSize int    // bytes
	number      uint64 // of the next packet
	batch       []packet
	node        int // the last of which there was a datagram of the batch, from 1
	nodes       []counter

	out     []byte
	quoted  []byte
	filling []byte // of payloads
	in      intwire.INT
	hops    []intwire.Hop
	report  intwire.Report
	single  intwire.Single
}

// counter numbers a node's datagrams.
type counter struct {
	next uint32
	sent int
}

// New makes the Maker of a description. Errors are fault.Usage, or one of intwire's if what is
// described is too long for a length field.
func New(d Description) (*Maker, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	m := &Maker{
		d: d, random: *rand.NewPCG(d.Seed, 0), start: uint64(d.Start.UnixNano()), addressSize: 4,
		batch: make([]packet, d.Group), nodes: make([]counter, d.Hops), node: d.Hops,
		filling: make([]byte, d.Payload), hops: make([]intwire.Hop, d.Hops),
	}
	if d.IPv6 {
		m.addressSize = 16
	}
	for i := range m.batch {
		m.batch[i].ingress, m.batch[i].latency = make([]uint64, d.Hops), make([]uint32, d.Hops)
	}
	for i := range m.nodes {
		m.nodes[i].next = d.FirstSequence
	}
	for i := range m.filling {
		m.filling[i] = 'a' + byte(i%26)
	}
	for i := range m.hops { // until the nodes have what they complement
		m.hops[i].Set(intwire.ChecksumComplement, 0)
	}
	m.in.Shim = intwire.Shim{Form: intwire.Shim20}
	m.in.Header = intwire.Header{Layout: d.Version.format(), Type: intwire.TypeMD, Bitmap: d.Instructions}
	if d.Version == V10 {
		m.in.Shim.Form = intwire.ShimOld
	}
	return m, m.try()
}

// try makes the longest datagram that there can be, and forgets it.
func (m *Maker) try() error {
	p := &m.batch[0]
	m.cross(p, 0)
	p.dropAt = 0
	b, err := m.append(nil, p, m.d.Hops)
	if err != nil {
		return err
	}
	if m.d.Version == V20 && m.d.Group > 1 && b[1] == 255 {
		return fault.Usage.Errorf("reports of %d bytes: only one fits a datagram: cannot be made", len(b))
	}
	// A drop has five words more, and there is the group's header.
	if most := 8 + m.d.Group*(len(b)+20); most > MaxBytes {
		return fault.Usage.Errorf("datagrams of %d bytes: cannot be made", most)
	}
	m.random = *rand.NewPCG(m.d.Seed, 0)
	return nil
}

// Next makes the next datagram. Errors are bugs: New tries what can be too long.
func (m *Maker) Next() (Datagram, error) {
	for {
		if m.node == m.d.Hops {
			for i := range m.batch {
				m.cross(&m.batch[i], m.number)
				m.number++
			}
			m.node = 0
		}
		m.node++
		reports := 0
		for i := range m.batch {
			p := &m.batch[i]
			if !m.isReported(p, m.node) {
				continue
			}
			var err error
			if reports == 0 {
				if m.out, err = m.begin(m.out[:0]); err != nil {
					return Datagram{}, err
				}
			}
			if m.out, err = m.append(m.out, p, m.node); err != nil {
				return Datagram{}, err
			}
			reports++
		}
		if reports > 0 {
			m.count()
			return Datagram{Payload: m.out, Reports: reports}, nil
		}
	}
}

// isReported says whether a node, from 1, reports a packet.
func (m *Maker) isReported(p *packet, node int) bool {
	last := m.d.Hops
	if p.dropAt > 0 {
		last = p.dropAt
	}
	return node == last || m.d.Mode == XD && node < last
}

// begin appends the header of a group (TR 2.0, "Telemetry Report Group Header").
func (m *Maker) begin(b []byte) ([]byte, error) {
	if m.d.Version == V10 {
		return b, nil
	}
	return intwire.AppendGroup(b, &intwire.Group{HwID: m.d.HwID, Sequence: m.nodes[m.node-1].next, NodeID: m.id(m.node)})
}

func (m *Maker) id(node int) uint32 { return m.d.FirstNode + uint32(node-1) }

// count goes on to the node's next sequence number, modulo 2^22 in 2.0.
func (m *Maker) count() {
	c := &m.nodes[m.node-1]
	c.next++
	c.sent++
	if m.d.GapEvery > 0 && c.sent%m.d.GapEvery == 0 {
		c.next++
	}
	if m.d.Version == V20 {
		c.next &= 1<<22 - 1
	}
}

// append appends what a node, from 1, reports of a packet.
func (m *Maker) append(b []byte, p *packet, node int) ([]byte, error) {
	dropped, stack := p.dropAt == node, 0
	if m.d.Mode == MD {
		stack = node
		if dropped { // before it added anything
			stack--
		}
	}
	bitmap := uint16(0) // in INT-MD all is in the stack, but for drops
	if m.d.Mode == XD {
		bitmap = m.d.Instructions &^ 0x8001
	}
	if dropped {
		// A dropped packet has not left: no hop latency, egress time, utilisation of its port.
		bitmap = m.d.Instructions&^(0x8001|0x2000|0x0400|0x0100) | 1
	}
	var err error
	if m.quoted, err = m.quote(m.quoted[:0], p, node, stack); err != nil {
		return b, err
	}
	if m.d.Version == V10 {
		return m.report10(b, p, node, bitmap, dropped)
	}
	return m.report20(b, p, node, bitmap, dropped)
}

// report20 appends an individual report (TR 2.0, "Individual Report").
func (m *Maker) report20(b []byte, p *packet, node int, bitmap uint16, dropped bool) ([]byte, error) {
	s := &m.single
	s.RepType, s.InType, s.RepMdBits, s.Inner = 1, 3, bitmap, m.quoted
	s.F, s.D = true, dropped
	switch {
	case m.d.QuoteIP && m.d.IPv6:
		s.InType = 5
	case m.d.QuoteIP:
		s.InType = 4
	}
	m.values(&s.Values, p, node-1)
	return intwire.AppendSingle(b, s)
}

// bits10 are RepMdBits of TR 1.0 and the bits of an instruction bitmap, or of RepMdBits of 2.0,
// that ask for the same.
var bits10 = [...]struct {
	bitmap uint16
	bits   uint8
}{{0x4000, 0x20}, {0x2000, 0x10}, {0x1000, 0x08}, {0x0400, 0x04}, {0x0001, 0x02}, {0x0100, 0x01}}

// report10 appends a report with its header (TR 1.0, "Telemetry Report Header").
func (m *Maker) report10(b []byte, p *packet, node int, bitmap uint16, dropped bool) ([]byte, error) {
	r := &m.report
	r.Layout, r.NProto, r.Inner = intwire.Report10, 0, m.quoted
	switch {
	case m.d.QuoteIP && m.d.IPv6:
		r.NProto = 2
	case m.d.QuoteIP:
		r.NProto = 1
	}
	r.RepMdBits = 0
	for _, c := range bits10 {
		if bitmap&c.bitmap != 0 {
			r.RepMdBits |= c.bits
		}
	}
	r.D, r.F, r.HwID = dropped, true, m.d.HwID
	r.SwitchID, r.Sequence, r.IngressTS = m.id(node), m.nodes[node-1].next, short(p.ingress[node-1])
	m.values(&r.Values, p, node-1)
	return intwire.AppendReport10(b, r)
}
