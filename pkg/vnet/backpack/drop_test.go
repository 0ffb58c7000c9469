// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func TestLossPlace(t *testing.T) {
	for _, tc := range []struct {
		name   string
		seen   int // sightings before
		port   uint16
		reason uint16
		fn     uint64
		qdisc  string
		want   record.Loss
	}{
		{"in the node, device gone", 2, rt.NoPort, 12, fnIP, "",
			record.Loss{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "ip_forward"}},
		{"in the node, its device", 2, r1e0, 12, fnIP, "noqueue",
			record.Loss{Node: "r1", Port: "eth0", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "ip_forward"}},
		{"queue by reason", 3, r1e1, 64, fnIP, "tbf",
			record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "ip_forward"}},
		{"queue by function, no reason", 3, r1e1, 0, fnQueue, "pfifo_fast",
			record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Qdisc: "pfifo_fast", Function: "__dev_queue_xmit"}},
		{"queue by the qdisc's function", 3, r1e1, 2, fnTbf, "htb",
			record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "NOT_SPECIFIED", Qdisc: "htb", Function: "tbf_enqueue"}},
		{"queue, device not known", 5, rt.NoPort, 64, fnQueue, "",
			record.Loss{Node: "r2", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Function: "__dev_queue_xmit"}},
		{"no queue there", 3, r1e1, 2, fnQueue, "noqueue",
			record.Loss{Node: "r1", Port: "eth1", At: record.AtEgress, Reason: "NOT_SPECIFIED", Function: "__dev_queue_xmit"}},
		{"egress", 3, r1e1, 2, fnVeth, "tbf",
			record.Loss{Node: "r1", Port: "eth1", At: record.AtEgress, Reason: "NOT_SPECIFIED", Function: "veth_xmit"}},
		{"the peer's ingress", 3, r2e0, 2, fnVeth, "",
			record.Loss{Node: "r2", Port: "eth0", At: record.AtIngress, Reason: "NOT_SPECIFIED", Function: "veth_xmit"}},
		{"went out unseen", 4, h2e0, 2, fnVeth, "",
			record.Loss{Node: "h2", Port: "eth0", At: record.AtIngress, Reason: "NOT_SPECIFIED", Function: "veth_xmit"}},
		{"reason and function without names", 2, rt.NoPort, 999, 0xffffffff81999999, "",
			record.Loss{Node: "r1", At: record.AtNode, Reason: "999"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.route(tc.seen, 0)
			b.Drop(b.pos, rt.First, tc.port, tc.reason, tc.fn, tc.qdisc, false, b.t0+7000)
			r := b.one()
			if r.State != record.Lost || r.Loss == nil {
				t.Fatalf("state %s, loss %v: want lost", r.State, r.Loss)
			}
			at := int64(7000)
			tc.want.AtNs, tc.want.Skbs = &at, 1
			if diff := cmp.Diff(&tc.want, r.Loss); diff != "" {
				t.Errorf("loss (-want +got):\n%s", diff)
			}
			if last := r.Hops[len(r.Hops)-1]; last.Role == record.Sink {
				t.Errorf("last hop of a lost packet is a sink")
			}
		})
	}
}

// TestMissing: the place where an expired packet was not seen again is inferred, and the
// record says so.
func TestMissing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps int
		want  record.Loss
	}{
		{"inside a node", 4, record.Loss{Node: "r2", Port: "eth0", At: record.AtNode, Reason: record.NotSeen, Skbs: 1}},
		{"behind a port", 5, record.Loss{Node: "r2", Port: "eth1", At: record.AtLink, Reason: record.NotSeen, Skbs: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.route(tc.steps, rt.First)
			b.now = b.t0 + 11*second
			r := b.one()
			if r.State != record.Expired || r.Loss == nil || *r.Loss != tc.want || !r.Loss.Inferred() {
				t.Errorf("%s, loss %+v, want expired, %+v", r.State, r.Loss, tc.want)
			}
		})
	}
}

