// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Ports of a network with two bridges between nodes: a joins h1, h2, r and the host's
// members; b joins r, h3 and h4. sw is a node with a bridge of its own between h5 and h6.
const (
	tH1 = iota
	tH2
	tRa
	tHostBr
	tHostV
	tRb
	tH3
	tH4
	tSw5
	tSw6
	tSw7
	tH5
	tH6
	tH7
)

func treeDomain() *domain.Domain {
	d := &domain.Domain{Epoch: testEpoch, Options: domain.Options{Slots: 64, Timeout: 10 * time.Second}}
	for i, name := range []string{"h1", "h2", "r", "host", "h3", "h4", "sw", "h5", "h6", "h7"} {
		d.Nodes = append(d.Nodes, domain.Node{ID: uint16(i + 1), Name: name, Auto: name == "host"})
	}
	port := func(id, node uint16, name string, peer int, link string, place domain.Place) {
		d.Ports = append(d.Ports, domain.Port{ID: id, Node: node, Name: name, Peer: peer, Link: link, Place: place})
	}
	port(tH1, 1, "e0", -1, "host/a", "")
	port(tH2, 2, "e0", -1, "host/a", "")
	port(tRa, 3, "a", -1, "host/a", "")
	port(tHostBr, 4, "a", -1, "host/a", domain.Bridge)
	port(tHostV, 4, "v", -1, "host/a", domain.BridgePort)
	port(tRb, 3, "b", -1, "host/b", "")
	port(tH3, 5, "e0", -1, "host/b", "")
	port(tH4, 6, "e0", -1, "host/b", "")
	port(tSw5, 7, "p5", tH5, "", "")
	port(tSw6, 7, "p6", tH6, "", "")
	port(tSw7, 7, "p7", tH7, "", "")
	port(tH5, 8, "e0", tSw5, "", "")
	port(tH6, 9, "e0", tSw6, "", "")
	port(tH7, 10, "e0", tSw7, "", "")
	return d
}

// tree is a record's hops: index of the hop before, node(in,out), * for a copy, outcome.
func tree(r record.Record) string {
	var parts []string
	for i, h := range r.Hops {
		text := h.Node + "(" + h.InPort + "," + h.Port + ")"
		if h.Copy {
			text += "*"
		}
		if h.Prev != nil {
			text = fmt.Sprintf("%d>%s", *h.Prev, text)
		} else if i > 0 {
			text = ">" + text
		}
		if h.Outcome != "" {
			text += "=" + string(h.Outcome)
		}
		parts = append(parts, text)
	}
	for _, l := range r.Losses {
		after := ""
		if l.AfterDelivery {
			after = " after delivery"
		}
		parts = append(parts, fmt.Sprintf("[%d: %s/%s %s%s]", l.Hop, l.Node, l.Port, l.At, after))
	}
	return strings.Join(parts, " ")
}

