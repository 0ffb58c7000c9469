// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// at is a stamp that is so many ns after a whole second of Unix time.
func at(ns int64) uint64 { return uint64(1_800_000_000_000_000_000 + ns) }

// sent is delivered(), sent at begin and under way for so long.
func sent(begin, latency int64) *packet.Packet {
	p := delivered()
	p.T0, p.LatencyNs = at(begin), latency
	p.Hops[2].InNs = latency
	return p
}

// Every number of a flow, worked out by hand.
func TestFlowRow(t *testing.T) {
	a := aggregate.New(0)
	add := func(p *packet.Packet, change func(p *packet.Packet)) {
		if change != nil {
			change(p)
		}
		a.Add(p)
	}
	nat := func(p *packet.Packet) {
		p.Hops[1].Changed = true
		p.Hops[1].Tuple = packet.Tuple{Src: packet.AddrFrom4([4]byte{192, 0, 2, 1}), Dst: p.Dst, SrcPort: 1024, DstPort: p.DstPort}
	}
	add(sent(0, 1600), nat)
	// Sent third, arrives second; then the train, at 3000; then the one sent second.
	add(sent(1000, 3200), nat) // at 4200: D = 3200-1000, reordered
	add(sent(1500, 800), nat)  // at 2300: D = 800-1600
	add(sent(2000, 1000), func(p *packet.Packet) { p.Segs, p.Len = 4, 1400 })
	lost := lostAt() // last stamp at 6000+500
	lost.T0 = at(6000)
	add(lost, nil)
	add(sent(4000, 100), func(p *packet.Packet) { // not seen again
		p.State, p.Hops, p.LatencyNs = record.Expired, p.Hops[:1], packet.NoTime
	})
	add(sent(5000, 400), func(p *packet.Packet) { // at 5400: D = 400-3200
		p.LocalDrop = true
		p.Loss = packet.Drop{Node: 3, Port: none, At: record.AtNode, Reason: "SOCKET_RCVBUFF", First: true}
	})

	// J: 0, +(800-0)/16 = 50, +(200-50)/16 = 59.375, +(2200-59.375)/16 = 193.1640625,
	// +(2800-193.1640625)/16 = 356.0913...
	first := int64(1_800_000_000_000_000_000)
	want := []aggregate.FlowRow{{
		Flow:   aggregate.Flow{IPVersion: 4, Proto: "udp", Src: "10.0.0.1", Dst: "10.0.0.2", Sport: ptr(1), Dport: ptr(2)},
		NATSrc: "192.0.2.1", NATSport: ptr(1024),
		Packets: 10, Bytes: 2000, Delivered: 8, Lost: 1, Expired: 1, LocalDrops: 1, Dropped: 1,
		FirstNs: first, LastNs: first + 6500, DurationNs: 6500, RateBps: ptr(uint64(2461538462)), // 16,000 bits in 6.5 us
		Latency:  &aggregate.Quantiles{Count: 8, MinNs: 400, P50Ns: 1003, P90Ns: 3200, P99Ns: 3200, P999Ns: 3200, MaxNs: 3200},
		JitterNs: ptr(int64(356)), Reordered: 1, ReorderedRatio: ptr(0.125), Paths: 3,
		PathList: []aggregate.FlowPath{{Path: "a > b > c", Packets: 8}, {Path: "a", Packets: 1}, {Path: "a > b", Packets: 1}},
	}}
	got := a.Flows(letters{}, nil)
	if d := got[0].Latency.P50Ns - 1000; d < -10 || d > 10 {
		t.Errorf("p50 %d, want 1000 within 1 %%", got[0].Latency.P50Ns)
	}
	want[0].Latency.P50Ns = got[0].Latency.P50Ns
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	rows := a.Latency(aggregate.ByFlow, letters{})
	wantRow := aggregate.LatencyRow{By: aggregate.ByFlow, Name: "10.0.0.1:1 > 10.0.0.2:2 udp",
		Quantiles: *want[0].Latency, JitterNs: want[0].JitterNs, Flow: &want[0].Flow}
	if diff := cmp.Diff([]aggregate.LatencyRow{wantRow}, rows); diff != "" {
		t.Errorf("latency by flow -want +got:\n%s", diff)
	}
}

// One packet has no rate: its time on the way is not what its source needed.
func TestRateOfOnePacket(t *testing.T) {
	a := aggregate.New(0)
	a.Add(sent(0, 1000))
	if row := a.Flows(letters{}, nil)[0]; row.RateBps != nil || row.DurationNs != 1000 {
		t.Errorf("%+v", row)
	}
	a.Add(sent(1000, 1000))
	if row := a.Flows(letters{}, nil)[0]; row.RateBps == nil || *row.RateBps != 800_000_000 { // 1,600 bits in 2 us
		t.Errorf("%+v", row)
	}
}

