// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// TestLateArrival: a program that reads an interface may send a packet on before its
// arrival is noted. That is one hop, whose time inside the node is not known.
func TestLateArrival(t *testing.T) {
	type step struct {
		kind byte // 0: a drop
		port uint16
	}
	const drop = 0
	sent := []step{{rt.Egress, h1e0}, {rt.Egress, r1e1}}
	arrived := func(more ...step) []step { return append(sent[:2:2], more...) }
	for _, tc := range []struct {
		name  string
		steps []step
		after uint64
		state record.State
		want  string
	}{
		{"in time", []step{sent[0], {rt.Ignored, r1e0}, sent[1], {rt.Deliver, r2e0}}, second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"before the end", arrived(step{rt.Ignored, r1e0}, step{rt.Deliver, r2e0}), second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"after the end", arrived(step{rt.Deliver, r2e0}, step{rt.Ignored, r1e0}), second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"for the node itself, before the end", arrived(step{rt.Ingress, r1e0}, step{rt.Deliver, r2e0}), second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"for the node itself, after the end", arrived(step{rt.Deliver, r2e0}, step{rt.Ingress, r1e0}), second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"dropped in the node, before the end", arrived(step{rt.Ingress, r1e0}, step{drop, r1e0}, step{rt.Deliver, r2e0}), second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"dropped in the node, after the end", arrived(step{rt.Deliver, r2e0}, step{rt.Ingress, r1e0}, step{drop, r1e0}), second,
			record.Delivered, "h1(,eth0) >r1(eth0,eth1) >r2(eth0,)"},
		{"left by the other side", []step{sent[0], {rt.Left, r1e1}, {rt.Ignored, r1e0}}, second,
			record.Left, "h1(,eth0) >r1(eth0,eth1)"},
		{"left with other content, and dropped in the node", []step{sent[0], {rt.Left, r1e1}, {rt.Ingress, r1e0}, {drop, r1e0}}, second,
			record.Left, "h1(,eth0) >r1(eth0,eth1)"},
		{"lost behind it", arrived(step{rt.Ignored, r1e0}, step{drop, r1e1}), second,
			record.Lost, "h1(,eth0) >r1(eth0,eth1)"},
		{"not seen again", arrived(step{rt.Ingress, r1e0}, step{drop, r1e0}), 20 * second,
			record.Expired, "h1(,eth0) >r1(eth0,eth1)"},
		{"where it began: its own frame comes back", []step{{rt.Egress, r1e1}, {rt.Ignored, r1e0}, {rt.Deliver, r2e0}}, second,
			record.Delivered, "r1(,eth1) >r1(eth0,)=ignored 0>r2(eth0,)=delivered"},
	} {
		for _, group := range []bool{false, true} {
			b := newBench(t, 256, udp)
			if group {
				b.SetState(b.pos, rt.Group)
			}
			for i, s := range tc.steps {
				at, flags := b.t0+uint64(i)*1000, byte(rt.First)
				if i == 0 {
					flags |= rt.Source
				}
				if s.kind == drop {
					b.Drop(b.pos, flags, s.port, 12, fnIP, "", false, at)
					continue
				}
				b.See(b.pos, s.kind, flags, s.port, at)
			}
			b.now = b.t0 + tc.after
			r := b.one()
			if got := tree(r); got != tc.want || r.State != tc.state {
				t.Errorf("%s, group %v: %s: %s\nwant %s: %s", tc.name, group, r.State, got, tc.state, tc.want)
			}
			if r.LocalDrop != nil || (r.Loss != nil) != (tc.state == record.Lost || tc.state == record.Expired) || r.Loss != nil && r.Loss.Port != "eth1" {
				t.Errorf("%s, group %v: loss %+v, after delivery %+v", tc.name, group, r.Loss, r.LocalDrop)
			}
			if h := r.Hops[1]; tc.name != "in time" && (h.NodeNs != nil || len(r.Hops) == 3 && h.InPort != "" && h.Port != "" && h.LinkNs != nil) {
				t.Errorf("%s, group %v: times of an arrival that was noted too late: %+v", tc.name, group, h)
			}
		}
	}
}

// TestLateCopies: a late arrival is that of all copies that the program sent. It comes from
// a port from which that port can be reached.
func TestLateCopies(t *testing.T) {
	b := newBench(t, 256, udp)
	b.dom = treeDomain()
	for i, s := range []struct {
		kind byte
		port uint16
	}{
		{rt.Egress, tH1}, {rt.Deliver, tH2}, {rt.Egress, tRb}, {rt.Deliver, tH3}, {rt.Egress, tRb}, {rt.Deliver, tH4}, {rt.Ignored, tRa},
	} {
		flags := byte(rt.First)
		if i == 0 {
			flags |= rt.Source
		}
		b.See(b.pos, s.kind, flags, s.port, b.t0+uint64(i)*1000)
	}
	want := "h1(,e0) >h2(e0,)=delivered 0>r(a,b) >h3(e0,)=delivered 0>r(a,b)* >h4(e0,)=delivered"
	if got := tree(b.one()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
