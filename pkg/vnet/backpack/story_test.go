// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Ports of the test's domain: h1 - r1 - r2 - h2, and br, a node with a bridge.
const (
	h1e0 = iota
	r1e0
	r1e1
	r2e0
	r2e1
	h2e0
	brE0
	brE1
	brBr0
	unlisted
)

// Ports of host, a closing node.
const (
	hostBr0 = 20 + iota
	hostV1
	hostV2
)

const testEpoch = 0x0badcafe

func testDomain(slots uint32) *domain.Domain {
	return &domain.Domain{
		Epoch:   testEpoch,
		Options: domain.Options{Slots: slots, Timeout: 10 * time.Second},
		Nodes: []domain.Node{
			{ID: 1, Name: "h1"}, {ID: 2, Name: "r1"}, {ID: 3, Name: "r2"}, {ID: 4, Name: "h2"}, {ID: 7, Name: "br"},
			{ID: 8, Name: "host", Auto: true},
		},
		Ports: []domain.Port{
			{ID: h1e0, Node: 1, Name: "eth0", Peer: r1e0},
			{ID: r1e0, Node: 2, Name: "eth0", Peer: h1e0}, {ID: r1e1, Node: 2, Name: "eth1", Peer: r2e0},
			{ID: r2e0, Node: 3, Name: "eth0", Peer: r1e1}, {ID: r2e1, Node: 3, Name: "eth1", Peer: h2e0},
			{ID: h2e0, Node: 4, Name: "eth0", Peer: r2e1},
			{ID: brE0, Node: 7, Name: "eth0", Peer: -1}, {ID: brE1, Node: 7, Name: "eth1", Peer: -1},
			{ID: brBr0, Node: 7, Name: "br0", Peer: -1},
			{ID: hostBr0, Node: 8, Name: "br0", Peer: -1, Place: domain.Bridge},
			{ID: hostV1, Node: 8, Name: "v1", Peer: -1, Place: domain.BridgePort},
			{ID: hostV2, Node: 8, Name: "v2", Peer: -1, Place: domain.BridgePort},
		},
	}
}

// names is a kernel with a few functions and reasons.
type names struct{}

func (names) Function(addr uint64) string {
	return map[uint64]string{
		0xffffffff81000010: "__dev_queue_xmit",
		0xffffffff81000020: "ip_forward",
		0xffffffff81000030: "veth_xmit",
		0xffffffff81000040: "tbf_enqueue",
	}[addr]
}

func (names) Reason(code uint32) string {
	return map[uint32]string{2: "NOT_SPECIFIED", 12: "NETFILTER_DROP", 64: "QDISC_DROP"}[code]
}

const (
	fnQueue = 0xffffffff81000010
	fnIP    = 0xffffffff81000020
	fnVeth  = 0xffffffff81000030
	fnTbf   = 0xffffffff81000040
)

const second = uint64(1e9)

// bench is a ring with one packet in it, and the clock.
type bench struct {
	*rt.Image
	t   *testing.T
	pos uint64
	t0  uint64
	now uint64
	dom *domain.Domain // nil: testDomain
}

var udp = rt.Packet{
	Proto: 17, Src: [4]byte{10, 0, 1, 1}, Dst: [4]byte{10, 0, 4, 2}, Sport: 4000, Dport: 53,
	ID: 0xfffe, TTL: 64, TOS: 0xb9, Frag: 0x4000, Len: 106,
}

// newBench makes a ring of 64 slots and puts p at a position beyond its first round.
func newBench(t *testing.T, slotBytes int, p rt.Packet) *bench {
	t.Helper()
	b := &bench{Image: rt.New(64, slotBytes, 1, 16), t: t, pos: 3*64 + 5, t0: 100 * second}
	b.Write(b.pos, p, b.t0)
	b.now = b.t0 + second
	return b
}

// all returns the records that a scan of the ring gives.
func (b *bench) all() []record.Record {
	b.t.Helper()
	dom := b.dom
	if dom == nil {
		dom = testDomain(64)
	}
	dec := backpack.NewDecoder(dom, names{})
	recs, _, err := backpack.Scan(b, dec, backpack.ScanOptions{Now: func() uint64 { return b.now }})
	if err != nil {
		b.t.Fatalf("Scan: %v", err)
	}
	return recs
}

// one returns the only record.
func (b *bench) one() record.Record {
	b.t.Helper()
	recs := b.all()
	if len(recs) != 1 {
		b.t.Fatalf("scan gives %d records, want 1: %+v", len(recs), recs)
	}
	return recs[0]
}

