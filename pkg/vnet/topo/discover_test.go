// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// discover parses the nodes by their short names and discovers them.
func discover(t testing.TB, n *nstest.Net, roles []RoleOverride, names ...string) *Topology {
	t.Helper()
	topology, err := Discover(specs(t, n, names...), roles)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func specs(t testing.TB, n *nstest.Net, names ...string) []NodeSpec {
	t.Helper()
	args := make([]string, len(names))
	for i, name := range names {
		args[i] = n.Spec(name)
	}
	s, err := ParseSpecs(args)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// picture shows each port as "node/port kind role peer", sorted.
func picture(topology *Topology) []string {
	var lines []string
	for _, n := range topology.Nodes {
		for _, p := range n.Ports {
			peer := "-"
			if p.Peer != nil {
				peer = topology.Nodes[p.Peer.Node].Name + "/" + topology.Port(*p.Peer).Name
			}
			lines = append(lines, fmt.Sprintf("%s/%s %s %s %s", n.Name, p.Name, p.Kind, p.Role, peer))
		}
	}
	slices.Sort(lines)
	return lines
}

func wantPicture(t *testing.T, topology *Topology, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, picture(topology)); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
}

func TestDiscoverPeers(t *testing.T) {
	n := nstest.New(t, "a", "r", "b", "out")
	n.Veth("a", "e0", "r", "e0")
	n.Veth("r", "e1", "b", "e0")
	n.Veth("r", "up", "out", "e0") // its other end is not attached
	n.Veth("b", "x0", "b", "x1")   // both ends in one node

	wantPicture(t, discover(t, n, nil, "a", "r", "b"),
		"a/e0 veth internal r/e0",
		"b/e0 veth internal r/e1",
		"b/x0 veth internal b/x1",
		"b/x1 veth internal b/x0",
		"r/e0 veth internal a/e0",
		"r/e1 veth internal b/e0",
		"r/up veth edge -",
	)
	wantPicture(t, discover(t, n, nil, "a", "b"),
		"a/e0 veth edge -",
		"b/e0 veth edge -",
		"b/x0 veth internal b/x1",
		"b/x1 veth internal b/x0",
	)
}

// Numbers of interfaces are per namespace: a peer must not be taken for another
// one that has the same number and points at the same number.
func TestDiscoverPeersWithEqualNumbers(t *testing.T) {
	n := nstest.New(t, "a", "b", "c", "d", "out")
	n.Veth("a", "e0", "b", "e0", 100)
	n.Veth("c", "e0", "d", "e0", 100)
	for _, pair := range [][2]string{{"a", "c"}, {"b", "d"}} {
		if x, y := n.Index(pair[0], "e0"), n.Index(pair[1], "e0"); x != y {
			t.Fatalf("the test wants %s/e0 and %s/e0 to have one number, they have %d and %d", pair[0], pair[1], x, y)
		}
	}
	wantPicture(t, discover(t, n, nil, "d", "c", "b", "a"),
		"a/e0 veth internal b/e0",
		"b/e0 veth internal a/e0",
		"c/e0 veth internal d/e0",
		"d/e0 veth internal c/e0",
	)
	wantPicture(t, discover(t, n, nil, "a", "d"),
		"a/e0 veth edge -",
		"d/e0 veth edge -",
	)
}

func TestDiscoverKinds(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	n.Run("a", "ip", "link", "add", "br0", "type", "bridge")
	n.Run("a", "ip", "link", "set", "e0", "master", "br0")
	n.Run("a", "ip", "tuntap", "add", "tap0", "mode", "tap")
	n.Run("a", "ip", "tuntap", "add", "tun0", "mode", "tun")
	n.Run("a", "ip", "link", "add", "vx0", "type", "vxlan", "id", "7", "dstport", "4789", "dev", "e0", "remote", "192.0.2.1")
	n.Run("a", "ip", "link", "add", "ifb0", "type", "ifb")
	n.Run("b", "ip", "link", "add", "mv0", "link", "e0", "type", "macvlan")
	n.Run("b", "ip", "link", "add", "mv1", "link", "e0", "netns", n.Name("a"), "type", "macvlan")

	topology := discover(t, n, nil, "a", "b")
	wantPicture(t, topology,
		"a/e0 veth internal b/e0",
		"a/mv1 macvlan edge -",
		"a/tap0 tuntap edge -",
		"a/tun0 tuntap edge -",
		"a/vx0 vxlan edge -",
		"b/e0 veth internal a/e0",
	)
	for _, p := range topology.Nodes[0].Ports {
		if p.L3 != (p.Name == "tun0") {
			t.Errorf("%s: L3 is %v", p.Name, p.L3)
		}
		if p.Up != (p.Name == "e0") {
			t.Errorf("%s: Up is %v", p.Name, p.Up)
		}
	}
}

// Kinds that the kernel under test may lack.
func TestAttachable(t *testing.T) {
	lower := netlink.LinkAttrs{Name: "x", ParentIndex: 2, NetNsID: -1}
	elsewhere := netlink.LinkAttrs{Name: "x", ParentIndex: 2, NetNsID: 0}
	for _, c := range []struct {
		link netlink.Link
		want bool
	}{
		{&netlink.Vlan{LinkAttrs: lower}, false},
		{&netlink.Vlan{LinkAttrs: elsewhere}, true},
		{&netlink.Bond{LinkAttrs: lower}, false},
		{&netlink.Vrf{LinkAttrs: lower}, false},
		{&netlink.Dummy{}, true},
		{&netlink.Device{}, true},
		{&netlink.Wireguard{}, true},
		{&netlink.Gretun{}, true},
		{&netlink.IPVlan{LinkAttrs: lower}, false},
		{&netlink.IPVlan{LinkAttrs: elsewhere}, true},
		{&netlink.GenericLink{LinkType: "openvswitch"}, false},
		{&netlink.GenericLink{LinkType: "nlmon"}, false},
	} {
		if got := attachable(c.link); got != c.want {
			t.Errorf("attachable(%s %+v) = %v", c.link.Type(), c.link.Attrs().ParentIndex, got)
		}
	}
}

func TestDiscoverLocals(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	n.Address("a", "e0", "10.1.0.1/24")
	n.Address("a", "e0", "10.1.0.9/24")
	n.Address("a", "lo", "192.0.2.77/32")
	n.Run("a", "ip", "route", "add", "local", "198.51.100.0/24", "dev", "lo")               // any address of it
	n.Run("a", "ip", "route", "add", "local", "203.0.113.5/32", "dev", "lo", "table", "99") // as a VRF has
	n.Run("a", "ip", "route", "add", "10.9.0.0/16", "via", "10.1.0.2")
	n.Address("a", "e0", "2001:db8:1::1/64")
	n.Address("a", "e0", "fd00::1/128")
	n.Run("a", "ip", "-6", "route", "add", "local", "2001:db8:99::/64", "dev", "lo") // any address of it
	n.Run("a", "ip", "-6", "route", "add", "2001:db8:8::/64", "via", "2001:db8:1::2")
	linkLocal := strings.Fields(n.Run("a", "ip", "-6", "-br", "address", "show", "dev", "e0", "scope", "link"))[2]
	linkLocal, _, _ = strings.Cut(linkLocal, "/")
	topology := discover(t, n, nil, "a")
	got := topology.Nodes[0].Locals
	slices.SortFunc(got, netip.Addr.Compare)
	var want []netip.Addr
	for _, s := range []string{"10.1.0.1", "10.1.0.9", "127.0.0.1", "192.0.2.77", "203.0.113.5", "::1", "2001:db8:1::1", "fd00::1", linkLocal} {
		want = append(want, netip.MustParseAddr(s))
	}
	slices.SortFunc(want, netip.Addr.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("local addresses %v, want %v", got, want)
	}
	// A router owns the anycast address of its subnets.
	n.Run("a", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	anycast := netip.MustParseAddr("2001:db8:1::")
	if got := discover(t, n, nil, "a").Nodes[0].Locals; !slices.Contains(got, anycast) {
		t.Errorf("local addresses of a router %v, want %v among them", got, anycast)
	}
}

func TestDiscoverRoles(t *testing.T) {
	n := nstest.New(t, "a", "b", "out")
	n.Veth("a", "e0", "b", "e0")
	n.Veth("b", "up", "out", "e0")
	roles := []RoleOverride{{"b", "up", domain.Internal}, {"a", "e0", domain.Edge}}
	topology := discover(t, n, roles, "a", "b")
	wantPicture(t, topology,
		"a/e0 veth edge b/e0",
		"b/e0 veth internal a/e0",
		"b/up veth internal -",
	)
	if len(topology.Notes) != 1 || !strings.Contains(topology.Notes[0], "b/up") {
		t.Errorf("notes: %q, want one that warns of b/up", topology.Notes)
	}
	for _, bad := range []RoleOverride{{"c", "e0", domain.Edge}, {"a", "e9", domain.Edge}} {
		_, err := Discover(specs(t, n, "a", "b"), []RoleOverride{bad})
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), bad.Node+"/"+bad.Port) {
			t.Errorf("role for %s/%s: %v", bad.Node, bad.Port, err)
		}
	}
}

