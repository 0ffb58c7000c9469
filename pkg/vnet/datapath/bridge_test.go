// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// The flags of closing ports.
const (
	memberPort = "in|bridge-port"
	devicePort = "internal|out|bridge"
)

// newBridgeLab makes a, b and u on a bridge in the namespace sw, which nobody attaches.
func newBridgeLab(t *testing.T, hook string) *lab {
	t.Helper()
	l := newLab(t, hook, "sw", "a", "b", "u")
	l.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	l.Up("sw", "br0")
	l.Address("sw", "br0", "10.0.0.254/24")
	for i, name := range []string{"a", "b", "u"} {
		l.plug(name, "10.0.0."+string(rune('1'+i)))
	}
	return l
}

// plug hangs a namespace on the bridge.
func (l *lab) plug(name, addr string) {
	l.t.Helper()
	l.Veth(name, "e0", "sw", "p"+name)
	l.Address(name, "e0", addr+"/24")
	l.Run("sw", "ip", "link", "set", "p"+name, "master", "br0")
}

// wantBridgeFlags is wantFlags with the closing node's name shortened.
func (l *lab) wantBridgeFlags(want ...string) {
	l.t.Helper()
	var got []string
	for _, line := range l.flags() {
		got = append(got, strings.ReplaceAll(line, l.Name("sw"), "sw"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// wantDevice checks which port the loss hook takes an interface of sw for.
func (l *lab) wantDevice(name, port string) {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	dev := bpfobj.TcRdrDev{NetnsInum: l.specs("sw")[0].Inum, Ifindex: uint32(l.Index("sw", name))}
	var id uint32
	err := h.maps[bpfobj.TcMapDevs].Lookup(&dev, &id)
	if port == "" {
		if err == nil {
			l.t.Errorf("sw/%s is a device of the domain", name)
		}
		return
	}
	if err != nil {
		l.t.Errorf("sw/%s: %v", name, err)
	} else if got := deviceName(h.Domain, uint16(id)); got != port {
		l.t.Errorf("sw/%s counts as %q, want %s", name, got, port)
	}
}

// deviceName is what records call a port, or a member of a bridge, with that number.
func deviceName(d *domain.Domain, id uint16) string {
	if p := d.PortByID(id); p != nil {
		return p.Name
	}
	for _, m := range d.Members {
		if m.ID == id && !m.Removed {
			return m.Name
		}
	}
	return ""
}

func TestBridgeAttachDetach(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		all := []string{"sw", "a", "b", "u"}
		before := l.tc(all...)
		r := l.attach("a", "b")
		l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "sw/br0 "+devicePort, "sw/pu "+memberPort)
		l.wantDevice("pa", "pa")
		l.wantDevice("pb", "pb")
		l.wantDevice("pu", "pu")
		link := l.Name("sw") + "/br0"
		for _, want := range []domain.Port{
			{Name: "e0", Role: domain.Internal, Link: link},
			{Name: "br0", Role: domain.Edge, Link: link, Place: domain.Bridge},
			{Name: "pu", Role: domain.Edge, Link: link, Place: domain.BridgePort},
		} {
			for _, p := range r.Domain.Ports {
				if p.Name == want.Name && (p.Role != want.Role || p.Link != want.Link || p.Place != want.Place) {
					t.Errorf("port %+v, want %+v", p, want)
				}
			}
		}

		// Nodes leave and come: their members are closed, and no longer.
		l.detach("b")
		l.wantBridgeFlags("a/e0 "+internalPort, "sw/br0 "+devicePort, "sw/pb "+memberPort, "sw/pu "+memberPort)
		l.wantDevice("pb", "pb")
		l.attach("b", "u")
		l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "sw/br0 "+devicePort, "u/e0 "+internalPort)
		l.wantDevice("pu", "pu")

		objects := l.objects()
		if res := l.detach(); res.Nodes != 3 || res.Ports != 4 {
			t.Errorf("detached %+v", res)
		}
		l.wantNothing(objects)
		if after := l.tc(all...); after != before {
			t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
		}
	})
}

