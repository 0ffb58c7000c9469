// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

const ms = int64(time.Millisecond)

// watching is a watch of a condition in network.
func watching(t *testing.T, text string) *watch {
	t.Helper()
	c, err := ParseCondition(text, network())
	if err != nil {
		t.Fatal(err)
	}
	return newWatch(c, backpack.NewDecoder(network(), nil))
}

// sent is a packet h1 > r-1 > h2 that was sent at a time, and was in r-1's queue and on the link behind it so long.
func sent(at, queue, link int64) *packet.Packet {
	p := &packet.Packet{T0: uint64(at), State: record.Delivered, Segs: 1, HasTuple: true, Proto: record.ProtoUDP, LastNs: 1000 + queue + link}
	p.LatencyNs = p.LastNs
	p.Hops = []packet.Hop{
		{Node: 1, In: packet.NoPort, Out: 1, InNs: packet.NoTime, OutNs: 0, DequeueNs: packet.NoTime},
		{Node: 2, In: 2, Out: 3, InNs: 500, OutNs: 1000, DequeueNs: 1000 + queue},
		{Node: 3, In: 4, Out: packet.NoPort, InNs: 1000 + queue + link, OutNs: packet.NoTime, DequeueNs: packet.NoTime},
	}
	return p
}

// lost is one that was dropped in r-1.
func lost(at int64, port uint16) *packet.Packet {
	p := sent(at, 0, 0)
	p.State, p.Lost, p.Hops, p.LastNs = record.Lost, true, p.Hops[:2], 1000
	p.Loss = packet.Drop{Node: 2, Port: port, At: record.AtQueue, AtNs: 1000}
	return p
}

// at are the times at which it was met, ms.
func at(list []met) string {
	var all []int64
	for _, m := range list {
		all = append(all, m.at/ms)
	}
	return fmt.Sprint(all)
}

func TestWatchLosses(t *testing.T) {
	w := watching(t, "loss.r-1/eth1 > 2 in 100ms")
	for _, when := range []int64{0, 60, 130, 190} { // never three in 100 ms
		w.add(lost(when*ms, 3))
		w.add(lost(when*ms, 2)) // at another port
		w.add(sent(when*ms, 0, 0))
	}
	if got := w.met(); len(got) > 0 {
		t.Errorf("met at %v", at(got))
	}
	w.add(lost(220*ms, 3)) // known in another order than lost
	w.add(lost(210*ms, 3))
	if got := at(w.met()); got != "[210]" {
		t.Errorf("met at %v, want 210: 130, 190 and 210 lie within 100 ms", got)
	}
	train := lost(1000*ms, 3)
	train.Segs = 3
	w.add(train)
	got := w.met()
	if at(got) != "[1000]" || got[0].value != "3 in 0s" {
		t.Errorf("a train of three: %+v", got)
	}
	copies := lost(2000*ms, 2)
	copies.Drops = []packet.BranchDrop{{Drop: packet.Drop{Node: 2, Port: 3, AtNs: 5 * ms}}, {Drop: packet.Drop{Node: 2, Port: 3, AtNs: 6 * ms}},
		{Local: true, Drop: packet.Drop{Node: 2, Port: 3, AtNs: 6 * ms}}}
	w.add(copies)
	if got := w.met(); len(got) > 0 {
		t.Errorf("two copies were lost, and one was dropped after delivery: %+v", got)
	}
	w.add(lost(2010*ms, 3))
	if got := at(w.met()); got != "[2010]" {
		t.Errorf("met at %v", got)
	}
}

// A loss that is known late, as that of a packet that has expired, counts among those of its time.
func TestWatchLateLosses(t *testing.T) {
	w := watching(t, "loss > 2 in 100ms")
	ask := func(want string, times ...int64) {
		t.Helper()
		for _, when := range times {
			w.add(lost(when*ms, 3))
		}
		got := w.met()
		if at(got) != want {
			t.Errorf("losses at %v ms: met at %v, want %s", times, at(got), want)
		}
	}
	ask("[]", 5000, 5050, 10000, 11000)
	ask("[]", 3000)     // it lies before all of them
	ask("[]", 10500)    // and it between
	ask("[5070]", 5070) // this one is the third of its time
	ask("[5130]", 5130) // and so is this
	ask("[]", 12000)    // what was met is not met again
}

