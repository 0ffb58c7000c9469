// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// useUp makes the domain one that has had this many nodes and ports.
func (l *lab) useUp(nodes, ports uint16) {
	l.t.Helper()
	unlock, err := domain.Lock(l.domain)
	if err != nil {
		l.t.Fatal(err)
	}
	defer unlock()
	d, err := domain.Load(l.domain)
	if err != nil {
		l.t.Fatal(err)
	}
	if nodes > 0 {
		d.Nodes = append(d.Nodes, domain.Node{ID: nodes, Name: "gone", Removed: true})
	}
	if ports > 0 {
		d.Ports = append(d.Ports, domain.Port{ID: ports, Node: d.Nodes[0].ID, Name: "gone", Role: domain.Edge, Peer: -1, Removed: true})
	}
	if err := d.Save(); err != nil {
		l.t.Fatal(err)
	}
}

// When numbers are used up, what goes is followed as before, what comes is left out, and
// packets toward it are restored.
func TestPortNumbersUsedUp(t *testing.T) {
	need.Nightly(t) // TestNodeNumbersUsedUp stays
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.attach(chain...)
		l.useUp(0, domain.MaxPorts-2)
		l.Veth("a", "x0", "b", "x0") // one of these gets the last number
		l.Run("r", "ip", "link", "del", "e0")
		h := l.open()
		c, err := h.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "has had 16383 interfaces") {
			t.Errorf("warnings %q", c.Warnings)
		}
		c.Warnings = nil
		wantChanges(t, c, Changes{Added: []string{"a/x0"}, Removed: []string{"a/e0", "r/e0"}})
		l.wantFlags("a/x0 "+edgePort, "b/e0 "+internalPort, "r/e1 "+internalPort)
		if c, err = h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, c, Changes{}) // the warning was told

		r := l.attach() // as whoever brings the agent back does
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "not attached: b/x0: ") {
			t.Errorf("attaching again: warnings %q", r.Warnings)
		}
		l.Add("late")
		l.Veth("late", "e0", "b", "e2")
		if _, err := Attach(t.Context(), l.request("late")); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "node late: domain") {
			t.Errorf("attach of a further node: %v", err)
		}
		l.wantFlags("a/x0 "+edgePort, "b/e0 "+internalPort, "r/e1 "+internalPort)

		l.Delete("b")
		waitGone(t, l, "r", "e1")
		if c, err = h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, c, Changes{Removed: []string{"a/x0", "b/e0", "r/e1"}, NodesGone: []string{"b"}})
		h.Close()
		l.detachAll()
	})
}

// A closing node that finds no number leaves its link open; one of the user's is refused.
func TestNodeNumbersUsedUp(t *testing.T) {
	l := newBridgeLab(t, program.HookTCX)
	l.Add("alone")
	l.attach("alone")
	l.useUp(domain.MaxNodes-2, 0)
	r := l.attach("a") // the last number
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "not attached: "+l.Name("sw")+"/br0, ") {
		t.Errorf("warnings %q", r.Warnings)
	}
	l.wantFlags("a/e0 " + edgePort)
	d, err := domain.Load(l.domain)
	if err != nil {
		t.Fatal(err)
	}
	if last := d.Nodes[len(d.Nodes)-1]; last.ID != domain.MaxNodes-1 || last.Name != "a" {
		t.Errorf("the last node is %+v", last)
	}
	l.Add("c")
	l.plug("c", "10.0.0.9")
	if _, err := Attach(t.Context(), l.request("c")); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "node c: domain") ||
		!strings.Contains(err.Error(), "has had 4095 nodes") {
		t.Errorf("attach of a further node: %v", err)
	}
	l.detachAll()
}

