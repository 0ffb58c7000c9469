// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/record"
)

// maxPostcards bounds packets whose postcards are waited for, maxCards those of one packet: another
// node's is taken for another packet's.
const (
	maxPostcards = 1 << 16
	maxCards     = 64
)

// identity tells a packet from others wherever it is seen: by what no node changes. Where the
// quote is too short for check, it is 0.
type identity struct {
	src, dst     netip.Addr
	proto        uint8
	sport, dport uint16
	id           uint32 // of IPv4; of IPv6 the flow label
	fragment     int    // offset, of fragments
	check        uint32 // TCP's sequence number, the checksum of UDP, of ICMP and of others their first bytes
}

// identityOf is that of the packet with that header; l4 is what its quote has behind the IP
// header.
func identityOf(h *Header, l4 []byte) identity {
	i := identity{
		src: h.Src, dst: h.Dst, proto: h.Proto, sport: h.SrcPort, dport: h.DstPort, fragment: h.FragOff,
		id: uint32(h.ID) | h.FlowLabel, // of which there is one
	}
	if len(l4) < 8 {
		return i
	}
	switch layers.IPProtocol(h.Proto) {
	case layers.IPProtocolUDP:
		i.check = uint32(binary.BigEndian.Uint16(l4[6:]))
	case layers.IPProtocolICMPv4, layers.IPProtocolICMPv6:
		i.check = uint32(binary.BigEndian.Uint16(l4[2:]))
	default:
		i.check = binary.BigEndian.Uint32(l4[4:])
	}
	return i
}

// postcards joins what several nodes report of one packet, each by itself (INT-XD, "INT
// Modes of Operation"; INT-MX). They come within a window of the first one.
type postcards struct {
	window int64 // ns
	counts *Counts
	emit   func(*record.Record)

	waiting map[identity]*together
	order   []*together // by the time of the first postcard
}

// together is one packet's postcards.
type together struct {
	key   identity
	first int64 // when the first one came, Unix ns
	cards []*record.Record
	done  bool
}

// add takes a postcard. It calls emit for packets whose window has ended.
func (p *postcards) add(key identity, r *record.Record) {
	p.until(r.TNs)
	t := p.waiting[key]
	if t != nil && len(t.cards) < maxCards && !t.has(r) {
		t.cards = append(t.cards, r)
		return
	}
	if t != nil { // the same node again, or too many: another packet that looks the same
		p.finish(t)
	}
	if len(p.waiting) >= maxPostcards {
		p.next()
	}
	if len(p.order) >= 2*maxPostcards { // half of them, or more, are done
		p.order = slices.DeleteFunc(p.order, func(t *together) bool { return t.done })
	}
	if p.waiting == nil {
		p.waiting = make(map[identity]*together)
	}
	t = &together{key: key, first: r.TNs, cards: []*record.Record{r}}
	p.waiting[key] = t
	p.order = append(p.order, t)
}

// has says whether the node of a postcard has sent one already.
func (t *together) has(r *record.Record) bool {
	return slices.ContainsFunc(t.cards, func(o *record.Record) bool { return o.Hops[0].Node == r.Hops[0].Node })
}

// until emits what has waited for longer than the window at a time, Unix ns.
func (p *postcards) until(now int64) {
	for len(p.order) > 0 && (p.order[0].done || now-p.order[0].first > p.window) {
		p.next()
	}
}

// all emits everything.
func (p *postcards) all() {
	for len(p.order) > 0 {
		p.next()
	}
}

// next emits the packet whose first postcard is the oldest.
func (p *postcards) next() {
	p.finish(p.order[0])
	p.order[0] = nil
	p.order = p.order[1:]
}

// finish makes one record of a packet's postcards.
func (p *postcards) finish(t *together) {
	if t.done {
		return
	}
	t.done = true
	if p.waiting[t.key] == t {
		delete(p.waiting, t.key)
	}
	p.counts.Records++
	cards := t.cards
	t.cards = nil // it may stay in order for a while
	if len(cards) == 1 {
		p.counts.Alone++
		p.emit(cards[0])
		return
	}
	first := cards[0]
	// Each router takes one from the TTL; behind a switch that does not, by time.
	slices.SortStableFunc(cards, func(x, y *record.Record) int { return y.TTL - x.TTL })
	r := *cards[0] // its TTL is the one next to the source
	r.ID, r.Time, r.TNs = first.ID, first.Time, first.TNs
	r.Hops = nil
	for _, c := range cards {
		r.Hops = append(r.Hops, c.Hops...)
		if c.Loss != nil {
			r.State, r.Loss = record.Lost, c.Loss
		}
	}
	roles(&r)
	r.LatencyNs = sumOfHops(r.Hops)
	p.emit(&r)
}