// TestUndated: reports come in batches, and not as packets were sent. Of packets that have no other time there is no
// reordering and no jitter, and a rate only over a span that is long against a batch.
func TestUndated(t *testing.T) {
	a := aggregate.New(0)
	add := func(at, took int64) {
		p := sent(at, took)
		p.Undated = true
		a.Add(p)
	}
	add(0, 9000) // one batch: as they were sent, but not as long under way
	add(0, 1000)
	add(500, 1000)
	row := a.Flows(letters{}, nil)[0]
	if row.RateBps != nil || row.ReorderedRatio != nil || row.Reordered != 0 || row.JitterNs != nil || row.Latency == nil {
		t.Errorf("%+v", row)
	}
	if n := a.Totals().Undated; n != 3 {
		t.Errorf("%d undated", n)
	}
	add(2_000_000_000, 1000)
	if row = a.Flows(letters{}, nil)[0]; row.RateBps == nil || *row.RateBps != 1600 || row.Reordered != 0 {
		t.Errorf("%+v", row)
	}
}

func toIPv6(p *packet.Packet) {
	p.IPv6 = true
	p.Src, p.Dst = packet.Addr{0x20, 1, 0xd, 0xb8, 15: 1}, packet.Addr{0xfd, 15: 2}
}

// What a flow is called, and which packets are in it.
func TestFlowNames(t *testing.T) {
	for _, tc := range []struct {
		want   string
		change func(p *packet.Packet)
	}{
		{"10.0.0.1:1 > 10.0.0.2:2 udp", func(p *packet.Packet) {}},
		{"10.0.0.1:1 > 10.0.0.2:2 tcp", func(p *packet.Packet) { p.Proto = 6 }},
		{"10.0.0.1 > 10.0.0.2 icmp echo id 1", func(p *packet.Packet) { p.Proto, p.ICMP[0] = 1, 8 }},
		{"10.0.0.1 > 10.0.0.2 icmp reply id 1", func(p *packet.Packet) { p.Proto, p.ICMP[0] = 1, 0 }},
		{"10.0.0.1 > 10.0.0.2 icmp type 11", func(p *packet.Packet) { p.Proto, p.ICMP[0], p.SrcPort, p.DstPort = 1, 11, 0, 0 }},
		{"[2001:db8::1]:1 > [fd00::2]:2 udp", toIPv6},
		{"2001:db8::1 > fd00::2 icmpv6 echo id 1", func(p *packet.Packet) { toIPv6(p); p.Proto, p.ICMP[0] = 58, 128 }},
		{"2001:db8::1 > fd00::2 icmpv6 reply id 1", func(p *packet.Packet) { toIPv6(p); p.Proto, p.ICMP[0] = 58, 129 }},
		{"2001:db8::1 > fd00::2 icmpv6 type 2", func(p *packet.Packet) { toIPv6(p); p.Proto, p.ICMP[0] = 58, 2 }},
		{"10.0.0.1 > 10.0.0.2 gre", func(p *packet.Packet) { p.Proto, p.SrcPort, p.DstPort = 47, 0, 0 }},
		{"10.0.0.1 > 10.0.0.2 udp fragments", func(p *packet.Packet) { p.Later, p.SrcPort, p.DstPort = true, 0, 0 }},
		{"", func(p *packet.Packet) { p.HasTuple = false }},
	} {
		a := aggregate.New(0)
		p := delivered()
		tc.change(p)
		a.Add(p)
		rows, got := a.Flows(letters{}, nil), ""
		if len(rows) > 0 {
			got = rows[0].String()
		}
		if got != tc.want {
			t.Errorf("flow %q, want %q", got, tc.want)
		}
		if noFlow := a.Totals().NoFlow; (tc.want == "") != (noFlow == 1) {
			t.Errorf("%q: %d packets in no flow", tc.want, noFlow)
		}
	}
}

// Filters choose by the flow's header and by what NAT made of it.
func TestKeepFlows(t *testing.T) {
	a := aggregate.New(0)
	p := lostAt()
	p.Hops[1].Changed, p.Hops[1].Tuple = true, p.Tuple
	p.Hops[1].Tuple.DstPort = 99
	a.Add(p)
	for port, want := range map[uint16]int{2: 1, 99: 1, 3: 0} {
		keep := func(p *packet.Packet) bool {
			return p.Src.Text(p.IPv6) == "10.0.0.1" && p.Proto == 17 && p.HasPorts() && (p.DstPort == port || p.Hops[0].Changed && p.Hops[0].Tuple.DstPort == port)
		}
		if got := len(a.Flows(letters{}, keep)); got != want {
			t.Errorf("port %d: %d flows, want %d", port, got, want)
		}
		if got := len(a.LossesByFlow(letters{}, keep)); got != want {
			t.Errorf("port %d: %d flows with losses, want %d", port, got, want)
		}
	}
}