// What is sent to a port with an XDP program must be restored before.
func TestDiscoverXDP(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	attachXDP(t, n, "b", "e0")
	topology := discover(t, n, nil, "a", "b")
	wantPicture(t, topology, "a/e0 veth edge b/e0", "b/e0 veth internal a/e0")
	if len(topology.Notes) != 1 || !strings.Contains(topology.Notes[0], "b/e0") {
		t.Errorf("notes: %q", topology.Notes)
	}
}

func TestDiscoverGone(t *testing.T) {
	n := nstest.New(t, "a")
	s := specs(t, n, "a")
	n.Delete("a")
	if _, err := Discover(s, nil); !errors.Is(err, ErrGone) {
		t.Errorf("Discover of a namespace that is gone: %v", err)
	}
}

func TestParseRole(t *testing.T) {
	got, err := ParseRole("r1/eth0.5=internal")
	if want := (RoleOverride{"r1", "eth0.5", domain.Internal}); err != nil || got != want {
		t.Errorf("ParseRole = %v, %v", got, err)
	}
	for _, bad := range []string{"", "r1", "r1/e0", "r1=edge", "/e0=edge", "r1/=edge", "r1/e0=sink", "r1/e0="} {
		if _, err := ParseRole(bad); !errors.Is(err, fault.Usage) {
			t.Errorf("ParseRole(%q): %v", bad, err)
		}
	}
}

// BenchmarkDiscover looks at 200 routers in a torus: 800 ports, all with peers.
func BenchmarkDiscover(b *testing.B) {
	const side = 20
	n := nstest.New(b)
	var names []string
	for i := range side * side / 2 {
		names = append(names, fmt.Sprintf("n%d", i))
		n.Add(names[i])
	}
	for i := range names {
		n.Veth(names[i], "right", names[(i+1)%len(names)], "left")
		n.Veth(names[i], "down", names[(i+side)%len(names)], "up")
		n.Address(names[i], "right", fmt.Sprintf("10.%d.%d.1/24", i/256, i%256))
	}
	s := specs(b, n, names...)
	ports := 0
	for b.Loop() {
		topology, err := Discover(s, nil)
		if err != nil {
			b.Fatal(err)
		}
		ports = 0
		for _, node := range topology.Nodes {
			for _, p := range node.Ports {
				if p.Role != domain.Internal {
					b.Fatalf("%s/%s has no peer", node.Name, p.Name)
				}
				ports++
			}
		}
	}
	b.ReportMetric(float64(ports), "ports")
}
