// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// TestSampler: no more than the rate, each packet as likely as any other, and what is left out is counted.
func TestSampler(t *testing.T) {
	t.Parallel()
	const rounds, offered, rate = 400, 500, 100
	now := time.Unix(0, 0)
	s := newSampler(rate, now)
	var times [offered]int
	total, last := 0, 0
	for range rounds {
		now = now.Add(pollEvery)
		s.begin(now)
		for i := range offered {
			s.add(&packet.Packet{T0: uint64(i), Segs: 1})
		}
		list := s.end()
		for i := range list {
			times[list[i].T0]++
			if i > 0 && list[i].T0 < list[i-1].T0 {
				t.Fatal("not in order")
			}
		}
		total, last = total+len(list), len(list)
	}
	if most := rate + rate*rounds/10; total > most || total < most-rate || last != rate/10 {
		t.Errorf("%d packets in %d s, %d in the last poll", total, rounds/10, last)
	}
	if s.left != offered*rounds-uint64(total) {
		t.Errorf("%d left out of %d, %d chosen", s.left, offered*rounds, total)
	}
	// Parts of a poll have a fifth each.
	for part := range 5 {
		n := 0
		for _, of := range times[part*offered/5 : (part+1)*offered/5] {
			n += of
		}
		if share := float64(n) / float64(total); share < 0.16 || share > 0.24 {
			t.Errorf("part %d of the polls has %.0f %% of the packets", part, share*100)
		}
	}
}

// TestBurst: a burst of as many as a second may have is sent whole, and what is more is not.
func TestBurst(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := newSampler(LossRate, now)
	s.begin(now)
	for range LossRate + 7 {
		s.add(&packet.Packet{Segs: 1})
	}
	if list := s.end(); len(list) != LossRate || s.left != 7 {
		t.Errorf("%d sent, %d left out", len(list), s.left)
	}
}

// TestEncodeLoad: streams complete the same text, each with its own number.
func TestEncodeLoad(t *testing.T) {
	t.Parallel()
	text := encodeLoad(&Load{Links: []LinkLoad{}, Nodes: []NodeLoad{}, Paths: []PathLoad{}})
	if !strings.HasSuffix(string(text), `"unsent":`) {
		t.Errorf("%s", text)
	}
}

// TestEncodeRecord: a record of a lost packet says why in words, whatever of it is known; one that arrived has no such field.
func TestEncodeRecord(t *testing.T) {
	t.Parallel()
	rule := record.Loss{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "nft_do_chain"}
	for why, r := range map[string]*record.Record{
		"":              {ID: "1", State: record.Delivered},
		"firewall rule": {ID: "2", State: record.Lost, Src: "10.0.0.1", IPVersion: 4, Loss: &rule},
		"queue full":    {ID: "3", State: record.Lost, IPVersion: 6, Losses: []record.BranchLoss{{AfterDelivery: true, Loss: rule}, {Loss: record.Loss{Reason: "QDISC_DROP", Qdisc: "pfifo", At: record.AtQueue}}}},
	} {
		var got map[string]any
		text := EncodeRecord(r)
		if err := json.Unmarshal(text, &got); err != nil || got["id"] != r.ID || !strings.HasSuffix(string(text), "}\n") {
			t.Errorf("%v: %s", err, text)
		}
		if said, there := got["why"]; there != (why != "") || there && said != why {
			t.Errorf("it says %v why, want %q: %s", said, why, text)
		}
	}
}

// TestChanges: what happens to a domain is told once, in words.
func TestChanges(t *testing.T) {
	t.Parallel()
	gone, there := state{known: true}, state{known: true, epoch: 7, agent: true, nodes: []string{"a", "b"}}
	for _, c := range []struct {
		from, to state
		want     string
	}{
		{there, there, ""}, {gone, gone, ""},
		{gone, there, "attached"}, {there, gone, "detached"},
		{there, state{epoch: 8, nodes: []string{"a"}}, "detached attached"},
		{there, state{epoch: 7, nodes: []string{"a", "b"}}, "agent_ended"},
		{state{epoch: 7}, state{epoch: 7, agent: true}, "agent_started"},
		{there, state{epoch: 7, agent: true, nodes: []string{"b", "c"}}, "node_came node_went"},
	} {
		var kinds []string
		for _, e := range c.from.changes(c.to, "d") {
			kinds = append(kinds, e.Kind)
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("from %+v to %+v: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// TestStreams: who asks for the same shares a stream; there are no more than so many, and one that nobody hears makes
// room.
func TestStreams(t *testing.T) {
	t.Parallel()
	feeds := New(t.Context(), fault.Face{})
	join := func(key string) (*Stream, func(), error) {
		return feeds.Join("no-such-domain", Options{Key: key, Selection: &answer.Selection{}, Rate: 1})
	}
	first, leave, err := join("0")
	if err != nil {
		t.Fatal(err)
	}
	if same, _, err := join("0"); same != first || err != nil {
		t.Errorf("two streams of the same, %v", err)
	}
	var leaves []func()
	for i := 1; i < mostStreams; i++ {
		_, leave, err := join(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if _, _, err := join("more"); err == nil {
		t.Error("more streams than there may be")
	}
	leave() // another listener still has it
	if _, _, err := join("more"); err == nil {
		t.Error("a stream with a listener has made room")
	}
	leaves[0]()
	if _, _, err := join("more"); err != nil {
		t.Error(err)
	}
}

// TestSharedStream: who comes gets the place of a stream of the client who has most. One that others share with him
// stays theirs, unless they have as many.
func TestSharedStream(t *testing.T) {
	t.Parallel()
	const name = "no-such-domain"
	feeds := New(t.Context(), fault.Face{})
	clients := make([]api.Client, 4)
	for i := range clients {
		clients[i] = api.OtherHost(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
	}
	mallet, friend, alice, bob := clients[0], clients[1], clients[2], clients[3]
	join := func(c api.Client, key string) (*Stream, error) {
		s, _, err := feeds.Join(name, Options{Key: key, Selection: &answer.Selection{}, Rate: 1, Client: c})
		return s, err
	}
	lives := func(s *Stream) bool {
		feed := feeds.feeds[name]
		feed.mu.Lock()
		defer feed.mu.Unlock()
		return feed.streams[s.key] == s
	}
	var shared []*Stream
	for i := range mostStreams {
		s, err := join(mallet, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if i >= mostStreams/2 { // all but these are shared
			continue
		}
		if same, err := join(alice, fmt.Sprint(i)); same != s || err != nil {
			t.Fatal(err)
		}
		shared = append(shared, s)
	}
	for i := range 20 {
		if _, err := join(bob, fmt.Sprint("bob ", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range shared {
		if !lives(s) {
			t.Errorf("alice has lost stream %d, which she shares with the client who has most", i)
		}
	}
	feed := feeds.feeds[name]
	feed.mu.Lock()
	for _, s := range feed.streams { // two clients who share all of theirs hold nobody out
		s.listeners = map[*listener]struct{}{{mallet}: {}, {friend}: {}}
	}
	feed.mu.Unlock()
	if _, err := join(bob, "one more"); err != nil {
		t.Error(err)
	}
}
