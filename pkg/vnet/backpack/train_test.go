// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

var train = func() rt.Packet {
	p := udp
	p.Proto, p.Segs, p.Len = 6, 4, 1500
	return p
}()

func TestWholeTrain(t *testing.T) {
	b := newBench(t, 256, train)
	b.route(6, 0)
	r := b.one()
	if r.Segs != 4 || r.Len != 6000 || r.State != record.Delivered || r.IPID != 0xfffe || r.Truncated {
		t.Errorf("%d segments, %d bytes, %s, id %d: want one record of the train", r.Segs, r.Len, r.State, r.IPID)
	}
}

// cutBench cuts the train behind r1: its segments are delivered, lost in the queue, in
// flight, and one went on in its skb and is noted in the head.
func cutBench(t *testing.T) *bench {
	b := newBench(t, 256, train)
	b.route(2, 0)
	b.SetCut(b.pos, rt.Cut)
	for k := range uint64(4) {
		b.See(b.pos+k, rt.Egress, rt.First|rt.Part, r1e1, b.t0+2000+k)
	}
	b.See(b.pos+1, rt.Deliver, rt.First|rt.Part, r2e0, b.t0+3000)
	b.Drop(b.pos+2, rt.First|rt.Part, r1e1, 64, fnQueue, "tbf", false, b.t0+3100)
	b.See(b.pos+0, rt.Deliver, rt.First|rt.Part, r2e0, b.t0+3200)
	return b
}

func TestCutTrain(t *testing.T) {
	b := cutBench(t)
	recs := b.all()
	if len(recs) != 4 {
		t.Fatalf("%d records, want one for each of 4 segments", len(recs))
	}
	for k, want := range []struct {
		state record.State
		path  string
		ns    int64
	}{
		{record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,)sink", 3200},
		{record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,)sink", 3000},
		{record.Lost, "h1(,eth0)source r1(eth0,eth1)transit", 2002},
		{record.InFlight, "h1(,eth0)source r1(eth0,eth1)transit", 2003},
	} {
		r := recs[k]
		if r.ID != fmt.Sprintf("%08x-%x", testEpoch, b.pos+uint64(k)) || r.IPID != (0xfffe+k)&0xffff {
			t.Errorf("segment %d: id %s, IP ID %#x", k, r.ID, r.IPID)
		}
		if r.State != want.state || pathOf(r) != want.path || *r.LatencyNs != want.ns {
			t.Errorf("segment %d: %s %s %d ns, want %+v", k, r.State, pathOf(r), *r.LatencyNs, want)
		}
		if r.Segs != 1 || r.Len != 1500 || r.Src != "10.0.1.1" || *r.Sport != 4000 || r.TTL != 64 || r.Truncated {
			t.Errorf("segment %d does not share the head's header: %+v", k, r)
		}
	}
	if l := recs[2].Loss; l == nil || l.Port != "eth1" || l.At != record.AtQueue {
		t.Errorf("segment 2: loss %+v, want the queue of r1's eth1", l)
	}
}

// A segment whose head was overwritten keeps what happened to it alone.
func TestOrphan(t *testing.T) {
	b := cutBench(t)
	p := udp
	p.Src = [4]byte{1, 2, 3, 4}
	b.Write(b.pos+64, p, b.t0+second/2)
	b.See(b.pos+64, rt.Egress, rt.First|rt.Source, h1e0, b.t0+second/2)
	recs := b.all()
	if len(recs) != 4 {
		t.Fatalf("%d records, want 3 segments and the new packet", len(recs))
	}
	r := recs[0]
	if !r.Truncated || r.State != record.Delivered || pathOf(r) != "r1(,eth1)transit r2(eth0,)sink" {
		t.Errorf("orphan: truncated %v, %s, %s", r.Truncated, r.State, pathOf(r))
	}
	if r.Src != "" || r.Sport != nil || r.Len != 1500 || r.Proto != "tcp" {
		t.Errorf("orphan: src %q, sport %v, len %d, proto %s: want only what its own slot says", r.Src, r.Sport, r.Len, r.Proto)
	}
	if *r.LatencyNs != 3000 || *r.Hops[0].AtNs != 2001 || r.Hops[0].LinkNs != nil || r.Hops[0].LatencyNs != nil {
		t.Errorf("orphan: latency %v, first hop %+v: times count from the source, its hop is not known", *r.LatencyNs, r.Hops[0])
	}
	if recs[3].Src != "1.2.3.4" {
		t.Errorf("last record is of %s, want the packet that overwrote the head", recs[3].Src)
	}
}

