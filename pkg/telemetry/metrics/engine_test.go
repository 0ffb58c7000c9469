// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var flowA = Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Proto: 17, HasPorts: true, SrcPort: 1000, DstPort: 80}

func flowN(n int) Flow {
	f := flowA
	f.SrcPort = uint16(n)
	return f
}

// shares is DefaultConfig without the least value of changes of latencies, which those of these tests
// are below.
func shares() Config {
	c := DefaultConfig()
	c.Thresholds[FlowLatency].Absolute, c.Thresholds[HopLatency].Absolute = 0, 0
	return c
}

// at is a hop of a node with all that there is, the values named in order: latency, occupancy,
// utilisation.
func at(node uint32, values ...uint64) Hop {
	return Hop{
		Has: HasNode | HasPort | HasQueue | HasLatency | HasOccupancy | HasUtilization, Node: node, Port: 7, Queue: 1,
		LatencyNs: values[0], Occupancy: values[1], Utilization: values[2],
	}
}

// feed adds reports, a second apart, and returns what each of them raised.
func feed(e *Engine, reports ...Report) []string {
	var all []string
	for i := range reports {
		reports[i].At = int64(i+1) * int64(time.Second)
		var raised []string
		e.Add(&reports[i], func(ev *Event) { raised = append(raised, text(ev)) })
		all = append(all, strings.Join(raised, ", "))
	}
	return all
}

// text is an event: metric, node, value, what was; + if it is new.
func text(e *Event) string {
	s := e.Metric.String()
	if e.Metric >= HopLatency {
		s += fmt.Sprint(" ", e.Node)
	}
	switch {
	case e.Metric == FlowPath:
		s += fmt.Sprint(" ", e.Path, " was ", e.WasPath)
	case e.New:
		s += fmt.Sprint(" ", e.Value)
	default:
		s += fmt.Sprint(" ", e.Value, " was ", e.Was)
	}
	if e.New {
		s += " +"
	}
	return s
}

func wholePath(f Flow, hops ...Hop) Report {
	return Report{HasFlow: true, Flow: f, WholePath: true, Hops: hops}
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing more", "nothing more"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("report %d raised %q, want %q", i, g, w)
		}
	}
}

func TestEvents(t *testing.T) {
	e := New(shares())
	check(t, feed(e,
		wholePath(flowA, at(1, 1000, 50, 30), at(2, 2000, 60, 40)),
		wholePath(flowA, at(1, 1000, 50, 30), at(2, 2000, 60, 40)),
		wholePath(flowA, at(1, 1100, 55, 33), at(2, 2000, 60, 40)), // 10 % is no more than 10 %
		wholePath(flowA, at(1, 1101, 50, 30), at(2, 2000, 60, 40)),
		wholePath(flowA, at(1, 1101, 50, 30), at(3, 2000, 60, 40)),
	),
		"hop_latency 1 1000 +, queue_occupancy 1 50 +, link_utilization 1 30 +, "+
			"hop_latency 2 2000 +, queue_occupancy 2 60 +, link_utilization 2 40 +, flow_path [1 2] was [] +, flow_latency 3000 +",
		"",
		"",
		"hop_latency 1 1101 was 1000",
		"hop_latency 3 2000 +, queue_occupancy 3 60 +, link_utilization 3 40 +, flow_path [1 3] was [1 2]",
	)
	if c := e.Counts; c.Reports != 5 || c.Unchanged != 2 || c.Events.Sum() != 13 || c.Events[HopLatency] != 4 {
		t.Errorf("counts %+v", c)
	}
}

// TestDrift: what moves by less than the threshold at a time is reported each time it is the
// threshold away from what was reported last.
func TestDrift(t *testing.T) {
	c := shares()
	c.Thresholds[HopLatency] = Threshold{Absolute: 10}
	e := New(c)
	hop := Hop{Has: HasNode | HasLatency, Node: 1}
	var said []uint64
	for v := range uint64(100) {
		hop.LatencyNs = v
		e.Add(&Report{HasFlow: true, Flow: flowA, Hops: []Hop{hop}, At: int64(v)}, func(ev *Event) { said = append(said, ev.Value) })
	}
	want := []uint64{0, 11, 22, 33, 44, 55, 66, 77, 88, 99}
	if !slices.Equal(said, want) {
		t.Errorf("said %d, want %d", said, want)
	}
}