// A member of a bridge that finds no number opens the link: the attached ends restore, and
// so do tunnels, whose way may lead over it.
func TestBridgeMemberWithoutNumber(t *testing.T) {
	need.Nightly(t) // TestHeaderNodeWithoutNumber stays
	anyHook(t, func(t *testing.T, hook string) {
		l := newBridgeLab(t, hook)
		for i, name := range []string{"a", "b"} {
			l.Run(name, "ip", "link", "add", "vx", "type", "vxlan", "id", "7", "dstport", "4789",
				"local", fmt.Sprintf("10.0.0.%d", 1+i), "remote", fmt.Sprintf("10.0.0.%d", 2-i), "dev", "e0")
			l.Up(name, "vx")
		}
		l.attach("a", "b")
		closed := []string{"a/e0 " + internalPort, "a/vx " + internalPort + "|tunnel", "b/e0 " + internalPort, "b/vx " + internalPort + "|tunnel", "sw/br0 " + devicePort, "sw/pu " + memberPort}
		l.wantBridgeFlags(closed...)
		l.useUp(0, domain.MaxPorts-1)
		l.Add("late")
		l.plug("late", "10.0.0.9")
		h := l.open()
		for range 2 {
			if _, err := h.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.wantBridgeFlags("a/e0 "+edgePort, "a/vx "+edgePort, "b/e0 "+edgePort, "b/vx "+edgePort, "sw/br0 bridge", "sw/pu bridge-port") // restoring
		}
		l.Delete("late")
		waitGone(t, l, "sw", "plate")
		if _, err := h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.wantBridgeFlags(closed...)
	})
}

// A node that carries the GUID in the header must not send anything by an interface that is
// not attached: it is taken out.
func TestHeaderNodeWithoutNumber(t *testing.T) {
	l := newChain(t, program.HookTCX)
	req := l.request(chain...)
	req.CarryHeader = []string{"r"}
	if _, err := Attach(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	l.useUp(0, domain.MaxPorts-1)
	l.Add("late")
	l.Veth("r", "e2", "late", "e0")
	c := l.refresh()
	if len(c.Warnings) != 1 || !slices.Equal(c.NodesGone, []string{"r"}) {
		t.Errorf("changes %+v", c)
	}
	l.wantFlags("a/e0 "+edgePort, "b/e0 "+edgePort)
	wantChanges(t, l.refresh(), Changes{})
	l.detachAll()
}

// TestPortNumbersOfOneNode: a node that makes interfaces again and again uses up no numbers but
// its own, and its newest one is measured as well as any; one that has too many at a time gets
// no more. Others go on.
func TestPortNumbersOfOneNode(t *testing.T) {
	runAlone(t)
	was := merge.PortsPerNode
	merge.PortsPerNode = 4
	t.Cleanup(func() { merge.PortsPerNode = was })
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.attach(chain...)
		h := l.open()
		refresh := func() *Changes {
			t.Helper()
			c, err := h.Refresh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		for i := range 3 * merge.PortsPerNode {
			name := fmt.Sprint("x", i%5)
			l.Run("a", "ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", l.Name("b"))
			l.Run("a", "ip", "link", "set", name, "up")
			l.Run("b", "ip", "link", "set", name, "up")
			c := refresh()
			wantChanges(t, c, Changes{Added: []string{"a/" + name, "b/" + name}})
			l.wantFlags("a/e0 "+internalPort, "a/"+name+" "+internalPort, "b/e0 "+internalPort, "b/"+name+" "+internalPort,
				"r/e0 "+internalPort, "r/e1 "+internalPort)
			l.Run("a", "ip", "link", "del", name)
			wantChanges(t, refresh(), Changes{Removed: []string{"a/" + name, "b/" + name}})
		}
		for _, p := range h.Domain.Ports {
			if int(p.ID) > 3*merge.PortsPerNode {
				t.Errorf("%s has number %d", merge.PortName(h.Domain, &p), p.ID)
			}
		}
		for i := range merge.PortsPerNode / 2 {
			l.Run("a", "ip", "link", "add", fmt.Sprint("y", i), "type", "veth", "peer", "name", fmt.Sprint("yy", i))
		}
		c := refresh()
		if len(c.Added) != merge.PortsPerNode-1 || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "a node can have 4 interfaces at a time") {
			t.Errorf("too many at a time: %+v", c)
		}
		l.Add("late")
		l.Veth("late", "e0", "b", "e2")
		h.Close()
		if r := l.attach("late"); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "not attached: a/y") {
			t.Errorf("attaching another node: warnings %q", r.Warnings)
		}
		l.ping()
		l.detachAll()
	})
}
