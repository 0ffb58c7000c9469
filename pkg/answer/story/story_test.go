// SPDX-License-Identifier: Apache-2.0

package story

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Outer packets stand behind the hop whose tunnel they are of, in the order of time:
// those of several tunnels on one way, and several of one.
func TestStoryOfTunnels(t *testing.T) {
	hop := func(node string, id int, in, out string, at int64) record.Hop {
		return record.Hop{Node: node, NodeID: id, InPort: in, Port: out, AtNs: &at}
	}
	inner := &record.Record{TNs: 1000, State: record.Delivered, Hops: []record.Hop{
		hop("a", 1, "", "tun1", 0), hop("b", 2, "tun1", "tun2", 500), hop("c", 3, "tun2", "", 900),
	}}
	outer := func(id string, at int64, hops ...record.Hop) record.Record {
		return record.Record{ID: id, TNs: at, Hops: hops}
	}
	first := outer("o1", 1010, hop("a", 1, "", "e0", 0), hop("r", 4, "e0", "e1", 100), hop("b", 2, "e0", "", 200))
	again := outer("o2", 1020, hop("a", 1, "", "e0", 0), hop("s", 5, "e0", "", 100))
	second := outer("o3", 1510, hop("b", 2, "", "e1", 0), hop("r", 4, "e1", "e2", 100), hop("c", 3, "e0", "", 200))
	lost := outer("o4", 1600)
	for name, tc := range map[string]struct {
		outers []record.Record
		want   string
	}{
		"two tunnels":               {[]record.Record{first, second}, "a |a |r |b b |b |r |c c"},
		"two tunnels, newest first": {[]record.Record{second, first}, "a |a |r |b b |b |r |c c"},
		"two packets at one hop":    {[]record.Record{again, first}, "a |a |r |b |a |s b c"},
		"nothing known of it":       {[]record.Record{lost, first}, "a |a |r |b b c"},
	} {
		s := New(inner, 0, &domain.Domain{}, time.Time{})
		s.goInto(tc.outers)
		var got []string
		for _, st := range s.Steps {
			node := st.Packet.Hops[st.Hop].Node
			if st.Packet != inner {
				node = "|" + node
			}
			got = append(got, node)
		}
		if way := strings.Join(got, " "); way != tc.want {
			t.Errorf("%s: %s\nwant %s", name, way, tc.want)
		}
	}
	// A node by whose tunnels the packet goes twice: each time its own.
	twice := &record.Record{TNs: 0, Hops: []record.Hop{hop("a", 1, "", "tun1", 0), hop("b", 2, "tun1", "tun1", 500), hop("a", 1, "tun1", "tun2", 1000)}}
	s := New(twice, 0, &domain.Domain{}, time.Time{})
	s.goInto([]record.Record{outer("o2", 1001, hop("a", 1, "", "e1", 0)), outer("o1", 1, hop("a", 1, "", "e0", 0))})
	if got := len(s.Steps); got != 5 || s.Steps[1].Packet.ID != "o1" || s.Steps[4].Packet.ID != "o2" || *s.Steps[4].AtNs != 1001 {
		t.Errorf("%d steps: %+v", got, s.Steps)
	}
}

