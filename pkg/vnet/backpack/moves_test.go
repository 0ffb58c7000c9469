// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"net/netip"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Addresses that move: what the programs noted before they knew is corrected by the time at which
// the agent saw the change. If nothing says which came first, the end is not known.
func TestMoves(t *testing.T) {
	const h2 = 4 // the node that the packet comes to, at t0 + 6100
	addr := netip.MustParseAddr("10.0.4.2")
	move := func(owned bool, after, before int64) domain.Move {
		return domain.Move{Node: h2, Addr: addr, Owned: owned, After: uint64(int64(100*second) + after), Before: uint64(int64(100*second) + before)}
	}
	other := move(true, 0, 1)
	other.Addr = netip.MustParseAddr("10.0.4.3")
	for _, c := range []struct {
		name      string
		kind      byte
		drop      bool
		moves     []domain.Move
		forgotten int64 // of h2, after t0
		state     record.State
		moved     bool
		local     bool // freed after delivery
	}{
		{name: "nothing moved", kind: rt.Ingress, state: record.Expired},
		{name: "another address", kind: rt.Ingress, moves: []domain.Move{other}, state: record.Expired},
		{name: "it came before", kind: rt.Ingress, moves: []domain.Move{move(true, 3000, 6100)}, state: record.Delivered},
		{name: "it came after", kind: rt.Ingress, moves: []domain.Move{move(true, 6100, 9000)}, state: record.Expired},
		{name: "it came just then", kind: rt.Ingress, moves: []domain.Move{move(true, 6099, 6101)}, state: record.Expired, moved: true},
		{name: "it came and went", kind: rt.Ingress, moves: []domain.Move{move(true, 1000, 2000), move(false, 3000, 4000)}, state: record.Expired},
		{name: "it came, and goes just then", kind: rt.Ingress, moves: []domain.Move{move(true, 1000, 2000), move(false, 3000, 7000)},
			state: record.Expired, moved: true},
		{name: "it came, and went after", kind: rt.Ingress, moves: []domain.Move{move(true, 1000, 2000), move(false, 6100, 7000)}, state: record.Delivered},
		{name: "it went and came, the first seen late", kind: rt.Ingress, moves: []domain.Move{move(false, 1000, 9000), move(true, 2000, 3000)}, state: record.Delivered},
		{name: "it went before", kind: rt.Deliver, moves: []domain.Move{move(false, 1000, 2000)}, state: record.Expired},
		{name: "it went after", kind: rt.Deliver, moves: []domain.Move{move(false, 6100, 7000)}, state: record.Delivered},
		{name: "it went just then", kind: rt.Deliver, moves: []domain.Move{move(false, 3000, 7000)}, state: record.Delivered},
		{name: "dropped by who owns it", kind: rt.Ingress, drop: true, moves: []domain.Move{move(true, 1000, 2000)}, state: record.Delivered, local: true},
		{name: "dropped by who owned it", kind: rt.Deliver, drop: true, moves: []domain.Move{move(false, 1000, 2000)}, state: record.Lost},
		{name: "too long ago to know", kind: rt.Ingress, forgotten: 6101, state: record.Expired, moved: true},
		{name: "known since", kind: rt.Ingress, forgotten: 6100, state: record.Expired},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.route(5, 0)
			b.See(b.pos, c.kind, rt.First, h2e0, b.t0+6100)
			if c.drop {
				b.Drop(b.pos, rt.First, h2e0, 12, fnIP, "", false, b.t0+6200)
			}
			b.now = b.t0 + 11*second
			m := &domain.Moves{Changes: c.moves}
			if c.forgotten > 0 {
				m.Forgotten = map[uint16]uint64{h2: b.t0 + uint64(c.forgotten)}
			}
			dec := backpack.NewDecoder(testDomain(64), names{})
			dec.SetMoves(m)
			recs, _, err := backpack.Scan(b, dec, backpack.ScanOptions{Now: func() uint64 { return b.now }})
			if err != nil || len(recs) != 1 {
				t.Fatalf("%d records, %v", len(recs), err)
			}
			r := recs[0]
			if r.State != c.state || r.Moved != c.moved || (r.LocalDrop != nil) != c.local {
				t.Errorf("record %+v", r)
			}
			if missing := r.Loss != nil && r.Loss.Inferred(); missing != (c.state == record.Expired && !c.moved) {
				t.Errorf("loss %+v", r.Loss)
			}
		})
	}
}
