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
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/telemetry/postcard"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// identity tells a packet from others wherever it is seen: by what no node changes, and nobody leaves to another to
// work out. Packets that differ in nothing of it are told apart by their traces.
type identity struct {
	src, dst     netip.Addr
	proto        uint8
	sport, dport uint16
	id           uint32 // of IPv4; of IPv6 the flow label
	fragment     int    // offset, of fragments
	story        Story  // if it has one: then that alone tells
	// TCP's sequence number, the checksum of ICMP, of others but UDP their first bytes; 0 where the quote is too short.
	check uint32
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
	case layers.IPProtocolUDP: // its checksum: see postcard.Trace
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

// trace is that of a packet of UDP.
func (o *Observed) trace() (t postcard.Trace) {
	if o.Header.Proto != record.ProtoUDP || len(o.first) < udpHeader || o.Header.FragOff > 0 {
		return t
	}
	if !o.unsummed {
		t.Sum = binary.BigEndian.Uint16(o.first[6:])
	}
	t.Content(o.content)
	return t
}

// postcards are those that wait for others of their packets.
type postcards struct {
	postcard.Joiner[identity, card]

	spareKept []*kept // memory to be used again
}

// maxSpare bounds memory that waits to be used again.
const maxSpare = 1 << 12

// card is a node's postcard.
type card struct {
	key     identity
	trace   postcard.Trace
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
	c.key, c.trace = identityOf(&o.Header, o.first), o.trace()
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

// add takes a postcard.
func (p *postcards) add(c *card) {
	p.Add(&postcard.Of[identity]{Name: c.key, Alone: c.story != (Story{}), Trace: c.trace, Node: c.node, At: c.at}, *c)
}

func (p *postcards) newKept() *kept {
	if n := len(p.spareKept); n > 0 {
		k := p.spareKept[n-1]
		p.spareKept = p.spareKept[:n-1]
		return k
	}
	return new(kept)
}

// free takes back the memory of postcards.
func (p *postcards) free(cards []card) {
	for i := range cards {
		if k := cards[i].kept; k != nil && len(p.spareKept) < maxSpare {
			p.spareKept = append(p.spareKept, k)
		}
	}
}

// alongTheWay puts postcards in the order of the way: each router takes one from the TTL. Behind a switch that does not,
// and at a host, which gets what the last router has sent, it is that of the nodes' own times, if one clock is behind
// them. Else who does not say when the packet left is the last one, who does not say when it came the first. What is left
// is in the order in which it was reported.
func alongTheWay(cards []*card) {
	slices.SortStableFunc(cards, func(x, y *card) int { return cmp.Compare(y.ttl, x.ttl) })
	for len(cards) > 1 {
		n := 1
		for n < len(cards) && cards[n].ttl == cards[0].ttl {
			n++
		}
		sortAlike(cards[:n])
		cards = cards[n:]
	}
}

// sortAlike is alongTheWay of postcards with one TTL. Times decide only if they are all of one clock: with some of them, three
// postcards could each stand before the next one.
func sortAlike(cards []*card) {
	byTime := !slices.ContainsFunc(cards, func(c *card) bool {
		_, ok := c.stay.begin()
		return !ok || !c.stay.clock.shared || c.stay.clock != cards[0].stay.clock
	})
	slices.SortStableFunc(cards, func(x, y *card) int {
		order := x.stay.end() - y.stay.end()
		if byTime {
			order = cmp.Or(x.stay.compare(&y.stay), order)
		}
		return order
	})
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
	t.cards.free(cards)
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
		t.timed(p, t.stays, first.at)
	} else { // nor does anything tell between which nodes the times are
		p.Unorder()
	}
	t.emit(p)
}

// joinedWay gives the metrics the way that a packet's postcards tell. Where one of them says that the
// packet was dropped it is none of the flow's, and one node alone tells none.
func (c *Collector) joinedWay(cards []*card, story *packet.Packet) {
	r, t := &c.report, c.translator // r so that guard knows what it is about
	*r = metrics.Report{HasFlow: true, Flow: cards[0].flow, WholePath: true, Hops: r.Hops[:0]}
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
		r.At, r.SeenAt = max(r.At, of.at), max(r.SeenAt, of.told)
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
