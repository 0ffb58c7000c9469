// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// newTunnels makes a chain a - r - b that routes, for tunnels between a and b.
func newTunnels(t *testing.T) *nstest.Net {
	t.Helper()
	n := nstest.New(t, "a", "r", "b")
	n.Chain()
	return n
}

// vxlan makes a VXLAN interface vx in a node.
func vxlan(n *nstest.Net, node string, args ...string) {
	n.Run(node, append([]string{"ip", "link", "add", "vx", "type", "vxlan", "id", "42", "dstport", "4789"}, args...)...)
	n.Run(node, "ip", "link", "set", "vx", "up")
}

func discoverNet(t *testing.T, n *nstest.Net, names ...string) *Topology {
	t.Helper()
	var args []string
	for _, name := range names {
		args = append(args, n.Spec(name))
	}
	specs, err := ParseSpecs(args)
	if err != nil {
		t.Fatal(err)
	}
	top, err := Discover(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// portNamed finds a port of a node.
func portNamed(t *testing.T, top *Topology, node, name string) *Port {
	t.Helper()
	p, err := top.find(node, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A tunnel between attached nodes is a link; one that leads elsewhere, or whose packets
// leave the domain on their way, is an edge, and a note says why.
func TestTunnels(t *testing.T) {
	for _, c := range []struct {
		name     string
		a, b     []string
		attach   []string
		role     domain.Role
		inherits bool
		note     string
	}{
		{"pair", []string{"remote", "10.0.2.1"}, []string{"remote", "10.0.1.1", "local", "10.0.2.1"},
			[]string{"a", "r", "b"}, domain.Internal, false, ""},
		{"one end inherits", []string{"remote", "10.0.2.1"}, []string{"remote", "10.0.1.1", "ttl", "inherit"},
			[]string{"a", "r", "b"}, domain.Internal, true, ""},
		{"tos", []string{"remote", "10.0.2.1", "tos", "inherit"}, []string{"remote", "10.0.1.1"},
			[]string{"a", "r", "b"}, domain.Internal, true, ""},
		{"router outside", []string{"remote", "10.0.2.1"}, []string{"remote", "10.0.1.1"},
			[]string{"a", "b"}, domain.Edge, false, "leave the domain at a/e0"},
		{"far end outside", []string{"remote", "10.0.2.1"}, []string{"remote", "10.0.1.1"},
			[]string{"a", "r"}, domain.Edge, false, "no attached node owns 10.0.2.1"},
		{"other far end outside", []string{"remote", "10.0.2.1"}, []string{"remote", "10.0.9.9"},
			[]string{"a", "r", "b"}, domain.Edge, false, "others, which are not attached"},
		{"no remote", []string{"local", "10.0.1.1", "nolearning"}, []string{"remote", "10.0.1.1"},
			[]string{"a", "r", "b"}, domain.Edge, false, "it has no far end"},
		{"external", []string{"external"}, []string{"remote", "10.0.1.1"},
			[]string{"a", "r", "b"}, domain.Edge, false, "each packet's route"},
		{"group", []string{"group", "239.1.1.1", "dev", "e0"}, []string{"remote", "10.0.1.1"},
			[]string{"a", "r", "b"}, domain.Edge, false, "whoever joins 239.1.1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTunnels(t)
			if c.name == "external" {
				n.Run("a", "ip", "link", "add", "vx", "type", "vxlan", "dstport", "4789", "external")
				n.Run("a", "ip", "link", "set", "vx", "up")
			} else {
				vxlan(n, "a", c.a...)
			}
			vxlan(n, "b", c.b...)
			top := discoverNet(t, n, c.attach...)
			p := portNamed(t, top, "a", "vx")
			if p.Role != c.role || p.Tunnel == nil || p.Tunnel.Inside != (c.role == domain.Internal) {
				t.Errorf("role %s, tunnel %+v; notes %q", p.Role, p.Tunnel, top.Notes)
			}
			if c.role == domain.Internal && (p.Peer == nil || top.Port(*p.Peer).Name != "vx" || p.Tunnel.Inherits != c.inherits) {
				t.Errorf("peer %v, inherits %v", p.Peer, p.Tunnel.Inherits)
			}
			if !strings.Contains(strings.Join(top.Notes, "\n"), c.note) {
				t.Errorf("notes %q, want %q", top.Notes, c.note)
			}
		})
	}
}

// Without a remote the forwarding table says where the far ends are. Three ends hang on
// a link; one entry that leads outside makes edges of all.
func TestTunnelForwardingTable(t *testing.T) {
	n := newTunnels(t)
	ends := map[string]string{"a": "10.0.1.1", "r": "10.0.2.2", "b": "10.0.2.1"}
	for node := range ends {
		vxlan(n, node, "nolearning")
		for other, addr := range ends {
			if other != node {
				n.Run(node, "bridge", "fdb", "append", "00:00:00:00:00:00", "dev", "vx", "dst", addr)
			}
		}
	}
	top := discoverNet(t, n, "a", "r", "b")
	for node := range ends {
		p := portNamed(t, top, node, "vx")
		if p.Role != domain.Internal || p.Link != "vxlan 42 of a/vx" || p.Peer != nil {
			t.Errorf("%s/vx: role %s, link %q", node, p.Role, p.Link)
		}
	}
	n.Run("b", "bridge", "fdb", "append", "00:00:00:00:00:00", "dev", "vx", "dst", "10.0.9.9")
	top = discoverNet(t, n, "a", "r", "b")
	for node := range ends {
		if p := portNamed(t, top, node, "vx"); p.Role != domain.Edge || p.Link != "" {
			t.Errorf("%s/vx beside a far end outside: role %s, link %q", node, p.Role, p.Link)
		}
	}
}

// A tunnel that takes whatever no other does (tunl0, gre0: every namespace has them once
// the module is loaded) is not the far end of one that has its own.
func TestTunnelFallback(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.2.1")
	top := &Topology{Nodes: []Node{{Locals: []netip.Addr{a}}, {Locals: []netip.Addr{b}}}}
	any := func(node, port int) *tunnel { return &tunnel{kind: "ipip", ref: PortRef{node, port}} }
	near := &tunnel{kind: "ipip", ref: PortRef{0, 1}, local: a, remote: b, outer: []netip.Addr{b}}
	far := &tunnel{kind: "ipip", ref: PortRef{1, 1}, local: b, remote: a, outer: []netip.Addr{a}}
	half := &tunnel{kind: "ipip", ref: PortRef{1, 2}, local: b}
	for _, c := range []struct {
		name string
		all  []*tunnel
		want int
	}{
		{"alone", []*tunnel{any(0, 0), near, far}, 2},
		{"fallback first", []*tunnel{any(0, 0), near, any(1, 0), far}, 3},
		{"fallback last", []*tunnel{near, far, any(1, 0)}, 1},
		{"half", []*tunnel{near, half, any(1, 0), far}, 3},
		{"fallback only", []*tunnel{near, any(1, 0)}, 1},
		{"none", []*tunnel{near, any(0, 0)}, -1},
	} {
		if got := top.endAt(c.all, near, 1); got != c.want {
			t.Errorf("%s: the far end is %d, want %d", c.name, got, c.want)
		}
	}
}

// GRE over IPv6 says in flags what GRE over IPv4 says in its TOS. Few kernels have it
// built in: the messages are as they are sent.
func TestInheritsOverIPv6(t *testing.T) {
	for _, c := range []struct {
		kind  string
		flags uint32
		want  bool
	}{
		{"ip6gre", 0, false}, {"ip6gre", 0x2, true}, {"ip6gretap", 0x4, true},
		{"ip6gre", 0x8, false}, // IP6_TNL_F_RCV_DSCP_COPY: about what comes in
		{"gre", 0x2, false},    // it has no such attribute
	} {
		m := nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize()
		name := nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("g"))
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.ZeroTerminated(c.kind))
		data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
		data.AddRtAttr(nl.IFLA_GRE_TTL, []byte{64})
		data.AddRtAttr(nl.IFLA_GRE_FLAGS, nl.Uint32Attr(c.flags))
		m = append(append(m, name.Serialize()...), info.Serialize()...)
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if tun := newTunnel(l, inheritsOuter(m)); tun == nil || tun.inherits != c.want {
			t.Errorf("%s with flags %#x: %+v, want %v", c.kind, c.flags, tun, c.want)
		}
	}
}
