// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// bridged makes a bridge in sw with an interface for each name, "p" and the name, whose
// other end is e0 in the namespace of that name.
func bridged(t *testing.T, names ...string) *nstest.Net {
	t.Helper()
	n := nstest.New(t, append([]string{"sw"}, names...)...)
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	n.Address("sw", "br0", "10.0.0.254/24")
	for _, name := range names {
		n.Veth(name, "e0", "sw", "p"+name)
		n.Run("sw", "ip", "link", "set", "p"+name, "master", "br0")
	}
	return n
}

// links shows each port as "node/port role link place", sorted, with the closing
// node's name shortened.
func links(n *nstest.Net, t *Topology) []string {
	var lines []string
	for _, node := range t.Nodes {
		for _, p := range node.Ports {
			line := fmt.Sprintf("%s/%s %s %s %s", node.Name, p.Name, p.Role, p.Link, p.Place)
			lines = append(lines, strings.TrimSpace(strings.ReplaceAll(line, n.Name("sw"), "sw")))
		}
	}
	slices.Sort(lines)
	return lines
}

func wantLinks(t *testing.T, n *nstest.Net, topology *Topology, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, links(n, topology)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestDiscoverBridge(t *testing.T) {
	n := bridged(t, "a", "b", "u")
	n.Run("sw", "ip", "tuntap", "add", "tap0", "mode", "tap")
	n.Run("sw", "ip", "link", "set", "tap0", "master", "br0")
	n.Veth("sw", "aside", "u", "e1") // no member
	topology := discover(t, n, nil, "a", "b")
	wantLinks(t, n, topology,
		"a/e0 internal sw/br0",
		"b/e0 internal sw/br0",
		"sw/br0 edge sw/br0 bridge",
		"sw/pu edge sw/br0 bridge-port",
		"sw/tap0 edge sw/br0 bridge-port",
	)
	sw := topology.Nodes[2]
	if !sw.Auto || sw.Inum != specs(t, n, "sw")[0].Inum || !slices.Contains(sw.Locals, netip.MustParseAddr("10.0.0.254")) {
		t.Errorf("closing node %+v", sw)
	}
	if len(topology.Near) != 1 || topology.Near[0].Inum != sw.Inum {
		t.Errorf("near %+v", topology.Near)
	}
	inside := []Member{{"pa", n.Index("sw", "pa"), "a/e0"}, {"pb", n.Index("sw", "pb"), "b/e0"}}
	if len(topology.Bridges) != 1 || !slices.Equal(topology.Bridges[0].Inside, inside) {
		t.Errorf("bridges %+v, inside must be %v", topology.Bridges, inside)
	}
	if _, err := Discover(specs(t, n, "a"), []RoleOverride{{Node: n.Name("sw"), Port: "pu", Role: domain.Internal}}); !errors.Is(err, fault.Usage) {
		t.Errorf("role of a closing port: %v", err)
	}
	// A bridge in a node is inside it.
	wantLinks(t, n, discover(t, n, nil, "a", "b", "sw"),
		"a/e0 internal", "b/e0 internal", "sw/aside edge", "sw/pa internal", "sw/pb internal", "sw/pu edge", "sw/tap0 edge")
}

// Open makes edges of the ports of one bridge, and leaves the other closed.
func TestOpen(t *testing.T) {
	n := bridged(t, "a", "b")
	n.Run("sw", "ip", "link", "add", "br1", "type", "bridge")
	n.Run("sw", "ip", "link", "set", "pb", "master", "br1")
	topology := discover(t, n, nil, "a", "b")
	wantLinks(t, n, topology,
		"a/e0 internal sw/br0", "b/e0 internal sw/br1", "sw/br0 edge sw/br0 bridge", "sw/br1 edge sw/br1 bridge")
	topology.Open(0)
	wantLinks(t, n, topology, "a/e0 edge", "b/e0 internal sw/br1", "sw/br1 edge sw/br1 bridge")
	topology.Open(0)
	wantLinks(t, n, topology, "a/e0 edge", "b/e0 edge")
	if len(topology.Nodes) != 2 || len(topology.Bridges) != 0 {
		t.Errorf("left %d nodes, bridges %+v", len(topology.Nodes), topology.Bridges)
	}
}

// A packet that XDP takes never meets TC: the node behind is outside, and one behind
// a bridge that has such a program is not closed at all.
func TestDiscoverBridgeXDP(t *testing.T) {
	n := bridged(t, "a", "b")
	attachXDP(t, n, "b", "e0")
	wantLinks(t, n, discover(t, n, nil, "a", "b"),
		"a/e0 internal sw/br0", "b/e0 edge", "sw/br0 edge sw/br0 bridge", "sw/pb edge sw/br0 bridge-port")
	attachXDP(t, n, "sw", "br0")
	wantLinks(t, n, discover(t, n, nil, "a", "b"), "a/e0 edge", "b/e0 edge")
}

// Looking again at what is as it was finds the same, in the same order, and leaves
// nothing open.
func TestDiscoverAgain(t *testing.T) {
	n := nstest.New(t, "a", "p", "q", "r", "s")
	for i, far := range []string{"p", "q", "r", "s"} {
		near := fmt.Sprintf("e%d", i)
		n.Veth("a", near, far, "x")
		n.Run(far, "ip", "link", "add", "br0", "type", "bridge")
		n.Run(far, "ip", "link", "set", "x", "master", "br0")
	}
	first := discover(t, n, nil, "a")
	if len(first.Near) != 4 || len(first.Bridges) != 4 {
		t.Fatalf("near %+v, bridges %+v", first.Near, first.Bridges)
	}
	before := openFiles(t)
	for range 10 {
		again := discover(t, n, nil, "a")
		if diff := cmp.Diff(first.Near, again.Near); diff != "" {
			t.Fatalf("namespaces (-first +again):\n%s", diff)
		}
		if diff := cmp.Diff(first.Bridges, again.Bridges); diff != "" {
			t.Fatalf("bridges (-first +again):\n%s", diff)
		}
	}
	if after := openFiles(t); len(after) > len(before) {
		t.Errorf("open: %q, before: %q", after, before)
	}
}

// openFiles names what this process has open.
func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, entry := range entries {
		// What was closed since the directory was read has no name: it is not open.
		if name, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil {
			files = append(files, entry.Name()+" "+name)
		}
	}
	return files
}
