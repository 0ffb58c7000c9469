// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/backpack"
	rt "github.com/vnetradar/radar/pkg/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/record"
)

// benchRing is a full ring of packets that went h1 - r1 - r2 - h2.
func benchRing(slots uint32) (*rt.Image, uint64) {
	block := uint64(min(1024, slots/4))
	m := rt.New(slots, 256, 1, block)
	now := 1000 * second
	for m.Cursor() < uint64(slots)+block {
		now += 1000
		pos, _ := m.Send(0, udp, rt.Egress, h1e0, now)
		for i, e := range []struct {
			kind byte
			port uint16
		}{{rt.Ingress, r1e0}, {rt.Egress, r1e1}, {rt.Ingress, r2e0}, {rt.Egress, r2e1}, {rt.Deliver, h2e0}} {
			m.See(pos, e.kind, rt.First, e.port, now+uint64(i)*700)
		}
	}
	return m, now + second
}

// BenchmarkFollow is the cost of one packet, from slot to Packet.
func BenchmarkFollow(b *testing.B) {
	const slots = 1 << 16
	m, now := benchRing(slots)
	dec := backpack.NewDecoder(testDomain(slots), names{})
	opts := backpack.FollowOptions{Now: func() uint64 { return now }}
	b.ReportAllocs()
	hops := 0
	for left := b.N; left > 0; {
		f := backpack.NewFollower(m, dec, opts)
		_ = f.Poll(func(p *backpack.Packet) { hops += len(p.Hops); left-- })
	}
	if hops < b.N {
		b.Fatal("packets without hops")
	}
}

// BenchmarkRecord is the cost of one record with its text.
func BenchmarkRecord(b *testing.B) {
	m, now := benchRing(1024)
	dec := backpack.NewDecoder(testDomain(1024), names{})
	var packet backpack.Packet
	f := backpack.NewFollower(m, dec, backpack.FollowOptions{Now: func() uint64 { return now }})
	_ = f.Poll(func(p *backpack.Packet) {
		packet = *p
		packet.Hops = append([]backpack.Hop(nil), p.Hops...)
	})
	b.ReportAllocs()
	for b.Loop() {
		if r := dec.Record(&packet); len(r.Hops) != 4 {
			b.Fatal("wrong record")
		}
	}
}

// The whole default ring: its newest 20 packets; and a search that finds nothing,
// which turns every packet into a record.
func BenchmarkScan(b *testing.B) {
	const slots = 1 << 20
	m, now := benchRing(slots)
	dec := backpack.NewDecoder(testDomain(slots), names{})
	for _, bc := range []struct {
		name string
		opts backpack.ScanOptions
		want int
	}{
		{"last=20", backpack.ScanOptions{Last: 20}, 20},
		{"none", backpack.ScanOptions{Last: 20, Match: func(*record.Record) bool { return false }}, 0},
	} {
		b.Run(bc.name, func(b *testing.B) {
			bc.opts.Now = func() uint64 { return now }
			for b.Loop() {
				recs, _, err := backpack.Scan(m, dec, bc.opts)
				if err != nil || len(recs) != bc.want {
					b.Fatal(len(recs), err)
				}
			}
		})
	}
}