// route logs the path h1 - r1 - r2 - h2, up to n sightings.
func (b *bench) route(n int, extra byte) {
	steps := []struct {
		kind byte
		port uint16
		at   uint64
	}{
		{rt.Egress, h1e0, 0}, {rt.Ingress, r1e0, 1000}, {rt.Egress, r1e1, 1800},
		{rt.Ingress, r2e0, 5000}, {rt.Egress, r2e1, 5600}, {rt.Deliver, h2e0, 6100},
	}
	for i, s := range steps[:n] {
		flags := byte(rt.First) | extra
		if i == 0 {
			flags |= rt.Source
		}
		b.See(b.pos, s.kind, flags, s.port, b.t0+s.at)
	}
}

// The JSON form is a contract: this is one packet in full.
func TestRecordJSON(t *testing.T) {
	b := newBench(t, 256, udp)
	b.route(6, 0)
	r := b.one()
	if got := time.Unix(0, r.TNs).UTC().Format("2006-01-02T15:04:05.000000000Z"); r.Time != got {
		t.Errorf("time %s does not agree with t_ns %d (%s)", r.Time, r.TNs, got)
	}
	before, age, after := time.Now(), time.Duration(clock.Monotonic()-b.t0), time.Now()
	if now := time.Unix(0, r.TNs).Add(age); now.Before(before.Add(-time.Second)) || now.After(after.Add(time.Second)) {
		t.Errorf("a packet of CLOCK_MONOTONIC %d, %v ago, has the time %v", b.t0, age, time.Unix(0, r.TNs))
	}
	r.TNs, r.Time = 1, "then"
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"id":"0badcafe-c5","guid":"0x5","source":"ebpf","state":"delivered","time":"then","t_ns":1,` +
		`"ip_version":4,"src":"10.0.1.1","dst":"10.0.4.2","proto":"udp","sport":4000,"dport":53,"len":106,"segs":1,` +
		`"ttl":64,"dscp":46,"ecn":1,"ip_id":65534,"ip_flags":2,"latency_ns":6100,"hops":[` +
		`{"node":"h1","node_id":1,"port":"eth0","role":"source","at_ns":0},` +
		`{"node":"r1","node_id":2,"in_port":"eth0","port":"eth1","role":"transit","at_ns":1800,"node_ns":800,"link_ns":1000,"latency_ns":1800},` +
		`{"node":"r2","node_id":3,"in_port":"eth0","port":"eth1","role":"transit","at_ns":5600,"node_ns":600,"link_ns":3200,"latency_ns":3800},` +
		`{"node":"h2","node_id":4,"in_port":"eth0","role":"sink","at_ns":6100,"link_ns":500,"latency_ns":500}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("record (-want +got):\n%s\n%s", diff, got)
	}
}

// The wait in a queue is between the time in the node and that on the link. A packet that the
// device did not take leaves the queue twice; a copy that leaves it later does not count.
func TestQueue(t *testing.T) {
	b := newBench(t, 256, udp)
	for i, s := range []struct {
		kind byte
		port uint16
		at   uint64
	}{
		{rt.Egress, h1e0, 0}, {rt.Ingress, r1e0, 1000}, {rt.Egress, r1e1, 1800}, {rt.Dequeue, r1e1, 2500}, {rt.Dequeue, r1e1, 4000},
		{rt.Ingress, r2e0, 5000}, {rt.Dequeue, r1e1, 5200}, {rt.Egress, r2e1, 5600}, {rt.Dequeue, r2e1, 5900}, {rt.Deliver, h2e0, 6100},
	} {
		flags := byte(rt.First)
		if i == 0 {
			flags |= rt.Source
		}
		b.See(b.pos, s.kind, flags, s.port, b.t0+s.at)
	}
	r := b.one()
	var got []record.Hop
	for _, h := range r.Hops {
		got = append(got, record.Hop{Node: h.Node, AtNs: h.AtNs, NodeNs: h.NodeNs, QueueNs: h.QueueNs, LinkNs: h.LinkNs, LatencyNs: h.LatencyNs})
	}
	ns := func(n int64) *int64 { return &n }
	want := []record.Hop{
		{Node: "h1", AtNs: ns(0)},
		{Node: "r1", AtNs: ns(1800), NodeNs: ns(800), QueueNs: ns(2200), LinkNs: ns(1000), LatencyNs: ns(1800)},
		{Node: "r2", AtNs: ns(5600), NodeNs: ns(600), QueueNs: ns(300), LinkNs: ns(1000), LatencyNs: ns(3800)},
		{Node: "h2", AtNs: ns(6100), LinkNs: ns(200), LatencyNs: ns(500)},
	}
	if diff := cmp.Diff(want, got); diff != "" || r.State != record.Delivered || *r.LatencyNs != 6100 {
		t.Errorf("%s after %v, hops (-want +got):\n%s", r.State, *r.LatencyNs, diff)
	}
}

