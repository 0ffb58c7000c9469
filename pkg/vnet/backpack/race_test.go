// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// stamp makes a packet whose fields all follow from one number: a copy of parts of two
// packets can be recognised.
func stamp(n uint16) rt.Packet {
	b := byte(n)
	return rt.Packet{
		Proto: 17, Src: [4]byte{10, b, b, b}, Dst: [4]byte{11, b, b, b}, Sport: n, Dport: n,
		ID: n, TTL: b, TOS: b, Len: n,
	}
}

func stamped(p *packet.Packet) bool {
	n := p.SrcPort
	b := byte(n)
	return p.DstPort == n && p.ID == n && p.Len == uint32(n) && p.TTL == b && p.TOS == b &&
		p.Src == packet.AddrFrom4([4]byte{10, b, b, b}) && p.Dst == packet.AddrFrom4([4]byte{11, b, b, b}) &&
		len(p.Hops) == 2 && p.Hops[1].In == n && p.Hops[0].Out == n
}

// Writers on several CPUs overwrite a small ring as fast as they can while it is
// followed and scanned: nothing torn may be shown, and nothing handed out twice.
// The race detector also finds loads that are not atomic. Writers take turns: a writer
// that is interrupted for a whole revolution of the ring is another test.
func TestReadWhileWritten(t *testing.T) {
	const cpus, enough, races = 3, 3000, 3 // that a writer and the follower must have met in
	m := rt.New(64, 128, cpus, 8)
	m.MinAgeNs = 0
	dom := testDomain(64)
	var wg sync.WaitGroup
	var stop atomic.Bool
	var turn sync.Mutex
	for cpu := range cpus {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				turn.Lock()
				n := uint16(i*cpus + cpu)
				now := clock.Monotonic()
				if pos := m.Take(cpu, 1, now); pos != 0 {
					m.Write(pos, stamp(n), now)
					m.See(pos, rt.Egress, rt.First|rt.Source, n, now)
					m.See(pos, rt.Deliver, rt.First, n, now)
					m.Settle(cpu, pos+1)
				}
				turn.Unlock()
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)

	f := backpack.NewFollower(m, backpack.NewDecoder(dom, nil), backpack.FollowOptions{Settle: 1})
	scanner := backpack.NewDecoder(dom, nil)
	seen := make(map[uint64]bool)
	hand := func(p *packet.Packet) {
		if seen[p.Pos] {
			t.Errorf("position %d handed out twice", p.Pos)
		}
		seen[p.Pos] = true
		if p.State == record.Delivered && !stamped(p) {
			t.Errorf("parts of several packets: %+v", *p)
		}
	}
	scans := 0
	const patience = 2 * time.Minute
	for end := time.Now().Add(patience); len(seen) < enough || f.Stats().Torn < races; scans++ {
		if time.Now().After(end) {
			t.Fatalf("only %d packets handed out in %v, %+v", len(seen), patience, f.Stats())
		}
		if err := f.Poll(hand); err != nil {
			t.Fatal(err)
		}
		recs, _, err := backpack.Scan(m, scanner, backpack.ScanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.Sport == nil || r.IPID != *r.Sport || r.Len != *r.Sport || r.Dport == nil || *r.Dport != *r.Sport {
				t.Fatalf("scan shows parts of several packets: %+v", r)
			}
		}
	}
	t.Logf("%d scans, %d handed out, %+v", scans, len(seen), f.Stats())
}
