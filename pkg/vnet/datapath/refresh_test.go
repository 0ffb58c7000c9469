// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func wantChanges(t *testing.T, got *Changes, want Changes) {
	t.Helper()
	slices.Sort(got.Added)
	slices.Sort(got.Removed)
	slices.Sort(got.Roles)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestRefresh(t *testing.T) {
	bothHooks(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.attach(chain...)
		wantChanges(t, l.refresh(), Changes{})

		l.Veth("a", "x0", "b", "x0")
		wantChanges(t, l.refresh(), Changes{Added: []string{"a/x0", "b/x0"}})
		l.wantFlags("a/e0 "+internalPort, "a/x0 "+internalPort, "b/e0 "+internalPort,
			"b/x0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)

		l.Run("a", "ip", "link", "del", "x0")
		l.Run("r", "ip", "link", "set", "e1", "name", "east")
		wantChanges(t, l.refresh(), Changes{Removed: []string{"a/x0", "b/x0"}})
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/east "+internalPort)

		l.Delete("b")
		waitGone(t, l, "r", "east")
		wantChanges(t, l.refresh(), Changes{Removed: []string{"b/e0", "r/east"}, NodesGone: []string{"b"}})
		l.wantFlags("a/e0 "+internalPort, "r/e0 "+internalPort)
		wantChanges(t, l.refresh(), Changes{})

		objects := l.objects()
		if got := objects.portLinks; hook == program.HookTCX && got != 2*2 {
			t.Errorf("%d links of ports, want 4", got)
		}
		l.detach()
		l.wantNothing(objects)
	})
}

func waitGone(t *testing.T, l *lab, node, link string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, err := l.Try(node, "ip", "link", "show", link); err != nil {
			return
		}
	}
	t.Fatalf("%s/%s is still there", node, link)
}

// The other end moves out of the domain: what leaves toward it must be restored.
func TestRefreshPeerMoves(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.Add("out")
		l.attach(chain...)
		l.Run("b", "ip", "link", "set", "e0", "netns", l.Name("out"))
		wantChanges(t, l.refresh(), Changes{Removed: []string{"b/e0"}, Roles: []string{"r/e1: edge"}})
		l.wantFlags("a/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+edgePort)

		l.Run("out", "ip", "link", "set", "e0", "netns", l.Name("b"))
		wantChanges(t, l.refresh(), Changes{Added: []string{"b/e0"}, Roles: []string{"r/e1: internal"}})
		// Until it is up, it may go again without a sign.
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+edgePort)
		l.Up("b", "e0")
		wantChanges(t, l.refresh(), Changes{})
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
	})
}

// A note is told when something changes, not at every look.
func TestRefreshNotes(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.attach(chain...)
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	index := l.Index("b", "e0")
	err = l.specs("b")[0].Do(func() error {
		x, err := link.AttachXDP(link.XDPOptions{Program: pass, Interface: index})
		if err == nil {
			t.Cleanup(func() { x.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c := l.refresh()
	if len(c.Warnings) != 1 || !slices.Equal(c.Roles, []string{"r/e1: edge"}) {
		t.Errorf("changes %+v", c)
	}
	wantChanges(t, l.refresh(), Changes{})
}

// An interface is replaced by another one of the same number: it needs programs.
func TestRefreshSameNumber(t *testing.T) {
	need.Nightly(t) // TestRefreshPeerMoves stays
	anyHook(t, func(t *testing.T, hook string) {
		l := newLab(t, hook, "a", "b")
		l.Veth("a", "e0", "b", "e0", 77)
		before := l.attach("a", "b").Domain
		l.Run("a", "ip", "link", "del", "e0")
		l.Veth("a", "e0", "b", "e0", 77)
		if l.Index("a", "e0") != 77 {
			t.Fatal("the test wants the same number")
		}
		wantChanges(t, l.refresh(), Changes{Added: []string{"a/e0", "b/e0"}, Removed: []string{"a/e0", "b/e0"}})
		after, err := domain.Load(l.domain)
		if err != nil {
			t.Fatal(err)
		}
		p := l.port(after, "a", "e0")
		if p.ID == l.port(before, "a", "e0").ID {
			t.Error("another interface has the number of a port that is gone")
		}
		wantAttached(t, l, after, "a", "e0")
		wantAttached(t, l, after, "b", "e0")
		var id uint32
		dev := bpfobj.TcRdrDev{NetnsInum: after.Nodes[0].Inum, Ifindex: 77}
		if err := l.open().maps[bpfobj.TcMapDevs].Lookup(&dev, &id); err != nil || id != uint32(p.ID) {
			t.Errorf("device 77 is port %d (%v), want %d", id, err, p.ID)
		}
	})
}

func wantAttached(t *testing.T, l *lab, d *domain.Domain, node, name string) {
	t.Helper()
	p := l.port(d, node, name)
	ok := false
	if err := l.specs(node)[0].Do(func() error { ok = port.At(d, p).Stands(); return nil }); err != nil || !ok {
		t.Errorf("%s/%s is attached: %v, %v", node, name, ok, err)
	}
}

// Programs that someone took off come back.
func TestRefreshMends(t *testing.T) {
	l := newChain(t, program.HookClsact)
	l.attach(chain...)
	l.Run("r", "tc", "qdisc", "del", "dev", "e1", "clsact")
	wantChanges(t, l.refresh(), Changes{Added: []string{"r/e1"}, Removed: []string{"r/e1"}})
	d, err := domain.Load(l.domain)
	if err != nil {
		t.Fatal(err)
	}
	wantAttached(t, l, d, "r", "e1")
	before := l.flags()
	wantChanges(t, l.refresh(), Changes{})
	if diff := cmp.Diff(before, l.flags()); diff != "" {
		t.Errorf("flags (-before +after):\n%s", diff)
	}
}

// A port that cannot be attached is left out, and does not harm the others.
func TestRefreshLeavesOut(t *testing.T) {
	l := newChain(t, program.HookClsact)
	l.attach(chain...)
	l.Veth("r", "x0", "b", "x0")
	l.Run("r", "tc", "qdisc", "add", "dev", "x0", "ingress")
	c := l.refresh()
	if len(c.Warnings) != 1 || len(c.Added) != 1 || c.Added[0] != "b/x0" {
		t.Errorf("changes %+v", c)
	}
	// Its other end is an edge: nobody would restore behind it.
	l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "b/x0 "+edgePort, "r/e0 "+internalPort, "r/e1 "+internalPort)
	l.Run("r", "tc", "qdisc", "del", "dev", "x0", "ingress")
	wantChanges(t, l.refresh(), Changes{Added: []string{"r/x0"}, Roles: []string{"b/x0: internal"}})
}

func TestRefreshAddresses(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.attach(chain...)
	h := l.open()
	node := h.Domain.Nodes[1].ID
	key := bpfobj.TcRdrLocal{Node: uint32(node), Addr: 0x09090909}
	var one uint8
	if h.maps[bpfobj.TcMapLocals].Lookup(&key, &one) == nil {
		t.Fatal("an address that nobody has")
	}
	l.Address("r", "lo", "9.9.9.9/32")
	l.refresh()
	if err := h.maps[bpfobj.TcMapLocals].Lookup(&key, &one); err != nil {
		t.Errorf("new address: %v", err)
	}
	l.Run("r", "ip", "addr", "del", "9.9.9.9/32", "dev", "lo")
	l.refresh()
	if h.maps[bpfobj.TcMapLocals].Lookup(&key, &one) == nil {
		t.Error("the address is still there")
	}
}
