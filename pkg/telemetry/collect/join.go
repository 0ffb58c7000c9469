// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
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
	// Of TCP its acknowledgement, flags and window, and the bytes of the packet: an acknowledgement has the
	// sequence number of the data behind it.
	more uint64
	len  int
}

// identityOf is that of the packet with that header; l4 is what it has behind the IP header. INT is
// in neither.
func identityOf(h *quote.Header, l4 []byte) identity {
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
	case layers.IPProtocolTCP:
		i.check = binary.BigEndian.Uint32(l4[4:])
		if len(l4) >= 16 {
			i.more, i.len = binary.BigEndian.Uint64(l4[8:]), h.Len
		}
	default:
		i.check = binary.BigEndian.Uint32(l4[4:])
	}
	return i
}

// postcards joins what several nodes report of one packet, each by itself (INT-XD, "INT
// Modes of Operation"; INT-MX). They come within a window of the first one.
type postcards struct {
	window int64 // ns
	emit   func(cards []card)

	waiting map[identity]*together
	order   []*together // by the time of the first postcard
	head    int         // those before it have gone

	// Memory to be used again, of maxSpare packets at most.
	spare     []*together
	spareKept []*kept
}

// maxSpare bounds memory that waits to be used again, spareCards how many postcards there may be room for
// in it.
const (
	maxSpare   = 1 << 12
	spareCards = 16
)

// card is a node's postcard.
type card struct {
	key     identity
	node    uint64 // its id, or noNode
	ttl     uint8
	at      int64    // when it came, Unix ns
	story   Story    // of its packet, if there is one
	alone   Unjoined // why there is none
	stay    stay
	dropped bool
	kept    *kept // nil: it is no part of a packet that is kept
	// What metrics want; of a reader nothing is set.
	flow metrics.Flow
	hop  metrics.Hop
	told int64 // when, by the report
	// place is the node's in the story, while its postcards are put in order.
	place int
}

// kept is what a packet needs of a postcard.
type kept struct {
	header    quote.Header
	said      intwire.Values
	latencyNs uint32 // ns that said's latency counts by
	reason    string // of a drop
	id        reportID
}

const noNode = 1 << 32

// name is what the node is called.
func (c *card) name(t *Translator) string {
	if c.node == noNode {
		return unknownNode
	}
	return t.NodeName(uint32(c.node))
}

// unknownNode is what a node is called that has not said its id.
const unknownNode = "?"

// card is the postcard of a report that came at a time.
func (t *Translator) card(o *Observed, at int64) card {
	c := card{node: noNode, ttl: o.Header.TTL, at: at, stay: o.stay(0), dropped: o.Dropped}
	if id, ok := o.Hops[0].Get(intwire.NodeID); ok {
		c.node = id
	}
	c.key = identityOf(&o.Header, o.first)
	if c.story, c.alone = t.storyOf(o, at); c.story != (Story{}) {
		c.key = identity{story: c.story}
	}
	return c
}

// keep makes the card a part of a packet that is kept.
func (t *Translator) keep(c *card, o *Observed, id reportID) {
	k := t.cards.newKept()
	*k = kept{header: o.Header, said: o.Hops[0], latencyNs: o.LatencyNs, id: id}
	if o.Dropped {
		k.reason = o.dropReason(0)
	}
	c.kept = k
	if c.alone != Joins {
		t.Counts.Joins.count(c.alone, 1)
	}
}

// together is one packet's postcards, in the order in which they came.
type together struct {
	key   identity
	cards []card
	first int64 // when the first one came, Unix ns
	done  bool
}

// add takes a postcard. It calls emit for packets whose window has ended.
func (p *postcards) add(c *card) {
	p.until(c.at)
	t := p.waiting[c.key]
	if t != nil && len(t.cards) < maxCards && (c.story != (Story{}) || !t.has(c.node)) {
		t.cards = append(t.cards, *c)
		return
	}
	if t != nil { // the same node again, or too many: another packet that looks the same
		p.finish(t)
	}
	if len(p.waiting) >= maxPostcards {
		p.next()
	}
	p.room()
	if p.waiting == nil {
		p.waiting = make(map[identity]*together)
	}
	t = p.newTogether()
	t.key, t.first, t.done, t.cards = c.key, c.at, false, append(t.cards, *c)
	p.waiting[c.key] = t
	p.order = append(p.order, t)
}

// room makes room in order, if there is none, without more memory where that can be.
func (p *postcards) room() {
	if len(p.order) < cap(p.order) && len(p.order)-p.head < 2*maxPostcards {
		return
	}
	if len(p.order)-p.head >= 2*maxPostcards { // half of them, or more, are done
		p.order, p.head = slices.DeleteFunc(p.order, func(t *together) bool { return t == nil || t.done }), 0
	} else if p.head > len(p.order)/2 {
		p.order, p.head = slices.Delete(p.order, 0, p.head), 0
	}
}

// newTogether returns one without postcards.
func (p *postcards) newTogether() *together {
	if n := len(p.spare); n > 0 {
		t := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return t
	}
	return new(together)
}