// Segments of a whole train without their head say nothing: their story was there.
func TestOrphanWithoutStory(t *testing.T) {
	b := newBench(t, 128, train)
	b.route(6, 0)
	b.Write(b.pos+64, udp, b.t0+second/2)
	b.See(b.pos+64, rt.Egress, rt.First|rt.Source, h1e0, b.t0+second/2)
	if r := b.one(); r.Segs != 1 || r.Proto != "udp" {
		t.Errorf("%+v, want the new packet only", r)
	}
}

// A train lost as a whole, of which one segment is seen later.
func TestLossWithdrawnForOneSegment(t *testing.T) {
	b := newBench(t, 256, train)
	b.route(3, 0)
	b.Drop(b.pos, rt.First, r1e1, 64, fnQueue, "tbf", false, b.t0+2000)
	b.SetCut(b.pos, rt.Cut)
	b.See(b.pos+2, rt.Deliver, rt.First|rt.Part, r2e0, b.t0+3000)
	recs := b.all()
	if len(recs) != 4 {
		t.Fatalf("%d records, want 4", len(recs))
	}
	skbs := 0
	for k, r := range recs {
		want := record.Lost
		if k == 2 {
			want = record.Delivered
		}
		if r.State != want {
			t.Errorf("segment %d %s, want %s", k, r.State, want)
		}
		if r.Loss != nil {
			skbs += r.Loss.Skbs
		}
	}
	if skbs != 1 {
		t.Errorf("%d dropped skbs, want 1: it was one", skbs)
	}
}

