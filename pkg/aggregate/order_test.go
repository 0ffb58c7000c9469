// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// sighting is a packet that arrived.
type sighting struct {
	sent, at int64
	segs     int
}

// byHand is jitter and reordered packets by the letter of RFC 3550 and RFC 4737,
// from all arrivals at once.
func byHand(list []sighting) (jitter int64, reordered, arrived uint64) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b sighting) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sent, b.sent)) })
	j := 0.0
	for i, x := range list {
		arrived += uint64(x.segs)
		if i > 0 {
			before := list[i-1]
			d := (x.at - before.at) - (x.sent - before.sent)
			j += (math.Abs(float64(d)) - j) / 16
		}
		if slices.ContainsFunc(list[:i], func(y sighting) bool { return y.sent > x.sent }) {
			reordered += uint64(x.segs)
		}
	}
	return int64(math.Round(j)), reordered, arrived
}

func compareOrder(t *testing.T, row aggregate.FlowRow, list []sighting) {
	t.Helper()
	jitter, reordered, arrived := byHand(list)
	if *row.JitterNs != jitter || row.Reordered != reordered || row.Delivered != arrived {
		t.Errorf("%s: jitter %d, reordered %d of %d; by hand %d, %d of %d", row.String(),
			*row.JitterNs, row.Reordered, row.Delivered, jitter, reordered, arrived)
	}
}

func TestOrder(t *testing.T) {
	for name, list := range map[string][]sighting{
		"one by one":    {{0, 100, 1}, {10, 126, 1}, {20, 120, 1}},
		"overtaken":     {{0, 100, 1}, {10, 500, 1}, {20, 130, 1}, {30, 140, 1}},
		"the last late": {{0, 900, 1}, {10, 500, 3}, {20, 130, 2}, {30, 140, 1}},
		"all reversed":  {{0, 900, 1}, {10, 800, 1}, {20, 700, 1}, {30, 600, 1}},
		"at once":       {{0, 100, 1}, {10, 100, 1}, {20, 100, 1}},
		"sent at once":  {{0, 300, 1}, {0, 200, 1}, {0, 100, 1}},
	} {
		a := aggregate.New(0)
		for _, x := range list {
			p := sent(x.sent, x.at-x.sent)
			p.Segs = x.segs
			a.Add(p)
		}
		t.Run(name, func(t *testing.T) { compareOrder(t, a.Flows(letters{}, nil)[0], list) })
	}
}

// Packets become known as they were sent; every other one is overtaken by up to 20,000
// of all flows. The window is smaller than their number.
func TestOrderInWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const flows = 50
	lists := make([][]sighting, flows)
	a := aggregate.New(0)
	for i := range 4 * aggregate.MaxWaiting {
		flow := rng.IntN(flows)
		x := sighting{sent: int64(i) * 1000, segs: 1}
		x.at = x.sent + 5000 + rng.Int64N(3000)
		if rng.IntN(2) == 0 {
			x.at += rng.Int64N(20_000_000)
		}
		p := sent(x.sent, x.at-x.sent)
		p.SrcPort = uint16(flow)
		a.Add(p)
		lists[flow] = append(lists[flow], x)
	}
	for _, row := range a.Flows(letters{}, nil) {
		compareOrder(t, row, lists[*row.Sport])
	}
	if late := a.Totals().OverOrder; late > 0 {
		t.Errorf("%d packets were too late", late)
	}
}

// What is later than the window is counted as that, and as nothing else.
func TestTooLateForOrder(t *testing.T) {
	a := aggregate.New(0)
	early := sent(0, 10)
	for i := range 2 * aggregate.MaxWaiting {
		a.Add(sent(int64(i+1)*1000, 10))
	}
	a.Add(early)
	row := a.Flows(letters{}, nil)[0]
	if row.Reordered != 0 || *row.JitterNs != 0 || row.Packets != 2*aggregate.MaxWaiting+1 || a.Totals().OverOrder != 1 {
		t.Errorf("%+v, %+v", row, a.Totals())
	}
}

