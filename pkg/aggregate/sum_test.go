// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// counters counts packets as ports do that know nothing of each other: by flow, at each port and in each direction.
type counters map[aggregate.FlowKey]map[aggregate.Place]*aggregate.FlowSum

func (c counters) count(p *packet.Packet) {
	key := aggregate.KeyOf(p)
	if c[key] == nil {
		c[key] = make(map[aggregate.Place]*aggregate.FlowSum)
	}
	pass := func(place aggregate.Place, ns int64) {
		if place.Port == none {
			return
		}
		at, s := p.T0+uint64(ns), c[key][place]
		if s == nil {
			s = &aggregate.FlowSum{Key: key, Place: place, First: at, Last: at}
			c[key][place] = s
		}
		s.Packets, s.Bytes = s.Packets+uint64(p.Segs), s.Bytes+uint64(p.Len)
		s.First, s.Last = min(s.First, at), max(s.Last, at)
	}
	for _, h := range p.Hops {
		pass(aggregate.Place{Node: h.Node, Port: h.In}, h.InNs)
		pass(aggregate.Place{Node: h.Node, Port: h.Out, Out: true}, h.OutNs)
	}
}

// addTo adds what was counted, and begins anew, as a reader does that takes differences.
func (c counters) addTo(a *aggregate.Aggregates) {
	for _, places := range c {
		for _, s := range places {
			a.AddSum(s)
		}
	}
	clear(c)
}

// load returns random packets of 40 flows: delivered, lost in b's queue, not seen again behind a; trains among them.
func load(rng *rand.Rand, n int) (list []*packet.Packet) {
	for i := range n {
		p := delivered()
		switch rng.IntN(5) {
		case 0:
			p = lostAt()
		case 1:
			p.State, p.Hops, p.LatencyNs = record.Expired, p.Hops[:1], packet.NoTime
		}
		if p.SrcPort = uint16(rng.IntN(40)); p.SrcPort%4 == 0 {
			toIPv6(p)
		}
		p.T0, p.Segs = at(int64(i)*1e6), 1+rng.IntN(3)
		p.Len = uint32(p.Segs * (100 + rng.IntN(1000)))
		list = append(list, p)
	}
	return list
}

// known are the parts of flows that sums have.
func known(rows []aggregate.FlowRow) map[string]aggregate.FlowRow {
	flows := make(map[string]aggregate.FlowRow)
	for _, r := range rows {
		flows[r.Flow.String()] = aggregate.FlowRow{Flow: r.Flow, Packets: r.Packets, Bytes: r.Bytes,
			FirstNs: r.FirstNs, LastNs: r.LastNs, DurationNs: r.DurationNs, RateBps: r.RateBps}
	}
	return flows
}

// TestSums: packets that are measured, and the same ones counted at each port, give the same flows, ports and totals, also
// after a snapshot. What sums cannot know is absent.
func TestSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(44, 1))
	packets, sums, both, counted := aggregate.New(0), aggregate.New(0), aggregate.New(0), make(counters)
	for i, p := range load(rng, 5000) {
		packets.Add(p)
		both.Add(p)
		if counted.count(p); i%1000 == 999 {
			for _, places := range counted {
				for _, s := range places {
					both.AddSum(s)
				}
			}
			counted.addTo(sums)
		}
	}
	sums, err := sums.Copy()
	must(t, err)

	want := packets.Flows(letters{}, nil)
	if len(want) != 40 {
		t.Fatalf("%d flows", len(want))
	}
	got := sums.Flows(letters{}, nil)
	if diff := cmp.Diff(known(want), known(got)); diff != "" {
		t.Errorf("flows: -measured +counted:\n%s", diff)
	}
	for _, r := range got {
		if r.Unmeasured != r.Packets || r.Latency != nil || r.JitterNs != nil || r.ReorderedRatio != nil || r.Paths > 0 || r.PathList != nil {
			t.Errorf("%s: sums know more than they can: %+v", r.Flow.String(), r)
		}
	}
	// The same packets measured and counted are there once, and all of them are measured.
	if diff := cmp.Diff(want, both.Flows(letters{}, nil)); diff != "" {
		t.Errorf("flows measured and counted: -measured +both:\n%s", diff)
	}
	if total := both.Totals(); total != packets.Totals() {
		t.Errorf("totals of both %+v, of packets %+v", total, packets.Totals())
	}
	measured, total := packets.Totals(), sums.Totals()
	if total != (aggregate.Totals{Unmeasured: measured.Packets, UnmeasuredBytes: measured.Bytes}) {
		t.Errorf("totals %+v of %d packets with %d bytes", total, measured.Packets, measured.Bytes)
	}
	for _, by := range []aggregate.By{aggregate.ByPort, aggregate.ByNode} {
		want := packets.Throughput(by, letters{}, 0, 0)
		for i := range want {
			want[i] = aggregate.ThroughputRow{By: by, Name: want[i].Name, Packets: want[i].Packets, Bytes: want[i].Bytes}
		}
		if diff := cmp.Diff(want, sums.Throughput(by, letters{}, 0, 0)); diff != "" {
			t.Errorf("by %s: -measured +counted:\n%s", by, diff)
		}
		if diff := cmp.Diff(packets.Throughput(by, letters{}, 0, 0), both.Throughput(by, letters{}, 0, 0)); diff != "" {
			t.Errorf("by %s, measured and counted: -measured +both:\n%s", by, diff)
		}
	}
	if rows := sums.Latency(aggregate.ByEndToEnd, letters{}); len(rows) > 0 {
		t.Errorf("sums have latencies: %+v", rows)
	}
}

// TestSumsBeyondPackets: of a flow of which some packets were measured and more were counted, the rest is not measured.
func TestSumsBeyondPackets(t *testing.T) {
	a, c := aggregate.New(0), make(counters)
	for i := range 10 {
		p := sent(int64(i)*1000, 900)
		c.count(p)
		if i < 4 {
			a.Add(p)
		}
	}
	c.addTo(a)
	r := a.Flows(letters{}, nil)[0]
	if r.Packets != 10 || r.Bytes != 1000 || r.Unmeasured != 6 || r.Delivered != 4 || r.Latency == nil || r.Latency.Count != 4 || r.DurationNs != 9900 {
		t.Errorf("%+v", r)
	}
	if total := a.Totals(); total.Packets != 4 || total.Unmeasured != 6 || total.UnmeasuredBytes != 600 {
		t.Errorf("%+v", total)
	}
}

// Packets that may be those without a flow are taken off with their bytes: the rest has as many bytes each as all.
func TestSumsBesidePacketsWithoutFlow(t *testing.T) {
	a, c := aggregate.New(0), make(counters)
	for i := range 10 {
		p := sent(int64(i)*1000, 900)
		c.count(p)
		if i < 4 {
			p.HasTuple = false
			a.Add(p)
		}
	}
	c.addTo(a)
	if total := a.Totals(); total.NoFlow != 4 || total.Unmeasured != 6 || total.UnmeasuredBytes != 600 {
		t.Errorf("%+v", total)
	}
	if all := a.Throughput(aggregate.ByPort, letters{}, 0, 0)[0]; all.Packets != 10 || all.Bytes != 1000 {
		t.Errorf("%+v", all)
	}
}