func TestWatchLatency(t *testing.T) {
	w := watching(t, "p90 link r-1-h2 > 5ms in 100ms")
	for i := range int64(90) {
		w.add(sent(i*ms, 8*ms, ms)) // the queue is not the link
	}
	for range 9 {
		w.add(sent(0, 0, 6*ms))
	}
	if got := w.met(); len(got) > 0 {
		t.Errorf("9 of 99 are slow: %+v", got)
	}
	w.add(sent(80*ms, 0, 7*ms))
	w.add(sent(81*ms, 0, 7*ms))
	w.add(sent(82*ms, 0, 7*ms))
	if got := w.met(); len(got) != 1 {
		t.Errorf("12 of 102 are slow: %+v", got)
	}
	if got := w.met(); len(got) > 0 {
		t.Errorf("met again without packets: %+v", got)
	}
	w.add(sent(400*ms, 0, 6*ms)) // the window has passed
	if got := w.met(); len(got) != 1 {
		t.Errorf("one of one is slow: %+v", got)
	}
	for i := range int64(20) {
		w.add(sent((600+i)*ms, 0, ms))
	}
	if got := w.met(); len(got) > 0 {
		t.Errorf("none is slow: %+v", got)
	}
	if len(w.parts) > windowParts+1 {
		t.Errorf("%d parts are remembered", len(w.parts))
	}
}

func TestWatchQueue(t *testing.T) {
	w := watching(t, "queue r-1/eth1 > 10ms")
	w.add(sent(0, 10*ms, 90*ms))
	if got := w.met(); len(got) > 0 {
		t.Errorf("met: %+v", got)
	}
	w.add(sent(0, 11*ms, 0))
	w.add(sent(30*ms, 12*ms, 0))
	w.add(sent(500*ms, 13*ms, 0))
	got := w.met()
	if at(got) != "[11 513]" || got[0].value != "11ms" || got[0].last/ms != 42 {
		t.Errorf("met: %+v", got)
	}
}

func TestWatchPath(t *testing.T) {
	w := watching(t, "path change")
	other := func(at int64) *packet.Packet {
		p := sent(at, 0, 0)
		p.Hops = append(p.Hops[:1], p.Hops[2])
		return p
	}
	cut, second := sent(2*ms, 0, 0), other(3*ms)
	cut.Truncated, cut.Hops = true, cut.Hops[:1]
	second.SrcPort = 7
	for _, p := range []*packet.Packet{sent(0, 0, 0), sent(ms, 0, 0), cut, lost(2*ms, 3), second, sent(4*ms, 0, 0)} {
		w.add(p)
	}
	if got := w.met(); len(got) > 0 {
		t.Errorf("each flow keeps its path: %+v", got)
	}
	w.add(other(5 * ms))
	got := w.met()
	if at(got) != "[5]" || got[0].value != ":: to :: takes h1 > h2" && got[0].value != "0.0.0.0 to 0.0.0.0 takes h1 > h2" {
		t.Errorf("met: %+v", got)
	}
	w.add(other(6 * ms))
	if got := w.met(); len(got) > 0 {
		t.Errorf("it keeps the new one: %+v", got)
	}
}

// A window has the packets that were in flight in it, and no others.
func TestWindow(t *testing.T) {
	w := window{100, 200}
	for _, c := range []struct {
		t0   uint64
		last int64
		want bool
	}{{50, 49, false}, {50, 50, true}, {50, 500, true}, {150, 1, true}, {200, 10, true}, {201, 10, false}} {
		if got := w.has(&packet.Packet{T0: c.t0, LastNs: c.last}); got != c.want {
			t.Errorf("from %d, %d long: %v", c.t0, c.last, got)
		}
	}
	f := &flight{Flight: &Flight{Before: 50 * time.Nanosecond, After: 10}, windows: []window{w}}
	for at, want := range map[int64]bool{90: false, 200: false, 250: false, 251: true} {
		if got := f.begins(&met{at: at}); got != want {
			t.Errorf("met at %d: begins %v", at, got)
		}
	}
}