func TestBridgeRollback(t *testing.T) {
	need.Nightly(t) // TestRollbackOfNewDomain stays
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		all := []string{"sw", "a", "b", "u"}
		before := l.tc(all...)
		for nodes := 1; nodes < 3; nodes++ { // at b; at sw
			_, err := Attach(&countdown{t.Context(), nodes}, l.request("a", "b"))
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("attach that ends after %d nodes: %v", nodes, err)
			}
			l.wantNoFiles()
			if after := l.tc(all...); after != before {
				t.Errorf("after %d nodes: tc before:\n%s\nand after:\n%s", nodes, before, after)
			}
		}
		l.attach("a")
		flags, description := l.flags(), readDescription(t, l)
		if _, err := Attach(&countdown{t.Context(), 0}, l.request("b")); !errors.Is(err, context.Canceled) {
			t.Fatalf("attach: %v", err)
		}
		if diff := cmp.Diff(flags, l.flags()); diff != "" {
			t.Errorf("flags (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(description, readDescription(t, l)); diff != "" {
			t.Errorf("description (-before +after):\n%s", diff)
		}
		l.wantDevice("pb", "pb")
	})
}

// Members come and go, a node moves off the bridge, the bridge goes.
func TestBridgeRefresh(t *testing.T) {
	l := newBridgeLab(t, program.HookTCX)
	l.attach("a", "b")
	l.refresh()
	l.Add("n")
	l.plug("n", "10.0.0.9")
	start := time.Now()
	c := l.refresh()
	t.Logf("closing a new member took %v", time.Since(start))
	if len(c.Added) != 1 || c.Added[0] != l.Name("sw")+"/pn" {
		t.Errorf("changes %+v", c)
	}
	l.Run("sw", "ip", "link", "set", "pn", "nomaster")
	l.Run("sw", "ip", "link", "set", "pb", "nomaster")
	l.refresh()
	l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 "+edgePort, "sw/br0 "+devicePort, "sw/pu "+memberPort)
	l.wantDevice("pn", "")
	l.wantDevice("pb", "")
	l.Run("sw", "ip", "link", "del", "br0")
	if c := l.refresh(); len(c.NodesGone) != 0 {
		t.Errorf("changes %+v", c)
	}
	l.wantBridgeFlags("a/e0 "+edgePort, "b/e0 "+edgePort)
}

// One of two domains on a bridge is refused, and a node of another domain that is
// moved onto the bridge becomes an edge.
func TestBridgeOfAnotherDomain(t *testing.T) {
	l := newBridgeLab(t, program.HookTCX)
	l.attach("a", "b")
	other := *l
	other.domain += "x"
	nstest.Cleanup(t, func() {
		_, _ = Detach(context.Background(), DetachRequest{Domain: other.domain, NoDrain: true})
	})
	_, err := Attach(t.Context(), other.request("u"))
	if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), l.Name("sw")+"/br0") || !strings.Contains(err.Error(), l.domain) {
		t.Errorf("a second domain on the bridge: %v", err)
	}
	if _, err := Attach(t.Context(), other.request("sw")); !errors.Is(err, fault.Usage) {
		t.Errorf("a second domain in the bridge's namespace: %v", err)
	}
	l.Run("sw", "ip", "link", "set", "pu", "nomaster")
	l.refresh()
	if _, err := Attach(t.Context(), other.request("u")); err != nil {
		t.Fatal(err)
	}
	l.Run("sw", "ip", "link", "set", "pu", "master", "br0")
	l.refresh()
	other.refresh()
	other.wantBridgeFlags("u/e0 " + edgePort)
	l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "sw/br0 "+devicePort, "sw/pu "+memberPort)
	if _, err := Detach(t.Context(), DetachRequest{Domain: other.domain}); err != nil {
		t.Error(err)
	}
}

// A member that cannot be closed: nobody marks toward the bridge.
func TestBridgeStaysOpen(t *testing.T) {
	l := newBridgeLab(t, program.HookClsact)
	l.attach("a", "b")
	l.Add("n")
	l.Veth("n", "e0", "sw", "pn")
	l.Run("sw", "tc", "qdisc", "add", "dev", "pn", "ingress")
	l.Run("sw", "ip", "link", "set", "pn", "master", "br0")
	wantRoles := func(want ...string) {
		t.Helper()
		c := l.refresh()
		if !slices.Equal(c.Roles, want) || len(c.Warnings) != 1 {
			t.Errorf("changes %+v, want roles %v and a warning", c, want)
		}
	}
	wantRoles("a/e0: edge", "b/e0: edge")
	wantRoles() // it was tried again
	l.wantBridgeFlags("a/e0 "+edgePort, "b/e0 "+edgePort, "sw/br0 bridge", "sw/pu bridge-port")
	l.Run("sw", "tc", "qdisc", "del", "dev", "pn", "ingress")
	l.refresh()
	l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "sw/br0 "+devicePort, "sw/pn "+memberPort, "sw/pu "+memberPort)
}

