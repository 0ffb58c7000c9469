// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// byWay makes a packet one that r1 sends by another port, through r2 or r3 to r4.
func byWay(r *record.Record, middle string, us int64) *record.Record {
	r.LatencyNs = ptr(us * 1000)
	r.Hops = []record.Hop{{Node: "h1", Port: "eth0", AtNs: ptr(int64(0))}, {Node: "r1", InPort: "eth0", Port: "to" + middle, AtNs: ptr(int64(1000)), LinkNs: ptr(int64(500)), NodeNs: ptr(int64(500))},
		{Node: middle, InPort: "eth0", Port: "eth1", AtNs: ptr((us - 2) * 1000), LinkNs: ptr(int64(1000)), NodeNs: ptr((us - 4) * 1000)},
		{Node: "r4", InPort: "to" + middle, Port: "eth0", AtNs: ptr((us - 1) * 1000), LinkNs: ptr(int64(500)), NodeNs: ptr(int64(500))},
		{Node: "h2", InPort: "eth0", AtNs: ptr(us * 1000), LinkNs: ptr(int64(1000))}}
	return r
}

// TestFork: where packets overtake each other by different ways, the node that parts them is named, of TCP and of UDP.
func TestFork(t *testing.T) {
	for _, udp := range []bool{false, true} {
		w, f := &wire{}, flow
		w.open()
		for i := range 200 {
			at := 4 + float64(i)
			middle, us := "r2", int64(300)
			if i%4 == 0 {
				middle, us = "r3", 5000
			}
			r := byWay(w.packet(true, at, 0, packet.TCPAck, i*mss, 0, 502, mss), middle, us)
			if udp {
				r.Proto, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "udp", nil, nil, nil, nil
			}
			w.packet(false, at+5.2, 1000, packet.TCPAck, 0, (i+1)*mss, 509, 0)
		}
		if udp {
			f.Proto = "udp"
		}
		if a := w.explained(t, f); a.Cause != ByReordering || a.Place != "r1" || !a.Forks || a.Reordered < 40 {
			t.Errorf("UDP %v: %s at %s, %d reordered", udp, a.Cause, a.Place, a.Reordered)
		}
	}
}

// TestNotSlow: a fast flow is none that anything held, and what it waited for is told as that.
func TestNotSlow(t *testing.T) {
	for _, c := range []struct {
		bytes int
		gap   float64 // ms
		want  Cause
		held  Cause
	}{{64_000, 0.05, Nothing, BySender}, {1000, 5, BySender, ""}, {64_000, 5, BySender, ""}} {
		w := &wire{}
		w.open()
		for i := range 100 {
			at := 2.3 + float64(i)*c.gap
			w.packet(true, at, 4, packet.TCPAck|packet.TCPPsh, i*c.bytes, 0, 502, c.bytes).Segs = 45
			w.packet(false, at+0.005, 4, packet.TCPAck, 0, (i+1)*c.bytes, 60_000, 0)
		}
		if a := w.explained(t, flow); a.Cause != c.want || a.Held != c.held {
			t.Errorf("%d bytes each %v ms: %s, held by %s, at %d bit/s", c.bytes, c.gap, a.Cause, a.Held, a.ThroughputBps)
		}
	}
}

