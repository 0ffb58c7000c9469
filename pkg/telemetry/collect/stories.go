// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// Stories are what radar itself knows of packets that cross its domain. Switches in there quote
// packets with radar's numbers in them (docs/design/0019-postcards-inside.md).
type Stories interface {
	// Find returns the story of a packet that a report quotes. The zero Story: it has none, and why.
	Find(q *Quote) (Story, Unjoined)
	// Packet returns the packet of a story as it stands, which is the caller's; nil: it is forgotten.
	Packet(Story) *packet.Packet
	// NodeName is what a node of such packets is called.
	NodeName(node uint16) string
	// Record makes the record of such a packet.
	Record(*packet.Packet) record.Record
}

// Story names one: the domain, as it was attached, and the packet in it.
type Story struct {
	Epoch uint32
	Pos   uint64
}

// Quote is a packet as a report quotes it.
type Quote struct {
	Header quote.Header
	L4     []byte // what is behind the IP header, as far as it is quoted
	At     int64  // when the report came, Unix ns
}

// Unjoined is why a postcard is not a part of a story.
type Unjoined uint8

// The reasons. Unnumbered: the quote's TTL stands for no number. Stale, Foreign: the number is of
// another time, of another packet. Unproven: too little is quoted. OffPath: the story has no such node,
// or nobody has said what the node is called. Ambiguous: the packet was there more than once. Repeated:
// the node has said it already. Forgotten: radar's ring has newer packets.
const (
	Joins Unjoined = iota
	Unnumbered
	Stale
	Foreign
	Unproven
	OffPath
	Ambiguous
	Repeated
	Forgotten
)

// JoinCounts are what became of postcards where there are Stories.
type JoinCounts struct {
	Packets    uint64 `json:"packets"` // of radar's own that switches have added to
	Joined     uint64 `json:"joined"`  // postcards
	Unnumbered uint64 `json:"unnumbered"`
	Stale      uint64 `json:"stale"`
	Foreign    uint64 `json:"foreign"`
	Unproven   uint64 `json:"unproven"`
	OffPath    uint64 `json:"off_path"`
	Ambiguous  uint64 `json:"ambiguous"`
	Repeated   uint64 `json:"repeated"`
	Forgotten  uint64 `json:"forgotten"`
}

func (c *JoinCounts) count(why Unjoined, n int) {
	*[...]*uint64{
		&c.Joined, &c.Unnumbered, &c.Stale, &c.Foreign, &c.Unproven, &c.OffPath, &c.Ambiguous, &c.Repeated, &c.Forgotten,
	}[why] += uint64(n)
}

// storyOf finds the story of a postcard that came at a time.
func (t *Translator) storyOf(o *Observed, at int64) (Story, Unjoined) {
	if t.Stories == nil {
		return Story{}, Joins
	}
	return t.Stories.Find(&Quote{Header: *o.quoted(), L4: o.l4, At: at})
}

// hopOf is the place of a node in a story.
func (t *Translator) hopOf(story *packet.Packet, c *card) (int, Unjoined) {
	if c.node == noNode {
		return -1, OffPath
	}
	name := c.name(t)
	is := func(h packet.Hop) bool { return t.Stories.NodeName(h.Node) == name }
	i := slices.IndexFunc(story.Hops, is)
	switch {
	case i < 0:
		return i, OffPath
	case slices.ContainsFunc(story.Hops[i+1:], is):
		return -1, Ambiguous
	}
	return i, Joins
}

// withStory adds what nodes have said of a packet to radar's own story of it, and emits that. It returns
// the postcards that are no part of it.
func (t *Translator) withStory(cards []*card, story *packet.Packet) (others []*card) {
	if story == nil {
		t.Counts.Joins.count(Forgotten, len(cards))
		return cards
	}
	p := &t.own
	t.said = slices.Grow(t.said[:0], len(story.Hops))[:len(story.Hops)]
	clear(t.said)
	*p = Reported{Packet: *story, Own: cards[0].story, of: t, Said: t.said}
	joined := 0
	for _, c := range cards {
		at, why := t.hopOf(story, c)
		if why == Joins && p.Said[at].Has != 0 {
			why = Repeated
		}
		t.Counts.Joins.count(why, 1)
		switch why {
		case Joins:
			p.Said[at] = c.kept.said
			joined++
		case Repeated:
		default:
			others = append(others, c)
		}
	}
	if joined > 0 {
		t.Counts.Joins.Packets++
		t.Counts.Records++
		t.emit(p)
	}
	return others
}

// alongStory puts postcards in the order of radar's own story, if there is one and it tells of all of them
// that they are on the way. whole says that the packet came to the end of it.
func (t *Translator) alongStory(cards []*card, story *packet.Packet) (_ []*card, ordered, whole bool) {
	if story == nil {
		return cards, false, false
	}
	for _, c := range cards {
		at, why := t.hopOf(story, c)
		if why != Joins {
			return cards, false, false
		}
		c.place = at
	}
	slices.SortStableFunc(cards, func(x, y *card) int { return cmp.Compare(x.place, y.place) })
	cards = slices.CompactFunc(cards, func(x, y *card) bool { return x.place == y.place })
	return cards, true, story.State == record.Delivered || story.State == record.Left
}

// isUnordered says that nothing tells in which order nodes saw the packet: inside a domain each gets it
// with a TTL that radar has written, in one band of eight (bpf/backpack/guid.h). Natural ones rarely lie there.
func isUnordered(cards []*card) bool {
	for i := range cards {
		for j := range cards[:i] {
			if band := bandOf(cards[i].ttl); band != 0 && band == bandOf(cards[j].ttl) {
				return true
			}
		}
	}
	return false
}

// bandOf is the band of a TTL, 0 where it lies in none (pkg/vnet/datapath/program/layout.go).
func bandOf(ttl uint8) uint8 {
	if ttl >= 65 && ttl <= 96 || ttl >= 129 && ttl <= 224 {
		return (ttl - 1) / 8
	}
	return 0
}
