// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// What is sent through the network.
const (
	datagrams   = 200
	echoes      = 200
	lost        = 20
	streamBytes = 2 << 20
)

// variant is one way to attach.
type variant struct {
	name   string
	hook   string
	change func(*program.Options)
}

var variants = []variant{
	{"clsact", program.HookClsact, func(*program.Options) {}},
	{"clsact-header", program.HookClsact, func(o *program.Options) { o.Carry = "header" }},
	{"clsact-paper", program.HookClsact, func(o *program.Options) { o.GUIDBits = "paper" }},
	{"clsact-wide", program.HookClsact, func(o *program.Options) { o.GUIDBits, o.MaxHops = "22", 26 }},
	{"tcx", program.HookTCX, func(*program.Options) {}},
}

// TestAttach measures a small network in every way that the kernel offers: what
// arrives is what was sent, every packet has its record, and after detaching
// nothing is left.
func TestAttach(t *testing.T) {
	need.AsRoot(t)
	features := program.Probe()
	if !features.DropHook {
		t.Errorf("kernel %s does not let tp_btf/kfree_skb be used: losses cannot be seen", features.Kernel)
	}
	for _, v := range variants {
		if v.hook == program.HookTCX && !features.TCX {
			if !kernel.Older(features.Kernel, 6, 6) {
				t.Errorf("kernel %s should have TCX, but it cannot be used", features.Kernel)
			}
			t.Logf("kernel %s lacks TCX (Linux 6.6)", features.Kernel)
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			o := program.DefaultOptions()
			o.Slots, o.Hook = 1<<16, v.hook
			o.Lease = 0 // an emulated machine is slow
			v.change(&o)
			measure(t, newNetwork(t), o, features)
		})
	}
}

// attach attaches all nodes to a domain, which the caller detaches.
func (w *network) attach(t *testing.T, name string, o *program.Options) *datapath.AttachResult {
	t.Helper()
	res, err := datapath.Attach(t.Context(), datapath.AttachRequest{
		Domain: name, Nodes: []topo.NodeSpec{w.h1, w.r1, w.h2}, Options: o,
	})
	if err != nil {
		t.Fatalf("attach: %+v", err)
	}
	return res
}

// measure attaches, sends, compares, detaches.
func measure(t *testing.T, w *network, o program.Options, features program.Features) {
	name := fmt.Sprintf("rdrkt%d", os.Getpid())
	res := w.attach(t, name, &o)
	detached := false
	t.Cleanup(func() {
		if !detached { // the test failed before; leave nothing all the same
			detach(t, name)
		}
	})
	if res.Domain.Options.Hook != o.Hook {
		t.Errorf("attached with hook %s, want %s", res.Domain.Options.Hook, o.Hook)
	}
	t.Logf("memory: %v", res.Memory)
	loaded := loadedBy(t, name)
	loaded.describe(t)

	if o.Carry == program.DefaultOptions().Carry {
		withPayload(t, res.Domain, func() { w.sendDatagrams(t, datagrams) })
	} else { // with clsact there is no place for it
		w.sendDatagrams(t, datagrams)
	}
	w.ping(t, echoes)
	w.sendNowhere(t, lost)
	again := w.stream(t, streamBytes)

	check(t, res.Domain, features, again)
	detached = true
	detach(t, name)
	loaded.gone(t)
	w.leftover(t, name)
}

// detach ends the domain. It is also used when the test's context has ended.
func detach(t *testing.T, name string) {
	t.Helper()
	res, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name})
	if err != nil {
		t.Errorf("detach: %v", err)
		return
	}
	if !res.Ended || res.Nodes != 3 {
		t.Errorf("detach: %+v", *res)
	}
}
