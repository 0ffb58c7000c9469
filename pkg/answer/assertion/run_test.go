// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// judge holds the one assertion of a text against packets.
func judge(t *testing.T, text string, packets ...record.Record) Result {
	t.Helper()
	f, err := Read("f.yaml", []byte("assertions:\n- name: a\n  "+text))
	if err != nil {
		t.Fatal(err)
	}
	trial := New(&f.Assertions[0])
	for i := range packets {
		trial.Add(&packets[i])
	}
	return trial.Result(func() string { return "why" })
}

func ns(v int64) *int64 { return &v }

// took is a packet from h1 by r1 to h2 that was sent at some time and took so long.
func took(sent, latency int64) record.Record {
	return record.Record{
		ID: fmt.Sprint(sent), State: record.Delivered, Segs: 1, Len: 100, TNs: sent, LatencyNs: ns(latency), Proto: "udp", Src: "a", Dst: "b",
		Hops: []record.Hop{
			{Node: "h1", Port: "e0"},
			{Node: "r1", InPort: "e0", Port: "e1", NodeNs: ns(1), LinkNs: ns(2), LatencyNs: ns(3)},
			{Node: "h2", InPort: "e0", LinkNs: ns(latency - 3), LatencyNs: ns(latency - 3)},
		},
	}
}