func (p *postcards) newKept() *kept {
	if n := len(p.spareKept); n > 0 {
		k := p.spareKept[n-1]
		p.spareKept = p.spareKept[:n-1]
		return k
	}
	return new(kept)
}

// has says whether a node has sent a postcard already.
func (t *together) has(node uint64) bool {
	return slices.ContainsFunc(t.cards, func(o card) bool { return o.node == node })
}

// until emits what has waited for longer than the window at a time, Unix ns.
func (p *postcards) until(now int64) {
	for p.head < len(p.order) && (p.order[p.head].done || now-p.order[p.head].first > p.window) {
		p.next()
	}
}

// all emits everything.
func (p *postcards) all() {
	for p.head < len(p.order) {
		p.next()
	}
}

// next emits the packet whose first postcard is the oldest.
func (p *postcards) next() {
	t := p.order[p.head]
	p.order[p.head] = nil
	if p.head++; p.head == len(p.order) {
		p.order, p.head = p.order[:0], 0
	}
	if cards := p.finish(t); cap(cards) <= spareCards {
		t.cards = cards
	}
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, t)
	}
}

// finish emits a packet's postcards, and returns their memory.
func (p *postcards) finish(t *together) (spare []card) {
	if t.done {
		return nil
	}
	t.done = true
	if p.waiting[t.key] == t {
		delete(p.waiting, t.key)
	}
	cards := t.cards
	t.cards = nil // it may stay in order for a while
	p.emit(cards)
	for i := range cards {
		if k := cards[i].kept; k != nil && len(p.spareKept) < maxSpare {
			p.spareKept = append(p.spareKept, k)
		}
	}
	return cards[:0]
}

// alongTheWay puts postcards in the order of the way: each router takes one from the TTL; behind a
// switch that does not, by time.
func alongTheWay(cards []*card) {
	slices.SortStableFunc(cards, func(x, y *card) int { return int(y.ttl) - int(x.ttl) })
}

// joined makes packets of a packet's postcards: one that is emitted of those that are kept, and the way
// for metrics of all. Its story is asked for once.
func (t *Translator) joined(cards []card) {
	all, some := t.list[:0], t.keptList[:0]
	for i := range cards {
		all = append(all, &cards[i])
		if cards[i].kept != nil {
			some = append(some, &cards[i])
		}
	}
	t.list, t.keptList = all, some
	isWay := t.way != nil && len(all) > 1
	var story *packet.Packet
	if cards[0].story != (Story{}) && (len(some) > 0 || isWay) {
		story = t.Stories.Packet(cards[0].story)
	}
	if len(some) > 0 {
		t.joinedPacket(some, story)
	}
	if isWay {
		t.way(all, story)
	}
}

// joinedPacket emits the packet of postcards that are kept.
func (t *Translator) joinedPacket(cards []*card, story *packet.Packet) {
	if cards[0].story != (Story{}) {
		if cards = t.withStory(cards, story); len(cards) == 0 {
			return
		}
	}
	t.Counts.Records++
	first := cards[0]
	ordered := true
	if len(cards) == 1 {
		t.Counts.UnmatchedPostcards++
	} else {
		alongTheWay(cards)
		ordered = !isUnordered(cards)
	}
	p := &t.now
	p.reset(t, first.at, first.kept.id)
	cards[0].kept.header.Fill(&p.Packet) // its TTL is the one next to the source
	if !ordered {
		t.Counts.Unordered++
		slices.SortStableFunc(cards, func(x, y *card) int { return cmp.Compare(x.name(t), y.name(t)) })
	}
	t.stays, t.said = t.stays[:0], t.said[:0]
	for i, c := range cards {
		p.add(&c.kept.said, c.kept.latencyNs)
		t.said = append(t.said, c.kept.said)
		t.stays = append(t.stays, c.stay)
		if c.dropped {
			p.lose(i, c.kept.reason)
		}
	}
	p.Said = t.said
	p.sum()
	if ordered {
		t.timed(p, t.stays)
	} else { // nor does anything tell between which nodes the times are
		p.Unorder()
	}
	t.emit(p)
}

// joinedWay gives the metrics the way that a packet's postcards tell. Where one of them says that the
// packet was dropped it is none of the flow's, and one node alone tells none.
func (c *Collector) joinedWay(cards []*card, story *packet.Packet) {
	r, t := &c.report, c.translator // r so that guard knows what it is about
	*r = metrics.Report{HasFlow: true, Flow: cards[0].flow, Way: true, Hops: r.Hops[:0]}
	cards, ordered, whole := t.alongStory(cards, story)
	switch {
	case ordered && !whole:
		return
	case !ordered:
		alongTheWay(cards)
		r.Unordered = isUnordered(cards)
	}
	t.stays = t.stays[:0]
	for _, of := range cards {
		r.At, r.Told = max(r.At, of.at), max(r.Told, of.told)
		t.stays = append(t.stays, of.stay)
		r.Hops = append(r.Hops, of.hop)
		if of.dropped {
			return
		}
	}
	if !r.Unordered {
		t.between(r, t.stays)
	}
	c.engine.Joined(r, c.Changed)
}
