// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestTopoLoadOfCopies: of a packet that r1 sends on by three ports one branch leaves the
// domain, one vanishes and one is delivered: each counts where it ended.
func TestTopoLoadOfCopies(t *testing.T) {
	d := &domain.Domain{
		Version: 1, Name: "default", Epoch: 1, Options: domain.Options{Slots: 64, Timeout: time.Second},
		Nodes: []domain.Node{{ID: 1, Name: "h1"}, {ID: 2, Name: "r1"}, {ID: 3, Name: "h2"}, {ID: 4, Name: "h3"}},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "eth0", Role: domain.Internal, Peer: 1}, {ID: 1, Node: 2, Name: "eth0", Role: domain.Internal, Peer: 0},
			{ID: 2, Node: 2, Name: "eth1", Role: domain.Edge, Peer: -1},
			{ID: 3, Node: 2, Name: "eth2", Role: domain.Internal, Peer: 4}, {ID: 4, Node: 3, Name: "eth0", Role: domain.Internal, Peer: 3},
			{ID: 5, Node: 2, Name: "eth3", Role: domain.Internal, Peer: 6}, {ID: 6, Node: 4, Name: "eth0", Role: domain.Internal, Peer: 5},
		},
	}
	const t0, n = uint64(1e12), 3
	ring := rt.New(64, 256, 1, 16)
	for pos := uint64(16); pos < 16+n; pos++ {
		ring.Write(pos, rt.Packet{Proto: 17, Len: 100}, t0)
		ring.SetState(pos, rt.Group)
		ring.See(pos, rt.Egress, rt.First|rt.Source, 0, t0)
		ring.See(pos, rt.Ingress, rt.First, 1, t0+100)
		ring.See(pos, rt.Left, rt.First, 2, t0+200)
		ring.See(pos, rt.Egress, rt.First, 3, t0+300)
		ring.See(pos, rt.Egress, rt.First, 5, t0+400)
		ring.See(pos, rt.Deliver, rt.First, 4, t0+500)
	}
	ring.Take(0, n, t0)
	ring.Settle(0, 16+n)
	agg, dec := aggregate.New(0), backpack.NewDecoder(d, nil)
	f := backpack.NewFollower(ring, dec, backpack.FollowOptions{Now: func() uint64 { return t0 + 5e9 }})
	if err := f.Poll(agg.Add); err != nil {
		t.Fatal(err)
	}
	v := New(d)
	v.AddLoad(answer.NewCounts(agg, dec))
	for _, c := range []struct {
		from, to         string
		packets, expired uint64
	}{
		{"h1/eth0", "r1/eth0", n, 0}, {"r1/eth1", Outside, n, 0}, {"r1/eth2", "h2/eth0", n, 0}, {"r1/eth3", "h3/eth0", 0, n},
	} {
		if got := *v.loads[direction{c.from, c.to}]; got.Packets != c.packets || got.Expired != c.expired || got.Lost != 0 {
			t.Errorf("%s > %s: %+v, want %d packets, %d expired", c.from, c.to, got, c.packets, c.expired)
		}
	}
}

// TestTopoOfUnknownMachine: a port of a virtual machine that the description does not have is shown.
func TestTopoOfUnknownMachine(t *testing.T) {
	v := New(&domain.Domain{
		Nodes: []domain.Node{{ID: 1, Name: "h1"}},
		Ports: []domain.Port{{ID: 1, Node: 1, Name: "tap0", Role: domain.Internal, Peer: -1, VM: 7}},
	})
	if len(v.Links) != 1 || v.Links[0].Ends[1].Node != "?" {
		t.Errorf("%+v", v.Links)
	}
}
