// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

func ptr[T any](v T) *T { return &v }

const (
	ms   = int64(1e6)
	t0   = int64(1_800_000_000_000_000_000)
	seq0 = uint32(4_294_960_000) // wraps after some packets
)

// wire makes records of a connection from a (node h1) to b (h2) through r1, as a person would write them down.
type wire struct {
	n    int
	list []*record.Record
	nat  bool // r1 shows b another address for a
}

// packet adds one that is sent at ms after t0 and takes us. Sequence numbers count from the first byte.
func (w *wire) packet(fromA bool, at float64, us int64, flags int, seq, ack, window, payload int) *record.Record {
	w.n++
	r := &record.Record{ID: fmt.Sprintf("1-%x", w.n), Source: record.EBPF, State: record.Delivered, TNs: t0 + int64(at*1e6), IPVersion: 4, Proto: "tcp",
		Src: "10.0.0.1", Dst: "10.0.3.2", Sport: ptr(4000), Dport: ptr(5201), Len: 52 + payload, Segs: 1, LatencyNs: ptr(us * 1000),
		TCPSeq: ptr(int(seq0 + uint32(seq))), TCPFlags: ptr(flags), TCPWindow: ptr(window), TCPPayload: ptr(payload)}
	if flags&packet.TCPAck != 0 {
		r.TCPAck = ptr(int(seq0 + uint32(ack)))
	}
	r.Hops = []record.Hop{{Node: "h1", Port: "eth0", AtNs: ptr(int64(0))}, {Node: "r1", InPort: "eth0", Port: "eth1", AtNs: ptr(us * 400), LinkNs: ptr(us * 300), NodeNs: ptr(us * 100)},
		{Node: "h2", InPort: "eth0", AtNs: ptr(us * 1000), LinkNs: ptr(us * 600)}}
	if w.nat {
		r.Hops[1].Src, r.Hops[1].Sport = "192.0.2.1", ptr(60000)
	}
	if !fromA {
		r.Src, r.Dst, r.Sport, r.Dport = "10.0.3.2", "10.0.0.1", ptr(5201), ptr(4000)
		r.Hops[0].Node, r.Hops[2].Node = "h2", "h1"
		r.Hops[1].InPort, r.Hops[1].Port = "eth1", "eth0"
		if w.nat {
			r.Dst, r.Dport = "192.0.2.1", ptr(60000)
			r.Hops[1].Src, r.Hops[1].Sport, r.Hops[1].Dst, r.Hops[1].Dport = "", nil, "10.0.0.1", ptr(4000)
		}
	}
	w.list = append(w.list, r)
	return r
}

// lose makes a packet one that r1 has lost.
func lose(r *record.Record, l record.Loss) *record.Record {
	r.State, r.LatencyNs, r.Hops = record.Lost, nil, r.Hops[:2]
	r.Loss = &l
	return r
}

func (w *wire) open() {
	w.packet(true, 0, 1000, packet.TCPSyn, -1, 0, 64240, 0)
	w.packet(false, 1.1, 1000, packet.TCPSyn|packet.TCPAck, -1, 0, 65160, 0)
	w.packet(true, 2.2, 1000, packet.TCPAck, 0, 0, 502, 0)
}

const mss = 1448

// data sends n segments from the one with that number on, 0.1 ms apart; each is acknowledged.
func (w *wire) data(at float64, from, n int) {
	for i := range n {
		w.packet(true, at+float64(i)/10, 1000, packet.TCPAck, (from+i)*mss, 0, 502, mss)
		w.packet(false, at+float64(i)/10+1.1, 1000, packet.TCPAck, 0, (from+i+1)*mss, 509, 0)
	}
}

