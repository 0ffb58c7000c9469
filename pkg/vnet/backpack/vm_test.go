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

// vmDomain is h1 - r1 = vm = r2 - h2: the machine has r1's eth1 and r2's eth0 open, and
// owns the address that udp is sent to if own.
func vmDomain(own bool) *domain.Domain {
	d := testDomain(64)
	vm := domain.VM{ID: 9, Name: "vm", Ports: []string{"r1/eth1", "r2/eth0"}}
	if own {
		vm.Addrs = append(vm.Addrs, netip.MustParseAddr("10.0.4.2")) // of udp
	}
	d.VMs = append(d.VMs, vm)
	for i := range d.Ports {
		if p := &d.Ports[i]; p.ID == r1e1 || p.ID == r2e0 {
			p.Peer, p.VM = -1, vm.ID
		}
	}
	return d
}

// TestVMStories: a virtual machine is a node between the stamps of its taps, also for packets
// to a group.
func TestVMStories(t *testing.T) {
	type step struct {
		kind byte
		port uint16
	}
	toVM := []step{{rt.Egress, h1e0}, {rt.Ingress, r1e0}, {rt.Egress, r1e1}}
	for _, tc := range []struct {
		name  string
		own   bool
		steps []step // one every 1000 ns
		drop  bool   // at the first tap, at the end
		after uint64
		state record.State
		path  string
		loss  string // NODE/PORT at
	}{
		{"through", false, append(toVM[:3:3], step{rt.Ingress, r2e0}, step{rt.Egress, r2e1}, step{rt.Deliver, h2e0}), false, second,
			record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit vm(eth1,eth0)transit r2(eth0,eth1)transit h2(eth0,)sink", ""},
		{"in flight", false, toVM, false, second, record.InFlight, "h1(,eth0)source r1(eth0,eth1)transit vm(eth1,)transit", ""},
		{"lost in it", false, toVM, false, 11 * second, record.Expired, "h1(,eth0)source r1(eth0,eth1)transit vm(eth1,)transit", "vm/eth1 node"},
		{"lost before it", false, toVM, true, second, record.Lost, "h1(,eth0)source r1(eth0,eth1)transit", "r1/eth1 egress"},
		{"for the machine", true, append(toVM[:2:2], step{rt.Left, r1e1}), false, second,
			record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit vm(eth1,)sink", ""},
		{"not to be found again", false, append(toVM[:2:2], step{rt.Left, r1e1}), false, second,
			record.Left, "h1(,eth0)source r1(eth0,eth1)sink", ""},
		{"sent by it", false, []step{{rt.Ingress, r2e0}, {rt.Egress, r2e1}, {rt.Deliver, h2e0}}, false, second,
			record.Delivered, "vm(,eth0)source r2(eth0,eth1)transit h2(eth0,)sink", ""},
		{"back by the same tap", false, append(toVM[:3:3], step{rt.Ingress, r1e1}, step{rt.Egress, r1e0}, step{rt.Deliver, h1e0}), false, second,
			record.Delivered, "h1(,eth0)source r1(eth0,eth1)transit vm(eth1,eth1)transit r1(eth1,eth0)transit h1(eth0,)sink", ""},
	} {
		for _, group := range []bool{false, true} {
			b := newBench(t, 256, udp)
			b.dom = vmDomain(tc.own)
			if group {
				b.SetState(b.pos, rt.Group)
			}
			for i, s := range tc.steps {
				flags := byte(rt.First)
				if i == 0 {
					flags |= rt.Source
				}
				b.See(b.pos, s.kind, flags, s.port, b.t0+uint64(i)*1000)
			}
			if tc.drop {
				b.Drop(b.pos, rt.First, r1e1, 12, fnIP, "", false, b.t0+5000)
			}
			b.now = b.t0 + tc.after
			r := b.one()
			if got := pathOf(r); r.State != tc.state || got != tc.path {
				t.Errorf("%s, group %v: %s by %s\nwant %s by %s", tc.name, group, r.State, got, tc.state, tc.path)
			}
			loss := ""
			if l := r.Loss; l != nil {
				loss = l.Node + "/" + l.Port + " " + string(l.At)
			}
			if loss != tc.loss {
				t.Errorf("%s, group %v: loss %q, want %q", tc.name, group, loss, tc.loss)
			}
		}
	}
}

// TestVMCopies: a virtual machine sends on copies of a packet, and may be one of several
// that got a copy. Its third tap is br's eth0.
func TestVMCopies(t *testing.T) {
	const vm = 9
	type step struct {
		kind byte // 0: a drop
		port uint16
	}
	const drop = 0
	toVM := []step{{rt.Egress, h1e0}, {rt.Deliver, r1e0}, {rt.Egress, r1e1}}
	into := func(more ...step) []step { return append(toVM[:3:3], more...) }
	const member = "h1(,eth0) >r1(eth0,)=delivered 0>r1(eth0,eth1)* "
	for _, tc := range []struct {
		name  string
		own   bool
		steps []step
		want  string
	}{
		{"not seen again", false, into(), member + ">vm(eth1,)=expired"},
		{"through", false, into(step{rt.Ingress, r2e0}, step{rt.Egress, r2e1}, step{rt.Deliver, h2e0}),
			member + ">vm(eth1,eth0) >r2(eth0,eth1) >h2(eth0,)=delivered"},
		{"two copies come out", false, into(step{rt.Ingress, r2e0}, step{rt.Deliver, brE0}, step{rt.Deliver, r2e0}),
			member + ">vm(eth1,eth0) >r2(eth0,)=delivered 2>vm(eth1,eth0)* >br(eth0,)=delivered"},
		{"lost before it", false, into(step{drop, r1e1}), member[:len(member)-1] + "=lost [2: r1/eth1 egress]"},
		{"a drop that is none: it comes out", false, into(step{drop, r1e1}, step{rt.Deliver, r2e0}),
			member + ">vm(eth1,eth0) >r2(eth0,)=delivered"},
		{"a drop before it, and seen again nobody knows how", false, into(step{rt.Egress, r2e1}, step{drop, r1e1}),
			member + ">vm(eth1,) >r2(,eth1)=expired [2: r1/eth1 egress]"},
		{"for the machine and others", true, []step{{rt.Egress, h1e0}, {rt.Ingress, r1e0}, {rt.Left, r1e1}, {rt.Egress, r1e0}, {rt.Deliver, h1e0}},
			"h1(,eth0) >r1(eth0,eth1) >vm(eth1,)=delivered 0>r1(eth0,eth0)* >h1(eth0,)=delivered"},
		{"sent by it", false, []step{{rt.Deliver, r2e0}, {rt.Deliver, brE0}},
			"vm(,eth0) >r2(eth0,)=delivered -1>vm(,eth0)* >br(eth0,)=delivered"},
	} {
		b := newBench(t, 256, udp)
		b.dom = vmDomain(tc.own)
		b.dom.VMs[0].Ports = append(b.dom.VMs[0].Ports, "br/eth0")
		for i := range b.dom.Ports {
			if p := &b.dom.Ports[i]; p.ID == brE0 {
				p.VM = vm
			}
		}
		b.SetState(b.pos, rt.Group)
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
		b.now = b.t0 + 20*second
		if got := tree(b.one()); got != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// TestVMTimes: the time in a machine lies between the stamps of two taps; none is spent
// between a tap and the machine.
func TestVMTimes(t *testing.T) {
	b := newBench(t, 256, udp)
	b.dom = vmDomain(false)
	b.See(b.pos, rt.Egress, rt.First|rt.Source, r1e1, b.t0)
	b.See(b.pos, rt.Ingress, rt.First, r2e0, b.t0+7000)
	b.See(b.pos, rt.Egress, rt.First, r2e1, b.t0+7500)
	r := b.one()
	vm, r2 := r.Hops[1], r.Hops[2]
	if vm.NodeNs == nil || *vm.NodeNs != 7000 || vm.LinkNs != nil {
		t.Errorf("in the machine: %+v", vm)
	}
	if r2.NodeNs == nil || *r2.NodeNs != 500 || r2.LinkNs != nil {
		t.Errorf("behind it: %+v", r2)
	}
	dec := backpack.NewDecoder(b.dom, nil)
	if n := dec.NodeName(9); n != "vm" {
		t.Errorf("node 9 is %q", n)
	}
}
