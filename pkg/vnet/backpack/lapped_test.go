// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// Every packet is handed out, in flight or counted as unread, however late a follower polls,
// and also if another goes on from its state. Positions that CPUs give up are counted as
// unread only if they look like used ones.
func TestFollowerForgetsNothing(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		const cpus = 3
		m := rt.New(64, 128, cpus, 8)
		m.MinAgeNs = 0
		now, used, handed := uint64(1_000_000), 0, 0
		opts := backpack.FollowOptions{Settle: 1, Now: func() uint64 { return now }}
		f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), nil), opts)
		f.FromStart()
		poll := func() {
			now += 1000
			if err := f.Poll(func(*packet.Packet) { handed++ }); err != nil {
				t.Fatal(err)
			}
		}
		work := func(cpu, n int) {
			for range n {
				now += 1000
				if _, ok := m.Send(cpu, stamp(1), rt.Deliver, 1, now); ok {
					used++
				}
			}
		}
		for range 1 + seed%60 {
			switch what := r.IntN(10); {
			case what < 7:
				work(r.IntN(cpus), r.IntN([]int{4, 30, 200}[r.IntN(3)]))
			case what < 9:
				poll()
			default: // another process goes on
				state := f.AppendState(nil)
				f = backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), nil), opts)
				if err := f.Restore(state); err != nil {
					t.Fatal(err)
				}
			}
		}
		poll()
		poll() // all has settled
		s := f.Stats()
		missed := int(s.InFlight + s.Unread + s.Torn)
		if handed > used || handed+missed < used {
			t.Fatalf("seed %d: %d packets, %d handed out, %+v", seed, used, handed, s)
		}
	}
}