// closing sends a segment at a time; its window is closed for ms and then opens.
func (w *wire) closing(ms float64) {
	w.open()
	for i := range 30 {
		at := 4 + float64(i)*(ms+0.5)
		w.packet(true, at, 100, packet.TCPAck, i*mss, 0, 502, mss)
		w.packet(false, at+0.2, 100, packet.TCPAck, 0, (i+1)*mss, 0, 0)
		w.packet(false, at+0.2+ms, 100, packet.TCPAck, 0, (i+1)*mss, 509, 0)
	}
}

var refusedByRule = record.Loss{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "nft_do_chain"}

// acknowledgedInVain sends a segment whose acknowledgement r1 drops.
func (w *wire) acknowledgedInVain(at float64, n int) *record.Record {
	r := w.packet(true, at, 1000, packet.TCPAck, n*mss, 0, 502, mss)
	lose(w.packet(false, at+1.1, 1000, packet.TCPAck, 0, (n+1)*mss, 509, 0), refusedByRule)
	return r
}

func (w *wire) explained(t testing.TB, f Flow) *Answer {
	t.Helper()
	list := slices.Clone(w.list)
	slices.SortStableFunc(list, func(x, y *record.Record) int { return int(x.TNs - y.TNs) })
	a := New(f)
	for _, r := range list {
		a.Add(r)
	}
	ans, ok := a.Finish()
	if !ok {
		t.Fatal("no record is of the flow")
	}
	return ans
}

var flow = Flow{"tcp", Endpoint{"10.0.0.1", 4000}, Endpoint{"10.0.3.2", 5201}}

