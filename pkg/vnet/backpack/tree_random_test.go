// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// TestTreesOfAnything: in random logs of copies, with a virtual machine of three taps, each
// hop comes from an earlier one, and each loss is at a hop that exists.
func TestTreesOfAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []byte{rt.Ingress, rt.Egress, rt.Deliver, rt.Left, rt.Ignored, rt.Dequeue, 0, rt.Addr}
	for n := range 3000 {
		b := newBench(t, 256, udp)
		dom := vmDomain(n%2 == 0)
		for i := range dom.Ports {
			if dom.Ports[i].ID == brE0 {
				dom.Ports[i].VM = 9
			}
		}
		if n%3 == 0 {
			b.SetState(b.pos, rt.Group)
		}
		for i := range 1 + rng.IntN(16) {
			p := uint16(rng.IntN(10))
			if rng.IntN(8) == 0 {
				p = uint16(20 + rng.IntN(3))
			}
			at := b.t0 + uint64(i)*10
			switch k := kinds[rng.IntN(len(kinds))]; k {
			case 0:
				b.Drop(b.pos, rt.First, p, 12, fnIP, "", false, at)
			case rt.Addr:
				b.Translate(b.pos, rt.First, p, udp.Src, [4]byte{10, 0, byte(rng.IntN(3)), 9}, 1, 2, at)
			case rt.Dequeue:
				b.Log(b.pos, k, rt.First, p, at)
			default:
				b.See(b.pos, k, byte(rng.IntN(2)), p, at)
			}
		}
		now := b.t0 + uint64(rng.IntN(2))*20*second
		recs, _, err := backpack.Scan(b, backpack.NewDecoder(dom, names{}), backpack.ScanOptions{Now: func() uint64 { return now }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			r := &recs[i]
			checkRecord(t, r)
			for j := range r.Hops {
				if p := r.Hops[j].Prev; p != nil && (*p < -1 || *p >= j) {
					t.Fatalf("hop %d comes from %d: %s", j, r.PrevOf(j), tree(*r))
				}
			}
			for _, l := range r.Losses {
				if l.Hop < 0 || l.Hop >= max(1, len(r.Hops)) {
					t.Fatalf("loss at hop %d of %d", l.Hop, len(r.Hops))
				}
			}
		}
	}
}
