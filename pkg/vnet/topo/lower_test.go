// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// lowers shows what stands on another namespace's interface as "node/port kind role lower beside", sorted, with
// closing nodes' names shortened.
func lowers(n *nstest.Net, topology *Topology) (lines []string) {
	for _, node := range topology.Nodes {
		for _, p := range node.Ports {
			if p.Lower == "" {
				continue
			}
			var beside []string
			for _, ref := range p.Beside {
				beside = append(beside, topology.Nodes[ref.Node].Name+"/"+topology.Port(ref).Name)
			}
			line := fmt.Sprintf("%s/%s %s %s %s %s", node.Name, p.Name, p.Kind, p.Role, p.Lower, strings.Join(beside, ","))
			lines = append(lines, strings.TrimSpace(strings.ReplaceAll(line, n.Name("sw"), "sw")))
		}
	}
	slices.Sort(lines)
	return lines
}

func wantLowers(t *testing.T, n *nstest.Net, topology *Topology, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lowers(n, topology)); diff != "" {
		t.Errorf("what stands on others (-want +got):\n%s", diff)
	}
}

// onto makes an interface that stands on one of from, and moves it to another namespace. The kernel may lack its kind.
func onto(t *testing.T, n *nstest.Net, from, device, to, name string, l netlink.Link) {
	t.Helper()
	l.Attrs().Name, l.Attrs().ParentIndex = name, n.Index(from, device)
	err := n.Handle(from).LinkAdd(l)
	if errors.Is(err, unix.EOPNOTSUPP) {
		need.Lack(t, need.Kernel, "this kernel has no "+l.Type())
	}
	if err != nil {
		t.Fatalf("%s on %s/%s: %v", name, from, device, err)
	}
	ns, err := netns.GetFromPath(n.Path(to))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := n.Handle(from).LinkSetNsFd(l, int(ns)); err != nil {
		t.Fatalf("%s to %s: %v", name, to, err)
	}
}

func macvlan(mode netlink.MacvlanMode) netlink.Link { return &netlink.Macvlan{Mode: mode} }

func ipvlan(flag netlink.IPVlanFlag) netlink.Link {
	return &netlink.IPVlan{Mode: netlink.IPVLAN_MODE_L2, Flag: flag}
}

// What a port stands on is the interface of that node, whatever numbers interfaces have, and outside where the
// namespace is not attached. Ports of one interface that reach each other past it know of each other.
func TestDiscoverLower(t *testing.T) {
	n := nstest.New(t, "a", "b", "c", "d")
	n.Veth("a", "e0", "b", "e0", 100)
	for _, to := range []string{"c", "d"} {
		onto(t, n, "b", "e0", to, "mv0", macvlan(netlink.MACVLAN_MODE_BRIDGE))
		onto(t, n, "b", "e0", to, "mv1", macvlan(netlink.MACVLAN_MODE_PRIVATE))
	}
	onto(t, n, "b", "e0", "b", "mv9", macvlan(netlink.MACVLAN_MODE_BRIDGE)) // no port
	wantLowers(t, n, discover(t, n, nil, "d", "c", "b", "a"),
		"c/mv0 macvlan edge b/e0 d/mv0",
		"c/mv1 macvlan edge b/e0",
		"d/mv0 macvlan edge b/e0 c/mv0",
		"d/mv1 macvlan edge b/e0",
	)
	wantLowers(t, n, discover(t, n, nil, "a", "c", "d"),
		"c/mv0 macvlan edge outside d/mv0",
		"c/mv1 macvlan edge outside",
		"d/mv0 macvlan edge outside c/mv0",
		"d/mv1 macvlan edge outside",
	)
}

// A VLAN in its lower device's namespace is no port; one that was moved is what its node has.
func TestDiscoverLowerVLAN(t *testing.T) {
	n := nstest.New(t, "a", "b", "c")
	n.Veth("a", "e0", "b", "e0")
	onto(t, n, "b", "e0", "c", "v8", &netlink.Vlan{VlanId: 8, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
	onto(t, n, "b", "e0", "b", "v9", &netlink.Vlan{VlanId: 9, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
	wantPicture(t, discover(t, n, nil, "a", "b", "c"),
		"a/e0 veth internal b/e0", "b/e0 veth internal a/e0", "c/v8 vlan edge -")
	wantLowers(t, n, discover(t, n, nil, "a", "b", "c"), "c/v8 vlan edge b/e0")
	wantLowers(t, n, discover(t, n, nil, "a", "c"), "c/v8 vlan edge outside")
}

func TestDiscoverLowerIPVlan(t *testing.T) {
	n := nstest.New(t, "a", "b", "c", "d", "e")
	n.Veth("a", "e0", "b", "e0")
	onto(t, n, "b", "e0", "c", "iv0", ipvlan(netlink.IPVLAN_FLAG_BRIDGE))
	onto(t, n, "b", "e0", "d", "iv0", ipvlan(netlink.IPVLAN_FLAG_BRIDGE))
	n.Run("a", "ip", "link", "add", "sub0", "type", "veth", "peer", "name", "sub1")
	onto(t, n, "a", "sub0", "e", "iv0", ipvlan(netlink.IPVLAN_FLAG_PRIVATE))
	wantLowers(t, n, discover(t, n, nil, "a", "b", "c", "d", "e"),
		"c/iv0 ipvlan edge b/e0 d/iv0",
		"d/iv0 ipvlan edge b/e0 c/iv0",
		"e/iv0 ipvlan edge a/sub0",
	)
}

// An interface of a node that is no port, and one of a closing node as long as that is there, have names.
func TestDiscoverLowerClosing(t *testing.T) {
	n := bridged(t, "a", "b")
	n.Add("c")
	onto(t, n, "sw", "br0", "c", "mv0", macvlan(netlink.MACVLAN_MODE_BRIDGE))
	wantLowers(t, n, discover(t, n, nil, "a", "sw", "c"), "c/mv0 macvlan edge sw/br0")
	topology := discover(t, n, nil, "a", "b", "c")
	wantLowers(t, n, topology, "c/mv0 macvlan edge sw/br0")
	topology.Open(0)
	wantLowers(t, n, topology, "c/mv0 macvlan edge outside")
}
