// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// letters names nodes 1, 2, 3 a, b, c, and port 10*n+k of node n "e"k.
type letters struct{}

func (letters) NodeName(n uint16) string {
	if n == packet.NoNode {
		return "?"
	}
	return string(rune('a' + n - 1))
}

func (letters) PortName(p uint16) string {
	if p == packet.NoPort {
		return ""
	}
	return "e" + string(rune('0'+p%10))
}

func (letters) PortNode(p uint16) uint16 { return p / 10 }

const none = packet.NoPort

// delivered is a UDP packet that went a - b - c in 900 ns.
func delivered() *packet.Packet {
	return &packet.Packet{
		State: record.Delivered, LatencyNs: 900, HasTuple: true, Proto: 17, Len: 100, Segs: 1,
		Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 0, 2}), SrcPort: 1, DstPort: 2},
		Hops: []packet.Hop{
			{Node: 1, In: none, Out: 10, InNs: packet.NoTime, OutNs: 0, DequeueNs: packet.NoTime},
			{Node: 2, In: 20, Out: 21, InNs: 200, OutNs: 500, DequeueNs: 750},
			{Node: 3, In: 30, Out: none, InNs: 900, OutNs: packet.NoTime, DequeueNs: packet.NoTime},
		},
	}
}

// lostAt is the same, lost in the queue of b's e1.
func lostAt() *packet.Packet {
	p := delivered()
	p.State, p.LatencyNs, p.Hops = record.Lost, 500, p.Hops[:2]
	p.Hops[1].DequeueNs = packet.NoTime
	p.Lost = true
	p.Loss = packet.Drop{
		Node: 2, Port: 21, At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: packet.NamedFunction("__dev_queue_xmit"), First: true,
	}
	return p
}

func ptr[T any](v T) *T { return &v }

func exactly(n uint64, ns int64) aggregate.Quantiles {
	return aggregate.Quantiles{Count: n, MinNs: ns, P50Ns: ns, P90Ns: ns, P99Ns: ns, P999Ns: ns, MaxNs: ns}
}

// Waits of which nothing saw the end are counted, by packets.
func TestQueueUnseen(t *testing.T) {
	a := aggregate.New(0)
	a.Add(delivered())
	train := delivered()
	train.Segs, train.Hops[1].DequeueNs, train.Hops[1].QueueUnseen = 3, packet.NoTime, true
	a.Add(train)
	if got := a.Totals().QueueUnseen; got != 3 {
		t.Errorf("%d waits are unseen, want 3", got)
	}
}

