// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// learn adds to a tunnel's forwarding table what the kernel adds when a frame comes from a
// far end.
func learn(n *nstest.Net, node, farEnd string) {
	n.Run(node, "bridge", "fdb", "add", "02:00:00:00:00:01", "dev", "vx", "dst", farEnd, "self", "dynamic")
}

// A way that packets of a tunnel can take to the outside makes an edge of it, whichever
// way the first packet takes. Beside r, x leads from a to b.
func TestTunnelWays(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(n *nstest.Net)
		attach []string
		role   domain.Role
		note   string
	}{
		{"one way", func(*nstest.Net) {}, []string{"a", "r", "b"}, domain.Internal, ""},
		{"another way", func(n *nstest.Net) {
			n.Run("a", "ip", "route", "add", "10.0.2.0/24", "via", "10.0.3.2")
		}, []string{"a", "r", "b"}, domain.Edge, "leave the domain at a/e1"},
		{"two ways", func(n *nstest.Net) {
			n.Run("a", "ip", "route", "add", "10.0.2.0/24", "nexthop", "via", "10.0.1.2", "nexthop", "via", "10.0.3.2")
		}, []string{"a", "r", "b"}, domain.Edge, "leave the domain at a/e1"},
		{"two ways with next hops of their own", func(n *nstest.Net) {
			n.Run("a", "ip", "nexthop", "add", "id", "1", "via", "10.0.1.2", "dev", "e0")
			n.Run("a", "ip", "nexthop", "add", "id", "2", "via", "10.0.3.2", "dev", "e1")
			n.Run("a", "ip", "nexthop", "add", "id", "3", "group", "1/2")
			n.Run("a", "ip", "route", "add", "10.0.2.0/24", "nhid", "3")
		}, []string{"a", "r", "b"}, domain.Edge, "leave the domain at a/e1"},
		// What a's tunnel sends by itself (MLD reports, within a second) has the address of
		// either way, by a hash whose seed the kernel draws at boot. b learns that address as
		// a far end, so r needs a route back to both.
		{"two ways inside", func(n *nstest.Net) {
			n.Run("a", "ip", "route", "add", "10.0.2.0/24", "nexthop", "via", "10.0.1.2", "nexthop", "via", "10.0.3.2")
			n.Run("r", "ip", "route", "add", "10.0.3.0/24", "via", "10.0.1.1")
			learn(n, "b", "10.0.3.1")
		}, []string{"a", "r", "x", "b"}, domain.Internal, ""},
		{"a far end that was learned has no way back", func(n *nstest.Net) {
			learn(n, "b", "10.0.3.1")
		}, []string{"a", "r", "x", "b"}, domain.Edge, "node r has no route to 10.0.3.1"},
		{"two ways farther on", func(n *nstest.Net) {
			n.Run("r", "ip", "route", "add", "10.0.2.1/32", "nexthop", "via", "10.0.2.1", "nexthop", "via", "10.0.5.2")
		}, []string{"a", "r", "b"}, domain.Edge, "leave the domain at r/e2"},
		{"a rule", func(n *nstest.Net) {
			n.Run("r", "ip", "rule", "add", "from", "10.0.1.1", "table", "7")
			n.Run("r", "ip", "route", "add", "default", "via", "10.0.5.2", "table", "7")
		}, []string{"a", "r", "b"}, domain.Edge, "node r has rules for routing"},
		{"a rule about another version", func(n *nstest.Net) {
			n.Run("r", "ip", "-6", "rule", "add", "from", "2001:db8::1", "table", "7")
		}, []string{"a", "r", "b"}, domain.Internal, ""},
		{"a rule where nothing comes", func(n *nstest.Net) {
			n.Run("x", "ip", "rule", "add", "from", "10.0.1.1", "table", "7")
		}, []string{"a", "r", "x", "b"}, domain.Internal, ""},
		{"bound to another interface", func(n *nstest.Net) {
			n.Run("a", "ip", "route", "add", "10.0.2.0/24", "via", "10.0.3.2", "metric", "50")
			n.Run("a", "ip", "link", "set", "vx", "type", "vxlan", "dev", "e1")
			n.Run("a", "ip", "route", "add", "10.0.2.0/24", "via", "10.0.1.2")
		}, []string{"a", "r", "b"}, domain.Edge, "leave the domain at a/e1"},
		{"no end", func(n *nstest.Net) {
			n.Run("r", "ip", "route", "add", "10.0.2.1/32", "via", "10.0.1.1")
		}, []string{"a", "r", "b"}, domain.Edge, "has no end"},
		{"no way", func(n *nstest.Net) {
			n.Run("r", "ip", "route", "add", "unreachable", "10.0.2.1/32")
		}, []string{"a", "r", "b"}, domain.Edge, "node r has no route to 10.0.2.1"},
		{"moved to another namespace", func(n *nstest.Net) {
			n.Run("a", "ip", "link", "del", "vx")
			n.Run("x", "ip", "link", "add", "vx", "type", "vxlan", "id", "42", "dstport", "4789", "remote", "10.0.2.1")
			n.Run("x", "ip", "link", "set", "vx", "netns", n.Name("a"))
			n.Up("a", "vx")
		}, []string{"a", "r", "b"}, domain.Edge, "travel in another network namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTunnels(t)
			n.Add("x")
			n.Veth("a", "e1", "x", "e0")
			n.Veth("x", "e1", "b", "e1")
			n.Veth("r", "e2", "x", "e2")
			for _, a := range []string{"a e1 10.0.3.1", "x e0 10.0.3.2", "x e1 10.0.4.2", "b e1 10.0.4.1", "r e2 10.0.5.1", "x e2 10.0.5.2"} {
				f := strings.Fields(a)
				n.Address(f[0], f[1], f[2]+"/24")
			}
			n.Run("x", "ip", "route", "add", "10.0.2.0/24", "via", "10.0.4.1")
			vxlan(n, "a", "remote", "10.0.2.1")
			vxlan(n, "b", "remote", "10.0.1.1")
			c.change(n)
			top := discoverNet(t, n, c.attach...)
			for _, node := range []string{"a", "b"} {
				if p := portNamed(t, top, node, "vx"); p.Role != c.role {
					t.Errorf("%s/vx: role %s; notes %q", node, p.Role, top.Notes)
				}
			}
			if notes := strings.Join(top.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "leave the domain") {
				t.Errorf("notes %q, want %q", top.Notes, c.note)
			}
		})
	}
}