// A packet that was not seen as it left a queue, but was seen behind it, says so: of a discipline that
// lets no packet pass by, from when on it is followed.
func TestQueueUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		queue        string
		since        int64 // from when the packet goes into the queue
		removed      bool
		seen, behind bool
		want         bool
	}{
		"overlooked":                    {queue: "tbf", behind: true, want: true},
		"seen":                          {queue: "tbf", seen: true, behind: true},
		"lost in it, or there still":    {queue: "tbf"},
		"before it was followed":        {queue: "tbf", since: 1, behind: true},
		"it may have passed by":         {queue: "fq_codel", behind: true},
		"no queue":                      {behind: true},
		"the port is another one's now": {queue: "tbf", removed: true, behind: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.dom = testDomain(64)
			p := b.dom.PortByID(r1e1)
			p.Queue, p.QueueSince, p.Removed = c.queue, uint64(int64(b.t0)+1800+c.since), c.removed
			b.See(b.pos, rt.Egress, rt.First|rt.Source, h1e0, b.t0)
			b.See(b.pos, rt.Ingress, rt.First, r1e0, b.t0+1000)
			b.See(b.pos, rt.Egress, rt.First, r1e1, b.t0+1800)
			if c.seen {
				b.See(b.pos, rt.Dequeue, rt.First, r1e1, b.t0+4000)
			}
			if c.behind {
				b.See(b.pos, rt.Ingress, rt.First, r2e0, b.t0+5000)
			}
			for i, h := range b.one().Hops {
				if h.QueueUnseen != (c.want && i == 1) {
					t.Errorf("hop %d, %s/%s: queue_unseen %v", i, h.Node, h.Port, h.QueueUnseen)
				}
			}
		})
	}
}

// A loss without a caller is what a tunnel has answered.
func TestTooBigForTunnel(t *testing.T) {
	b := newBench(t, 256, udp)
	b.route(3, 0)
	b.Drop(b.pos, rt.First, r1e1, 0, 0, "", false, b.t0+2500)
	r := b.one()
	if l := r.Loss; r.State != record.Lost || l.Node != "r1" || l.Port != "eth1" || l.At != record.AtEgress || l.Reason != "PKT_TOO_BIG" || l.Function != "skb_tunnel_check_pmtu" {
		t.Errorf("%s, %+v", r.State, l)
	} else if why := wording.Why(l.Reason, l.Function); why != `too large for the tunnel; the device answered "too big"` {
		t.Error(why)
	}
}

// A packet that is dropped after it left the queue is not dropped by the queue.
func TestDropBehindQueue(t *testing.T) {
	for _, queued := range []bool{true, false} {
		b := newBench(t, 256, udp)
		b.route(3, 0)
		want := record.AtQueue
		if !queued {
			b.See(b.pos, rt.Dequeue, rt.First, r1e1, b.t0+2000)
			want = record.AtEgress
		}
		b.Drop(b.pos, rt.First, r1e1, 2, fnQueue, "tbf", false, b.t0+2500)
		r := b.one()
		if r.State != record.Lost || r.Loss.Node != "r1" || r.Loss.Port != "eth1" || r.Loss.At != want {
			t.Errorf("queued %v: %s, %+v; want a loss at %s", queued, r.State, r.Loss, want)
		}
		if h := r.Hops[len(r.Hops)-1]; (h.QueueNs == nil) != queued {
			t.Errorf("queued %v: queue_ns %v", queued, h.QueueNs)
		}
	}
}

// pathOf is a record's hops in one line: node(in,out)role, and the times that are known.
func pathOf(r record.Record) string {
	var parts []string
	for _, h := range r.Hops {
		parts = append(parts, h.Node+"("+h.InPort+","+h.Port+")"+string(h.Role))
	}
	return strings.Join(parts, " ")
}

