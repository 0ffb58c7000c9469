// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// crowd sends packets of a few flows through a ring, some of them translated.
type crowd struct {
	*rt.Image
	rng  *rand.Rand
	now  uint64
	live []*going
}

// going is a packet in flight.
type going struct {
	pos    uint64
	stage  int
	copied bool
}

func newCrowd(seed uint64) *crowd {
	m := &crowd{Image: rt.New(256, 256, 2, 16), rng: rand.New(rand.NewPCG(seed, 3)), now: 1000 * second}
	m.TimeoutNs = 600 * ms
	return m
}

func (m *crowd) domain() *backpack.Decoder {
	dom := testDomain(256)
	dom.Options.Timeout = time.Duration(m.TimeoutNs)
	return backpack.NewDecoder(dom, names{})
}

func (m *crowd) packet() rt.Packet {
	p := udp
	p.Sport = uint16(1 + m.rng.IntN(3))
	switch m.rng.IntN(6) {
	case 0:
		p = train
		p.Sport = uint16(1 + m.rng.IntN(3))
	case 1:
		p.Proto, p.ICMPType = 1, 8
	case 2:
		p.V6 = &rt.V6{Src: [16]byte{0xfe, 0x80, 15: 1}, Dst: [16]byte{0xfe, 0x80, 15: 2}, FragID: uint32(m.rng.IntN(2))}
		p.Frag = 0
	case 3:
		p.Frag = []uint16{0x2000, 185}[m.rng.IntN(2)]
		if p.Frag == 185 {
			p.Flags = 1 // a later fragment
		}
	}
	return p
}

// happen sends a packet, or lets something happen to one in flight.
func (m *crowd) happen() {
	m.now += uint64(m.rng.Int64N(int64(10 * ms)))
	if len(m.live) == 0 || m.rng.IntN(3) == 0 {
		if pos, ok := m.Send(m.rng.IntN(2), m.packet(), rt.Egress, h1e0, m.now); ok {
			m.live = append(m.live, &going{pos: pos})
		}
		return
	}
	i := m.rng.IntN(len(m.live))
	g := m.live[i]
	if m.Pos(g.pos) != g.pos || m.rng.IntN(16) == 0 { // nothing is heard of it again
		m.live = slices.Delete(m.live, i, i+1)
		return
	}
	m.step(g)
}

// step is the next event of a packet, in which a loss may be withdrawn, and a copy be
// late.
func (m *crowd) step(g *going) {
	pos, flags := g.pos, byte(rt.First)
	if m.Byte(pos, 33) > 1 && m.rng.IntN(4) == 0 { // a train
		m.SetCut(pos, rt.Cut)
	}
	if m.Byte(pos, 19) == rt.Cut && m.Pos(pos+1) == pos+1 && m.rng.IntN(2) == 0 {
		pos, flags = pos+1, flags|rt.Part
	}
	translate := func(port uint16) {
		if m.State(pos)&rt.IPv6 == 0 && m.rng.IntN(3) == 0 {
			m.Translate(pos, flags, port, udp.Src, udp.Dst, uint16(1+m.rng.IntN(3)), 53, m.now)
		}
	}
	if g.stage < 4 && m.rng.IntN(12) == 0 {
		m.Drop(pos, flags, r1e1, 64, fnQueue, "tbf", m.rng.IntN(2) == 0, m.now)
		return
	}
	g.stage++
	switch g.stage {
	case 1:
		m.See(pos, rt.Ingress, flags, r1e0, m.now)
	case 2:
		translate(r1e1)
		m.See(pos, rt.Egress, flags, r1e1, m.now)
	case 3:
		if g.copied = m.rng.IntN(4) == 0; g.copied {
			m.See(pos, rt.Egress, flags, brE0, m.now)
		}
	case 4:
		m.See(pos, []byte{rt.Deliver, rt.Left}[m.rng.IntN(2)], flags, r2e0, m.now)
	case 5:
		translate(r2e0)
		if m.rng.IntN(3) == 0 {
			m.Drop(pos, flags, r2e0, 64, fnQueue, "", false, m.now)
		}
	case 6:
		if g.copied {
			translate(brE1)
			m.See(pos, rt.Deliver, flags, brE1, m.now)
		}
	}
}

// selections are Selects whose Flow and States refuse in advance what Match refuses.
func selections() map[string]backpack.Select {
	ports := func(p *packet.Packet) bool {
		return p.HasPorts() && (p.SrcPort == 2 || slices.ContainsFunc(p.Hops, func(h packet.Hop) bool { return h.Changed && h.Tuple.SrcPort == 2 }))
	}
	six := func(p *packet.Packet) bool { return p.IPv6 }
	tcp := func(p *packet.Packet) bool { return p.Proto == 6 }
	lost := func(p *packet.Packet, _ packet.Scope) bool { return p.State == record.Lost }
	both := func(p *packet.Packet, of packet.Scope) bool { return ports(p) && lost(p, of) }
	match := func(flow func(*packet.Packet) bool) func(*packet.Packet, packet.Scope) bool {
		return func(p *packet.Packet, _ packet.Scope) bool { return flow(p) }
	}
	return map[string]backpack.Select{
		"port":          {Flow: ports, Match: match(ports)},
		"IPv6":          {Flow: six, Match: match(six)},
		"TCP":           {Flow: tcp, Match: match(tcp)},
		"lost":          {States: []record.State{record.Lost}, Match: lost},
		"port and lost": {Flow: ports, States: []record.State{record.Lost}, Match: both},
	}
}

