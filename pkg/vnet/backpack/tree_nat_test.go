// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// TestTreeTranslations: if a packet has copies, a change of addresses applies to the copy
// whose node made it, and to what goes on from there.
func TestTreeTranslations(t *testing.T) {
	type step struct {
		kind byte // 0: a drop
		port uint16
	}
	const drop = 0
	for _, tc := range []struct {
		name  string
		steps []step
		want  string // nodes that changed the destination
		ways  string
	}{
		{"changed and lost, the other goes on", []step{{rt.Egress, tH1}, {rt.Ingress, tH2}, {rt.Ingress, tRa}, {rt.Addr, tH2}, {drop, tH2},
			{rt.Egress, tRb}, {rt.Deliver, tH3}},
			"h2", "h1(,e0) >h2(e0,)=lost 0>r(a,b) >h3(e0,)=delivered [1: h2/e0 node]"},
		{"changed and delivered, the other goes on", []step{{rt.Egress, tH1}, {rt.Ingress, tH2}, {rt.Ingress, tRa}, {rt.Addr, tH2}, {rt.Deliver, tH2},
			{rt.Egress, tRb}, {rt.Deliver, tH3}},
			"h2", "h1(,e0) >h2(e0,)=delivered 0>r(a,b) >h3(e0,)=delivered"},
		{"changed and delivered at once", []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {rt.Addr, tH2}, {rt.Deliver, tH2}, {rt.Egress, tRb}, {rt.Deliver, tH3}},
			"h2", "h1(,e0) >r(a,b) 0>h2(e0,)=delivered 1>h3(e0,)=delivered"},
		{"delivered, then changed", []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {rt.Deliver, tH2}, {rt.Addr, tH2}, {rt.Egress, tRb}, {rt.Deliver, tH3}},
			"h2", "h1(,e0) >r(a,b) 0>h2(e0,)=delivered 1>h3(e0,)=delivered"},
		{"changed at egress, while another is delivered", []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {rt.Addr, tRb}, {rt.Deliver, tH2}, {rt.Egress, tRb}, {rt.Deliver, tH3}},
			"r", "h1(,e0) >r(a,b) 0>h2(e0,)=delivered 1>h3(e0,)=delivered"},
		{"changed, but not out yet", []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {rt.Deliver, tH2}, {rt.Addr, tRb}},
			"", "h1(,e0) >r(a,)=in_flight 0>h2(e0,)=delivered"},
	} {
		b := newBench(t, 256, udp)
		b.dom = treeDomain()
		for i, s := range tc.steps {
			at, flags := b.t0+uint64(i)*1000, byte(rt.First)
			if i == 0 {
				flags |= rt.Source
			}
			switch s.kind {
			case drop:
				b.Drop(b.pos, flags, s.port, 12, fnIP, "", false, at)
			case rt.Addr:
				b.Translate(b.pos, flags, s.port, udp.Src, [4]byte{10, 0, 9, 9}, udp.Sport, udp.Dport, at)
			default:
				b.See(b.pos, s.kind, flags, s.port, at)
			}
		}
		r := b.one()
		if got := changedIn(&r); got != tc.want || r.Dst != "10.0.4.2" {
			t.Errorf("%s: destination changed in %q, want %q", tc.name, got, tc.want)
		}
		if got := tree(r); got != tc.ways {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.ways)
		}
	}
}

// changedIn lists the nodes that changed the destination.
func changedIn(r *record.Record) string {
	var nodes []string
	for _, h := range r.Hops {
		if h.Dst != "" {
			nodes = append(nodes, h.Node)
		}
	}
	return strings.Join(nodes, " ")
}