// TestSharedQueue: another flow moves the queue; that this flow's own reports are all alike must
// not hide that the queue has changed back.
func TestSharedQueue(t *testing.T) {
	e := New(shares())
	only := func(f Flow, occupancy uint64) Report {
		return Report{HasFlow: true, Flow: f, Hops: []Hop{{Has: HasNode | HasQueue | HasOccupancy, Node: 1, Queue: 2, Occupancy: occupancy}}}
	}
	a, b := only(flowN(1), 10), only(flowN(2), 100)
	check(t, feed(e, a, b, a, b, b, a),
		"queue_occupancy 1 10 +", "queue_occupancy 1 100 was 10", "queue_occupancy 1 10 was 100",
		"queue_occupancy 1 100 was 10", "", "queue_occupancy 1 10 was 100")
}

func TestCongestion(t *testing.T) {
	c := shares()
	c.Congested = 100
	c.Thresholds[QueueOccupancy] = Threshold{Absolute: 1 << 40}
	queue := func(occupancy uint64) Report {
		return Report{Hops: []Hop{{Has: HasNode | HasQueue | HasOccupancy, Node: 1, Occupancy: occupancy}}}
	}
	check(t, feed(New(c), queue(100), queue(101), queue(60), queue(50), queue(49), queue(100), queue(101)),
		"queue_occupancy 1 100 +, queue_congestion 1 0 +", "queue_congestion 1 1 was 0", "", "", "queue_congestion 1 0 was 1", "", "queue_congestion 1 1 was 0")

	// By the report's Q bit: one that was never set says nothing.
	flag := func(q bool) Report {
		return Report{Hops: []Hop{{Has: HasNode | HasQueue | HasFlag, Node: 1, Flag: q}}}
	}
	check(t, feed(New(shares()), flag(false), flag(true), flag(true), flag(false), flag(false), flag(true)),
		"", "queue_congestion 1 1 +", "", "queue_congestion 1 0 was 1", "", "queue_congestion 1 1 was 0")

	// INT 0.5 has a field, of a queue of its own.
	field := func(n uint64) Report {
		return Report{Hops: []Hop{{Has: HasNode | HasCongestion, Node: 1, CongestionQueue: 5, Congestion: n}}}
	}
	check(t, feed(New(shares()), field(0), field(9), field(3)), "queue_congestion 1 0 +", "queue_congestion 1 1 was 0", "")
}

// TestPartial: what a report does not say has no metric; a postcard and a drop report have no path.
func TestPartial(t *testing.T) {
	e := New(shares())
	whole, noNode, noLatency := at(1, 5, 5, 5), at(2, 5, 5, 5), at(3, 5, 5, 5)
	noNode.Has &^= HasNode
	noLatency.Has, noLatency.LatencyNs = HasNode, 0
	card := wholePath(flowA, whole)
	card.WholePath = false
	noFlow := card
	noFlow.HasFlow = false
	hop := "queue_occupancy 1 5 +, link_utilization 1 5 +"
	check(t, feed(e, noFlow, card, wholePath(flowA, whole, noNode), wholePath(flowA, whole, noLatency), wholePath(flowA)),
		hop, "hop_latency 1 5 +", "flow_latency 10 +", "flow_path [1 3] was [] +", "")
	if e.Counts.NoNode != 1 {
		t.Errorf("counts %+v", e.Counts)
	}
}

// TestBounded: tables hold what they are allowed; what has no room is counted, and keys that
// nobody reports make room.
func TestBounded(t *testing.T) {
	c := shares()
	c.Flows, c.Age = 10, time.Minute
	e := New(c)
	add := func(flow, hops int, when time.Duration) (raised int) {
		r := wholePath(flowN(flow))
		for n := range hops {
			r.Hops = append(r.Hops, at(uint32(100*flow+n), 1, 1, 1))
		}
		r.At = int64(when)
		return e.Add(&r, nil)
	}
	for f := range 20 {
		add(f, 3, 0)
	}
	// 10 flows with 3 hops each; 40 of 60 queues and links.
	if rows := e.Rows(); len(rows) != 10*(2+3)+40+40 || e.Counts.Full != 10+20+20 {
		t.Errorf("%d rows, %d without room", len(rows), e.Counts.Full)
	}
	add(0, 3, 2*time.Minute)
	e.Forget(int64(2*time.Minute + time.Second))
	if rows := e.Rows(); len(rows) != 2+3+3+3 || e.hops != 3 {
		t.Errorf("%d rows after a minute, %d hops", len(rows), e.hops)
	}
	if want := uint64(9*(1+3) + 37 + 37); e.Counts.Aged != want {
		t.Errorf("%d keys went, want %d", e.Counts.Aged, want)
	}
	if n := add(5, 3, 3*time.Minute); n != 2+3+3+3 {
		t.Errorf("a flow that returns raised %d events", n)
	}
	for f := 30; f < 38; f++ {
		add(f, 4, 3*time.Minute)
	}
	if e.hops != 38 {
		t.Errorf("%d hops", e.hops)
	}
}