func TestAdd(t *testing.T) {
	a := aggregate.New(0)
	a.Add(delivered())
	a.Add(delivered())
	other := delivered()
	other.SrcPort = 77
	a.Add(other)
	a.Add(lostAt())
	train := lostAt()
	train.Segs, train.Len = 4, 6000
	a.Add(train)
	rest := lostAt() // another segment of the same skb
	rest.Loss.First = false
	a.Add(rest)
	gone := delivered()
	gone.State, gone.Hops, gone.LatencyNs = record.Expired, gone.Hops[:1], packet.NoTime
	gone.Missing = true
	gone.Loss = packet.Drop{Node: 1, Port: 10, At: record.AtLink, Reason: record.NotSeen, First: true}
	a.Add(gone)
	left := delivered()
	left.State = record.Left
	left.Hops = []packet.Hop{{Node: 2, In: 20, Out: 22, InNs: 0, OutNs: 300, DequeueNs: packet.NoTime}}
	left.LatencyNs = 300
	a.Add(left)
	local := delivered()
	local.LocalDrop, local.Truncated = true, true
	local.Loss = packet.Drop{Node: 3, Port: none, At: record.AtNode, Reason: "NO_SOCKET", First: true}
	a.Add(local)

	wantTotals := aggregate.Totals{
		Packets: 12, Bytes: 6800, Delivered: 4, Left: 1, Lost: 6, Expired: 1, LocalDrops: 1, Truncated: 1,
	}
	if diff := cmp.Diff(wantTotals, a.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	flow := aggregate.Flow{IPVersion: 4, Proto: "udp", Src: "10.0.0.1", Dst: "10.0.0.2", Sport: ptr(1), Dport: ptr(2)}
	wantLosses := []aggregate.LossRow{{
		LossPlace: aggregate.LossPlace{
			Node: "b", NodeID: 2, Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "__dev_queue_xmit",
		},
		Packets: 6, Skbs: 2, Bytes: 6200, Flows: 1, TopFlows: []aggregate.LossFlow{{Flow: flow, Packets: 6, Bytes: 6200, There: flow}},
	}, {
		LossPlace: aggregate.LossPlace{Node: "a", NodeID: 1, Port: "e0", At: record.AtLink, Reason: record.NotSeen},
		Packets:   1, Skbs: 1, Bytes: 100, Flows: 1, TopFlows: []aggregate.LossFlow{{Flow: flow, Packets: 1, Bytes: 100, There: flow}},
	}}
	if diff := cmp.Diff(wantLosses, a.Losses(letters{})); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	wantLocal := []aggregate.LossRow{{
		LossPlace: aggregate.LossPlace{Node: "c", NodeID: 3, At: record.AtNode, Reason: "NO_SOCKET"},
		Packets:   1, Skbs: 1, Bytes: 100, Flows: 1, TopFlows: []aggregate.LossFlow{{Flow: flow, Packets: 1, Bytes: 100, There: flow}},
	}}
	if diff := cmp.Diff(wantLocal, a.LocalDrops(letters{})); diff != "" {
		t.Errorf("local drops (-want +got):\n%s", diff)
	}

	ha, hb, hc := aggregate.PathHop{Node: "a", NodeID: 1, Port: "e0"}, aggregate.PathHop{Node: "b", NodeID: 2, InPort: "e0", Port: "e1"}, aggregate.PathHop{Node: "c", NodeID: 3, InPort: "e0"}
	full, out := exactly(3, 900), exactly(1, 300)
	cutOff := exactly(1, 900)
	wantPaths := []aggregate.PathRow{
		{Path: "a > b", Hops: []aggregate.PathHop{ha, hb}, Packets: 6, Bytes: 6200, Flows: 1, Lost: 6},
		{Path: "a > b > c", Hops: []aggregate.PathHop{ha, hb, hc}, Packets: 3, Bytes: 300, Flows: 2, Delivered: 3, Latency: &full},
		{Path: "a", Hops: []aggregate.PathHop{ha}, Packets: 1, Bytes: 100, Flows: 1, Expired: 1},
		{Path: "a > b > c", Hops: []aggregate.PathHop{ha, hb, hc}, Packets: 1, Bytes: 100, Flows: 1, Delivered: 1, Truncated: true, Latency: &cutOff},
		{Path: "b", Hops: []aggregate.PathHop{{Node: "b", NodeID: 2, InPort: "e0", Port: "e2"}}, Packets: 1, Bytes: 100, Flows: 1, Left: 1, Latency: &out},
	}
	if diff := cmp.Diff(wantPaths, a.Paths(letters{})); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	for by, want := range map[aggregate.By][]aggregate.LatencyRow{
		aggregate.ByNode: {{By: aggregate.ByNode, Name: "b", Quantiles: exactly(11, 300)}},
		aggregate.ByLink: {
			{By: aggregate.ByLink, Name: "a/e0 > b/e0", Quantiles: exactly(10, 200)},
			{By: aggregate.ByLink, Name: "b/e1 > c/e0", Quantiles: exactly(4, 150)},
		},
		aggregate.ByQueue: {{By: aggregate.ByQueue, Name: "b/e1", Quantiles: exactly(4, 250)}},
		aggregate.ByPath: {
			{By: aggregate.ByPath, Name: "a > b > c", Quantiles: full, Hops: wantPaths[1].Hops},
			{By: aggregate.ByPath, Name: "a > b > c", Quantiles: cutOff, Hops: wantPaths[3].Hops, Truncated: true},
			{By: aggregate.ByPath, Name: "b", Quantiles: out, Hops: wantPaths[4].Hops},
		},
	} {
		if diff := cmp.Diff(want, a.Latency(by, letters{})); diff != "" {
			t.Errorf("latency by %s (-want +got):\n%s", by, diff)
		}
	}
	rows := a.Latency(aggregate.ByEndToEnd, letters{})
	if len(rows) != 3 || rows[0].Name != aggregate.All || rows[0].Count != 5 || rows[0].MinNs != 300 || rows[0].MaxNs != 900 ||
		rows[1].Name != "a > c" || rows[1].Count != 4 || // one of them is truncated, its end known
		rows[2].Name != "b > b" {
		t.Errorf("end to end: %+v", rows)
	}
}

func TestQuantiles(t *testing.T) {
	a := aggregate.New(0)
	for i := range 100000 {
		p := delivered()
		p.LatencyNs = int64(i + 1)
		a.Add(p)
	}
	q := a.Latency(aggregate.ByEndToEnd, letters{})[0].Quantiles
	if q.Count != 100000 || q.MinNs != 1 || q.MaxNs != 100000 {
		t.Errorf("%+v: count, min and max must be exact", q)
	}
	for _, c := range []struct{ got, want int64 }{{q.P50Ns, 50000}, {q.P90Ns, 90000}, {q.P99Ns, 99000}, {q.P999Ns, 99900}} {
		if off := float64(c.got-c.want) / float64(c.want); off > aggregate.Accuracy || off < -aggregate.Accuracy {
			t.Errorf("%d ns, want %d within %v", c.got, c.want, aggregate.Accuracy)
		}
	}
}

func TestQuantilesOfZero(t *testing.T) {
	a := aggregate.New(0)
	p := delivered()
	p.LatencyNs = 0
	a.Add(p)
	if q := a.Latency(aggregate.ByEndToEnd, letters{})[0].Quantiles; q != exactly(1, 0) {
		t.Errorf("%+v, want 0 ns", q)
	}
}

// Flows are told apart by all that makes a flow, and by nothing else.
func TestFlows(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(p *packet.Packet)
		flows  uint64
	}{
		{"the same", func(p *packet.Packet) {}, 1},
		{"another source", func(p *packet.Packet) { p.Src[3]++ }, 2},
		{"another destination", func(p *packet.Packet) { p.Dst[3]++ }, 2},
		{"another source port", func(p *packet.Packet) { p.SrcPort++ }, 2},
		{"another destination port", func(p *packet.Packet) { p.DstPort++ }, 2},
		{"another protocol", func(p *packet.Packet) { p.Proto = 6 }, 2},
		{"another IP ID", func(p *packet.Packet) { p.ID++ }, 1},
		{"a later fragment", func(p *packet.Packet) { p.Later = true; p.SrcPort = 0 }, 1},
		{"header not known", func(p *packet.Packet) { p.HasTuple = false; p.Src[0]++ }, 1},
		{"addresses changed on the way", func(p *packet.Packet) { p.Hops[1].Changed = true; p.Hops[1].Tuple.SrcPort = 9 }, 1},
	} {
		a := aggregate.New(0)
		a.Add(delivered())
		p := delivered()
		tc.change(p)
		a.Add(p)
		if got := a.Paths(letters{})[0].Flows; got != tc.flows {
			t.Errorf("%s: %d flows, want %d", tc.name, got, tc.flows)
		}
	}
}

