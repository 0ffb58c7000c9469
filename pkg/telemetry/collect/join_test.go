// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/postcard"
)

// sentCard is a postcard, as a node sends it in a report of TR 2.0: what it saw of packet id.
type sentCard struct {
	node uint32
	id   uint16
	ttl  uint8
	at   time.Duration // when it comes
	drop bool
}

// quote is the packet that it quotes.
func (c sentCard) quote(t *testing.T) []byte {
	t.Helper()
	quote, err := AppendUDP(nil, netip.MustParseAddrPort("10.1.0.1:1000"), netip.MustParseAddrPort("10.2.0.2:2000"), []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(quote[4:], c.id)
	quote[8] = c.ttl
	return quote
}

func (c sentCard) packet(t *testing.T) Packet {
	t.Helper()
	s := intwire.Single{RepType: 1, InType: 4, F: true, D: c.drop, RepMdBits: 0x6000, Inner: c.quote(t)}
	s.Values.Set(intwire.L1In, 1)
	s.Values.Set(intwire.L1Out, 2)
	s.Values.Set(intwire.HopLatency, 100)
	p := reportOf(t, c.node, &s)
	p.At = noon.Add(c.at)
	return p
}

// reportOf is a node's report, of TR 2.0.
func reportOf(t *testing.T, node uint32, s *intwire.Single) Packet {
	t.Helper()
	payload, err := intwire.AppendGroup(nil, &intwire.Group{NodeID: node})
	if err != nil {
		t.Fatal(err)
	}
	if payload, err = intwire.AppendSingle(payload, s); err != nil {
		t.Fatal(err)
	}
	ip, err := AppendUDP(nil, netip.MustParseAddrPort("10.9.0.1:9"), netip.MustParseAddrPort("10.9.9.9:32766"), payload)
	if err != nil {
		t.Fatal(err)
	}
	return Packet{noon, ip}
}

// TestPostcards: what nodes report of a packet one by one is one record, in the order of TTLs.
func TestPostcards(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		cards []sentCard
		want  []string // of each record: ID, nodes, latency, state
		alone uint64
	}{
		{"in any order", []sentCard{{3, 1, 61, 0, false}, {1, 1, 63, 1 * ms, false}, {2, 1, 62, 9 * ms, false}}, []string{"0 int-1 int-2 int-3 300 left"}, 0},
		{"switches leave the TTL: by time", []sentCard{{2, 1, 63, 0, false}, {1, 1, 63, 1 * ms, false}}, []string{"0 int-2 int-1 200 left"}, 0},
		{"two packets", []sentCard{{1, 1, 63, 0, false}, {1, 2, 63, 0, false}, {2, 2, 62, 0, false}, {2, 1, 62, 0, false}}, []string{"0 int-1 int-2 200 left", "1 int-1 int-2 200 left"}, 0},
		{"lost at the last", []sentCard{{1, 1, 63, 0, false}, {2, 1, 62, 0, true}}, []string{"0 int-1 int-2 200 lost"}, 0},
		{"too late", []sentCard{{1, 1, 63, 0, false}, {2, 1, 62, 11 * ms, false}}, []string{"0 int-1 100 left", "1 int-2 100 left"}, 2},
		{"the same node again", []sentCard{{1, 1, 63, 0, false}, {1, 1, 63, 1 * ms, false}, {2, 1, 62, 2 * ms, false}}, []string{"0 int-1 int-2 200 left", "1 int-1 100 left"}, 1},
	} {
		var got []string
		tr := Translator{Join: 10 * ms}
		tr.Emit = func(p *Reported) {
			r := p.Record()
			var nodes []string
			for _, h := range r.Hops {
				nodes = append(nodes, h.Node)
			}
			got = append(got, fmt.Sprint(strings.TrimPrefix(r.ID, "00000000-i"), " ", strings.Join(nodes, " "), " ", *r.LatencyNs, " ", r.State))
		}
		for i, one := range c.cards {
			tr.Translate(one.packet(t), uint64(i))
		}
		tr.End()
		if !slices.Equal(got, c.want) || tr.Counts.UnmatchedPostcards != c.alone || tr.Counts.Records != uint64(len(c.want)) || tr.Counts.Reports != uint64(len(c.cards)) {
			t.Errorf("%s: %q, counts %+v, want %q", c.name, got, tr.Counts, c.want)
		}
	}
}

// TestPostcardsBounded: who waits for too many gives up the oldest.
func TestPostcardsBounded(t *testing.T) {
	n := 0
	tr := Translator{Join: time.Hour, Emit: func(*Reported) { n++ }}
	p := sentCard{1, 0, 63, 0, false}.packet(t)
	quoted := len(p.IP) - 32 // the quote is IP, UDP and four bytes
	for i := range postcard.MaxPackets + 10 {
		binary.BigEndian.PutUint16(p.IP[quoted+4:], uint16(i))
		binary.BigEndian.PutUint16(p.IP[quoted+22:], uint16(2000+i>>16))
		tr.Translate(p, 0)
	}
	if n != 10 || tr.cards.Waiting() != postcard.MaxPackets {
		t.Errorf("%d emitted, %d waiting", n, tr.cards.Waiting())
	}
}