func TestState(t *testing.T) {
	for _, tc := range []struct {
		name  string
		log   func(b *bench)
		after uint64 // how long after the begin it is read
		state record.State
		path  string
		ns    int64 // latency, -1: not known
	}{
		{"sent", func(b *bench) { b.route(1, 0) }, second,
			record.InFlight, "h1(,eth0)source", -1},
		{"in flight", func(b *bench) { b.route(4, 0) }, second,
			record.InFlight, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,)transit", 5000},
		{"vanished", func(b *bench) { b.route(5, 0) }, 10*second + 1,
			record.Expired, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,eth1)transit", 5600},
		{"not yet", func(b *bench) { b.route(5, 0) }, 10 * second,
			record.InFlight, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,eth1)transit", 5600},
		{"delivered for ever", func(b *bench) { b.route(6, 0) }, 1000 * second,
			record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,eth1)transit h2(eth0,)sink", 6100},
		{"left", func(b *bench) {
			b.See(b.pos, rt.Ingress, rt.First|rt.Source, r1e0, b.t0)
			b.See(b.pos, rt.Left, rt.First, r1e1, b.t0+700)
		}, second, record.Left, "r1(eth0,eth1)source", 700},
		{"left where it began", func(b *bench) {
			b.See(b.pos, rt.Left, rt.First|rt.Source, h1e0, b.t0)
		}, second, record.Left, "h1(,eth0)source", -1},
		{"masqueraded reply goes on", func(b *bench) {
			b.route(1, 0)
			b.See(b.pos, rt.Deliver, rt.First, r1e0, b.t0+1000)
			b.See(b.pos, rt.Egress, rt.First, r1e1, b.t0+1800)
			b.See(b.pos, rt.Deliver, rt.First, r2e0, b.t0+2500)
		}, second, record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,)sink", 2500},
		{"loss withdrawn", func(b *bench) {
			b.route(3, 0)
			b.Drop(b.pos, rt.First, r1e1, 64, fnQueue, "tbf", false, b.t0+2000)
			b.See(b.pos, rt.Deliver, rt.First, r2e0, b.t0+9000)
		}, second, record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit r2(eth0,)sink", 9000},
		{"two ports of one node see it come in, two go out", func(b *bench) {
			b.See(b.pos, rt.Ingress, rt.First|rt.Source, brE0, b.t0)
			b.See(b.pos, rt.Ingress, rt.First, brBr0, b.t0+10)
			b.See(b.pos, rt.Egress, rt.First, brBr0, b.t0+30)
			b.See(b.pos, rt.Left, rt.First, brE1, b.t0+40)
		}, second, record.Left, "br(eth0,eth1)source", 40},
		{"routing loop", func(b *bench) {
			b.route(3, 0)
			b.See(b.pos, rt.Ingress, rt.First, r2e0, b.t0+3000)
			b.See(b.pos, rt.Egress, rt.First, r2e0, b.t0+3100)
			b.See(b.pos, rt.Ingress, rt.First, r1e1, b.t0+4000)
		}, second, record.InFlight,
			"h1(,eth0)source r1(eth0,eth1)transit r2(eth0,eth0)transit r1(eth1,)transit", 4000},
		{"a port that the description lacks", func(b *bench) {
			b.route(1, 0)
			b.See(b.pos, rt.Deliver, rt.First, unlisted, b.t0+1000)
		}, second, record.Delivered, "h1(,eth0)source ?(#9,)sink", 1000},
		{"two such ports: nobody knows whether of one node", func(b *bench) {
			b.See(b.pos, rt.Ingress, rt.First|rt.Source, unlisted, b.t0)
			b.See(b.pos, rt.Egress, rt.First, unlisted+1, b.t0+1000)
		}, second, record.InFlight, "?(#9,)source ?(,#10)transit", 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			tc.log(b)
			b.now = b.t0 + tc.after
			r := b.one()
			if r.State != tc.state {
				t.Errorf("state %s, want %s", r.State, tc.state)
			}
			if got := pathOf(r); got != tc.path {
				t.Errorf("path %s\nwant %s", got, tc.path)
			}
			if got := r.LatencyNs; (got == nil) != (tc.ns < 0) || got != nil && *got != tc.ns {
				t.Errorf("latency %v, want %d", got, tc.ns)
			}
			if r.Loss != nil && !r.Loss.Inferred() || r.LocalDrop != nil || r.Truncated {
				t.Errorf("loss %+v, local drop %+v, truncated %v: want none", r.Loss, r.LocalDrop, r.Truncated)
			}
		})
	}
}