func TestRows(t *testing.T) {
	e := New(shares())
	feed(e, wholePath(flowA, at(1, 100, 0, 0)), wholePath(flowA, at(1, 105, 0, 0)))
	var got []string
	for _, r := range e.Rows() {
		j := Namer(func(id uint32) string { return fmt.Sprint("n", id) }).Row(&r)
		value := ""
		if j.Value != nil {
			value = fmt.Sprint(*j.Value, *j.Reported)
		}
		got = append(got, fmt.Sprint(j.Metric, " | ", j.Of(), " | ", value, j.Path, j.Reports, j.TNs/1e9, j.ReportedTNs/1e9))
	}
	const flow = "10.0.0.1:1000 > 10.0.0.2:80 udp"
	check(t, got,
		"flow_path | "+flow+" | [n1] 2 2 1",
		"flow_latency | "+flow+" | 105 100[] 2 2 1",
		"hop_latency | "+flow+" at n1 | 105 100[] 2 2 1",
		"queue_occupancy | n1/7 queue 1 | 0 0[] 2 2 1",
		"link_utilization | n1/7 | 0 0[] 2 2 1")
}

func TestParseThreshold(t *testing.T) {
	for _, c := range []struct {
		metric Metric
		text   string
		want   Threshold
		bad    string
	}{
		{HopLatency, "5us", Threshold{Absolute: 5000}, ""},
		{HopLatency, "0", Threshold{}, ""},
		{HopLatency, "12.5%", Threshold{Permille: 125}, ""},
		{QueueOccupancy, "100%", Threshold{Permille: 1000}, ""},
		{HopLatency, "10%,100us", Threshold{Permille: 100, Absolute: 100000}, ""},
		{QueueOccupancy, "10%,5", Threshold{Permille: 100, Absolute: 5}, ""},
		{HopLatency, "10%,5", Threshold{}, "use a time"},
		{HopLatency, "10%,20%", Threshold{}, "use a share and a least value"},
		{HopLatency, "5us,10%", Threshold{}, "use a share and a least value"},
		{QueueOccupancy, "64", Threshold{Absolute: 64}, ""},
		{HopLatency, "64", Threshold{}, "use a time"},
		{HopLatency, "-5us", Threshold{}, "use a time"},
		{QueueOccupancy, "5us", Threshold{}, "use a number"},
		{QueueOccupancy, "0%", Threshold{}, "use 0.1%"},
		{QueueOccupancy, "1.25%", Threshold{}, "use 0.1%"},
		{QueueOccupancy, "%", Threshold{}, "use 0.1%"},
		{FlowPath, "1", Threshold{}, "every change"},
	} {
		got, err := ParseThreshold(c.metric, c.text)
		if got != c.want || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%v %q: %+v, %v", c.metric, c.text, got, err)
		}
	}
}

// BenchmarkAdd: six hops, nothing changed; and each report with an event.
func BenchmarkAdd(b *testing.B) {
	for _, events := range []bool{false, true} {
		b.Run(fmt.Sprintf("events=%v", events), func(b *testing.B) {
			e := New(shares())
			r := wholePath(flowA)
			for n := range 6 {
				r.Hops = append(r.Hops, at(uint32(n), 1000, 10, 10))
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if r.At++; events {
					r.Hops[0].LatencyNs = 1000 << (n & 1)
				}
				e.Add(&r, nil)
			}
		})
	}
}

// TestSeries: of queues and of links there are as many as are allowed, and no events of others, which
// are counted.
func TestSeries(t *testing.T) {
	c := shares()
	c.Series = 5
	e, events := New(c), 0
	for n := range uint32(20) {
		r := Report{Hops: []Hop{at(n, 1, 1, 1)}}
		events += e.Add(&r, nil)
	}
	if rows := e.Rows(); len(rows) != 5+5 || events != 5+5 || e.Counts.Full != 2*15 {
		t.Errorf("%d rows, %d events, %d without room", len(rows), events, e.Counts.Full)
	}
}

