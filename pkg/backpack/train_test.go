// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"fmt"
	"testing"

	rt "github.com/vnetradar/radar/pkg/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/record"
)

var train = func() rt.Packet {
	p := udp
	p.Proto, p.Segs, p.Len = 6, 4, 1500
	return p
}()

func TestWholeTrain(t *testing.T) {
	b := newBench(t, 128, train)
	b.route(6, 0)
	r := b.one()
	if r.Segs != 4 || r.Len != 6000 || r.State != record.Delivered || r.IPID != 0xfffe || r.Truncated {
		t.Errorf("%d segments, %d bytes, %s, id %d: want one record of the train", r.Segs, r.Len, r.State, r.IPID)
	}
}

// cutBench makes the train's pieces go their own ways behind r1: delivered, lost in the
// queue, in flight, and one that went on within its skb and is noted in the head.
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
		way   string
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
		if r.State != want.state || way(r) != want.way || *r.LatencyNs != want.ns {
			t.Errorf("segment %d: %s %s %d ns, want %+v", k, r.State, way(r), *r.LatencyNs, want)
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
	if !r.Truncated || r.State != record.Delivered || way(r) != "r1(,eth1)transit r2(eth0,)sink" {
		t.Errorf("orphan: truncated %v, %s, %s", r.Truncated, r.State, way(r))
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

// A train lost as a whole, of which one segment is seen after all.
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

func TestLogFull(t *testing.T) {
	// 6 cells: sent, in, out, in, out, in at h1 r1 r1 r2 r2 h2; then no more fits.
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
	for _, tc := range []struct {
		name  string
		log   func(b *bench)
		state record.State
		local bool // a local drop, but nothing more of it
	}{
		{"goes on", func(b *bench) { fill(b, 8) }, record.InFlight, false},
		{"vanishes", func(b *bench) { fill(b, 8); b.now = b.t0 + 11*second }, record.Expired, false},
		{"arrives", func(b *bench) { fill(b, 6); b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+900) }, record.Delivered, false},
		{"leaves", func(b *bench) { fill(b, 6); b.See(b.pos, rt.Left, 1, h2e0, b.t0+900) }, record.Left, false},
		{"leaves, comes back and arrives", func(b *bench) {
			fill(b, 6)
			b.See(b.pos, rt.Left, 1, h2e0, b.t0+900)
			b.See(b.pos, rt.Ingress, 1, h2e0, b.t0+910)
			b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+920)
		}, record.Delivered, false},
		{"leaves, comes back and goes on", func(b *bench) {
			fill(b, 6)
			b.See(b.pos, rt.Left, 1, h2e0, b.t0+900)
			b.See(b.pos, rt.Ingress, 1, h2e0, b.t0+910)
		}, record.InFlight, false},
		{"is lost", func(b *bench) { fill(b, 5); b.Drop(b.pos, 1, r1e0, 12, fnIP, "", false, b.t0+900) }, record.Lost, false},
		{"loss noted, seen again", func(b *bench) {
			fill(b, 3)
			b.Drop(b.pos, 1, r1e0, 12, fnIP, "", false, b.t0+900)
			b.See(b.pos, rt.Egress, 1, r1e1, b.t0+950)
		}, record.InFlight, false},
		{"leaves and is dropped outside", func(b *bench) {
			fill(b, 5)
			b.See(b.pos, rt.Left, 1, h2e0, b.t0+900)
			b.Drop(b.pos, 1, rt.NoPort, 12, fnIP, "", false, b.t0+950)
		}, record.Left, false},
		{"arrives and is dropped", func(b *bench) {
			fill(b, 5)
			b.See(b.pos, rt.Deliver, 1, h2e0, b.t0+900)
			b.Drop(b.pos, 1, h2e0, 12, fnIP, "", false, b.t0+950)
		}, record.Delivered, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 128, udp)
			tc.log(b)
			r := b.one()
			if !r.Truncated {
				t.Fatalf("not truncated: %+v", r)
			}
			if r.State != tc.state {
				t.Errorf("state %s, want %s", r.State, tc.state)
			}
			if (r.LocalDrop != nil) != tc.local || r.Loss != nil {
				t.Errorf("local drop %+v, loss %+v: want %v, and no loss", r.LocalDrop, r.Loss, tc.local)
			}
			if r.LatencyNs != nil {
				t.Errorf("latency %d, but the last stamp is not known", *r.LatencyNs)
			}
			for _, h := range r.Hops {
				if h.Role == record.Sink {
					t.Errorf("%s is a sink, but the last hop is not known", h.Node)
				}
			}
		})
	}
}