// A log of 5 cells has room for one event before the end; whatever comes after them, the end fits.
func TestLogFull(t *testing.T) {
	fill := func(b *bench, n int) {
		for i := range n {
			kind, port := byte(rt.Ingress), uint16(r1e0)
			if i%2 == 0 {
				kind, port = rt.Egress, h1e0
			}
			flags := byte(rt.First)
			if i == 0 {
				flags |= rt.Source
			}
			b.See(b.pos, kind, flags, port, b.t0+uint64(i)*100)
		}
	}
	const (
		gone   = "h1"            // and nobody knows where to
		there  = "h1 > ... > h2" // where it ended
		unseen = int64(-1)
	)
	drop := func(node, port string, at int64) *record.Loss {
		return &record.Loss{Node: node, Port: port, At: record.AtNode, Reason: "NETFILTER_DROP", Function: "ip_forward", AtNs: &at, Skbs: 1}
	}
	for _, tc := range []struct {
		name        string
		log         func(b *bench)
		state       record.State
		path        string
		latency     int64
		loss, local *record.Loss
	}{
		{"goes on", func(b *bench) { fill(b, 8) }, record.InFlight, gone, unseen, nil, nil},
		{"vanishes", func(b *bench) { fill(b, 8); b.now = b.t0 + 11*second }, record.Expired, gone, unseen, nil, nil},
		{"arrives", func(b *bench) { fill(b, 6); b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+900) }, record.Delivered, there, 900, nil, nil},
		{"leaves", func(b *bench) { fill(b, 6); b.See(b.pos, rt.Left, 1, h2e0, b.t0+900) }, record.Left, there, 900, nil, nil},
		{"leaves, comes back and arrives", func(b *bench) {
			fill(b, 6)
			b.See(b.pos, rt.Left, 1, h2e0, b.t0+900)
			b.See(b.pos, rt.Ingress, 1, h2e0, b.t0+910)
			b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+920)
		}, record.Delivered, there, 920, nil, nil},
		{"leaves, comes back and goes on", func(b *bench) {
			fill(b, 6)
			b.See(b.pos, rt.Left, 1, h2e0, b.t0+900)
			b.See(b.pos, rt.Ingress, 1, h2e0, b.t0+910)
		}, record.InFlight, there, unseen, nil, nil},
		{"is delivered at a node between", func(b *bench) { // to a masquerading node
			fill(b, 6)
			b.See(b.pos, rt.Deliver, 1, r2e0, b.t0+900)
			b.See(b.pos, rt.Egress, 1, r2e1, b.t0+910)
			b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+920)
		}, record.Delivered, there, 920, nil, nil},
		{"is lost", func(b *bench) { fill(b, 5); b.Drop(b.pos, 1, r2e0, 12, fnIP, "", false, b.t0+900) },
			record.Lost, gone, unseen, drop("r2", "eth0", 900), nil},
		{"is lost, nobody knows where", func(b *bench) { fill(b, 5); b.Drop(b.pos, 1, rt.NoPort, 12, fnIP, "", false, b.t0+900) },
			record.Lost, gone, unseen, drop("?", "", 900), nil},
		{"loss noted, seen again", func(b *bench) {
			fill(b, 3)
			b.Drop(b.pos, 1, r1e0, 12, fnIP, "", false, b.t0+900)
			b.See(b.pos, rt.Egress, 1, r1e1, b.t0+950)
		}, record.InFlight, gone, unseen, nil, nil},
		{"loss noted, arrives", func(b *bench) {
			fill(b, 3)
			b.Drop(b.pos, 1, r1e0, 12, fnIP, "", false, b.t0+900)
			b.See(b.pos, rt.Egress, 1, r1e1, b.t0+950)
			b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+990)
		}, record.Delivered, there, 990, nil, nil},
		{"leaves and is dropped outside", func(b *bench) {
			fill(b, 5)
			b.See(b.pos, rt.Left, 1, h2e0, b.t0+900)
			b.Drop(b.pos, 1, rt.NoPort, 12, fnIP, "", false, b.t0+950)
		}, record.Left, there, 900, nil, nil},
		{"arrives and is dropped", func(b *bench) {
			fill(b, 5)
			b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+900)
			b.Drop(b.pos, 1, h2e0, 12, fnIP, "", false, b.t0+950)
		}, record.Delivered, there, 900, nil, drop("h2", "eth0", 950)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 128, udp)
			tc.log(b)
			r := b.one()
			if !r.Truncated || r.State != tc.state {
				t.Errorf("truncated %v, %s, want %s", r.Truncated, r.State, tc.state)
			}
			steps := make([]record.Step, len(r.Hops))
			for i, h := range r.Hops {
				steps[i] = record.Step{Text: h.Node, Prev: i - 1, Same: -1}
				if h.Gap {
					steps[i].Arrow = record.GapArrow
				}
				if sink := i == len(r.Hops)-1 && tc.latency != unseen; sink != (h.Role == record.Sink) || h.Gap && (h.LinkNs != nil || h.LatencyNs != nil) {
					t.Errorf("hop %d: %+v", i, h)
				}
			}
			if got := record.PathText(steps); got != tc.path {
				t.Errorf("path %q, want %q", got, tc.path)
			}
			if (r.LatencyNs != nil) != (tc.latency != unseen) || r.LatencyNs != nil && *r.LatencyNs != tc.latency {
				t.Errorf("latency %v, want %d", r.LatencyNs, tc.latency)
			}
			if diff := cmp.Diff(tc.loss, r.Loss); diff != "" {
				t.Errorf("loss (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.local, r.LocalDrop); diff != "" {
				t.Errorf("local drop (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTrainFlags: the kernel sends FIN and PSH with the last segment of a train, and CWR with the first
// (tcp_gso_segment). A record of the whole train has all, and so has one of a packet alone.
func TestTrainFlags(t *testing.T) {
	const fin, psh, ack, cwr = 1, 8, 16, 128
	segment := train
	segment.Hdr, segment.TCP = 52, [8]byte{0, 0, 0, 9, 0x80, cwr | ack | psh | fin, 2, 0}
	alone := segment
	alone.Segs, alone.Len = 0, 1500
	for _, tc := range []struct {
		name string
		p    rt.Packet
		cut  bool
		want []int
	}{
		{"a packet alone", alone, false, []int{cwr | ack | psh | fin}},
		{"a whole train", segment, false, []int{cwr | ack | psh | fin}},
		{"a train that was cut", segment, true, []int{cwr | ack, ack, ack, ack | psh | fin}},
	} {
		b := newBench(t, 256, tc.p)
		b.route(2, 0)
		if tc.cut {
			b.SetCut(b.pos, rt.Cut)
			for k := range uint64(4) {
				b.See(b.pos+k, rt.Egress, rt.First|rt.Part, r1e1, b.t0+2000+k)
			}
		}
		var flags []int
		for _, r := range b.all() {
			if r.TCPFlags == nil {
				t.Fatalf("%s: a record without TCP flags", tc.name)
			}
			flags = append(flags, *r.TCPFlags)
		}
		if !cmp.Equal(flags, tc.want) {
			t.Errorf("%s: flags %v, want %v", tc.name, flags, tc.want)
		}
	}
}