func TestLossBehindBridge(t *testing.T) {
	b := newBench(t, 128, udp)
	b.See(b.pos, rt.Egress, rt.First|rt.Source, brBr0, b.t0)
	b.Drop(b.pos, rt.First, brE1, 64, fnQueue, "tbf", false, b.t0+10)
	if l := b.one().Loss; l == nil || l.At != record.AtQueue || l.Port != "eth1" || l.Node != "br" {
		t.Errorf("loss %+v, want the queue of br's eth1", l)
	}
}

// TestLossBetweenOwnPorts: both ends of a link are in one node. What is freed behind the link, before the other end's
// ingress, was lost there, and not as it left by that port.
func TestLossBetweenOwnPorts(t *testing.T) {
	b := newBench(t, 128, udp)
	b.dom = testDomain(64)
	b.dom.Ports = append(b.dom.Ports, domain.Port{ID: 90, Node: 7, Name: "in", Peer: 91}, domain.Port{ID: 91, Node: 7, Name: "out", Peer: 90})
	b.See(b.pos, rt.Egress, rt.First|rt.Source, 90, b.t0)
	b.Drop(b.pos, rt.First, 91, 2, fnVeth, "noqueue", false, b.t0+10)
	if l := b.one().Loss; l == nil || l.At != record.AtIngress || l.Port != "out" || l.Node != "br" {
		t.Errorf("loss %+v, want the ingress of br's out", l)
	}
}

// A copy that a bridge frees, in another node than the one that got the packet, is no drop by
// the receiver.
func TestDeliveredThenDropped(t *testing.T) {
	for port, local := range map[uint16]bool{h2e0: true, rt.NoPort: true, r1e1: false, brE1: false} {
		b := newBench(t, 256, udp)
		b.route(6, 0)
		b.Drop(b.pos, rt.First, port, 2, fnIP, "", false, b.t0+7000)
		if r := b.one(); r.State != record.Delivered || (r.LocalDrop != nil) != local || r.Loss != nil {
			t.Errorf("freed at port %d: %s, local drop %+v, loss %+v: want delivered, a local drop: %v", port, r.State, r.LocalDrop, r.Loss, local)
		}
	}
}

func TestLeftThenDropped(t *testing.T) {
	for _, tc := range []struct {
		port  uint16
		state record.State
	}{{r1e1, record.Lost}, {rt.NoPort, record.Left}, {h2e0, record.Left}} {
		b := newBench(t, 128, udp)
		b.See(b.pos, rt.Left, rt.First|rt.Source, r1e1, b.t0)
		b.Drop(b.pos, rt.First, tc.port, 64, fnQueue, "tbf", false, b.t0+10)
		if r := b.one(); r.State != tc.state || (r.Loss != nil) != (tc.state == record.Lost) || r.LocalDrop != nil {
			t.Errorf("left at r1/eth1, dropped at port %d: %s %+v, want %s", tc.port, r.State, r.Loss, tc.state)
		}
	}
}

func TestLocalDrop(t *testing.T) {
	b := newBench(t, 256, udp)
	b.route(6, 0)
	b.Drop(b.pos, rt.First, rt.NoPort, 12, fnIP, "", false, b.t0+6500)
	r := b.one()
	if r.State != record.Delivered || r.Loss != nil {
		t.Fatalf("%s, loss %+v: want delivered", r.State, r.Loss)
	}
	at := int64(6500)
	want := &record.Loss{Node: "h2", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "ip_forward", AtNs: &at, Skbs: 1}
	if diff := cmp.Diff(want, r.LocalDrop); diff != "" {
		t.Errorf("local drop (-want +got):\n%s", diff)
	}
	if *r.LatencyNs != 6100 {
		t.Errorf("latency %d, want 6100: the drop is no stamp", *r.LatencyNs)
	}
}