// A bridge in an attached node hands a tunnel's packets to its other ports. It has no routes that could be asked.
func TestTunnelOverBridge(t *testing.T) {
	for _, c := range []struct {
		name   string
		attach []string
		role   domain.Role
		note   string
	}{
		{"all attached", []string{"a", "s", "b", "x"}, domain.Internal, ""},
		{"one member leads elsewhere", []string{"a", "s", "b"}, domain.Edge, "leave the domain at s/p2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nstest.New(t, "a", "s", "b", "x")
			n.Run("s", "ip", "link", "add", "br0", "type", "bridge")
			n.Up("s", "br0")
			for i, node := range []string{"a", "b", "x"} {
				port := "p" + strconv.Itoa(i)
				n.Veth(node, "e0", "s", port)
				n.Address(node, "e0", fmt.Sprintf("10.0.0.%d/24", i+1))
				n.Run("s", "ip", "link", "set", port, "master", "br0")
			}
			vxlan(n, "a", "remote", "10.0.0.2")
			vxlan(n, "b", "remote", "10.0.0.1")
			top := discoverNet(t, n, c.attach...)
			for _, node := range []string{"a", "b"} {
				if p := portNamed(t, top, node, "vx"); p.Role != c.role {
					t.Errorf("%s/vx: role %s; notes %q", node, p.Role, top.Notes)
				}
			}
			if notes := strings.Join(top.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "leave the domain") {
				t.Errorf("notes %q, want %q", top.Notes, c.note)
			}
		})
	}
}