// Every echo request of one ping is one flow; another ping is another.
func TestEchoFlows(t *testing.T) {
	a := aggregate.New(0)
	for ping := range uint16(2) {
		for seq := range uint16(5) {
			p := delivered()
			p.Proto, p.ICMP, p.SrcPort, p.DstPort = 1, [2]uint8{8, 0}, ping, seq
			a.Add(p)
		}
	}
	if got := a.Paths(letters{})[0].Flows; got != 2 {
		t.Errorf("%d flows, want 2", got)
	}
}

// What does not fit is counted, and nothing grows.
func TestBounds(t *testing.T) {
	a := aggregate.New(0)
	for i := range aggregate.MaxPaths + 10 {
		p := delivered()
		p.Hops[1].Node = uint16(i)
		a.Add(p)
	}
	if got := a.Totals(); got.OverPaths != 10 || got.Packets != aggregate.MaxPaths+10 {
		t.Errorf("%+v, want 10 packets over paths, all counted", got)
	}
	if n := len(a.Paths(letters{})); n != aggregate.MaxPaths {
		t.Errorf("%d paths, want %d", n, aggregate.MaxPaths)
	}
	if q := a.Latency(aggregate.ByEndToEnd, letters{})[0]; q.Count != aggregate.MaxPaths+10 {
		t.Errorf("%d times end to end, want those over the bound too", q.Count)
	}

	a = aggregate.New(0)
	for i := range aggregate.MaxFlowRows + 10 {
		p := delivered()
		p.Src = packet.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
		a.Add(p)
	}
	row := a.Paths(letters{})[0]
	if row.Flows != aggregate.MaxFlowRows || !row.FlowsMore || a.Totals().OverFlows != 10 {
		t.Errorf("%d flows, more %v, %+v", row.Flows, row.FlowsMore, a.Totals())
	}
	if n := len(a.Flows(letters{}, nil)); n != aggregate.MaxFlowRows {
		t.Errorf("%d rows of flows, want %d", n, aggregate.MaxFlowRows)
	}

	a = aggregate.New(0)
	for i := range aggregate.MaxLosses + 10 {
		p := lostAt()
		p.Loss.Port = uint16(i)
		a.Add(p)
	}
	if got := a.Totals(); got.OverLosses != 10 || got.Lost != aggregate.MaxLosses+10 {
		t.Errorf("%+v, want 10 over losses", got)
	}

	a = aggregate.New(0)
	for i := range 130 { // 16,900 pairs of ports
		for j := range 130 {
			p := delivered()
			p.Hops[0].Out, p.Hops[1].In, p.Hops[1].Out = uint16(i), uint16(1000+j), none
			p.Hops = p.Hops[:2]
			a.Add(p)
		}
	}
	if got := a.Totals(); got.OverPaths == 0 || got.OverLinks != 130*130-aggregate.MaxLinks {
		t.Errorf("%+v, want %d over links", got, 130*130-aggregate.MaxLinks)
	}
}

