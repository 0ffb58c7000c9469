// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// behind is what the programs are told of the machine behind a port.
func (l *lab) behind(node, port string) (vm uint16, flags bpfobj.TcRdrPortFlag) {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	var entry bpfobj.TcRdrPort
	if err := h.maps[bpfobj.TcMapPorts].Lookup(uint32(l.port(h.Domain, node, port).ID), &entry); err != nil {
		l.t.Fatal(err)
	}
	return entry.Behind, bpfobj.TcRdrPortFlag(entry.Flags)
}

// owned is how many addresses the programs know of a node.
func (l *lab) owned(node uint16) int {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	var entry bpfobj.TcRdrNode
	if err := h.maps[bpfobj.TcMapNodes].Lookup(uint32(node), &entry); err != nil {
		l.t.Fatal(err)
	}
	n := 0
	for at, addr := range entry.Addr {
		if addr*entry.Multiplier>>28 == uint32(at) { // RDR_NODE_SHIFT
			n++
		}
	}
	return n
}

// TestVM: a virtual machine gets a number of its own and is bound to its taps by their
// names, also when they are made anew.
func TestVM(t *testing.T) {
	l := newChain(t, program.HookAuto)
	const through = bpfobj.TcRdrPortFlagRDR_PF_INTERNAL | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN |
		bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT | bpfobj.TcRdrPortFlagRDR_PF_TRUE
	for _, tap := range []string{"tap0", "tap1"} {
		l.Run("r", "ip", "tuntap", "add", tap, "mode", "tap")
	}
	req := l.request("a", "r")
	req.VMs = []topo.VM{{Name: "vm", Ports: []string{"r/tap0", "r/tap1"}, Addrs: []netip.Addr{netip.MustParseAddr("10.0.9.1")}}}
	res, err := Attach(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	vm := res.Domain.VMs[0]
	if slices.ContainsFunc(res.Domain.Nodes, func(n domain.Node) bool { return n.ID == vm.ID }) || vm.ID == 0 {
		t.Errorf("the machine has number %d", vm.ID)
	}
	check := func(when string) {
		t.Helper()
		for _, tap := range []string{"tap0", "tap1"} {
			if id, flags := l.behind("r", tap); id != vm.ID || flags != through {
				t.Errorf("%s: behind %s is %d, flags %#x", when, tap, id, flags)
			}
		}
		if id, _ := l.behind("r", "e0"); id != 0 {
			t.Errorf("%s: behind e0 is %d", when, id)
		}
	}
	check("attached")
	if n := l.owned(vm.ID); n != 1 {
		t.Errorf("%d addresses of the machine", n)
	}
	l.Run("r", "ip", "link", "del", "tap1")
	l.refresh()
	l.Run("r", "ip", "tuntap", "add", "tap1", "mode", "tap")
	l.refresh()
	check("made anew")

	// Another node joins, and the machine has one address more.
	req = l.request("b")
	req.VMs = []topo.VM{{Name: "vm", Ports: vm.Ports, Addrs: append(vm.Addrs, netip.MustParseAddr("10.0.9.2"))}}
	if res, err = Attach(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	check("with one node more")
	if n := l.owned(vm.ID); n != 2 || len(res.Domain.VMs) != 1 {
		t.Errorf("%d addresses, machines %+v", n, res.Domain.VMs)
	}
	req = l.request()
	req.VMs = []topo.VM{{Name: "other", Ports: []string{"r/tap1"}}}
	if _, err = Attach(context.Background(), req); err == nil {
		t.Error("two machines have the same tap")
	}
	check("after a refusal")
	l.ping()

	// Names mean one thing: a node cannot have the machine's.
	l.Add("other")
	req = l.request()
	if req.Nodes, err = topo.ParseSpecs([]string{"vm=netns:" + l.Name("other")}); err != nil {
		t.Fatal(err)
	}
	if _, err = Attach(context.Background(), req); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "a virtual machine") {
		t.Errorf("a node is named like the machine: %v", err)
	}
	if r := l.detach("vm"); r.VMs != 1 || r.Nodes+r.Ports != 0 || r.Ended {
		t.Errorf("detached the machine: %+v", *r)
	}
	for _, tap := range []string{"tap0", "tap1"} {
		const edge = bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT
		if id, flags := l.behind("r", tap); id != 0 || flags != edge {
			t.Errorf("behind %s is %d, flags %#x, though no machine is", tap, id, flags)
		}
	}
	l.ping()
	wantChanges(t, l.refresh(), Changes{})
	if _, err = Attach(context.Background(), req); err != nil {
		t.Errorf("the name is free: %v", err)
	}
	// The machine's number is not used again: old records mean it.
	d := l.open().Domain
	if n := d.Nodes[len(d.Nodes)-1]; n.Name != "vm" || n.ID == vm.ID || d.VMByID(vm.ID).Name != "vm" {
		t.Errorf("nodes %+v, machines %+v", d.Nodes, d.VMs)
	}
}
