// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// TestBridgeStories: paths that begin or end at a bridge between nodes.
func TestBridgeStories(t *testing.T) {
	at := func(ns int64) *int64 { return &ns }
	type step struct {
		kind byte
		port uint16
	}
	for _, tc := range []struct {
		name  string
		steps []step // one every 1000 ns
		state record.State
		hops  []record.Hop
	}{
		{"leaves by a member", []step{{rt.Egress, h1e0}, {rt.Left, hostV1}}, record.Left, []record.Hop{
			{Node: "h1", NodeID: 1, Port: "eth0", Role: record.Source, AtNs: at(0)},
			{Node: "host", NodeID: 8, Port: "v1", Role: record.Sink, AtNs: at(1000), LinkNs: at(1000), LatencyNs: at(1000)},
		}},
		{"leaves to the host", []step{{rt.Egress, h1e0}, {rt.Left, hostBr0}}, record.Left, []record.Hop{
			{Node: "h1", NodeID: 1, Port: "eth0", Role: record.Source, AtNs: at(0)},
			{Node: "host", NodeID: 8, InPort: "br0", Role: record.Sink, AtNs: at(1000), LinkNs: at(1000), LatencyNs: at(1000)},
		}},
		{"for the host", []step{{rt.Egress, h1e0}, {rt.Deliver, hostBr0}}, record.Delivered, []record.Hop{
			{Node: "h1", NodeID: 1, Port: "eth0", Role: record.Source, AtNs: at(0)},
			{Node: "host", NodeID: 8, InPort: "br0", Role: record.Sink, AtNs: at(1000), LinkNs: at(1000), LatencyNs: at(1000)},
		}},
		{"comes by a member", []step{{rt.Egress, hostV1}, {rt.Deliver, h2e0}}, record.Delivered, []record.Hop{
			{Node: "host", NodeID: 8, Port: "v1", Role: record.Source, AtNs: at(0)},
			{Node: "h2", NodeID: 4, InPort: "eth0", Role: record.Sink, AtNs: at(1000), LinkNs: at(1000), LatencyNs: at(1000)},
		}},
		{"from member to member", []step{{rt.Egress, hostV1}, {rt.Left, hostV2}}, record.Left, []record.Hop{
			{Node: "host", NodeID: 8, Port: "v1", Role: record.Source, AtNs: at(0)},
			{Node: "host", NodeID: 8, Port: "v2", Role: record.Sink, AtNs: at(1000), LinkNs: at(1000), LatencyNs: at(1000)},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			for i, s := range tc.steps {
				flags := byte(rt.First)
				if i == 0 {
					flags |= rt.Source
				}
				b.See(b.pos, s.kind, flags, s.port, b.t0+uint64(i)*1000)
			}
			r := b.one()
			if r.State != tc.state {
				t.Errorf("state %s, want %s", r.State, tc.state)
			}
			if diff := cmp.Diff(tc.hops, r.Hops); diff != "" {
				t.Errorf("hops (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBridgeLosses: drops between the ends of a bridge link are placed at its ports.
func TestBridgeLosses(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first, port uint16
		reason      uint16
		want        record.Loss
	}{
		{"from a node", h1e0, hostBr0, 12, record.Loss{Node: "host", Port: "br0", At: record.AtNode}},
		{"toward a member", h1e0, hostV1, 12, record.Loss{Node: "host", Port: "v1", At: record.AtNode}},
		{"in a queue", h1e0, hostBr0, 64, record.Loss{Node: "host", Port: "br0", At: record.AtQueue}},
		{"from the host", hostBr0, hostBr0, 12, record.Loss{Node: "host", Port: "br0", At: record.AtNode}},
		{"before it is a member's", h1e0, h1e0, 12, record.Loss{Node: "h1", Port: "eth0", At: record.AtEgress}},
	} {
		b := newBench(t, 256, udp)
		b.See(b.pos, rt.Egress, rt.First|rt.Source, tc.first, b.t0)
		b.Drop(b.pos, rt.First, tc.port, tc.reason, fnIP, "tbf", false, b.t0+10)
		r := b.one()
		if l := r.Loss; r.State != record.Lost || l == nil || l.Node != tc.want.Node || l.Port != tc.want.Port || l.At != tc.want.At {
			t.Errorf("%s: %s %+v, want %+v", tc.name, r.State, r.Loss, tc.want)
		}
	}
}