// A percentile is below a bound exactly when so many of the packets are, whatever the sketch says that is shown.
func TestPercentiles(t *testing.T) {
	var packets []record.Record
	for i := range int64(1000) {
		packets = append(packets, took(i*1000, i+1)) // 1 to 1000 ns
	}
	for _, c := range []struct {
		bound string
		want  Verdict
	}{
		{"p50: 500ns", Fails}, {"p50: 501ns", Holds}, {"p99: 990ns", Fails}, {"p99: 991ns", Holds},
		{"p99.9: 999ns", Fails}, {"p99.9: 1000ns", Holds}, {"max: 1000ns", Fails}, {"max: 1001ns", Holds},
	} {
		r := judge(t, "latency: {"+c.bound+"}", packets...)
		if r.Verdict != c.want || r.Evidence[0].ID != "999000" || r.Values["count"] != 1000 {
			t.Errorf("%s: %+v", c.bound, r)
		}
	}
	for text, want := range map[string]float64{"node: r1": 1, "link: h1/e0": 2, "hop: h1": 3} {
		if r := judge(t, "latency: {max: 1s, "+text+"}", packets...); r.Values["max_ns"] != want || r.Values["count"] != 1000 {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if r := judge(t, "latency: {max: 1s, node: h9}", packets...); r.Verdict != Fails || r.Cause == "" {
		t.Errorf("of a node that no packet visits: %+v", r)
	}
}

// A packet without a time in a queue did not wait there, unless nothing sees packets leave that queue.
func TestQueueTimes(t *testing.T) {
	packets := []record.Record{took(0, 10), took(1, 10), took(2, 10)}
	if r := judge(t, "latency: {max: 1s, queue: r1/e1}", packets...); r.Verdict != Fails || r.Measured != "no time" || !strings.Contains(r.Cause, "leaving that queue") {
		t.Errorf("nothing sees packets leave: %+v", r)
	}
	packets[2].Hops[1].QueueNs = ns(50)
	if r := judge(t, "latency: {p50: 1ns, max: 51ns, queue: r1/e1}", packets...); r.Verdict != Holds || r.Values["count"] != 3 || r.Values["p50_ns"] != 0 || r.Values["max_ns"] != 50 {
		t.Errorf("two of three did not wait: %+v", r)
	}
}

// Reordered packets are those that one of their flow, sent later, overtakes (RFC 4737): compared with the
// definition, pair by pair.
func TestReordering(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var packets []record.Record
		for i := range int64(60) {
			packets = append(packets, took(i*10, 1+rng.Int64N(60)))
		}
		late := 0
		for i := range packets {
			for j := i + 1; j < len(packets); j++ {
				if packets[j].TNs+*packets[j].LatencyNs < packets[i].TNs+*packets[i].LatencyNs {
					late++
					break
				}
			}
		}
		if r := judge(t, "no_reordering: true", packets...); int(r.Values["reordered"]) != late || (r.Verdict == Holds) != (late == 0) {
			t.Fatalf("%d reordered, %+v", late, r)
		}
	}
	one, other := took(0, 100), took(10, 1)
	other.Src = "c"
	if r := judge(t, "no_reordering: true", one, other); r.Verdict != Holds {
		t.Errorf("packets of two flows: %+v", r)
	}
}

// What is kept of flows is bounded: flows that have ended are forgotten, and without room nothing is promised.
func TestBounds(t *testing.T) {
	read := func(text string) *Trial {
		f, err := Read("f.yaml", []byte("assertions:\n- name: a\n  "+text))
		if err != nil {
			t.Fatal(err)
		}
		return New(&f.Assertions[0])
	}
	why := func() string { return "" }
	r := took(0, 5)
	port := 0
	r.Sport, r.Dport = &port, &port
	order := read("no_reordering: true")
	for port = range mostKept + leastSweep {
		r.TNs = int64(port) * 10
		order.Add(&r)
	}
	if m := order.measure.(*orderMeasure); len(m.flows) > leastSweep || m.kept > leastSweep || order.Result(why).Verdict != Holds {
		t.Errorf("%d flows of which no packet can be overtaken, %d packets, are kept: %+v", len(m.flows), m.kept, order.Result(why))
	}
	order, balance := read("no_reordering: true"), read("balance: {}")
	r.LatencyNs = ns(1e15)
	for port = range mostKept + 10 {
		r.TNs = int64(port)
		order.Add(&r)
		balance.Add(&r)
	}
	for _, trial := range []*Trial{order, balance} {
		if got := trial.Result(why); got.Verdict != Fails || !strings.Contains(got.Cause, "for 10 packets there was no room") {
			t.Errorf("%+v", got)
		}
	}
	if n := order.measure.(*orderMeasure).kept; n != mostKept {
		t.Errorf("%d packets are kept, want %d", n, mostKept)
	}
}

// A file may have an echo's number without its type.
func TestFlowOf(t *testing.T) {
	r, id := took(0, 1), 7
	r.Proto, r.ICMPID = "icmp", &id
	if got := flowOf(&r); got != "icmp a > b" {
		t.Errorf("%q", got)
	}
}

func TestLosses(t *testing.T) {
	lost := took(5, 1)
	lost.State, lost.Loss = record.Lost, &record.Loss{Node: "r1", Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP"}
	var packets []record.Record
	for i := range int64(99) {
		packets = append(packets, took(i, 1))
	}
	packets = append(packets, lost)
	for text, want := range map[string]Verdict{
		"no_loss: true": Fails, "loss: {at_most: 1}": Holds, "loss: {below: 1%}": Fails, "loss: {below: 1.01%}": Holds,
		"loss: {at_most: 0, at: r1}": Fails, "loss: {at_most: 0, at: r1/e1}": Fails, "loss: {at_most: 0, at: r1/e0}": Holds,
		"loss: {at_most: 0, reason: QDISC_DROP}": Fails, "loss: {at_most: 0, reason: NETFILTER_DROP}": Holds,
	} {
		r := judge(t, text, packets...)
		if r.Verdict != want || want == Fails && (len(r.Evidence) != 1 || !strings.Contains(r.Evidence[0].What, "r1/e1")) {
			t.Errorf("%s: %+v", text, r)
		}
	}
}

func TestChanged(t *testing.T) {
	p := took(0, 1)
	p.Hops[1].Src = "192.0.2.1"
	for text, want := range map[string]Verdict{
		"nat: {src: 192.0.2.1}": Holds, "nat: {src: 192.0.2.0/24}": Holds, "nat: {src: 192.0.2.2}": Fails, "nat: {dst: 192.0.2.1}": Fails, "nat: {sport: 5}": Fails,
	} {
		if r := judge(t, text, p); r.Verdict != want {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if r := judge(t, "nat: {src: 192.0.2.1}", p, took(1, 1)); r.Verdict != Fails || r.Evidence[0].What != "unchanged" {
		t.Errorf("one unchanged: %+v", r)
	}
}

func TestRates(t *testing.T) {
	packets := []record.Record{took(0, 1), took(1e9-1, 1)} // 200 bytes in 1 s
	for text, want := range map[string]Verdict{
		"rate: {at_least: 1600bit}": Holds, "rate: {at_least: 1601}": Fails, "rate: {at_most: 1.6kbit}": Holds, "rate: {at_most: 1599}": Fails,
	} {
		if r := judge(t, text, packets...); r.Verdict != want {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if r := judge(t, "rate: {at_most: 1Mbit}"); r.Verdict != Fails || r.Cause != "why" {
		t.Errorf("of no packet: %+v", r)
	}
}

// Packets that have not ended, or lack hops, are no proof.
func TestUnknown(t *testing.T) {
	flying, cut := took(0, 1), took(1, 1)
	flying.State, cut.Truncated = record.InFlight, true
	if r := judge(t, "packets: {at_least: 1}", flying); r.Verdict != Fails {
		t.Errorf("a packet in flight counts: %+v", r)
	}
	if r := judge(t, "never_crosses: r9", cut); r.Verdict != Fails || r.Cause == "" {
		t.Errorf("a path with gaps proves that a node was not crossed: %+v", r)
	}
	if r := judge(t, "path: [h1, r1, h2]", cut); r.Verdict != Fails {
		t.Errorf("a path with gaps is a path: %+v", r)
	}
	if r := judge(t, "path: [h1, r1, h2]", took(0, 1)); r.Verdict != Holds {
		t.Errorf("the path: %+v", r)
	}
}

// Packets that come in another order than they were sent are judged as those that come in order. Trials share a room, and
// give it back.
func TestUnsorted(t *testing.T) {
	f, err := Read("f.yaml", []byte("assertions:\n- {name: a, no_reordering: true}\n- {name: b, balance: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	why := func() string { return "" }
	for _, c := range []struct {
		packets   []record.Record
		reordered float64
	}{
		{[]record.Record{took(500, 5), took(0, 100)}, 0},                 // a slow one is known after a late one
		{[]record.Record{took(500, 5), took(20, 1), took(0, 100)}, 1},    // a late one had made it forget the first
		{[]record.Record{took(20, 1), took(0, 100), took(10, 200)}, 2},   // both are behind the last one
		{[]record.Record{took(0, 100), took(10, 200), took(20, 300)}, 0}, // none is
	} {
		room := NewRoom(8)
		trial := NewUnsorted(&f.Assertions[0], room)
		for i := range c.packets {
			trial.Add(&c.packets[i])
		}
		if r := trial.Result(why); r.Values["reordered"] != c.reordered || r.Undecided {
			t.Errorf("%+v, want %v reordered", r, c.reordered)
		}
		if trial.Free(); room.free != 8 {
			t.Errorf("%d places are free, want 8", room.free)
		}
	}
	room := NewRoom(8)
	order, balance := NewUnsorted(&f.Assertions[0], room), NewUnsorted(&f.Assertions[1], room)
	for port := range 6 {
		r := took(int64(port)*10, 5)
		r.Sport, r.Dport = &port, &port
		order.Add(&r)
		balance.Add(&r)
	}
	if room.free != 0 || !order.IsOver() || !balance.IsOver() || !order.Result(why).Undecided || !balance.Result(why).Undecided {
		t.Errorf("%d places are free, %+v, %+v", room.free, order.Result(why), balance.Result(why))
	}
	if balance.Free(); room.free != 4 {
		t.Errorf("%d places are free, want 4", room.free)
	}
}