// TestResends: why data was sent again, by hand.
func TestResends(t *testing.T) {
	full := record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"}
	for _, c := range []struct {
		name string
		make func(w *wire)
		want map[Why]uint64
	}{
		{"lost in a queue", func(w *wire) {
			lose(w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss), full)
			w.packet(true, 40, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{WasLost: 1}},
		{"lost twice", func(w *wire) {
			for i := range 3 {
				r := w.packet(true, 10+30*float64(i), 1000, packet.TCPAck, 10*mss, 0, 502, mss)
				if i < 2 {
					lose(r, full)
				}
			}
		}, map[Why]uint64{WasLost: 2}},
		{"one of a train", func(w *wire) {
			for i := range 4 { // of one time
				r := w.packet(true, 10, 1000, packet.TCPAck, (10+i)*mss, 0, 502, mss)
				if i == 2 {
					lose(r, full)
				}
			}
			w.packet(true, 40, 1000, packet.TCPAck, 12*mss, 0, 502, mss)
		}, map[Why]uint64{WasLost: 1}},
		{"a train, and one of it apart", func(w *wire) {
			w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, 4*mss).Segs = 4
			w.packet(true, 10, 1000, packet.TCPAck, 12*mss, 0, 502, mss)
		}, nil},
		{"acknowledgement lost before r1", func(w *wire) {
			w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			r := lose(w.packet(false, 11.1, 1000, packet.TCPAck, 0, 11*mss, 509, 0), record.Loss{Node: "h2", Port: "eth0", At: record.AtQueue})
			r.Hops = r.Hops[:1] // where nobody has translated its addresses yet
			w.packet(true, 220, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{AckLost: 1}},
		{"too slow", func(w *wire) {
			w.packet(true, 10, 300_000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(true, 240, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{WasSlow: 1}},
		{"overtaken", func(w *wire) {
			w.packet(true, 10, 20_000, packet.TCPAck, 10*mss, 0, 502, mss)
			for i := range 4 {
				w.packet(true, 10.1, 1000, packet.TCPAck, (11+i)*mss, 0, 502, mss)
			}
			w.packet(true, 15, 20_000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{Overtaken: 1}},
		{"acknowledgement lost", func(w *wire) {
			w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			lose(w.packet(false, 11.1, 1000, packet.TCPAck, 0, 11*mss, 509, 0), full)
			w.packet(true, 220, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{AckLost: 1}},
		{"acknowledgement late", func(w *wire) {
			w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(false, 11.1, 500_000, packet.TCPAck, 0, 11*mss, 509, 0)
			w.packet(true, 220, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{AckSlow: 1}},
		{"not acknowledged yet", func(w *wire) {
			w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(true, 30, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
		}, map[Why]uint64{NoAck: 1}},
		{"after a timeout", func(w *wire) {
			lose(w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss), full)
			w.packet(true, 10.1, 1000, packet.TCPAck, 11*mss, 0, 502, mss)
			w.packet(true, 220, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(true, 220.1, 1000, packet.TCPAck, 11*mss, 0, 502, mss)
		}, map[Why]uint64{WasLost: 1, BehindLoss: 1}},
		{"before the records begin", func(w *wire) {
			w.packet(true, 10, 1000, packet.TCPAck, -5*mss, 0, 502, mss)
		}, map[Why]uint64{TooLate: 1}},
		{"nothing", func(w *wire) { w.data(10, 10, 3) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, nat := range []bool{false, true} {
				w := &wire{nat: nat}
				w.open()
				w.data(4, 0, 10)
				c.make(w)
				a := w.explained(t, flow)
				if fmt.Sprint(a.ResentWhy) != fmt.Sprint(c.want) {
					t.Errorf("NAT %v: %v, want %v: %+v", nat, a.ResentWhy, c.want, a.Resends)
				}
				if len(a.Lacks) > 0 || a.Window == nil || a.Window.Scale != 7 || !a.Window.Known {
					t.Errorf("NAT %v: lacks %v, window %+v", nat, a.Lacks, a.Window)
				}
				for _, r := range a.Resends {
					if len(r.Originals) == 0 && r.Why != TooLate || r.Why == WasLost && (r.Loss == nil || r.Loss.Port != "eth1") {
						t.Errorf("%+v", r)
					}
				}
			}
		})
	}
}

// TestRoundTrip: its parts are the whole, whichever end is asked about.
func TestRoundTrip(t *testing.T) {
	w := &wire{nat: true}
	w.open()
	w.data(4, 0, 100)
	for _, f := range []Flow{flow, flow.reverse(), {"tcp", Endpoint{"192.0.2.1", 60000}, Endpoint{"10.0.3.2", 5201}}} {
		a := w.explained(t, f)
		if a.RTT == nil || a.RTT.Count != 100 || a.LeftOut != 0 || a.Mean < 21*ms/10-1 || a.Mean > 21*ms/10 || a.Summed != a.Mean || a.Sender != "h1" || a.Receiver != "h2" {
			t.Errorf("%v: round trip %+v, mean %d, parts %d, %s > %s", f, a.RTT, a.Mean, a.Summed, a.Sender, a.Receiver)
		}
	}
}

// TestLeftOut: round trips of data that was sent twice, and during a recovery, are counted and not divided.
func TestLeftOut(t *testing.T) {
	w := &wire{}
	w.open()
	w.data(4, 0, 10)
	lose(w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss), record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"})
	w.packet(true, 11, 1000, packet.TCPAck, 11*mss, 0, 502, mss)
	w.packet(true, 40, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
	w.packet(false, 41.1, 1000, packet.TCPAck, 0, 11*mss, 509, 0) // of what was sent twice
	w.packet(false, 41.2, 1000, packet.TCPAck, 0, 12*mss, 509, 0) // it recovers no more
	if a := w.explained(t, flow); a.RTT.Count != 11 || a.LeftOut != 1 {
		t.Errorf("%d round trips, %d left out, want 11 and 1", a.RTT.Count, a.LeftOut)
	}
}

// TestCauses: of what a lab here cannot make.
func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(w *wire)
		want  Cause
		place string
		lacks []Lack
	}{
		{"refused", func(w *wire) {
			w.packet(true, 0, 1000, packet.TCPSyn, -1, 0, 64240, 0)
			w.packet(false, 1.1, 1000, packet.TCPRst|packet.TCPAck, 0, 0, 0, 0)
		}, Refused, "h2", nil},
		{"no answer", func(w *wire) {
			for i := range 3 {
				w.packet(true, float64(1000*i), 1000, packet.TCPSyn, -1, 0, 64240, 0)
			}
		}, Unanswered, "h2", nil},
		{"netem loses", func(w *wire) {
			w.open()
			w.data(4, 0, 10)
			lose(w.packet(true, 10, 1000, packet.TCPAck, 10*mss, 0, 502, mss), record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Function: netemLoss, Qdisc: "netem"})
			lose(w.packet(true, 40, 1000, packet.TCPAck, 10*mss, 0, 502, mss), record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Function: netemLoss, Qdisc: "netem"})
			w.packet(true, 100, 1000, packet.TCPAck, 10*mss, 0, 502, mss)
			w.packet(false, 101.1, 1000, packet.TCPAck, 0, 11*mss, 509, 0)
		}, ByLoss, "r1/eth1", nil},
		{"netem delays", func(w *wire) {
			w.open()
			for i := range 200 {
				at := 4 + float64(i)
				r := w.packet(true, at, 1000, packet.TCPAck, i*mss, 0, 502, mss)
				r.Hops[1].QueueNs, r.LatencyNs = ptr(30*ms), ptr(31*ms)
				w.packet(false, at+31.1, 1000, packet.TCPAck, 0, (i+1)*mss, 509, 0)
			}
		}, ByDelay, "r1/eth1", nil},
		{"ECN", func(w *wire) {
			w.open()
			w.data(4, 0, 200)
			for _, r := range w.list[10:20] {
				r.ECNSent = ptr(3)
			}
		}, ByECN, "", nil},
		{"a window that closes for long", func(w *wire) { w.closing(50) }, ByReceiver, "h2", nil},
		{"a window that opens at once", func(w *wire) { w.closing(1) }, ByWindow, "h2", nil},
		{"late acknowledgements", func(w *wire) {
			w.open()
			for i := range 50 {
				w.packet(true, 10+50*float64(i), 1000, packet.TCPAck, i*mss, 0, 502, mss)
				w.packet(false, 51+50*float64(i), 1000, packet.TCPAck, 0, (i+1)*mss, 509, 0)
			}
		}, ByReceiver, "h2", nil},
		{"no acknowledgement of bulk data arrives", func(w *wire) {
			w.open()
			for i := range 10 {
				w.acknowledgedInVain(4+float64(i)/10, i)
			}
			for i := range 4 {
				w.acknowledgedInVain(200*float64(int(1)<<i), 0)
			}
		}, ByFirewall, "r1", nil},
		{"no acknowledgement of a short request arrives", func(w *wire) {
			w.open()
			for i := range 5 {
				w.acknowledgedInVain(200*float64(int(1)<<i)-196, 0).TCPFlags = ptr(packet.TCPAck | packet.TCPPsh)
			}
		}, ByFirewall, "r1", nil},
		{"acknowledgements of bulk data are lost after a while", func(w *wire) {
			w.open()
			w.data(4, 0, 50)
			w.acknowledgedInVain(10, 50).TCPFlags = ptr(packet.TCPAck | packet.TCPPsh)
			for i := range 4 {
				w.acknowledgedInVain(210*float64(int(1)<<i), 50)
			}
		}, ByFirewall, "r1", nil},
		{"one acknowledgement of a slow sender is lost", func(w *wire) {
			w.open()
			for i := range 20 {
				w.packet(true, 10+500*float64(i), 1000, packet.TCPAck|packet.TCPPsh, i*100, 0, 502, 100)
				w.packet(false, 11.1+500*float64(i), 1000, packet.TCPAck, 0, (i+1)*100, 509, 0)
			}
			lose(w.list[len(w.list)-1], refusedByRule)
			w.packet(true, 9720, 1000, packet.TCPAck|packet.TCPPsh, 1900, 0, 502, 100)
			w.packet(false, 9721.1, 1000, packet.TCPAck, 0, 2000, 509, 0)
		}, BySender, "h1", nil},
		{"no TCP fields", func(w *wire) {
			w.open()
			w.data(4, 0, 100)
			for _, r := range w.list {
				r.TCPSeq, r.TCPAck, r.TCPFlags, r.TCPWindow, r.TCPPayload = nil, nil, nil, nil, nil
			}
		}, ByDelay, "r1/eth1 > h2/eth0", []Lack{NoTCPFields}},
		{"one direction", func(w *wire) {
			w.open()
			w.data(4, 0, 100)
			w.list = slices.DeleteFunc(w.list, func(r *record.Record) bool { return r.Src != "10.0.0.1" })
		}, Nothing, "", []Lack{OneDirection}},
		{"the ring came round", func(w *wire) {
			w.open()
			w.data(4, 0, 100)
			w.list = w.list[100:]
		}, ByDelay, "", []Lack{NoBeginning, ScaleUnknown}},
		{"data is missing", func(w *wire) {
			w.open()
			w.data(4, 0, 100)
			w.list = slices.DeleteFunc(w.list, func(r *record.Record) bool { return r.Src == "10.0.0.1" && r.TNs > t0+10*ms })
		}, ByDelay, "", []Lack{Overwritten}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &wire{}
			c.make(w)
			a := w.explained(t, flow)
			lacks := fmt.Sprint(a.Lacks) == fmt.Sprint(c.lacks)
			if a.Cause != c.want || c.place != "" && a.Place != c.place || !lacks {
				t.Errorf("%s at %q, lacks %v, want %s at %q, %v\n%+v", a.Cause, a.Place, a.Lacks, c.want, c.place, c.lacks, a)
			}
			if c.want == ByFirewall && (!a.AckWay || a.Partly) { // all are of acknowledgements
				t.Errorf("on their way: %v, partly: %v", a.AckWay, a.Partly)
			}
		})
	}
}

// TestHostile: records that say nonsense are no fault, and take no memory without end.
func TestHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a := New(flow)
	w := &wire{}
	numbers := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1 << 32, 1<<31 - 1, t0}
	odd := func() int64 { return numbers[rng.IntN(len(numbers))] }
	for range 20_000 {
		r := w.packet(rng.IntN(2) == 0, float64(rng.IntN(1000)), int64(rng.IntN(1e6)), rng.IntN(512), rng.Int(), rng.Int(), rng.IntN(1<<16), rng.IntN(1<<17))
		w.list = nil
		switch rng.IntN(8) {
		case 0:
			r.TNs = odd()
		case 1:
			r.LatencyNs = ptr(odd())
		case 2:
			r.TCPPayload, r.TCPWindow, r.Segs, r.Len = ptr(int(odd())), ptr(int(odd())), int(odd()), int(odd())
		case 3:
			r.Hops[1].LinkNs, r.Hops[1].QueueNs, r.Hops[1].AtNs, r.Hops[1].Node = ptr(odd()), ptr(odd()), ptr(odd()), fmt.Sprint(rng.IntN(5000))
		case 4:
			r.State, r.Loss = record.Lost, &record.Loss{Node: fmt.Sprint(rng.IntN(5000))}
		case 5:
			r.Hops, r.TCPFlags = nil, ptr(int(odd()))
		case 6:
			r.TCPSeq = ptr(int(seq0)) // the same again and again
		}
		a.Add(r)
	}
	if _, ok := a.Finish(); !ok {
		t.Error("there is no answer")
	}
}

// TestDatagramsLost: datagrams that a queue lets out slowly are lost elsewhere, too. The place that loses most is the
// cause: datagrams have no recovery whose time could be compared.
func TestDatagramsLost(t *testing.T) {
	for _, c := range []struct {
		elsewhere int // one of so many
		cause     Cause
		place     string
	}{{5, ByFirewall, "r1"}, {100, ByQueue, "r1/eth1"}} {
		w := &wire{}
		for i := range 400 {
			r := w.packet(true, float64(i), 20_000, 0, 0, 0, 0, 0)
			r.Proto, r.Len, r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = "udp", 1028, nil, nil, nil, nil
			r.Hops[1].QueueNs = ptr(18 * ms)
			switch {
			case i%c.elsewhere == 1:
				lose(r, refusedByRule)
				r.Hops[1].QueueNs = nil
			case i%20 == 2:
				lose(r, record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"})
				r.Hops[1].QueueNs = nil
			}
		}
		f := flow
		f.Proto = "udp"
		a := w.explained(t, f)
		if a.Cause != c.cause || a.Place != c.place {
			t.Errorf("one of %d is lost by a rule: the cause is %s at %s, want %s at %s: %+v", c.elsewhere, a.Cause, a.Place, c.cause, c.place, a.Queues)
		}
	}
}

// TestMemory: a long flow takes no more memory than a shorter one.
func TestMemory(t *testing.T) {
	used := func(n int) uint64 {
		a, w := New(flow), &wire{}
		w.open()
		for i := range n {
			w.data(4+float64(i)/10, i, 1)
			for _, r := range w.list {
				a.Add(r)
			}
			w.list = w.list[:0]
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if ans, _ := a.Finish(); ans.Packets != uint64(n) || ans.RTT.Count != uint64(n) {
			t.Errorf("%d packets, %d round trips, want %d", ans.Packets, ans.RTT.Count, n)
		}
		return m.HeapAlloc
	}
	if few, many := used(20_000), used(200_000); many > few+few/2 {
		t.Errorf("a tenth takes %d bytes, all take %d", few, many)
	}
}

// TestOnlySynWindow: a window that only a SYN has told is one, too.
func TestOnlySynWindow(t *testing.T) {
	for _, size := range []int{0, 500} {
		w := &wire{}
		w.packet(true, 0, 1000, packet.TCPSyn, -1, 0, 64240, 0)
		w.packet(false, 1.1, 1000, packet.TCPSyn|packet.TCPAck, -1, 0, size, 0)
		w.packet(true, 2.2, 1000, packet.TCPAck, 0, 0, 502, 0)
		for i := range 4 {
			w.packet(true, 4+200*float64(i), 1000, packet.TCPAck, 0, 0, 502, mss)
		}
		a := w.explained(t, flow)
		if a.Cause != ByWindow || a.Window == nil || a.Window.Max != int64(size) || !a.Window.Known || len(a.Lacks) > 0 {
			t.Errorf("a window of %d: %s, %+v, lacks %v", size, a.Cause, a.Window, a.Lacks)
		}
	}
}

// TestManyFlows: the flow with most bytes is found, also if it begins behind more flows than there is room for.
func TestManyFlows(t *testing.T) {
	var c Candidates
	r := &record.Record{Proto: "udp", Src: "10.0.0.1", Dst: "10.0.3.2", Sport: ptr(1), Dport: ptr(1), Len: 100, Segs: 1}
	for i := range maxCandidates {
		r.Sport, r.Dport, r.TNs = ptr(i%200), ptr(i/200), int64(i)
		c.Add(r)
	}
	if c.Full != 0 || len(c.List()) != maxCandidates {
		t.Errorf("%d flows, %d packets without room", len(c.List()), c.Full)
	}
	r.Proto, r.Len = "tcp", 1000
	for range 3 {
		c.Add(r)
	}
	list := c.List()
	if list[0].Proto != "tcp" || list[0].Packets != 3 || c.Full != maxCandidates/2 || len(list) != maxCandidates/2+1 || len(c.back) != len(list) {
		t.Errorf("%d flows, %d names, %d packets without room, the first is %+v", len(list), len(c.back), c.Full, list[0])
	}
}
