// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"sync"
	"testing"

	"github.com/vnetradar/radar/pkg/backpack"
	rt "github.com/vnetradar/radar/pkg/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/record"
)

// stamp makes a packet whose fields all follow from one number, so that a copy of
// parts of two packets shows.
func stamp(n uint16) rt.Packet {
	b := byte(n)
	return rt.Packet{
		Proto: 17, Src: [4]byte{10, b, b, b}, Dst: [4]byte{11, b, b, b}, Sport: n, Dport: n,
		ID: n, TTL: b, TOS: b, Len: n,
	}
}

func stamped(p *backpack.Packet) bool {
	n := p.SrcPort
	b := byte(n)
	return p.DstPort == n && p.ID == n && p.Len == uint32(n) && p.TTL == b && p.TOS == b &&
		p.Src == [4]byte{10, b, b, b} && p.Dst == [4]byte{11, b, b, b} &&
		len(p.Hops) == 2 && p.Hops[1].In == n && p.Hops[0].Out == n
}

// Writers on several CPUs overwrite a small ring as fast as they can while it is
// followed and scanned: nothing torn may be shown, and nothing handed out twice.
// Under the race detector this also holds readers to atomic loads.
func TestReadWhileWritten(t *testing.T) {
	const cpus, each = 3, 30000
	m := rt.New(64, 128, cpus, 8)
	m.MinAgeNs, m.TimeoutNs = 0, 1
	dom := testDomain(64)
	var wg sync.WaitGroup
	for cpu := range cpus {
		wg.Go(func() {
			for i := range each {
				n := uint16(i*cpus + cpu)
				now := backpack.Monotonic()
				pos := m.Take(cpu, 1, now)
				if pos == 0 {
					continue
				}
				m.Write(pos, stamp(n), now)
				m.See(pos, rt.Egress, rt.First|rt.Source, n, now)
				m.See(pos, rt.Deliver, rt.First, n, now)
				m.Settle(cpu, pos+1)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	f := backpack.NewFollower(m, backpack.NewDecoder(dom, nil), backpack.FollowOptions{Settle: 1})
	scanner := backpack.NewDecoder(dom, nil)
	seen := make(map[uint64]bool)
	hand := func(p *backpack.Packet) {
		if seen[p.Pos] {
			t.Errorf("position %d handed out twice", p.Pos)
		}
		seen[p.Pos] = true
		if p.State == record.Delivered && !stamped(p) {
			t.Errorf("parts of several packets: %+v", *p)
		}
	}
	scans := 0
	for running := true; running; scans++ {
		select {
		case <-done:
			running = false
		default:
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
	s := f.Stats()
	t.Logf("%d scans, %d handed out, %+v", scans, len(seen), s)
	if len(seen) < 1000 {
		t.Errorf("only %d packets handed out: the test tests little", len(seen))
	}
}
