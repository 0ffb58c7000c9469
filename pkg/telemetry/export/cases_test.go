// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/export"
)

// hopsOf are the hops of a report 2.0 with a stack, the newest first.
func hopsOf(t *testing.T, m *intwire.Message) []intwire.Hop {
	t.Helper()
	if len(m.Embedded) != 1 {
		t.Fatalf("%d INT headers", len(m.Embedded))
	}
	return m.Embedded[0].Hops
}

// TestTooLarge: a latency that 32 bits cannot hold, or that would say "not available", is not
// available.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		node, queue int64
		want        bool
	}{{math.MaxUint32 - 1, 0, true}, {math.MaxUint32, 0, false}, {math.MaxUint32 - 10, 10, false}, {1 << 40, 0, false}} {
		r := delivered(1)
		r.Hops[1].NodeNs, r.Hops[1].QueueNs = ptr(c.node), ptr(c.queue)
		m := read(t, reports(encoder(t, chain(1), export.TR20, export.Mark{}, false), r))[0]
		got, ok := hopsOf(t, m)[1].Get(intwire.HopLatency)
		if ok != c.want || ok && got != uint64(c.node+c.queue) {
			t.Errorf("%d + %d: %d, %v", c.node, c.queue, got, ok)
		}
		one := read(t, reports(encoder(t, chain(1), export.TR20, export.Mark{}, true), r))[1]
		if has := one.Reports[0].Values.Has.Has(intwire.HopLatency); has != c.want {
			t.Errorf("%d + %d, by each node: %v", c.node, c.queue, has)
		}
	}
}

// TestLargeIndex: an interface index of more than 16 bits is a level-2 port, and so are those of
// the other hops of the stack.
func TestLargeIndex(t *testing.T) {
	d := chain(1)
	d.Ports[2].Ifindex = 70000 // r1's eth1
	for _, v := range []export.Version{export.TR20, export.TR10} {
		m := read(t, reports(encoder(t, d, v, export.Mark{}, false), delivered(1)))[0]
		hops := m.INT
		if v == export.TR20 {
			hops = m.Embedded
		}
		got := ""
		for _, h := range hops[0].Hops {
			for _, f := range []intwire.Field{intwire.L1In, intwire.L1Out, intwire.L2In, intwire.L2Out} {
				if n, ok := h.Get(f); ok {
					got += fmt.Sprint(n, " ")
				} else {
					got += "- "
				}
			}
		}
		if want := "2 0 2 0 - - 2 70000 0 2 0 2 "; got != want {
			t.Errorf("version %d: %s, want %s", v, got, want)
		}
	}
	one := read(t, reports(encoder(t, d, export.TR20, export.Mark{}, true), delivered(1)))[1].Reports[0]
	if one.RepMdBits != 0x2e00 {
		t.Errorf("by each node: bits 0x%04x", one.RepMdBits)
	}
}

// TestLongWays: 252 words are what a shim can count; longer ways go in several reports.
func TestLongWays(t *testing.T) {
	for _, c := range []struct {
		version export.Version
		routers int
		want    string
	}{
		{export.TR20, 34, "36"}, {export.TR20, 35, "36I 1"}, {export.TR20, 98, "36I 36I 28"},
		{export.TR10, 48, "50"}, {export.TR10, 49, "50 1"},
	} {
		d := chain(c.routers)
		e := encoder(t, d, c.version, export.Mark{}, false)
		r := delivered(c.routers)
		r.TTL, r.TTLSent = 200, ptr(200-c.routers)
		r.State, r.Loss = record.Lost, &record.Loss{Node: "h2", At: record.AtNode, Reason: "NOT_SPECIFIED"}
		var got []string
		next := 1
		for i, m := range read(t, reports(e, r)) {
			in, node, flag, dropped := &m.INT, m.Report.SwitchID, "", m.Report.D
			if m.HasGroup {
				in, node, dropped = &m.Embedded, m.Group.NodeID, m.Reports[0].D
				if m.Reports[0].I {
					flag = "I"
				}
			}
			hops := (*in)[0].Hops
			for n := len(hops) - 1; n >= 0; n-- {
				if id, _ := hops[n].Get(intwire.NodeID); int(id) != next {
					t.Errorf("%d routers, report %d, hop %d is node %d, want %d", c.routers, i, n, id, next)
				}
				next++
			}
			if int(node) != next-1 || dropped != (next == c.routers+3) {
				t.Errorf("%d routers, report %d of node %d, dropped %v", c.routers, i, node, dropped)
			}
			got = append(got, fmt.Sprint(len(hops))+flag)
		}
		if strings.Join(got, " ") != c.want || (e.Counts.Split > 0) != (len(got) > 1) {
			t.Errorf("%d routers: %v, want %s", c.routers, got, c.want)
		}
	}
}

