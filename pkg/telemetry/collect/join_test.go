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
		{"the same node again", []sentCard{{1, 1, 63, 0, false}, {1, 1, 63, 1 * ms, false}, {2, 1, 62, 2 * ms, false}}, []string{"0 int-1 100 left", "1 int-1 int-2 200 left"}, 1},
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
	for i := range maxPostcards + 10 {
		binary.BigEndian.PutUint16(p.IP[quoted+4:], uint16(i))
		binary.BigEndian.PutUint16(p.IP[quoted+22:], uint16(2000+i>>16))
		tr.Translate(p, 0)
	}
	if n != 10 || len(tr.cards.waiting) != maxPostcards {
		t.Errorf("%d emitted, %d waiting", n, len(tr.cards.waiting))
	}
}

// TestPostcardsOfOnePacket: neither postcards of one packet by ever more nodes, nor ever more packets
// that look the same, make what is waited for grow.
func TestPostcardsOfOnePacket(t *testing.T) {
	n, most := 0, 0
	tr := Translator{Join: time.Hour, Emit: func(p *Reported) { n++; most = max(most, len(p.Hops)) }}
	tr.Translate(sentCard{1, 2, 63, 0, false}.packet(t), 0) // waits before all others
	p := sentCard{1, 1, 63, 0, false}.packet(t)
	for i := range uint32(10 * maxCards) {
		binary.BigEndian.PutUint32(p.IP[32:], i) // the group's node
		tr.Translate(p, 0)
	}
	if n != 9 || most != maxCards || len(tr.cards.waiting) != 2 {
		t.Errorf("%d packets of up to %d hops, %d waiting", n, most, len(tr.cards.waiting))
	}
	for range 3 * maxPostcards {
		tr.Translate(p, 0)
	}
	if len(tr.cards.order) > 2*maxPostcards || len(tr.cards.waiting) != 2 {
		t.Errorf("%d in order, %d waiting", len(tr.cards.order), len(tr.cards.waiting))
	}
}