// TestReset: a reset is the cause if it broke the transfer, not if the ends had agreed on it.
func TestReset(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *wire)
		want Cause
	}{
		{"with data under way", func(w *wire) {
			w.packet(true, 30, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(false, 30.5, 1000, packet.TCPRst|packet.TCPAck, 0, 10*mss, 0, 0)
		}, ByReset},
		{"at once behind the last", func(w *wire) { w.packet(false, 8, 1000, packet.TCPRst|packet.TCPAck, 0, 10*mss, 0, 0) }, ByReset},
		{"long after the last", func(w *wire) { w.packet(false, 900, 1000, packet.TCPRst|packet.TCPAck, 0, 10*mss, 0, 0) }, ByDelay},
		{"behind a FIN", func(w *wire) {
			w.packet(true, 20, 1000, packet.TCPFin|packet.TCPAck, 10*mss, 0, 502, 0)
			w.packet(false, 21.5, 1000, packet.TCPRst|packet.TCPAck, 0, 10*mss, 0, 0)
		}, ByDelay},
		{"of the sender, which was done", func(w *wire) { w.packet(true, 8, 1000, packet.TCPRst|packet.TCPAck, 10*mss, 0, 0, 0) }, ByDelay},
		{"as they said on another connection", func(w *wire) {
			r := w.packet(true, 29.5, 900, packet.TCPAck|packet.TCPPsh, 77, 0, 502, 1)
			r.Sport = ptr(3999)
			w.packet(true, 30, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(false, 30.5, 1000, packet.TCPRst|packet.TCPAck, 0, 10*mss, 0, 0)
		}, ByDelay},
	} {
		w := &wire{}
		w.open()
		w.data(2.3, 0, 10)
		c.make(w)
		a := w.explained(t, flow)
		if got := a.Cause; c.want == ByReset && (got != ByReset || a.Place != "h2") && !(a.Reset.Broke && got == ByDelay) || c.want != ByReset && (got == ByReset || a.Reset.Broke) {
			t.Errorf("%s: %s at %s: %+v", c.name, got, a.Place, a.Reset)
		}
	}
}

// TestTrainsTooLarge: the smallest size that is lost is that of whole packets, not of a train's last one, nor a mean.
func TestTrainsTooLarge(t *testing.T) {
	big := record.Loss{Node: "r1", At: record.AtNode, Reason: "PKT_TOO_BIG"}
	w := &wire{}
	w.open()
	r := lose(w.packet(true, 4, 1000, packet.TCPAck, 0, 0, 502, 2700), big) // two segments in one record
	r.Segs, r.Len = 2, 2804
	for i := range 4 {
		at := 200 * float64(int(1)<<i)
		lose(w.packet(true, at, 1000, packet.TCPAck, 0, 0, 502, 1448), big)
		lose(w.packet(true, at, 1000, packet.TCPAck, 1448, 0, 502, 1252), big) // the last one of the train
	}
	if a := w.explained(t, flow); a.Cause != ByMTU || a.Loss.SmallestBytes != 1500 {
		t.Errorf("%s, %+v", a.Cause, a.Loss)
	}
}

// TestAfterData: what comes after all data has been acknowledged is no time of the transfer: an idle connection, or a FIN
// that was lost.
func TestAfterData(t *testing.T) {
	w := &wire{}
	w.open()
	w.data(2.3, 0, 10)
	w.packet(false, 300, 1000, packet.TCPAck, 0, 10*mss, 509, 0) // a new window
	lose(w.packet(true, 600, 1000, packet.TCPFin|packet.TCPAck, 10*mss, 0, 502, 0), refusedByRule)
	w.packet(true, 900, 1000, packet.TCPFin|packet.TCPAck, 10*mss, 0, 502, 0)
	w.packet(false, 901.1, 1000, packet.TCPFin|packet.TCPAck, 0, 10*mss+1, 509, 0)
	if a := w.explained(t, flow); a.Time.all() > 4*ms || a.ThroughputBps < 20e6 || a.Cause == BySender {
		t.Errorf("%s, %+v, %d bit/s", a.Cause, a.Time, a.ThroughputBps)
	}
	w = &wire{} // the FIN follows the data at once
	w.open()
	w.data(2.3, 0, 10)
	lose(w.packet(true, 3.25, 1000, packet.TCPFin|packet.TCPAck, 10*mss, 0, 502, 0), refusedByRule)
	w.packet(true, 300, 1000, packet.TCPFin|packet.TCPAck, 10*mss, 0, 502, 0)
	w.packet(false, 301.1, 1000, packet.TCPFin|packet.TCPAck, 0, 10*mss+1, 509, 0)
	if a := w.explained(t, flow); a.Time.all() > 4*ms || a.ThroughputBps < 20e6 {
		t.Errorf("%s, %+v, %d bit/s", a.Cause, a.Time, a.ThroughputBps)
	}
}

// TestUntranslated: a packet that a node does not translate back makes the other end reset the connection.
func TestUntranslated(t *testing.T) {
	w := &wire{nat: true}
	w.open()
	w.data(2.3, 0, 10)
	// It comes from b's side as it was, and a answers it with a reset; b's own reset comes when a goes on.
	stray := w.packet(false, 500, 1000, packet.TCPAck, 1<<29, 10*mss, 509, 0)
	stray.Dst, stray.Dport = "192.0.2.1", ptr(60000)
	stray.Hops[1].Dst, stray.Hops[1].Dport = "", nil
	w.packet(true, 501.1, 1000, packet.TCPRst, 1<<29, 0, 0, 0)
	w.packet(true, 900, 1000, packet.TCPAck|packet.TCPPsh, 10*mss, 0, 502, 100)
	w.packet(false, 901.1, 1000, packet.TCPRst, 0, 0, 0, 0)
	a := w.explained(t, flow)
	if u := a.Untranslated; a.Cause != ByReset || u == nil || u.Node != "r1" || u.At != "h1" || u.Src != "10.0.3.2:5201" || u.Packets != 1 {
		t.Errorf("%s at %s, %+v, %+v", a.Cause, a.Place, u, a.Reset)
	}
}

// TestFragmentsLost: what cannot be put together since fragments were lost in a queue is that queue's fault.
func TestFragmentsLost(t *testing.T) {
	w := &wire{}
	for i := range 100 {
		first := w.packet(true, float64(10*i), 1000, 0, 0, 0, 0, 0)
		first.Proto, first.Len, first.TCPSeq, first.TCPFlags, first.TCPWindow, first.TCPPayload = "udp", 1500, nil, nil, nil, nil
		for n := range 4 {
			r := w.packet(true, float64(10*i), 1000, 0, 0, 0, 0, 0)
			r.Proto, r.Len, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "udp", 1500, nil, nil, nil, nil
			r.Sport, r.Dport, r.FragOff = nil, nil, ptr(1480*(n+1))
			if n == 3 && i%2 == 0 {
				lose(r, record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"})
				first.LocalDrop = &record.Loss{Node: "h2", Port: "eth0", At: record.AtNode, Reason: "FRAG_REASM_TIMEOUT", Function: "ip_expire"}
			}
		}
	}
	f := flow
	f.Proto = "udp"
	if a := w.explained(t, f); a.Cause != ByQueue || a.Place != "r1/eth1" || a.Unassembled != 50 || a.Fragments != 400 || a.LostFragments != 50 || a.ThroughputBps > 700_000 {
		t.Errorf("%s at %s: %d datagrams in pieces, %d of %d fragments lost, %d bit/s", a.Cause, a.Place, a.Unassembled, a.LostFragments, a.Fragments, a.ThroughputBps)
	}
}

// TestAbroad: a packet that is still among nodes that are not attached is not lost; one that others of its time have left
// behind is.
func TestAbroad(t *testing.T) {
	w := &wire{}
	w.open()
	both := func(at float64, n int, ms int64) { // leaves at r1, and comes back at r3 after ms
		r := w.packet(true, at, 1, packet.TCPAck, n*mss, 0, 502, mss)
		r.State, r.IPID, r.Hops = record.Left, n, r.Hops[:2]
		if ms > 0 {
			r = w.packet(true, at+float64(ms), 1, packet.TCPAck, n*mss, 0, 502, mss)
			r.IPID, r.Hops = n, []record.Hop{{Node: "r3", InPort: "eth0", Port: "eth1", AtNs: ptr(int64(100))}, {Node: "h2", InPort: "eth0", AtNs: ptr(int64(1000))}}
		}
	}
	for n := range 40 {
		ms := int64(400)
		if n == 7 || n == 9 {
			ms = 0 // lost
		}
		both(4+50*float64(n), n, ms)
	}
	for n := range 5 {
		both(2004+150*float64(n), 40+n, 0) // still there
	}
	a := w.explained(t, flow)
	if a.Lost != 2 || a.Resent != 0 || a.Packets != 45 || a.Receiver != "h2" || a.Losses[0].Name() != "r1/eth1" {
		t.Errorf("%d of %d lost, %d sent again, to %s: %+v", a.Lost, a.Packets, a.Resent, a.Receiver, a.Losses)
	}
}

// TestDatagramsAbroad: of datagrams that nothing tells apart a lost one does not make all later ones slow. Those that an
// ID tells apart have their times.
func TestDatagramsAbroad(t *testing.T) {
	for _, c := range []struct {
		ids   bool
		every float64 // ms
		times bool
	}{{false, 10, false}, {true, 10, true}, {false, 1100, true}} {
		w := &wire{}
		const lostOne, sum = 20, 60
		add := func(at float64, n int, hops func(*record.Record)) {
			r := w.packet(true, at, 1, 0, 0, 0, 0, 0)
			r.Proto, r.Len, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload, r.TCPAck = "udp", 200, nil, nil, nil, nil, nil
			if c.ids {
				r.IPID = n + 1
			}
			hops(r)
		}
		for n := range sum {
			at := float64(n) * c.every
			add(at, n, func(r *record.Record) { r.State, r.Hops = record.Left, r.Hops[:2] })
			if n%20 != 19 || n == sum-1 { // two are lost between
				add(at+2, n, func(r *record.Record) {
					r.Hops = []record.Hop{{Node: "r3", InPort: "eth0", Port: "eth1", AtNs: ptr(int64(100))}, {Node: "h2", InPort: "eth0", AtNs: ptr(int64(1000))}}
				})
			}
		}
		f := flow
		f.Proto = "udp"
		list := slices.Clone(w.list)
		slices.SortStableFunc(list, func(x, y *record.Record) int { return int(x.TNs - y.TNs) })
		a := New(f)
		a.Now = list[len(list)-1].TNs + 2*patience
		for _, r := range list {
			a.Add(r)
		}
		ans, _ := a.Finish()
		if ans.Packets != sum || ans.Lost != 2 || ans.Receiver != "h2" || ans.Reordered != 0 {
			t.Errorf("%+v: %d of %d lost, %d reordered, to %s", c, ans.Lost, ans.Packets, ans.Reordered, ans.Receiver)
		}
		if ans.RTT != nil && ans.RTT.MaxNs > 3*ms || c.times && (ans.RTT == nil || ans.RTT.Count != sum-2) {
			t.Errorf("%+v: %+v", c, ans.RTT)
		}
	}
}

// TestAbroadBounds: whatever leaves, what is awaited is bounded, and finding what comes back is, too.
func TestAbroadBounds(t *testing.T) {
	train := func(n int) *sent {
		return &sent{at: t0, tcp: true, segs: 2, size: 3000, payload: 2 * mss, seq: int64(n * 2 * mss), leftBy: "r1/eth1", outside: true}
	}
	var b abroad
	for n := range 3 * mostAbroad {
		p := train(n)
		b.add(p, keyOf(p))
		if len(b.trains) > mostTrains || len(b.order) > mostAbroad || len(b.exact) > 2*mostAbroad+65 {
			t.Fatalf("%d trains, %d packets, %d keys are awaited", len(b.trains), len(b.order), len(b.exact))
		}
	}
	if !b.forgot {
		t.Error("that some are awaited no more is not said")
	}
	if b.find(train(0)) != nil || b.find(train(3*mostAbroad-1)) == nil {
		t.Error("the oldest is found, or the newest is not")
	}
	var joins abroad
	for n := range 3 * mostTrains {
		p := train(n)
		joins.add(p, keyOf(p))
		joins.find(p).joined = p.segs
	}
	if joins.forgot || len(joins.trains) > mostTrains {
		t.Errorf("trains that have come back take room: %d", len(joins.trains))
	}
	var same abroad
	for n := range 3 * mostAbroad {
		p := &sent{at: t0 + int64(n)*ms, segs: 1, size: 100, leftBy: "r1/eth1"}
		same.add(p, keyOf(p))
	}
	for _, list := range same.exact {
		if len(list) > int(patience/ms)+1 {
			t.Errorf("%d that are alike are awaited", len(list))
		}
	}
}

// TestSeveralFunctions: what a receiver drops for one reason, in whatever function, is one place of losses.
func TestSeveralFunctions(t *testing.T) {
	w := &wire{}
	w.open()
	for i := range 100 {
		r := w.packet(true, 4+float64(i), 300, packet.TCPAck, i*mss, 0, 502, mss)
		r.Proto, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "udp", nil, nil, nil, nil
		if function := []string{"udp_recvmsg", "udp_queue_rcv_one_skb", "udp_recvmsg"}[i%3]; i%10 == 0 {
			r.LocalDrop = &record.Loss{Node: "h2", Port: "eth0", At: record.AtNode, Reason: "UDP_CSUM", Function: function}
		}
	}
	f := flow
	f.Proto = "udp"
	a := w.explained(t, f)
	if a.Cause != ByLoss || len(a.Losses) != 1 || a.Loss.Packets != 10 || a.Loss.Ratio != 0.1 || a.Loss.Function != "udp_recvmsg" {
		t.Errorf("%s by %+v, of %+v", a.Cause, a.Loss, a.Losses)
	}
	var table lossTable
	for i := range 1000 {
		table.add(&sent{fate: dropped, segs: 1, loss: &record.Loss{Node: "h2", Reason: "UDP_CSUM", Function: fmt.Sprint("f", i%500)}})
	}
	if list := table.list(); len(list) != 1 || list[0].packets != 1000 || len(list[0].functions) != maxFunctions {
		t.Errorf("of 500 functions %+v", list)
	}
}

// TestNobodyListens: datagrams that nobody takes are lost, at however many places; the last ones, for a program that has
// ended, are not the cause.
func TestNobodyListens(t *testing.T) {
	for _, c := range []struct {
		what    string
		refused func(i int) bool
		want    Cause
	}{
		{"all", func(int) bool { return true }, ByLoss},
		{"the last five", func(i int) bool { return i >= 95 }, Nothing},
		{"all but one of 25", func(i int) bool { return i%25 != 0 }, ByLoss},
		{"those in the middle", func(i int) bool { return i >= 30 && i < 79 }, ByLoss},
		{"the last 80", func(i int) bool { return i >= 20 }, ByLoss},
	} {
		w := &wire{}
		for i := range 100 {
			r := w.packet(true, float64(i), 300, 0, 0, 0, 0, 0)
			r.Proto, r.Len, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "udp", 1028, nil, nil, nil, nil
			if c.refused(i) {
				r.LocalDrop = &record.Loss{Node: "h2", Port: fmt.Sprint("eth", i%3), At: record.AtNode, Reason: "NO_SOCKET", Function: "__udp4_lib_rcv"}
			}
		}
		f := flow
		f.Proto = "udp"
		if a := w.explained(t, f); a.Cause != c.want {
			t.Errorf("nobody takes %s: %s by %+v", c.what, a.Cause, a.Loss)
		}
	}
}