// A member that goes between the look and the deed is no reason to open the bridge,
// nor is one that is taken off then.
func TestBridgeMemberVanishes(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		l.attach("a", "b")
		l.Add("n")
		l.plug("n", "10.0.0.9")
		before := l.flags()
		change := func(what string, want Changes, meanwhile func()) {
			t.Helper()
			h := l.open()
			defer h.Close()
			c, topology, err := h.compare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			meanwhile()
			got, err := h.apply(t.Context(), c, topology)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			wantChanges(t, got, want)
			if diff := cmp.Diff(before, l.flags()); diff != "" {
				t.Errorf("%s: flags (-before +after):\n%s", what, diff)
			}
		}
		change("new member", Changes{}, func() { l.Run("sw", "ip", "link", "del", "pn") })
		change("nothing", Changes{}, func() {})

		l.plug("n", "10.0.0.9")
		l.refresh()
		l.Run("sw", "ip", "link", "set", "pn", "nomaster")
		change("old member", Changes{Removed: []string{l.Name("sw") + "/pn"}}, func() { l.Run("sw", "ip", "link", "del", "pn") })

		// Who attaches more does not fail for it either.
		l.plug("n", "10.0.0.9")
		p, err := prepare(t.Context(), l.request("u"))
		if err != nil {
			t.Fatal(err)
		}
		l.Run("sw", "ip", "link", "del", "pn")
		var undo undo
		h, err := p.open(&undo)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close(h)
		if err := (&applier{h: h, c: p.change, undo: &undo}).run(t.Context()); err != nil {
			t.Error(err)
		}
		l.wantBridgeFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "sw/br0 "+devicePort, "u/e0 "+internalPort)
	})
}

// The user may name the bridge's namespace: then the bridge is inside a node.
func TestBridgeNodeIsNamed(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		l.attach("a")
		l.attach("sw")
		l.wantFlags("a/e0 "+internalPort, "sw/pa "+internalPort, "sw/pb "+edgePort, "sw/pu "+edgePort)
		l.detach("sw")
		l.wantBridgeFlags("a/e0 "+internalPort, "sw/br0 "+devicePort, "sw/pb "+memberPort, "sw/pu "+memberPort)
	})
}

// A node that is named as the closing node would be keeps its name.
func TestBridgeNameClash(t *testing.T) {
	l := newBridgeLab(t, program.HookTCX)
	r := l.attach("a")
	if got := r.Domain.Nodes[1]; got.Name != l.Name("sw") || !got.Auto {
		t.Errorf("node %+v", got)
	}
	specs := l.specs("b")
	specs[0].Name = l.Name("sw")
	r, err := Attach(t.Context(), AttachRequest{Domain: l.domain, Nodes: specs})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range r.Domain.Nodes {
		names = append(names, strings.ReplaceAll(n.Name, l.Name("sw"), "sw"))
	}
	if diff := cmp.Diff([]string{"a", "sw-2", "sw"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// Attaching a node again says so.
func TestAttachAgain(t *testing.T) {
	l := newBridgeLab(t, program.HookTCX)
	l.attach("a")
	specs := l.specs("a")
	specs[0].Spec = "netns:" + specs[0].Path
	r, err := Attach(t.Context(), AttachRequest{Domain: l.domain, Nodes: specs})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "attached already") {
		t.Errorf("warnings %q", r.Warnings)
	}
	if got := r.Domain.Nodes[0].Spec; got != specs[0].Spec {
		t.Errorf("the node is still reached by %s", got)
	}
}

// TestBridgeSetsNumbers: ports on a bridge whose rules set the IP ID are edges, and it is said why. They are inside
// again when the rule is gone.
func TestBridgeSetsNumbers(t *testing.T) {
	l := newBridgeLab(t, program.HookAuto)
	l.Run("sw", "nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c ip id set 5")
	r := l.attach("a", "b")
	why := func(texts []string) bool {
		return slices.ContainsFunc(texts, func(s string) bool {
			return strings.Contains(s, "/br0: a rule sets the IP ID or the flow label (nft bridge t c: ip id set 5): ports on it are edges")
		})
	}
	if !why(r.Warnings) {
		t.Errorf("attach says %q", r.Warnings)
	}
	l.wantFlags("a/e0 in|out", "b/e0 in|out")
	l.Run("sw", "nft", "delete table bridge t")
	if c := l.refresh(); len(c.Roles) != 2 {
		t.Errorf("without the rule: %+v", c)
	}
	l.Run("sw", "nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c ip id set 5")
	if c := l.refresh(); !why(c.Warnings) || len(c.Roles) != 2 {
		t.Errorf("with the rule again: %+v", c)
	}
	l.wantFlags("a/e0 in|out", "b/e0 in|out")
}
