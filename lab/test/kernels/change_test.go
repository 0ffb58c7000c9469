// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestChange: the kernel tells at once when an interface moves away, and when a node that
// carries the header gets one that can send.
func TestChange(t *testing.T) {
	need.AsRoot(t)
	w, name := newNetwork(t), fmt.Sprintf("rdrkc%d", os.Getpid())
	o := program.DefaultOptions()
	o.Slots, o.Hook, o.Lease, o.Carry = 1<<16, program.HookClsact, 0, program.CarryHeader
	t.Cleanup(func() {
		_, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name, NoDrain: true})
		if err != nil && !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach at the end of the test: %v", err)
		}
	})
	r, err := datapath.Attach(t.Context(), datapath.AttachRequest{
		Domain: name, Nodes: []topo.NodeSpec{w.h1, w.r1}, Options: &o,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Domain.ChangeHook == "" {
		t.Fatalf("the programs are not attached: %q", r.Warnings)
	}
	h, err := datapath.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	// notes wants the kernel to tell at once of what f does in a node, or not.
	notes := func(want bool, what string, node topo.NodeSpec, f func() error) {
		t.Helper()
		if _, err := h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.Changed() {
			t.Errorf("before %s: the last change is not forgotten", what)
		}
		in(t, node, f)
		if got := h.Changed(); got != want {
			t.Errorf("%s: told at once: %v, want %v", what, got, want)
		}
	}
	there, err := w.h2.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	add := func(name string, up bool) func() error {
		return func() error {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = name
			err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(there)})
			if err == nil && up {
				err = linkUp(name)
			}
			return err
		}
	}
	move := func(name string) func() error {
		return func() error {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return netlink.LinkSetNsFd(l, int(there))
		}
	}
	notes(false, "an interface is made", w.r1, add("x0", false))
	notes(false, "one that has programs is set up", w.r1, func() error { return linkUp("x0") })
	notes(true, "one is made and set up", w.r1, add("x1", true))
	notes(false, "one is made in a node that is not attached", w.h2, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "x2"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "x3"}); err != nil {
			return err
		}
		return linkUp("x2")
	})
	join(t, w.h1, "m0", w.r1, "m0")
	notes(true, "an interface moves away", w.h1, move("m0"))
}