// How a packet came to a node and went on is told of each visit, and where most of its time went.
func TestSteps(t *testing.T) {
	ns := func(n int64) *int64 { return &n }
	at := func(n int) *int { return &n }
	seen := record.Hop{Node: "h1", Port: "e0", Role: record.Source, AtNs: ns(0), QueueNs: ns(20)}
	router := record.Hop{Node: "r1", InPort: "e0", Port: "e1", Role: record.Transit, AtNs: ns(150), LinkNs: ns(30), NodeNs: ns(50)}
	end := record.Hop{Node: "h2", InPort: "e0", Role: record.Sink, AtNs: ns(400), LinkNs: ns(300)}
	edge := record.Hop{Node: "r1", InPort: "e0", Port: "e1", Role: record.Source, AtNs: ns(50), NodeNs: ns(50)}
	bridge := record.Hop{Node: "host", InPort: "br0", Role: record.Sink}
	copied := record.Hop{Node: "h3", InPort: "e0", Role: record.Sink, Prev: at(1), Outcome: record.Ignored}
	again := record.Hop{Node: "h3", InPort: "e0", Role: record.Sink, Prev: at(1), Copy: true}
	for name, c := range map[string]struct {
		r    record.Record
		want []Step
		part *Part
	}{
		"delivered": {record.Record{State: record.Delivered, Hops: []record.Hop{seen, router, end}},
			[]Step{{AtNs: ns(0), From: -1, Departure: Sent}, {AtNs: ns(100), From: -1, Arrival: OverLink, Departure: Out},
				{AtNs: ns(400), From: -1, Arrival: OverLink, Departure: Arrived, Slowest: true}},
			&Part{Place: InLink, Hop: 2, From: 1, WithQueue: true, Ns: 300, Percent: ns(75)}},
		"left":       {record.Record{State: record.Left, Hops: []record.Hop{edge}}, []Step{{AtNs: ns(0), From: -1, Arrival: FromOutside, Departure: LeftBy}}, nil},
		"left there": {record.Record{State: record.Left, Hops: []record.Hop{bridge}}, []Step{{From: -1, Arrival: ByPort, Departure: LeftThere}}, nil},
		"lost": {record.Record{State: record.Lost, Hops: []record.Hop{seen, router}, Loss: &record.Loss{Node: "r1", AtNs: ns(160)}},
			[]Step{{AtNs: ns(0), From: -1, Departure: Sent}, {AtNs: ns(100), From: -1, Arrival: OverLink, Departure: Out}, {Hop: -1, AtNs: ns(160), From: -1}}, nil},
		"expired, as was inferred": {record.Record{State: record.Expired, Hops: []record.Hop{seen}, Loss: &record.Loss{Reason: record.NotSeen}},
			[]Step{{AtNs: ns(0), From: -1, Departure: Sent}}, nil},
		"copies": {record.Record{State: record.Delivered, Hops: []record.Hop{seen, router, copied, again, end}},
			[]Step{{AtNs: ns(0), From: -1, Departure: Sent}, {AtNs: ns(100), From: -1, Arrival: OverLink, Departure: Out},
				{From: 1, Arrival: ByPort, Departure: Unwanted}, {From: -1}, {AtNs: ns(400), From: -1, Arrival: OverLink, Departure: Arrived, Slowest: true}},
			&Part{Place: InLink, Hop: 4, From: 3, WithQueue: true, Ns: 300}},
		"the last steps are missing": {record.Record{State: record.Left, Truncated: true, Hops: []record.Hop{seen, router}},
			[]Step{{AtNs: ns(0), From: -1, Departure: Sent}, {AtNs: ns(100), From: -1, Arrival: OverLink, Departure: Out, Slowest: true}},
			&Part{Place: InNode, Hop: 1, Ns: 50, Percent: ns(50)}},
	} {
		s := New(&c.r, 0, &domain.Domain{}, time.Time{})
		for i := range c.want {
			if c.want[i].Packet = &c.r; c.want[i].Hop < 0 {
				c.want[i].Loss = c.r.Loss
			} else {
				c.want[i].Hop = i
			}
		}
		if !reflect.DeepEqual(s.Steps, c.want) || !reflect.DeepEqual(s.Longest, c.part) {
			t.Errorf("%s: steps\n%+v, want\n%+v\nlongest %+v, want %+v", name, s.Steps, c.want, s.Longest, c.part)
		}
	}
}

// Of a packet that was not seen to end it is told where it was last, how long ago, and what is behind that port.
func TestUnended(t *testing.T) {
	d := &domain.Domain{
		Options: domain.Options{Timeout: 10 * time.Second},
		Nodes:   []domain.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "e0", Peer: 1}, {ID: 1, Node: 2, Name: "e0", Peer: 0}, {ID: 2, Node: 1, Name: "e1", Peer: -1, Link: "host/br0"},
			{ID: 3, Node: 1, Name: "e2", Peer: -1}, {ID: 4, Node: 1, Name: "e3", Peer: 1, Removed: true},
		},
	}
	at := int64(5)
	hop := func(port string) []record.Hop { return []record.Hop{{Node: "a", NodeID: 1, Port: port, AtNs: &at}} }
	now := time.Unix(0, 105)
	for name, c := range map[string]struct {
		r    record.Record
		want *Unended
	}{
		"delivered":      {record.Record{State: record.Delivered, Hops: hop("e0")}, nil},
		"behind a port":  {record.Record{State: record.Expired, Hops: hop("e0")}, &Unended{0, 100, 10 * time.Second, &Peer{false, "b/e0"}}},
		"on a bridge":    {record.Record{State: record.Expired, Hops: hop("e1")}, &Unended{0, 100, 10 * time.Second, &Peer{true, "host/br0"}}},
		"not connected":  {record.Record{State: record.Expired, Hops: hop("e2")}, &Unended{0, 100, 10 * time.Second, nil}},
		"a port is gone": {record.Record{State: record.Expired, Hops: hop("e3")}, &Unended{0, 100, 10 * time.Second, nil}},
		"in a node":      {record.Record{State: record.InFlight, Hops: hop("")}, &Unended{0, 100, 10 * time.Second, nil}},
		"nowhere":        {record.Record{State: record.Expired, TNs: 200}, &Unended{-1, -95, 10 * time.Second, nil}},
	} {
		if got := New(&c.r, 0, d, now).Unended; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
