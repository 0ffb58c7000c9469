// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netns"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/lab"
)

// network is a lab that runs, and its topology for the oracle.
type network struct {
	ctx  context.Context
	lab  *lab.Lab
	topo *oracle.Topology
}

var serial atomic.Int32

// uniqueName of a lab or domain of this process.
func uniqueName() string { return fmt.Sprintf("rdre2e%d-%d", os.Getpid(), serial.Add(1)) }

// openScenario opens a scenario of testdata or a built-in one.
func openScenario(name string) (*lab.Scenario, error) {
	dir := filepath.Join("testdata", name)
	if _, err := os.Stat(dir); err == nil {
		return lab.OpenDir(dir)
	}
	return scenarios.Open(name)
}

// startNetwork starts a scenario under a name of its own. It is taken down when the
// test ends.
func startNetwork(ctx context.Context, t *testing.T, scenario string) *network {
	t.Helper()
	needNetwork(t)
	s, err := openScenario(scenario)
	if err != nil {
		t.Fatal(err)
	}
	topology, err := s.Topology(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Up(ctx, topology, lab.Options{Name: uniqueName()})
	if err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := l.Down(); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
	})
	n := &network{ctx: ctx, lab: l}
	n.discover(t)
	n.askNoNeighbours(t)
	return n
}

// askNoNeighbours: nobody asks again for a neighbour that is known. A queue that drops such
// a request counts one more than captures of IP packets see.
func (n *network) askNoNeighbours(t *testing.T) {
	t.Helper()
	for _, m := range n.topo.Nodes {
		argv := []string{"sysctl", "-qw"}
		for _, p := range m.Ports {
			argv = append(argv, "net.ipv4.neigh."+p.Name+".delay_first_probe_time=600")
		}
		n.run(t, m.Name, argv...)
	}
}

// nodes are the names of all machines.
func (n *network) nodes() []string {
	var names []string
	for _, m := range n.lab.Machines {
		names = append(names, m.Name)
	}
	return names
}

// discover asks ip for interface numbers and addresses, and takes the links
// from lab.conf. ip must agree on who is whose peer.
func (n *network) discover(t *testing.T) {
	t.Helper()
	peers := map[oracle.Ref]oracle.Ref{}
	indexes, peerIndexes := map[oracle.Ref]int{}, map[oracle.Ref]int{}
	for _, l := range n.lab.Links {
		if len(l.Members) != 2 {
			t.Fatalf("link %s has %d ends: this test knows links with 2", l.Name, len(l.Members))
		}
		a := oracle.Ref{Node: l.Members[0].Machine, Port: l.Members[0].Interface}
		b := oracle.Ref{Node: l.Members[1].Machine, Port: l.Members[1].Interface}
		peers[a], peers[b] = b, a
	}
	n.topo = &oracle.Topology{}
	for _, name := range n.nodes() {
		var links []struct {
			Name  string `json:"ifname"`
			Index int    `json:"ifindex"`
			Peer  int    `json:"link_index"` // in the peer's namespace
			Addrs []struct {
				Local string `json:"local"`
				Bits  int    `json:"prefixlen"`
			} `json:"addr_info"`
		}
		if err := json.Unmarshal([]byte(n.run(t, name, "ip", "-json", "address", "show")), &links); err != nil {
			t.Fatalf("ip address in %s: %v", name, err)
		}
		node := oracle.Node{Name: name}
		for _, l := range links {
			peer, ours := peers[oracle.Ref{Node: name, Port: l.Name}]
			if !ours {
				continue
			}
			port := oracle.Port{Name: l.Name, Index: l.Index, Peer: peer}
			for _, a := range l.Addrs {
				addr := netip.MustParseAddr(a.Local)
				node.Addrs = append(node.Addrs, addr)
				port.Addrs = append(port.Addrs, netip.PrefixFrom(addr, a.Bits))
			}
			node.Ports = append(node.Ports, port)
			indexes[oracle.Ref{Node: name, Port: l.Name}], peerIndexes[peer] = l.Index, l.Peer
		}
		n.topo.Nodes = append(n.topo.Nodes, node)
	}
	if !maps.Equal(indexes, peerIndexes) {
		t.Fatalf("interface numbers: %v, as their peers say: %v", indexes, peerIndexes)
	}
}

// addr is the first address of a node, of IPv4.
func (n *network) addr(t *testing.T, node string) netip.Addr {
	t.Helper()
	for _, m := range n.topo.Nodes {
		if m.Name == node {
			return m.Addrs[0]
		}
	}
	t.Fatalf("no node %s", node)
	return netip.Addr{}
}

// setQueue tells the oracle of a qdisc.
func (n *network) setQueue(node, port string, q *oracle.Queue) {
	for i := range n.topo.Nodes {
		for k := range n.topo.Nodes[i].Ports {
			if n.topo.Nodes[i].Name == node && n.topo.Nodes[i].Ports[k].Name == port {
				n.topo.Nodes[i].Ports[k].Queue = q
			}
		}
	}
}

// run runs a command in a node and returns what it printed.
func (n *network) run(t *testing.T, node string, argv ...string) string {
	t.Helper()
	cmd := n.lab.Command(n.ctx, node, argv...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s in %s: %v\n%s%s", strings.Join(argv, " "), node, err, out, stderr.String())
	}
	return string(out)
}

// within calls f on a thread in the network namespace of a node; sockets that it
// opens stay there. f must not wait for other goroutines to open sockets.
func (n *network) within(node string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		// Not unlocked unless the thread is back home: it ends with the goroutine.
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("find own namespace: %w", err)
			return
		}
		defer home.Close()
		there, err := netns.GetFromPath(n.lab.NetNSPath(node))
		if err != nil {
			done <- fmt.Errorf("open namespace of %s: %w", node, err)
			return
		}
		defer there.Close()
		if err := netns.Set(there); err != nil {
			done <- fmt.Errorf("enter namespace of %s: %w", node, err)
			return
		}
		err = f()
		if back := netns.Set(home); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