// TestFloor: by default a latency that changes by a share of itself is no event below 100 us, and
// nothing else has such a floor.
func TestFloor(t *testing.T) {
	check(t, feed(New(DefaultConfig()),
		wholePath(flowA, at(1, 300_000, 50, 30)),
		wholePath(flowA, at(1, 400_000, 50, 30)), // 100 us are no more than 100 us
		wholePath(flowA, at(1, 400_001, 56, 30)),
		wholePath(flowA, at(1, 5_000_000, 56, 30)),
		wholePath(flowA, at(1, 5_400_000, 56, 30)), // 400 us are no more than 10 %
		wholePath(flowA, at(1, 5_500_001, 56, 34)),
	),
		"hop_latency 1 300000 +, queue_occupancy 1 50 +, link_utilization 1 30 +, flow_path [1] was [] +, flow_latency 300000 +",
		"",
		"hop_latency 1 400001 was 300000, queue_occupancy 1 56 was 50, flow_latency 400001 was 300000",
		"hop_latency 1 5000000 was 400001, flow_latency 5000000 was 400001",
		"",
		"hop_latency 1 5500001 was 5000000, link_utilization 1 34 was 30, flow_latency 5500001 was 5000000")
}

// TestCrossings: the latency of a link is that between two nodes, by the port of the first; tables are
// bounded, and grow old.
func TestCrossings(t *testing.T) {
	c := shares()
	c.Thresholds[LinkLatency].Absolute = 0
	c.Series = 3
	e := New(c)
	from := func(node, port uint32) Hop { return Hop{Has: HasNode | HasPort, Node: node, Port: port} }
	to := func(node uint32, ns uint64) Hop { return Hop{Has: HasNode | HasLink, Node: node, LinkNs: ns} }
	check(t, feed(e,
		Report{Hops: []Hop{from(1, 7), to(2, 100)}},
		Report{Hops: []Hop{from(1, 7), to(2, 110)}},
		Report{Hops: []Hop{from(1, 7), to(2, 111)}},
		Report{Hops: []Hop{from(1, 7), to(3, 50)}},                   // the other end of the same port
		Report{Hops: []Hop{from(1, 8), to(2, 50)}},                   // another port
		Report{Hops: []Hop{from(2, 1), to(3, 50)}},                   // no room
		Report{Hops: []Hop{{Port: 7, Has: HasPort}, to(2, 500)}},     // from nobody knows where
		Report{Hops: []Hop{from(1, 7), {Has: HasLink, LinkNs: 500}}}, // and to
	), "link_latency 1 100 +", "", "link_latency 1 111 was 100", "link_latency 1 50 +", "link_latency 1 50 +", "", "", "")
	if e.Counts.Full != 1 || e.Counts.NoNode != 2 {
		t.Errorf("counts %+v", e.Counts)
	}
	var q Quiet
	if r := (Report{At: 1, Hops: []Hop{from(1, 7), to(2, 111)}}); e.Quiet(&r, &q) {
		t.Error("what the difference of two times is has no band")
	}
	e.Drop(&Report{Hops: []Hop{from(1, 8), to(2, 50)}})
	if rows := e.Rows(); len(rows) != 2 || rows[0].Value != 111 || rows[0].To != 2 || rows[0].Reports != 3 || rows[1].To != 3 {
		t.Errorf("%+v", rows)
	}
	e.Forget(int64(4*time.Second) + int64(c.Age))
	if rows := e.Rows(); len(rows) != 1 || rows[0].To != 3 || e.Counts.Aged != 1 {
		t.Errorf("%+v", rows)
	}
}

// TestSeenLongAgo: values have the time that is in reports, and grow old by when these came.
func TestSeenLongAgo(t *testing.T) {
	c := shares()
	e := New(c)
	now := int64(100 * c.Age)
	last := at(2, 100, 50, 30)
	last.Has |= HasLink
	e.Add(&Report{At: now, SeenAt: 7, HasFlow: true, Flow: flowA, WholePath: true, Hops: []Hop{at(1, 100, 50, 30), last}}, nil)
	before := len(e.Rows())
	for _, r := range e.Rows() {
		if r.At != 7 || r.ReportedAt != 7 {
			t.Errorf("%+v", r)
		}
	}
	if e.Forget(now + int64(c.Age)); len(e.Rows()) != before || before != 9 {
		t.Errorf("%d of %d values are left", len(e.Rows()), before)
	}
	if e.Forget(now + int64(c.Age) + 1); len(e.Rows()) != 0 {
		t.Errorf("%+v", e.Rows())
	}
}