// Flow and States save work and change no answer, neither of a scan nor of a follower.
func TestSelectSparesOnlyWork(t *testing.T) {
	for name, all := range selections() {
		t.Run(name, func(t *testing.T) {
			found, passed := 0, 0
			for seed := range uint64(30) {
				n, sent := selectBoth(t, newCrowd(seed), all)
				found, passed = found+n, passed+sent
			}
			if found < 100 || found > passed/2 {
				t.Errorf("%d of %d packets found: this tests nothing", found, passed)
			}
		})
	}
}

func selectBoth(t *testing.T, m *crowd, all backpack.Select) (found, handed int) {
	slow := backpack.Select{Match: all.Match}
	now := func() uint64 { return m.now }
	type reader struct {
		*backpack.Follower
		list []string
	}
	var readers []*reader
	for _, s := range []backpack.Select{slow, all, {}} {
		readers = append(readers, &reader{Follower: backpack.NewFollower(m, m.domain(), backpack.FollowOptions{
			Now: now, Settle: time.Duration(settleNs), Hold: time.Duration(holdNs), Select: s,
		})})
	}
	poll := func() {
		for _, r := range readers {
			if err := r.Poll(func(p *packet.Packet) { r.list = append(r.list, fmt.Sprint(p.Pos, p.State)) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	scan := func(s backpack.Select, last int) (ids []string) {
		recs, _, err := backpack.Scan(m, m.domain(), backpack.ScanOptions{Last: last, Select: s, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for i := range 1500 {
		m.happen()
		if m.rng.IntN(20) == 0 {
			poll()
		}
		if i%50 == 0 {
			want := scan(slow, 0)
			for _, last := range []int{0, 1, 7, 1000} {
				newest := want[max(0, len(want)-last)*min(last, 1):]
				if got := scan(all, last); !slices.Equal(got, newest) {
					t.Fatalf("last %d: scan finds %v, want %v", last, got, newest)
				}
			}
		}
	}
	m.now += 2 * m.TimeoutNs
	poll()
	if want, got := readers[0].list, readers[1].list; !slices.Equal(got, want) {
		t.Fatalf("follower hands out %v, want %v", got, want)
	}
	return len(readers[1].list), len(readers[2].list)
}

// A packet that Flow refuses is not passed over while it can still become one that matches.
func TestSelectWaits(t *testing.T) {
	ports := selections()["port"]
	for _, tc := range []struct {
		name   string
		packet rt.Packet
		before func(m *rt.Image, pos, now uint64)
		after  func(m *rt.Image, pos, now uint64)
	}{
		{"another copy is in flight", udp, func(m *rt.Image, pos, now uint64) {
			for range 2 {
				m.See(pos, rt.Ingress, rt.First, r1e0, now)
			}
			m.See(pos, rt.Egress, rt.First, r1e1, now)
			m.See(pos, rt.Deliver, rt.First, r2e0, now)
		}, func(m *rt.Image, pos, now uint64) {
			m.Translate(pos, rt.First, r1e1, udp.Src, udp.Dst, 2, 53, now)
			m.See(pos, rt.Egress, rt.First, r1e1, now)
			m.See(pos, rt.Deliver, rt.First, r2e0, now)
		}},
		{"a loss that is withdrawn", udp, func(m *rt.Image, pos, now uint64) {
			m.See(pos, rt.Ingress, rt.First, r1e0, now)
			m.Drop(pos, rt.First, r1e0, 12, fnQueue, "", true, now)
		}, func(m *rt.Image, pos, now uint64) {
			m.Translate(pos, rt.First, r1e1, udp.Src, udp.Dst, 2, 53, now)
			m.See(pos, rt.Egress, rt.First, r1e1, now)
			m.See(pos, rt.Deliver, rt.First, r2e0, now)
		}},
		{"a segment is translated", train, func(m *rt.Image, pos, now uint64) {
			m.SetCut(pos, rt.Cut)
			m.See(pos, rt.Deliver, rt.First, r1e0, now)
			m.Translate(pos+1, rt.First|rt.Part, r1e0, udp.Src, udp.Dst, 2, 53, now)
		}, func(*rt.Image, uint64, uint64) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, now, handed := rt.New(64, 256, 1, 8), 1000*second, 0
			f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), names{}), backpack.FollowOptions{
				Now: func() uint64 { return now }, Select: ports,
			})
			pos, _ := m.Send(0, tc.packet, rt.Egress, h1e0, now)
			tc.before(m, pos, now)
			poll := func() {
				t.Helper()
				if err := f.Poll(func(*packet.Packet) { handed++ }); err != nil {
					t.Fatal(err)
				}
			}
			now += 60 * ms
			poll()
			tc.after(m, pos, now)
			now += 20 * second
			poll()
			if handed != 1 {
				t.Errorf("%d packets handed out, want the one that became what is asked for", handed)
			}
		})
	}
}

// TestSelectFragments: what is known of a flow is not taken for a fragment's, which has other bits
// in the slot and the same addresses and ports.
func TestSelectFragments(t *testing.T) {
	m := rt.New(64, 256, 1, 8)
	now := 1000 * second
	whole, first := udp, udp
	first.Frag = 0x2000
	for _, p := range []rt.Packet{whole, first, whole, first} {
		now += second
		pos, _ := m.Send(0, p, rt.Egress, h1e0, now)
		m.See(pos, rt.Deliver, rt.First, r1e0, now+1000)
	}
	fragment := func(p *packet.Packet) bool { _, ok := p.Offset(); return ok }
	f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), names{}), backpack.FollowOptions{
		Now:    func() uint64 { return now + second },
		Select: backpack.Select{Flow: fragment, Match: func(p *packet.Packet, _ packet.Scope) bool { return fragment(p) }},
	})
	if got := poll(t, f); len(got) != 2 {
		t.Errorf("%d packets, want the two fragments", len(got))
	}
}