// Losses know the flows that they hit.
func TestLossFlows(t *testing.T) {
	a := aggregate.New(0)
	for i := range 8 {
		for range i + 1 {
			p := lostAt()
			p.SrcPort = uint16(i)
			a.Add(p)
		}
	}
	fragment := lostAt()
	fragment.Later = true
	a.Add(fragment)
	unknown := lostAt()
	unknown.HasTuple = false
	a.Add(unknown)
	row := a.Losses(letters{})[0]
	if row.Packets != 38 || row.Flows != 8 || !row.FlowsMore || len(row.TopFlows) != aggregate.TopFlows {
		t.Errorf("%+v, want 38 packets of 8 flows or more", row)
	}
	if top := row.TopFlows[0]; *top.Sport != 7 || top.Packets != 8 || top.Bytes != 800 {
		t.Errorf("most lost by %+v, want port 7 with 8 packets", top)
	}
	rows := a.LossesByFlow(letters{}, nil)
	if len(rows) != 9 || rows[0].Node != "b" || rows[0].Packets != 8 || rows[8].Packets != 1 {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
	if rows := a.LocalDropsByFlow(letters{}, nil); len(rows) != 0 {
		t.Errorf("drops after delivery: %+v", rows)
	}
}

// same gives nodes 2 and 4 and their ports the same names, as after a restart.
type same struct{ letters }

func (s same) NodeName(n uint16) string {
	if n == 4 {
		n = 2
	}
	return s.letters.NodeName(n)
}

func TestSameNamesAreOneRow(t *testing.T) {
	a := aggregate.New(0)
	for i := range uint16(4) {
		for _, p := range []*packet.Packet{delivered(), lostAt()} {
			p.SrcPort = i / 2
			p.T0 = at(int64(i) * 5e8)
			if i%2 == 1 {
				p.Hops[1].Node, p.Hops[1].In, p.Hops[1].Out = 4, 40, 41
				p.Loss.Node, p.Loss.Port = 4, 41
			}
			a.Add(p)
		}
	}
	paths := a.Paths(same{})
	if len(paths) != 2 || paths[1].Packets != 4 || paths[1].Flows != 2 || paths[1].Latency.Count != 4 || paths[1].Hops[1].NodeID != 4 {
		t.Errorf("paths %+v", paths)
	}
	for by, want := range map[aggregate.By]int{aggregate.ByNode: 1, aggregate.ByLink: 2, aggregate.ByPath: 1} {
		rows := a.Latency(by, same{})
		if len(rows) != want || rows[0].Count%4 != 0 {
			t.Errorf("latency by %s: %+v", by, rows)
		}
	}
	losses := a.Losses(same{})
	if len(losses) != 1 || losses[0].Packets != 4 || losses[0].Flows != 2 || losses[0].TopFlows[0].Packets != 2 {
		t.Errorf("losses %+v", losses)
	}
	for _, r := range a.Flows(same{}, nil) {
		if r.Paths != 2 || r.PathList[0].Packets != 2 {
			t.Errorf("flow %+v", r)
		}
	}
	for _, r := range a.Throughput(aggregate.ByNode, same{}, 0, 0) {
		if r.Packets != 8 && r.Name != "c" || r.ActiveS != 2 {
			t.Errorf("throughput %+v", r)
		}
	}
}

func TestManyPathsOfOneFlow(t *testing.T) {
	a := aggregate.New(0)
	for i := range aggregate.MaxFlowPaths + 3 {
		p := delivered()
		p.Hops[1].Node = uint16(i + 1)
		a.Add(p)
	}
	row := a.Flows(letters{}, nil)[0]
	if row.Paths != aggregate.MaxFlowPaths || !row.PathsMore {
		t.Errorf("%d paths, more %v", row.Paths, row.PathsMore)
	}
	flows, more := uint64(0), 0
	for _, p := range a.Paths(letters{}) {
		flows += p.Flows
		if p.FlowsMore {
			more++
		}
	}
	if flows != aggregate.MaxFlowPaths || more != 3 {
		t.Errorf("paths have %d flows, %d of them perhaps more", flows, more)
	}
}

// Latencies that have no room are counted, also after a snapshot; and a snapshot knows how
// much room is left.
func TestLatenciesWithoutRoom(t *testing.T) {
	a := aggregate.New(0)
	const own, rest = 15, 9 // one bucket more is there before
	a.Add(delivered())
	a.SetBuckets(aggregate.MaxFlowBuckets)
	for i := range int64(own + rest) {
		p := sent(1000*i, 1000*(i+1))
		p.Segs = 2
		a.Add(p)
	}
	if got := a.Buckets() - aggregate.MaxFlowBuckets; got != own {
		t.Errorf("%d buckets more, want %d", got, own)
	}
	a.SetBuckets(own + 1)
	b, err := a.Copy()
	must(t, err)
	if b.Buckets() != own+1 {
		t.Errorf("the snapshot has %d buckets, want %d", b.Buckets(), own+1)
	}
	for _, a := range []*aggregate.Aggregates{a, b} {
		l := a.Flows(letters{}, nil)[0].Latency
		if l.Inexact != 2*rest || l.Count != 1+2*(own+rest) || l.MinNs != 900 || l.MaxNs != 1000*(own+rest) {
			t.Errorf("latency %+v", l)
		}
	}
}

// manyFlows fills the table: every flow with 50 packets that took 10 to 30 us.
func manyFlows() *aggregate.Aggregates {
	a := aggregate.New(0)
	p := delivered()
	for i := range 50 {
		for flow := range aggregate.MaxFlowRows {
			p.Src = packet.AddrFrom4([4]byte{10, byte(flow >> 16), byte(flow >> 8), byte(flow)})
			p.T0 = at(int64(i)*1e6 + int64(flow))
			p.LatencyNs = int64(10000 + (flow*7919+i*104729)%20000)
			a.Add(p)
		}
	}
	a.SettleAll()
	return a
}

// What a flow takes is what the comment of MaxFlowRows says.
func TestMemoryOfFlows(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a := manyFlows()
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / aggregate.MaxFlowRows
	t.Logf("%.0f bytes a flow", each)
	if each > 1100 {
		t.Errorf("%.0f bytes a flow", each)
	}
	runtime.KeepAlive(a)
}

// TestSnapshotGrows: a snapshot that gets longer takes a further chunk, not all of its memory
// anew; and all that it says can be read.
func TestSnapshotGrows(t *testing.T) {
	a, p := aggregate.New(0), delivered()
	var before, after runtime.MemStats
	for round := range 50 {
		for i := range 1000 {
			p.Src = packet.AddrFrom4([4]byte{10, byte(round), byte(i >> 8), byte(i)})
			a.Add(p)
		}
		a.SettleAll()
		runtime.ReadMemStats(&before)
		chunks := a.EncodeChunks()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; round > 0 && took > 2*aggregate.ChunkBytes {
			t.Errorf("%d bytes for a snapshot of %d chunks after one with 1000 flows less", took, len(chunks))
		}
	}
	if n := len(a.EncodeChunks()); n < 5 {
		t.Fatalf("%d chunks", n)
	}
	b, err := a.Copy()
	must(t, err)
	if diff := cmp.Diff(a.Flows(letters{}, nil), b.Flows(letters{}, nil)); diff != "" {
		t.Error(diff)
	}
}

// A snapshot of many paths is written over an older one, too, chunk by chunk.
func TestSnapshotOfPaths(t *testing.T) {
	a, p := aggregate.New(0), delivered()
	for second := range int64(20) {
		for node := range uint16(aggregate.MaxPaths) {
			p.Hops[1].Node, p.T0 = node+10, at(second*1e9)
			a.Add(p)
		}
	}
	a.SettleAll()
	var before, after runtime.MemStats
	for round := range 4 {
		runtime.ReadMemStats(&before)
		chunks := a.EncodeChunks()
		runtime.ReadMemStats(&after)
		if len(chunks) < 3 {
			t.Fatalf("%d chunks", len(chunks))
		}
		if took := after.TotalAlloc - before.TotalAlloc; round > 1 && took > aggregate.ChunkBytes {
			t.Errorf("%d bytes to write %d chunks again", took, len(chunks))
		}
	}
}

// BenchmarkSnapshot makes a snapshot of a full table, of which all flows or every
// hundredth have changed since the last one.
func BenchmarkSnapshot(b *testing.B) {
	for name, every := range map[string]int{"all": 1, "few": 100} {
		b.Run(name, func(b *testing.B) {
			a := manyFlows()
			var chunks [][]byte
			p := delivered()
			for b.Loop() {
				b.StopTimer()
				for flow := 0; flow < aggregate.MaxFlowRows; flow += every {
					p.Src = packet.AddrFrom4([4]byte{10, byte(flow >> 16), byte(flow >> 8), byte(flow)})
					p.T0 += 1000
					a.Add(p)
				}
				a.SettleAll()
				b.StartTimer()
				chunks = a.EncodeChunks()
			}
			b.ReportMetric(float64(len(slices.Concat(chunks...))), "bytes")
		})
	}
}

func BenchmarkReadSnapshot(b *testing.B) {
	snapshot := manyFlows().Encode()
	for b.Loop() {
		if err := aggregate.Decode(snapshot); err != nil {
			b.Fatal(err)
		}
	}
}