func BenchmarkAdd(b *testing.B) {
	a := aggregate.New(0)
	p := delivered()
	b.ReportAllocs()
	for i := range b.N {
		p.SrcPort = uint16(i)
		p.LatencyNs = int64(900 + i%100000)
		a.Add(p)
	}
}

// Places that differ in their qdisc only stand in the same order each time.
func TestLossOrder(t *testing.T) {
	a := aggregate.New(0)
	for _, qdisc := range []string{"tbf", "pfifo", "netem"} {
		p := lostAt()
		p.Loss.Qdisc = qdisc
		a.Add(p)
	}
	for range 50 {
		if rows := a.Losses(letters{}); len(rows) != 3 || rows[0].Qdisc != "netem" || rows[1].Qdisc != "pfifo" {
			t.Fatalf("losses %+v, want netem, pfifo, tbf", rows)
		}
	}
}

// TestThere: a flow is told as it was at each place where it was lost, whatever its other packets met.
func TestThere(t *testing.T) {
	nat := packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 0, 9}), SrcPort: 1, DstPort: 80}
	a := aggregate.New(0)
	early := lostAt() // before it is translated
	early.Loss.Node, early.Loss.Port = 1, 10
	early.Hops[1].Changed, early.Hops[1].Tuple = true, nat
	a.Add(early)
	translated := lostAt()
	translated.Hops[1].Changed, translated.Hops[1].Tuple = true, nat
	a.Add(translated)
	local := delivered()
	local.Hops[1].Changed, local.Hops[1].Tuple = true, nat
	local.LocalDrop, local.Loss = true, packet.Drop{Node: 3, Port: none, At: record.AtNode, Reason: "NO_SOCKET", First: true}
	a.Add(local)
	a.Add(delivered())
	check := func(a *aggregate.Aggregates) {
		t.Helper()
		rows := append(a.Losses(letters{}), a.LocalDrops(letters{})...)
		if len(rows) != 3 {
			t.Fatalf("%+v", rows)
		}
		for i, want := range []string{"10.0.0.2", "10.0.0.9", "10.0.0.9"} {
			if f := rows[i].TopFlows[0]; f.Dst != "10.0.0.2" || f.There.Dst != want || (*f.There.Dport == 80) != (want == "10.0.0.9") {
				t.Errorf("at %s: to %s port %d, want %s", rows[i].Node, f.There.Dst, *f.There.Dport, want)
			}
		}
	}
	check(a)
	again, err := a.Copy()
	if err != nil {
		t.Fatal(err)
	}
	check(again)
}