// TestSequence: numbers count by node, and wrap with their field.
func TestSequence(t *testing.T) {
	e := encoder(t, chain(1), export.TR20, export.Mark{}, true)
	e.SetSequence(2, 1<<22-1)
	var got []string
	for range 3 {
		for _, m := range read(t, reports(e, delivered(1))) {
			got = append(got, fmt.Sprintf("%d:%d", m.Group.NodeID, m.Group.Sequence))
		}
	}
	if want := "1:0 2:4194303 3:0 1:1 2:0 3:1 1:2 2:1 3:2"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	e = encoder(t, chain(1), export.TR10, export.Mark{}, false)
	e.SetSequence(3, math.MaxUint32)
	list := append(reports(e, delivered(1)), reports(e, delivered(1))...)
	if m := read(t, list); m[0].Report.Sequence != math.MaxUint32 || m[1].Report.Sequence != 0 {
		t.Errorf("1.0: %d, %d", m[0].Report.Sequence, m[1].Report.Sequence)
	}
}

// TestDrops: who reports a drop, with which port and reason.
func TestDrops(t *testing.T) {
	type told struct {
		node, in, out, reason uint64
		stack                 int
	}
	for name, c := range map[string]struct {
		change func(*record.Record)
		want   told
	}{
		"inside":     {func(r *record.Record) { r.Loss = &record.Loss{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP"} }, told{2, 0, 0, 80, 2}},
		"no route":   {func(r *record.Record) { r.Loss = &record.Loss{Node: "r1", At: record.AtNode, Reason: "IP_OUTNOROUTES"} }, told{2, 0, 0, 51, 2}},
		"the kernel": {func(r *record.Record) { r.Loss = &record.Loss{Node: "r1", At: record.AtNode, Reason: "IP_INHDR"} }, told{2, 0, 0, 193, 2}},
		"not named":  {func(r *record.Record) { r.Loss = &record.Loss{Node: "r1", At: record.AtNode} }, told{2, 0, 0, 0, 2}},
		"elsewhere": {func(r *record.Record) {
			r.Loss = &record.Loss{Node: "r2", Port: "eth0", At: record.AtIngress, Reason: "TC_INGRESS"}
		}, told{3, 2, 0, 80, 2}},
		"its queue": {func(r *record.Record) {
			r.Hops, r.Loss = r.Hops[:1], &record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP"}
		}, told{2, 0, 3, 71, 1}},
		"to its egress": {func(r *record.Record) {
			r.Hops[1].Port = ""
			r.Loss = &record.Loss{Node: "r1", Port: "eth1", At: record.AtEgress, Reason: "TC_EGRESS"}
		}, told{2, 0, 0, 92, 2}},
		"as it came": {func(r *record.Record) {
			r.Hops[1].Port = ""
			r.Loss = &record.Loss{Node: "r1", Port: "eth0", At: record.AtNode, Reason: "NETFILTER_DROP"}
		}, told{2, 0, 0, 80, 2}},
		"nowhere": {func(r *record.Record) { r.Loss = &record.Loss{Node: "?", At: record.AtNode, Reason: "QDISC_DROP"} }, told{0, 0, 0, 71, 2}},
		"unsaid":  {func(r *record.Record) { r.Loss = nil }, told{0, 0, 0, 0, 2}},
		"no hops": {func(r *record.Record) { r.Hops, r.Loss = nil, &record.Loss{Node: "r2", Reason: "XDP"} }, told{3, 0, 0, 195, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := delivered(2)
			r.State, r.Hops = record.Lost, r.Hops[:2]
			c.change(&r)
			for _, perHop := range []bool{false, true} {
				e := encoder(t, chain(2), export.TR20, export.Mark{}, perHop)
				all := read(t, reports(e, r))
				m := all[len(all)-1]
				s := &m.Reports[0]
				got := told{node: uint64(m.Group.NodeID)}
				got.in, got.out, got.reason = s.Values.V[intwire.L1In], s.Values.V[intwire.L1Out], s.Values.V[intwire.DropReason]
				if len(m.Embedded) > 0 {
					got.stack = len(m.Embedded[0].Hops)
					if out := m.Embedded[0].Hops[0].V[intwire.L1Out]; name == "to its egress" && out != 3 {
						t.Errorf("egress %d", out)
					}
				}
				want := c.want
				if perHop {
					want.stack = 0
					if want.node == 2 && len(r.Hops) == 2 { // its own metadata is in the report
						want.in, want.out = 2, 3
						if name == "as it came" {
							want.out = 0
						}
					}
				}
				if got != want || !s.D || !s.F || s.RepMdBits&1 == 0 || e.Counts.Drops != 1 {
					t.Errorf("by each node %v: %+v, want %+v; %+v", perHop, got, want, e.Counts)
				}
			}
		})
	}
}

// TestBranches: each copy of a packet whose end a node saw has a report of its way.
func TestBranches(t *testing.T) {
	d := chain(4)
	r := delivered(4)
	r.Dst, r.TTLSent = "224.1.2.3", nil
	// h1 > r1 > {r2 > h2, r3 lost in a queue, r4 ignored}
	hop := func(i, prev int, outcome record.State) {
		r.Hops[i].Outcome = outcome
		r.Hops[i].Prev = &prev
	}
	hop(2, 1, "")
	hop(3, 1, record.Lost)
	hop(4, 1, record.Ignored)
	hop(5, 2, record.Delivered)
	r.Losses = []record.BranchLoss{
		{Hop: 3, Loss: record.Loss{Node: "r3", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP"}},
		{Hop: 5, AfterDelivery: true, Loss: record.Loss{Node: "h2", At: record.AtNode, Reason: "SOCKET_RCVBUFF"}},
		{Hop: 1, Loss: record.Loss{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP"}}, // a clone, where others live on
	}
	e := encoder(t, d, export.TR20, export.Mark{}, false)
	var got []string
	for _, r := range back(t, d, reports(e, r)) {
		way := string(r.State)
		for _, h := range r.Hops {
			way += " " + h.Node
		}
		if r.Loss != nil {
			way += " " + r.Loss.Reason
		}
		got = append(got, way)
	}
	want := []string{"lost h1 r1 r3 TRAFFIC_MANAGER", "left h1 r1 r2 h2", "lost h1 r1 ACL_DROP"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c := e.Counts; c.Branched != 1 || c.Ignored != 1 || c.Packets != 1 || c.Reported != 1 || c.Reports != 3 || c.Drops != 2 {
		t.Errorf("%+v", c)
	}
}

// TestTranslated: the quote is what came in at the node that reports.
func TestTranslated(t *testing.T) {
	r := delivered(2)
	r.Hops[1].Src, r.Hops[1].Sport = "192.0.2.7", ptr(1024)
	r.Hops[2].Dst, r.Hops[2].Dport = "10.9.9.9", ptr(80)
	d := chain(2)
	e := encoder(t, d, export.TR20, export.Mark{}, false)
	got := back(t, d, reports(e, r))[0]
	if got.Src != "192.0.2.7" || *got.Sport != 1024 || got.Dst != "10.9.9.9" || *got.Dport != 80 || e.Counts.Translated != 1 {
		t.Errorf("%+v, %+v", got, e.Counts)
	}
	e = encoder(t, d, export.TR20, export.Mark{}, true)
	var ways []string
	for _, r := range back(t, d, reports(e, r)) {
		ways = append(ways, fmt.Sprintf("%s:%d %s:%d, %d hops, TTL %d", r.Src, *r.Sport, r.Dst, *r.Dport, len(r.Hops), r.TTL))
	}
	want := []string{"10.0.1.1:40001 10.0.4.2:9000, 2 hops, TTL 64", "192.0.2.7:1024 10.0.4.2:9000, 1 hops, TTL 63", "192.0.2.7:1024 10.9.9.9:80, 1 hops, TTL 62"}
	if diff := cmp.Diff(want, ways); diff != "" {
		t.Error(diff)
	}
}

// TestNotReported: what has no report is counted by why.
func TestNotReported(t *testing.T) {
	e := encoder(t, chain(1), export.TR20, export.Mark{}, false)
	for _, change := range []func(*record.Record){
		func(r *record.Record) { r.State = record.Expired },
		func(r *record.Record) { r.State = record.InFlight },
		func(r *record.Record) { r.State = record.Ignored },
		func(r *record.Record) { r.Src, r.Dst = "", "" },
		func(r *record.Record) { r.Hops = nil },
	} {
		r := delivered(1)
		change(&r)
		if list := reports(e, r); len(list) > 0 {
			t.Errorf("%+v: %x", r, list)
		}
	}
	want := export.Counts{Packets: 5, Expired: 1, InFlight: 1, Ignored: 1, NoHeader: 1, NoHops: 1}
	if diff := cmp.Diff(want, e.Counts); diff != "" {
		t.Error(diff)
	}
	train := delivered(1)
	train.Segs, train.Len, train.Truncated = 40, 70000, true
	m := read(t, reports(e, train))[0]
	if got := m.Reports[0].Inner[2:4]; got[0] != 0xff || got[1] != 0xff || e.Counts.Trains != 1 || e.Counts.TrainPackets != 40 || e.Counts.Truncated != 1 {
		t.Errorf("a train: length %x, %+v", got, e.Counts)
	}
}

// TestNumbers: node ids are the domain's, or chosen; nothing has another's.
func TestNumbers(t *testing.T) {
	d := chain(1)
	for _, c := range []struct {
		chosen map[string]uint32
		want   string
	}{
		{nil, "[{h1 1} {r1 2} {h2 3}]"},
		{map[string]uint32{"r1": 4000000000}, "[{h1 1} {r1 4000000000} {h2 3}]"},
		{map[string]uint32{"r1": 3, "h2": 2}, "[{h1 1} {r1 3} {h2 2}]"},
		{map[string]uint32{"r1": 3}, "id 3 is node h2's"},
		{map[string]uint32{"r1": 7, "h1": 7}, "another node has this id"},
		{map[string]uint32{"r1": 0}, "use an id from 1"},
		{map[string]uint32{"r1": math.MaxUint32}, "use an id from 1"},
		{map[string]uint32{"r9": 9}, "domain t has no such node"},
	} {
		n, err := export.NewNumbers(d, c.chosen)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(n.Nodes())
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", c.chosen, got, c.want)
		}
	}
	// A node that comes later does not get the number that was chosen for another.
	n, err := export.NewNumbers(d, map[string]uint32{"r1": 4})
	if err != nil {
		t.Fatal(err)
	}
	d.Nodes = append(d.Nodes, export.Node{Number: 4, Name: "late"}, export.Node{Number: 5, Name: "r1"}, export.Node{Number: 6, Name: "vm"})
	d.Ports = append(d.Ports, export.Port{Node: 6, Name: "tap0", Ifindex: 9}, export.Port{Node: 1, Name: "eth0", Ifindex: 8})
	n.SetNetwork(d)
	if got, want := fmt.Sprint(n.Nodes()), "[{h1 1} {h2 3} {late 0} {r1 4} {vm 6}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if a, b, c := n.Port("vm", 6, "tap0"), n.Port("h1", 1, "eth0"), n.Port("h2", 3, "eth0"); a != 9 || b != 8 || c != 2 {
		t.Errorf("ports %d, %d, %d", a, b, c)
	}
}

// TestReasons: a number means one thing, and is named as in the other programs' tables.
func TestReasons(t *testing.T) {
	names := intwire.ProfileByName("switch-p4-16").Reasons
	for _, r := range export.Reasons() {
		if n, ok := export.DropReason(r.Kernel, 4); !ok || n != r.Number {
			t.Errorf("%s is %d, %v, listed as %d", r.Kernel, n, ok, r.Number)
		}
		if r.Same && (names[r.Number] == "" || names[r.Number] != r.Name) || !r.Same && (names[r.Number] != "" || r.Number < intwire.FirstRadarReason || r.Name != r.Kernel) {
			t.Errorf("%+v, there %q", r, names[r.Number])
		}
	}
	if n, _ := export.DropReason("IP_INNOROUTES", 6); n != 52 || names[n] != "IPV6_LPM_MISS" {
		t.Errorf("no route of IPv6 is %d", n)
	}
	for _, name := range []string{"", "UNKNOWN", "ACL_DROP", "TCP_OVERWINDOW"} {
		if n, ok := export.DropReason(name, 4); ok || n != 0 {
			t.Errorf("%q is %d", name, n)
		}
	}
}

// TestSampled: 1 in N, the same ones whoever asks.
func TestSampled(t *testing.T) {
	for _, n := range []uint64{1, 2, 10, 100} {
		const all = 100_000
		got := 0
		for i := range all {
			if export.Sampled(fmt.Sprintf("5f3a9c01-%x", i), n) {
				got++
			}
		}
		if want := float64(all) / float64(n); math.Abs(float64(got)-want) > 5*math.Sqrt(want) || n == 1 && got != all {
			t.Errorf("1 in %d: %d of %d", n, got, all)
		}
	}
	// Other processes choose the same ones.
	var chosen []int
	for i := range 40 {
		if export.Sampled(fmt.Sprintf("5f3a9c01-%x", i), 10) {
			chosen = append(chosen, i)
		}
	}
	if got := fmt.Sprint(chosen); got != "[18 37]" || !export.Sampled("x", 0) {
		t.Errorf("chosen: %s", got)
	}
}

// TestMark: INT 1.0 knows no port, a DSCP has six bits.
func TestMark(t *testing.T) {
	for _, c := range []struct {
		version export.Version
		mark    export.Mark
		ok      bool
	}{{export.TR10, export.Mark{Port: 1}, false}, {export.TR20, export.Mark{DSCP: 64}, false}, {export.TR20, export.Mark{DSCP: 63}, true}} {
		if _, err := export.NewEncoder(c.version, c.mark, nil); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestHeaders: what of a quote the collector does not show.
func TestHeaders(t *testing.T) {
	inner := func(change func(*record.Record), perHop bool) (*intwire.Single, []byte) {
		r := delivered(1)
		change(&r)
		all := read(t, reports(encoder(t, chain(1), export.TR20, export.Mark{}, perHop), r))
		s := &all[len(all)-1].Reports[0]
		return s, s.Inner
	}
	v6 := kinds()["udp6"]
	if s, b := inner(v6, false); s.InType != intwire.InnerIPv6 || b[0]>>4 != 6 {
		t.Errorf("IPv6 is of type %d", s.InType)
	}
	if s, b := inner(func(*record.Record) {}, false); s.InType != intwire.InnerIPv4 || b[0]>>4 != 4 {
		t.Errorf("IPv4 is of type %d", s.InType)
	}
	// The fragment header (RFC 8200, 4.5): next header, reserved, offset and M, identification.
	for want, off := range map[string]*int{"11000001000000aa": ptr(0), "11000500000000aa": ptr(1280), "11000000000000aa": nil} {
		_, b := inner(func(r *record.Record) {
			if v6(r); off != nil && *off == 0 {
				r.IPFlags = ptr(1)
			}
			r.FragOff, r.FragID = off, ptr(0xaa)
		}, true)
		if got := fmt.Sprintf("%x", b[40:48]); b[6] != 44 || got != want {
			t.Errorf("fragment %v: next header %d, %s, want %s", off, b[6], got, want)
		}
	}
	// What the last node got: DSCP and ECN as they were sent last.
	for _, perHop := range []bool{false, true} {
		if _, b := inner(func(r *record.Record) { r.DSCPSent, r.ECNSent = ptr(46), ptr(3) }, perHop); b[1] != 46<<2|3 {
			t.Errorf("TOS %02x", b[1])
		}
	}
	first := read(t, reports(encoder(t, chain(1), export.TR20, export.Mark{}, true), func() record.Record {
		r := delivered(1)
		r.DSCPSent = ptr(46)
		return r
	}()))[0].Reports[0].Inner
	if first[1] != 10<<2|1 || first[8] != 64 {
		t.Errorf("the source quotes TOS %02x, TTL %d", first[1], first[8])
	}
	// A hop of which nothing is known is one all the same.
	_, _ = inner(func(r *record.Record) { r.Hops = []record.Hop{{Node: "?"}} }, false)
}