// TestAddressChangeAtEnd: a node can change the addresses of a packet that ends there,
// delivered or lost.
func TestAddressChangeAtEnd(t *testing.T) {
	port := func(n int) *int { return &n }
	node := [4]byte{10, 0, 1, 2}
	for _, c := range []struct {
		name string
		end  func(b *bench)
		want record.State
	}{
		{"redirected", func(b *bench) {
			b.Translate(b.pos, rt.First, r1e0, udp.Src, node, 4000, 5353, b.t0+1100)
			b.See(b.pos, rt.Deliver, rt.First, r1e0, b.t0+1200)
		}, record.Delivered},
		{"another port of its own", func(b *bench) {
			b.See(b.pos, rt.Deliver, rt.First, r1e0, b.t0+1100)
			b.Translate(b.pos, rt.First, r1e0, udp.Src, node, 4000, 5353, b.t0+1200)
		}, record.Delivered},
		{"lost", func(b *bench) {
			b.Translate(b.pos, rt.First, r1e0, udp.Src, node, 4000, 5353, b.t0+1100)
			b.Drop(b.pos, rt.First, r1e0, 2, 0xffff0000, "", true, b.t0+1200)
		}, record.Lost},
		{"lost on the return path", func(b *bench) {
			b.See(b.pos, rt.Deliver, rt.First, r1e0, b.t0+1050)
			b.See(b.pos, rt.Ingress, 0, r1e0, b.t0+1100)
			b.Translate(b.pos, rt.First, r1e0, udp.Src, node, 4000, 5353, b.t0+1100)
			b.Drop(b.pos, rt.First, r1e0, 2, 0xffff0000, "", true, b.t0+1200)
		}, record.Lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.See(b.pos, rt.Ingress, rt.First, r1e0, b.t0+1000)
			c.end(b)
			r := b.one()
			if r.State != c.want || len(r.Hops) != 1 || r.LocalDrop != nil {
				t.Fatalf("%s, hops %+v", r.State, r.Hops)
			}
			h := r.Hops[0]
			if diff := cmp.Diff(record.Hop{Dst: "10.0.1.2", Dport: port(5353)}, record.Hop{Src: h.Src, Dst: h.Dst, Sport: h.Sport, Dport: h.Dport}); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressChange(t *testing.T) {
	b := newBench(t, 256, udp)
	b.route(2, 0)
	nat, server := [4]byte{192, 0, 2, 1}, [4]byte{192, 0, 2, 9}
	b.Translate(b.pos, rt.First, r1e1, nat, udp.Dst, 61000, udp.Dport, b.t0+1700)
	b.See(b.pos, rt.Egress, rt.First, r1e1, b.t0+1800)
	b.See(b.pos, rt.Ingress, rt.First, brE0, b.t0+2000)
	b.See(b.pos, rt.Egress, rt.First, brE1, b.t0+2100)
	b.See(b.pos, rt.Ingress, rt.First, r2e0, b.t0+3000)
	b.Translate(b.pos, rt.First, r2e1, nat, server, 61000, 5353, b.t0+3500)
	b.See(b.pos, rt.Egress, rt.First, r2e1, b.t0+3600)
	b.See(b.pos, rt.Ingress, rt.First, h2e0, b.t0+4000)
	// The next change is logged, its egress not yet.
	b.Translate(b.pos, rt.First, h2e0, server, nat, 1, 2, b.t0+4100)
	r := b.one()
	if r.Src != "10.0.1.1" || *r.Sport != 4000 || r.State != record.InFlight {
		t.Errorf("%s, sent by %s:%d, want what the source saw", r.State, r.Src, *r.Sport)
	}
	port := func(n int) *int { return &n }
	for i, want := range []record.Hop{
		{}, {Src: "192.0.2.1", Sport: port(61000)}, {}, {Dst: "192.0.2.9", Dport: port(5353)}, {},
	} {
		h := r.Hops[i]
		got := record.Hop{Src: h.Src, Dst: h.Dst, Sport: h.Sport, Dport: h.Dport}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes of hop %d, %s (-want +got):\n%s", i, h.Node, diff)
		}
	}
}

func TestStampsOutOfOrder(t *testing.T) {
	b := newBench(t, 256, udp)
	b.See(b.pos, rt.Egress, rt.First|rt.Source, h1e0, b.t0)
	b.See(b.pos, rt.Ingress, rt.First, r1e0, b.t0+1000)
	b.See(b.pos, rt.Egress, rt.First, r1e1, b.t0+990)
	if h := b.one().Hops[1]; h.NodeNs != nil || *h.LinkNs != 1000 || *h.AtNs != 990 {
		t.Errorf("hop %+v: a time between stamps in the wrong order is not known", h)
	}
}