// Memory that a stall made necessary is given back; under a load none is made anew, also where it comes in bursts.
func TestGivesBackRoom(t *testing.T) {
	a := aggregate.New(0)
	packet := sent(0, 10)
	poll := func(packets, flows int) {
		for i := range packets {
			packet.SrcPort = uint16(i % flows)
			a.Add(packet)
		}
		a.SettleAll()
	}
	const usual = 2000
	for range 2 {
		for i := range aggregate.MaxWaiting {
			a.Add(sent(int64(i)*1000, 10))
		}
		a.EncodeChunks()
		a.SettleAll()
	}
	arrivals, _, snapshot := a.Room()
	if arrivals < aggregate.MaxWaiting || snapshot < 2*aggregate.ChunkBytes {
		t.Fatalf("room for %d arrivals, %d bytes of snapshot when all that may wait do", arrivals, snapshot)
	}
	const until = 60 // polls at which the agent has forgotten a stall: 6 s
	for range until {
		poll(usual, 1)
		a.EncodeChunks()
	}
	if arrivals, _, snapshot = a.Room(); arrivals > 4*usual || snapshot >= 2*aggregate.ChunkBytes {
		t.Errorf("room for %d arrivals, %d bytes of snapshot when %d wait", arrivals, snapshot, usual)
	}
	if n := testing.AllocsPerRun(100, func() { poll(usual, 1) }); n != 0 {
		t.Errorf("%.0f allocations for %d arrivals", n, usual)
	}
	if n := testing.AllocsPerRun(100, func() { poll(3*usual/2, 1); poll(usual/20, 1); poll(usual/20, 1) }); n != 0 {
		t.Errorf("%.0f allocations for a burst of %d arrivals and two polls with few", n, 3*usual/2)
	}

	poll(10_000, 10_000)
	for range until {
		poll(usual, 1)
	}
	if _, flows, _ := a.Room(); flows > 10_000/4 {
		t.Errorf("room for %d flows of which packets wait when it is one", flows)
	}
}

// A collector that polls now and then, and is stopped and continued, sees the order
// in which packets arrived: also of those that take long and are looked at seldom,
// and of those that are dropped after delivery.
func TestOrderOfCollector(t *testing.T) {
	n := newNetwork(7)
	path := filepath.Join(t.TempDir(), "aggregates")
	patient := *dom
	patient.Options.Timeout = 10 * time.Second
	open := func() *aggregate.Collector {
		c, _, err := aggregate.Open(n, backpack.NewDecoder(&patient, nil), epoch, path, backpack.FollowOptions{
			Now: func() uint64 { return n.now },
		})
		must(t, err)
		return c
	}
	type event struct {
		at uint64
		do func()
	}
	var events []event
	lists := make([][]sighting, 4)
	for i := range 3000 {
		begin, flow := n.now+uint64(i)*ms/2, n.rng.IntN(4)
		latency := uint64(1000 + n.rng.IntN(100_000))
		switch flow {
		case 1:
			latency += uint64(n.rng.IntN(30)) * ms
		case 2:
			latency += uint64(n.rng.IntN(6000)) * ms // looked at seldom
		}
		lists[flow] = append(lists[flow], sighting{int64(begin), int64(begin + latency), 1})
		var pos uint64
		events = append(events, event{begin, func() {
			pos, _ = n.Send(0, rt.Packet{Proto: 17, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2},
				Sport: uint16(flow), Dport: 80, Len: 100, Segs: 1}, rt.Egress, 10, begin)
		}}, event{begin + latency, func() { n.See(pos, rt.Deliver, rt.First, 30, begin+latency) }})
		if flow == 3 && n.rng.IntN(4) == 0 {
			later := begin + latency + uint64(n.rng.IntN(45))*ms
			events = append(events, event{later, func() { n.Drop(pos, rt.First, 30, 6, 0xffffffff81000000, "", true, later) }})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	c := open()
	next := n.now
	for _, e := range events {
		for ; next < e.at; next += uint64(1+n.rng.IntN(100)) * ms {
			n.now = next
			must(t, c.Poll())
			if n.rng.IntN(4) == 0 {
				must(t, c.Save())
				c = open()
			}
		}
		n.now = e.at
		e.do()
	}
	n.now += 15000 * ms
	must(t, c.Poll())
	rows := c.Aggregates().Flows(backpack.NewDecoder(dom, nil), nil)
	for _, row := range rows {
		compareOrder(t, row, lists[*row.Sport])
	}
	if drops := c.Totals().LocalDrops; len(rows) != 4 || drops == 0 || c.Totals().OverOrder > 0 {
		t.Errorf("%d flows, %+v", len(rows), c.Totals())
	}
}
