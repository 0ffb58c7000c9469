// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// benchRing is a full ring of packets that went h1 - r1 - r2 - h2.
func benchRing(slots uint32) (*rt.Image, uint64) {
	block := uint64(min(1024, slots/4))
	m := rt.New(slots, 256, 1, block)
	now := 1000 * second
	for m.Cursor() < uint64(slots)+block {
		now += 1000
		benchSend(m, now)
	}
	return m, now + second
}

func benchSend(m *rt.Image, now uint64) {
	pos, _ := m.Send(0, udp, rt.Egress, h1e0, now)
	for i, e := range []struct {
		kind byte
		port uint16
	}{{rt.Ingress, r1e0}, {rt.Egress, r1e1}, {rt.Ingress, r2e0}, {rt.Egress, r2e1}, {rt.Deliver, h2e0}} {
		m.See(pos, e.kind, rt.First, e.port, now+uint64(i)*700)
	}
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
		_ = f.Poll(func(p *packet.Packet) { hops += len(p.Hops); left-- })
	}
	if hops < b.N {
		b.Fatal("packets without hops")
	}
}

// BenchmarkRecord is the cost of one record with its text.
func BenchmarkRecord(b *testing.B) {
	m, now := benchRing(1024)
	dec := backpack.NewDecoder(testDomain(1024), names{})
	var one packet.Packet
	f := backpack.NewFollower(m, dec, backpack.FollowOptions{Now: func() uint64 { return now }})
	_ = f.Poll(func(p *packet.Packet) {
		one = *p
		one.Hops = append([]packet.Hop(nil), p.Hops...)
	})
	b.ReportAllocs()
	for b.Loop() {
		if r := dec.Record(&one); len(r.Hops) != 4 {
			b.Fatal("wrong record")
		}
	}
}

// benchSelects are a filter that keeps all of benchRing, and those that keep nothing: of
// flows, of a state, and one that must be asked about every packet.
func benchSelects() []struct {
	name   string
	choice backpack.Select
} {
	flow := func(p *packet.Packet) bool { return p.DstPort == 54 }
	match := func(p *packet.Packet, _ packet.Scope) bool { return flow(p) }
	lost := func(p *packet.Packet, _ packet.Scope) bool { return p.State == record.Lost }
	return []struct {
		name   string
		choice backpack.Select
	}{
		{"all", backpack.Select{}},
		{"flow", backpack.Select{Flow: flow, Match: match}},
		{"state", backpack.Select{States: []record.State{record.Lost}, Match: lost}},
		{"match", backpack.Select{Match: match}},
	}
}

// BenchmarkFollowNow is the cost of one packet to who looks every 100 ms at a ring that
// takes 100,000 packets a second: half of them are not final then.
func BenchmarkFollowNow(b *testing.B) {
	for _, bc := range benchSelects() {
		b.Run(bc.name, func(b *testing.B) {
			const slots, batch = 1 << 17, 10_000
			m, now := benchRing(slots)
			f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(slots), names{}), backpack.FollowOptions{
				Now: func() uint64 { return now }, Select: bc.choice,
			})
			_ = f.Poll(func(*packet.Packet) {})
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= batch {
				b.StopTimer()
				for range batch {
					now += 10_000
					benchSend(m, now)
				}
				b.StartTimer()
				_ = f.Poll(func(*packet.Packet) {})
			}
		})
	}
}

// The whole default ring: its newest 20 packets; and searches that find nothing.
func BenchmarkScan(b *testing.B) {
	const slots = 1 << 20
	m, now := benchRing(slots)
	dec := backpack.NewDecoder(testDomain(slots), names{})
	for _, bc := range benchSelects() {
		b.Run(bc.name, func(b *testing.B) {
			o, want := backpack.ScanOptions{Last: 20, Select: bc.choice, Now: func() uint64 { return now }}, 0
			if bc.name == "all" {
				want = 20
			}
			b.ReportAllocs()
			for b.Loop() {
				recs, _, err := backpack.Scan(m, dec, o)
				if err != nil || len(recs) != want {
					b.Fatal(len(recs), err)
				}
			}
		})
	}
}

// All of a ring as numbers, asked for as its newest million.
func BenchmarkScanPackets(b *testing.B) {
	const slots = 1 << 18
	m, now := benchRing(slots)
	dec := backpack.NewDecoder(testDomain(slots), names{})
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		o := backpack.ScanOptions{Last: 1 << 20, Now: func() uint64 { return now }}
		backpack.ScanPackets(m, dec, o, func(*packet.Packet) { n++ })
		if n == 0 {
			b.Fatal("no packets")
		}
	}
}