// TestTrees: logs of several copies, one event every 1000 ns.
func TestTrees(t *testing.T) {
	type step struct {
		kind byte // 0: a drop
		port uint16
	}
	const (
		drop   = 0
		unread = rt.Ignored | rt.Unread<<4
	)
	for _, tc := range []struct {
		name  string
		group bool
		steps []step
		after uint64 // ns until it is read; 0: 1 s
		state record.State
		want  string
	}{
		{"one branch is a line", true, []step{{rt.Egress, tH5}, {rt.Deliver, tSw5}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,)"},
		{"a switch floods: one copy leaves the domain before the next goes on", false, []step{{rt.Egress, tH5}, {rt.Ingress, tSw5}, {rt.Left, tSw7}, {rt.Egress, tSw6}, {rt.Deliver, tH6}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,p7)=left 0>sw(p5,p6)* >h6(e0,)=delivered"},
		{"a bridge's copies", true, []step{{rt.Egress, tH1}, {rt.Deliver, tH2}, {rt.Ignored, tRa}, {rt.Left, tHostV}, {rt.Left, tHostBr}}, 0,
			record.Delivered, "h1(,e0) >h2(e0,)=delivered 0>r(a,)=ignored 0>host(,v)=left 0>host(a,)=left"},
		{"a router between two bridges, events in any order", true, []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {rt.Egress, tRb},
			{rt.Deliver, tH2}, {rt.Deliver, tH4}, {rt.Left, tHostV}, {rt.Ignored, tH3}}, 0,
			record.Delivered, "h1(,e0) >r(a,b) 0>h2(e0,)=delivered 1>h4(e0,)=delivered 0>host(,v)=left 1>h3(e0,)=ignored"},
		{"a router that is a member too", true, []step{{rt.Egress, tH1}, {rt.Deliver, tRa}, {rt.Egress, tRb}, {rt.Deliver, tH3}}, 0,
			record.Delivered, "h1(,e0) >r(a,)=delivered 0>r(a,b)* >h3(e0,)=delivered"},
		{"a node that is a switch", true, []step{{rt.Egress, tH5}, {rt.Ignored, tSw5}, {rt.Egress, tSw6}, {rt.Egress, tSw7}, {rt.Deliver, tH6}, {rt.Deliver, tH7}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,p6) 0>sw(p5,p7)* 1>h6(e0,)=delivered 2>h7(e0,)=delivered"},
		{"nobody wants it", true, []step{{rt.Egress, tH1}, {rt.Ignored, tH2}, {rt.Ignored, tRa}}, 0,
			record.Ignored, "h1(,e0) >h2(e0,)=ignored 0>r(a,)=ignored"},
		{"nobody wants it, and it was for one", false, []step{{rt.Egress, tH1}, {rt.Ignored, tH2}, {rt.Ignored, tRa}}, 20 * second,
			record.Expired, "h1(,e0) >h2(e0,)=expired 0>r(a,)=expired"},
		{"sent to an address that its receiver does not have", false, []step{{rt.Egress, tH5}, {unread, tSw5}}, 20 * second,
			record.Lost, "h5(,e0) >sw(p5,)"},
		{"the same, before it is final", false, []step{{rt.Egress, tH5}, {unread, tSw5}}, 0,
			record.InFlight, "h5(,e0) >sw(p5,)"},
		{"the same, seen again", false, []step{{rt.Egress, tH5}, {unread, tSw5}, {rt.Egress, tSw6}, {rt.Deliver, tH6}}, 20 * second,
			record.Delivered, "h5(,e0) >sw(p5,p6) >h6(e0,)"},
		{"nobody has its address", false, []step{{rt.Egress, tH1}, {unread, tH2}, {unread, tRa}}, 20 * second,
			record.Lost, "h1(,e0) >h2(e0,)=lost 0>r(a,)=ignored [1: h2/e0 ingress]"},
		{"nobody has its address, and one is read", false, []step{{rt.Egress, tH1}, {unread, tH2}, {rt.Ignored, tRa}}, 20 * second,
			record.Expired, "h1(,e0) >h2(e0,)=expired 0>r(a,)=expired"},
		{"flooded, and another copy has left", false, []step{{rt.Egress, tH1}, {unread, tH2}, {rt.Left, tHostV}, {unread, tRa}}, 20 * second,
			record.Left, "h1(,e0) >h2(e0,)=ignored 0>host(,v)=left 0>r(a,)=ignored"},
		{"flooded, and another copy has vanished", false, []step{{rt.Egress, tH1}, {unread, tH2}, {rt.Ingress, tRa}, {rt.Egress, tRb}}, 20 * second,
			record.Expired, "h1(,e0) >h2(e0,)=ignored 0>r(a,b)=expired"},
		{"flooded outside of the domain", false, []step{{unread, tH5}}, 20 * second,
			record.Ignored, "h5(e0,)"},
		{"with a forwarder in user space", false, []step{{rt.Egress, tH1}, {rt.Ignored, tRa}}, 0,
			record.InFlight, "h1(,e0) >r(a,)"},
		{"one is in flight", true, []step{{rt.Egress, tH1}, {rt.Ignored, tH2}, {rt.Ingress, tRa}}, 0,
			record.InFlight, "h1(,e0) >h2(e0,)=ignored 0>r(a,)=in_flight"},
		{"one vanishes", true, []step{{rt.Egress, tH1}, {rt.Deliver, tH2}, {rt.Ingress, tRa}}, 20 * second,
			record.Delivered, "h1(,e0) >h2(e0,)=delivered 0>r(a,)=expired"},
		{"one is lost in its node, one is freed after delivery", true, []step{{rt.Egress, tH1}, {rt.Deliver, tH2}, {rt.Ingress, tRa}, {drop, tRa}, {drop, tH2}}, 0,
			record.Delivered, "h1(,e0) >h2(e0,)=delivered 0>r(a,)=lost [2: r/a node] [1: h2/e0 node after delivery]"},
		{"one is lost at an egress", true, []step{{rt.Egress, tH5}, {rt.Ingress, tSw5}, {rt.Egress, tSw6}, {drop, tSw6}, {rt.Egress, tSw7}, {rt.Deliver, tH7}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,p6)=lost 0>sw(p5,p7)* >h7(e0,)=delivered [1: sw/p6 egress]"},
		{"one is lost in the bridge", true, []step{{rt.Egress, tH1}, {drop, tHostBr}, {rt.Deliver, tH2}}, 0,
			record.Delivered, "h1(,e0) >h2(e0,)=delivered [0: host/a node]"},
		{"all are lost", true, []step{{rt.Egress, tH1}, {drop, tH1}}, 0,
			record.Lost, "h1(,e0)"},
		{"a drop that is none: it goes on", true, []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {drop, tRa}, {rt.Egress, tRb}, {rt.Deliver, tH3}}, 0,
			record.Delivered, "h1(,e0) >r(a,b) >h3(e0,)"},

		{"a drop that is none: it is delivered", true, []step{{rt.Egress, tH5}, {rt.Ingress, tSw5}, {drop, tSw5}, {rt.Deliver, tSw5}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,)"},
		{"of two copies one is lost", true, []step{{rt.Egress, tH5}, {rt.Ingress, tSw5}, {rt.Ingress, tSw5}, {drop, tSw5}, {rt.Deliver, tSw5}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,)=delivered 0>sw(p5,)=lost [2: sw/p5 node]"},
		{"a flooded packet", false, []step{{rt.Egress, tH1}, {rt.Ingress, tRa}, {rt.Deliver, tH2}}, 20 * second,
			record.Delivered, "h1(,e0) >r(a,)=expired 0>h2(e0,)=delivered"},
		{"a flooded packet, and another host", false, []step{{rt.Egress, tH1}, {rt.Ignored, tRa}, {rt.Deliver, tH2}, {rt.Left, tHostV}}, 0,
			record.Delivered, "h1(,e0) >r(a,)=ignored 0>h2(e0,)=delivered 0>host(,v)=left"},
		{"a sender that gets its own frame back", false, []step{{rt.Egress, tH1}, {rt.Ignored, tH1}, {rt.Deliver, tH2}}, 0,
			record.Delivered, "h1(,e0) >h1(e0,)=ignored 0>h2(e0,)=delivered"},
		{"two copies from where it began", true, []step{{rt.Egress, tSw5}, {rt.Deliver, tH5}, {rt.Egress, tSw6}, {rt.Deliver, tH6}}, 0,
			record.Delivered, "sw(,p5) >h5(e0,)=delivered -1>sw(,p6)* >h6(e0,)=delivered"},
		{"a duplicate", false, []step{{rt.Egress, tH5}, {rt.Deliver, tSw5}, {rt.Deliver, tSw5}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,)=delivered 0>sw(p5,)=delivered"},
		{"a duplicate that goes on", false, []step{{rt.Egress, tH5}, {rt.Ingress, tSw5}, {rt.Egress, tSw6}, {rt.Ingress, tSw5}, {rt.Egress, tSw6}, {rt.Deliver, tH6}, {rt.Deliver, tH6}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,p6) 0>sw(p5,p6) >h6(e0,)=delivered 1>h6(e0,)=delivered"},
		{"handed on inside a node", false, []step{{rt.Egress, tH5}, {rt.Ingress, tSw5}, {rt.Egress, tSw6}, {rt.Egress, tSw7}, {rt.Deliver, tH7}}, 0,
			record.Delivered, "h5(,e0) >sw(p5,p7) >h7(e0,)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			if tc.group {
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
				b.See(b.pos, s.kind&0xf, flags|s.kind>>4, s.port, at)
			}
			dec := backpack.NewDecoder(treeDomain(), names{})
			now := b.t0 + max(tc.after, second)
			recs, _, err := backpack.Scan(b, dec, backpack.ScanOptions{Now: func() uint64 { return now }})
			if err != nil || len(recs) != 1 {
				t.Fatalf("%d records, %v", len(recs), err)
			}
			if got := tree(recs[0]); got != tc.want || recs[0].State != tc.state {
				t.Errorf("%s: %s\nwant %s: %s", recs[0].State, got, tc.state, tc.want)
			}
		})
	}
}

// TestTreeLatency: of several copies the last one that arrived counts, be it at a node or outside of the domain. What nobody
// wanted does not.
func TestTreeLatency(t *testing.T) {
	type seen struct {
		kind byte
		port uint16
	}
	for name, c := range map[string]struct {
		copies []seen
		want   int64
	}{
		"delivered last": {[]seen{{rt.Left, tHostV}, {rt.Deliver, tH2}, {rt.Ignored, tRa}}, 2000},
		"left last":      {[]seen{{rt.Deliver, tH2}, {rt.Left, tHostV}, {rt.Ignored, tRa}}, 2000},
		"left alone":     {[]seen{{rt.Left, tHostV}, {rt.Ignored, tRa}, {rt.Ignored, tH2}}, 1000},
	} {
		b := newBench(t, 256, udp)
		b.SetState(b.pos, rt.Group)
		b.dom = treeDomain()
		b.See(b.pos, rt.Egress, rt.First|rt.Source, tH1, b.t0)
		for i, s := range c.copies {
			b.See(b.pos, s.kind, rt.First, s.port, b.t0+uint64(i+1)*1000)
		}
		if r := b.one(); r.LatencyNs == nil || *r.LatencyNs != c.want {
			t.Errorf("%s: latency %v, want %d", name, r.LatencyNs, c.want)
		}
	}
}
