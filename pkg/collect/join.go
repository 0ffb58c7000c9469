// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/intwire"
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
	story        Story  // if it has one: then that alone tells
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
type postcards[T any] struct {
	window int64 // ns
	emit   func(cards []postcard[T])

	waiting map[identity]*together[T]
	order   []*together[T] // by the time of the first postcard
}

// postcard is one node's, of which somebody wants to know what.
type postcard[T any] struct {
	node  uint64 // its id, or noNode
	ttl   uint8
	at    int64 // when it came, Unix ns
	story Story // of its packet, if there is one
	place int   // in that
	what  T
}

const noNode = 1 << 32

// cardOf is the postcard of a report that came at a time.
func cardOf[T any](o *Observed, at int64, what T) postcard[T] {
	c := postcard[T]{node: noNode, ttl: o.Header.TTL, at: at, what: what}
	if id, ok := o.Hops[0].Get(intwire.NodeID); ok {
		c.node = id
	}
	return c
}

// together is one packet's postcards, in the order in which they came.
type together[T any] struct {
	key   identity
	cards []postcard[T]
	first int64 // when the first one came, Unix ns
	done  bool
}

// add takes a postcard. It calls emit for packets whose window has ended.
func (p *postcards[T]) add(key identity, c postcard[T]) {
	p.until(c.at)
	if c.story != (Story{}) {
		key = identity{story: c.story}
	}
	t := p.waiting[key]
	if t != nil && len(t.cards) < maxCards && (key.story != (Story{}) || !t.has(c.node)) {
		t.cards = append(t.cards, c)
		return
	}
	if t != nil { // the same node again, or too many: another packet that looks the same
		p.finish(t)
	}
	if len(p.waiting) >= maxPostcards {
		p.next()
	}
	if len(p.order) >= 2*maxPostcards { // half of them, or more, are done
		p.order = slices.DeleteFunc(p.order, func(t *together[T]) bool { return t.done })
	}
	if p.waiting == nil {
		p.waiting = make(map[identity]*together[T])
	}
	t = &together[T]{key: key, first: c.at, cards: []postcard[T]{c}}
	p.waiting[key] = t
	p.order = append(p.order, t)
}

// has says whether a node has sent a postcard already.
func (t *together[T]) has(node uint64) bool {
	return slices.ContainsFunc(t.cards, func(o postcard[T]) bool { return o.node == node })
}

// until emits what has waited for longer than the window at a time, Unix ns.
func (p *postcards[T]) until(now int64) {
	for len(p.order) > 0 && (p.order[0].done || now-p.order[0].first > p.window) {
		p.next()
	}
}

// all emits everything.
func (p *postcards[T]) all() {
	for len(p.order) > 0 {
		p.next()
	}
}

// next emits the packet whose first postcard is the oldest.
func (p *postcards[T]) next() {
	t := p.order[0]
	p.order[0] = nil
	p.order = p.order[1:]
	p.finish(t)
}

// finish emits a packet's postcards.
func (p *postcards[T]) finish(t *together[T]) {
	if t.done {
		return
	}
	t.done = true
	if p.waiting[t.key] == t {
		delete(p.waiting, t.key)
	}
	cards := t.cards
	t.cards = nil // it may stay in order for a while
	p.emit(cards)
}

// alongTheWay puts postcards in the order of the way: each router takes one from the TTL; behind a
// switch that does not, by time.
func alongTheWay[T any](cards []postcard[T]) {
	slices.SortStableFunc(cards, func(x, y postcard[T]) int { return int(y.ttl) - int(x.ttl) })
}

// recorded is the record of a postcard, and when its packet was in the node.
type recorded struct {
	*record.Record
	stay stay
}

// joined makes one record of a packet's postcards.
func (t *Translator) joined(cards []postcard[recorded]) {
	if cards[0].story != (Story{}) {
		if cards = t.withStory(cards); len(cards) == 0 {
			return
		}
	}
	t.Counts.Records++
	first := cards[0].what
	if len(cards) == 1 {
		t.Counts.Alone++
		t.Emit(first.Record)
		return
	}
	alongTheWay(cards)
	r := *cards[0].what.Record // its TTL is the one next to the source
	r.ID, r.Time, r.TNs = first.ID, first.Time, first.TNs
	r.Hops = nil
	var stays []stay
	for _, c := range cards {
		r.Hops = append(r.Hops, c.what.Hops...)
		stays = append(stays, c.what.stay)
		if c.what.Loss != nil {
			r.State, r.Loss = record.Lost, c.what.Loss
		}
	}
	roles(&r)
	r.LatencyNs = sumOfHops(r.Hops)
	if isUnordered(cards) { // nor does anything tell between which nodes the times are
		t.Counts.Unordered++
		unorder(&r)
	} else {
		t.timed(&r, stays)
	}
	t.Emit(&r)
}

// onTheWay is what the metrics of a packet's way need of a postcard.
type onTheWay struct {
	flow    metrics.Flow
	hop     metrics.Hop
	stay    stay
	told    int64 // when, by the report
	dropped bool
}

// joined gives the metrics the way that a packet's postcards tell. Where one of them says that the
// packet was dropped it is none of the flow's, and one node alone tells none.
func (c *Collector) joined(cards []postcard[onTheWay]) {
	if len(cards) < 2 {
		return
	}
	r := &c.report // so that guard knows what it is about
	*r = metrics.Report{HasFlow: true, Flow: cards[0].what.flow, Way: true, Hops: r.Hops[:0]}
	cards, ordered, whole := c.alongStory(cards)
	switch {
	case ordered && !whole:
		return
	case !ordered:
		alongTheWay(cards)
		r.Unordered = isUnordered(cards)
	}
	t := c.translator
	t.stays = t.stays[:0]
	for i := range cards {
		r.At, r.Told = max(r.At, cards[i].at), max(r.Told, cards[i].what.told)
		t.stays = append(t.stays, cards[i].what.stay)
		r.Hops = append(r.Hops, cards[i].what.hop)
		if cards[i].what.dropped {
			return
		}
	}
	if !r.Unordered {
		t.between(r, t.stays)
	}
	c.engine.Joined(r, c.Changed)
}