// TestPostcardsOfOnePacket: neither postcards of one packet by ever more nodes, nor ever more packets
// that look the same, make what is waited for grow.
func TestPostcardsOfOnePacket(t *testing.T) {
	n, most := 0, 0
	tr := Translator{Join: time.Hour, Emit: func(p *Reported) { n++; most = max(most, len(p.Hops)) }}
	tr.Translate(sentCard{1, 2, 63, 0, false}.packet(t), 0) // waits before all others
	p := sentCard{1, 1, 63, 0, false}.packet(t)
	for i := range uint32(10 * postcard.MaxCards) {
		binary.BigEndian.PutUint32(p.IP[32:], i) // the group's node
		tr.Translate(p, 0)
	}
	if n != 0 || tr.cards.Waiting() != 11 {
		t.Errorf("%d packets, %d waiting", n, tr.cards.Waiting())
	}
	for range 3 * postcard.MaxPackets {
		tr.Translate(p, 0)
	}
	if most != postcard.MaxCards || tr.cards.Waiting() != postcard.MaxPackets {
		t.Errorf("up to %d hops, %d waiting", most, tr.cards.Waiting())
	}
}

// alikeCard is a node's postcard of one of many packets of UDP that differ in nothing but their payload, as those of IPv6
// do: with the UDP checksum as the node saw it.
func alikeCard(t *testing.T, node uint32, ttl uint8, number, length int, sum func(whole, pseudo uint16) uint16) Packet {
	t.Helper()
	data := make([]byte, length)
	binary.BigEndian.PutUint32(data, uint32(number))
	src, dst := netip.MustParseAddrPort("[2001:db8::1]:1000"), netip.MustParseAddrPort("[2001:db8::2]:2000")
	quote, err := AppendUDP(nil, src, dst, data)
	if err != nil {
		t.Fatal(err)
	}
	quote[7] = ttl
	whole := binary.BigEndian.Uint16(quote[46:])
	binary.BigEndian.PutUint16(quote[46:], sum(whole, intwire.Sum(quote[8:40], uint32(17+8+length))))
	s := intwire.Single{RepType: 1, InType: 5, F: true, RepMdBits: 0x6000, Inner: quote}
	s.Values.Set(intwire.L1In, 1)
	s.Values.Set(intwire.L1Out, 2)
	s.Values.Set(intwire.HopLatency, uint64(number))
	return reportOf(t, node, &s)
}

// TestPostcardsAlike: a checksum that was left to another says nothing of a packet, and one that another has worked out
// meanwhile is of the same one. Packets that nothing else tells apart have their own postcards by the payload, or by
// the order in which nodes tell of them, however many come at once. What a node has not seen does not move the others.
func TestPostcardsAlike(t *testing.T) {
	whole := func(whole, _ uint16) uint16 { return whole }
	pseudo := func(_, pseudo uint16) uint16 { return pseudo }
	none := func(uint16, uint16) uint16 { return 0 }
	const packets = 40
	sentBy := func(sums [3]func(whole, pseudo uint16) uint16, same, lose bool) []string {
		var got []string
		tr := Translator{Join: time.Second, Emit: func(p *Reported) {
			r, text := p.Record(), ""
			for _, h := range r.Hops {
				text += fmt.Sprint(" ", h.Node, ":", *h.NodeNs)
			}
			got = append(got, text)
		}}
		for _, node := range [3]int{1, 0, 2} { // each has many in a datagram
			for i := range packets {
				if lose && node == 2 && i%7 == 3 {
					continue
				}
				number := i
				if same {
					number = 7
				}
				tr.Translate(alikeCard(t, uint32(node+1), uint8(64-node), number, 40, sums[node]), uint64(i))
			}
		}
		tr.End()
		return got
	}
	for _, c := range []struct {
		name       string
		sums       [3]func(whole, pseudo uint16) uint16
		same, lose bool
	}{
		{"worked out", [3]func(whole, pseudo uint16) uint16{whole, whole, whole}, false, false},
		{"left to the receiver", [3]func(whole, pseudo uint16) uint16{pseudo, pseudo, pseudo}, false, false},
		{"worked out on the way", [3]func(whole, pseudo uint16) uint16{pseudo, pseudo, whole}, false, false},
		{"none", [3]func(whole, pseudo uint16) uint16{none, none, none}, false, false},
		{"of one content", [3]func(whole, pseudo uint16) uint16{pseudo, pseudo, whole}, true, false},
		{"some lost", [3]func(whole, pseudo uint16) uint16{pseudo, pseudo, whole}, false, true},
	} {
		got := sentBy(c.sums, c.same, c.lose)
		if len(got) != packets {
			t.Errorf("%s: %d packets, want %d", c.name, len(got), packets)
			continue
		}
		for i, text := range got {
			number := i
			if c.same {
				number = 7
			}
			want := fmt.Sprintf(" int-1:%d int-2:%d", number, number)
			if !c.lose || i%7 != 3 {
				want += fmt.Sprintf(" int-3:%d", number)
			}
			if text != want {
				t.Errorf("%s: packet %d:%s, want%s", c.name, i, text, want)
			}
		}
	}
}
