// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// hashes are what is found among a, r and b in a row, the link of r to b being a
// bridge in sw, which is not attached. r's port "out" is an edge.
func hashes(t *testing.T, n *nstest.Net, inNodes bool) []string {
	t.Helper()
	topology := discover(t, n, nil, "a", "r", "b")
	found := []string{}
	for _, h := range topology.FindLabelHashes(t.Context(), func(string) bool { return inNodes }) {
		found = append(found, h.String())
	}
	return found
}

func labelNet(t *testing.T) *nstest.Net {
	n := nstest.New(t, "a", "r", "b", "sw", "o")
	n.Veth("a", "e0", "r", "e0")
	n.Veth("r", "e1", "sw", "r")
	n.Veth("b", "e0", "sw", "b")
	n.Veth("r", "out", "o", "e0")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	for _, l := range []string{"r", "b"} {
		n.Run("sw", "ip", "link", "set", "dev", l, "master", "br0")
	}
	n.Up("sw", "br0")
	return n
}

func TestLabelHashes(t *testing.T) {
	n := labelNet(t)
	rps := func(node, port, mask string) {
		n.Run(node, "unshare", "-m", "sh", "-c", fmt.Sprintf("mount -t sysfs s /mnt && echo %s > /mnt/class/net/%s/queues/rx-0/rps_cpus", mask, port))
	}
	if got := hashes(t, n, true); len(got) != 0 {
		t.Errorf("%q in a network without queues and routes", got)
	}
	// Not every kernel has a queue that hashes: a bucket stands for one here, and in
	// lab/test/transparency fq_codel itself is found.
	flowQueues["tbf"] = true
	t.Cleanup(func() { delete(flowQueues, "tbf") })
	bucket := func(node, port string, parent ...string) {
		n.Run(node, append(append([]string{"tc", "qdisc", "add", "dev", port}, parent...), "tbf", "rate", "1gbit", "burst", "64k", "limit", "64k")...)
	}
	// Of no harm: labels are true at an edge, and one CPU takes all.
	bucket("r", "out", "root")
	rps("r", "out", "3")
	rps("b", "e0", "1")
	n.Run("r", "tc", "qdisc", "add", "dev", "e0", "root", "handle", "1:", "htb", "default", "1")
	if got := hashes(t, n, true); len(got) != 0 {
		t.Errorf("%q: what an edge, classes and one CPU do has nothing to do with the label", got)
	}
	n.Run("r", "tc", "class", "add", "dev", "e0", "parent", "1:", "classid", "1:1", "htb", "rate", "1gbit")
	bucket("r", "e0", "parent", "1:1")
	bucket("sw", "b", "root")
	rps("b", "e0", "3")
	want := []string{
		"tbf at r/e0", "receive packet steering (RPS) at b/e0", "tbf at " + n.Name("sw") + "/b",
	}
	if got := hashes(t, n, false); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// On the link of a tunnel inside the domain IPv6 is true, and so it is where a tunnel leads
// out of a bridge between nodes.
func TestTunnelLabels(t *testing.T) {
	n := newTunnels(t)
	for node, remote := range map[string]string{"a": "10.0.2.1", "b": "10.0.1.1"} {
		vxlan(n, node, "remote", remote)
	}
	topology := discoverNet(t, n, "a", "r", "b")
	if p := portNamed(t, topology, "a", "vx"); p.Role != domain.Internal {
		t.Fatalf("a/vx is an %s: %q", p.Role, topology.Notes)
	}
	if found := topology.FindLabelHashes(t.Context(), func(string) bool { return true }); len(found) != 0 {
		t.Errorf("%v, though IPv6 is true on the tunnel's link", found)
	}

	n = labelNet(t)
	n.Run("sw", "ip", "link", "add", "vx", "type", "vxlan", "id", "9", "dstport", "4789", "remote", "10.0.9.9")
	n.Run("sw", "ip", "link", "set", "vx", "master", "br0")
	if got := hashes(t, n, false); len(got) != 0 {
		t.Errorf("%q: packets are restored before they go out by the bridge", got)
	}
}

func TestTransmitQueues(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Run("a", "ip", "link", "add", "e0", "numtxqueues", "2", "numrxqueues", "2", "type", "veth", "peer", "name", "e0", "netns", n.Name("b"))
	n.Up("a", "e0")
	n.Up("b", "e0")
	topology := discover(t, n, nil, "a", "b")
	found := topology.FindLabelHashes(t.Context(), func(string) bool { return false })
	if len(found) != 2 || found[0].String() != "choice of 2 transmit queues at a/e0" {
		t.Errorf("%v", found)
	}
}

// Routes by the label count only where nodes see what is on the wire.
func TestMultipathByLabel(t *testing.T) {
	n := labelNet(t)
	n.Address("r", "e0", "2001:db8:1::1/64")
	n.Address("r", "e1", "2001:db8:2::1/64")
	n.Run("r", "ip", "-6", "route", "add", "2001:db8:9::/64", "nexthop", "via", "2001:db8:1::2", "nexthop", "via", "2001:db8:2::2")
	for _, c := range []struct {
		policy, fields string
		want           int
	}{
		{"0", "", 1}, {"1", "", 0}, {"2", "", 1}, {"3", "0x0007", 0}, {"3", "0x000f", 1},
	} {
		n.Run("r", "sysctl", "-qw", "net.ipv6.fib_multipath_hash_policy="+c.policy)
		if c.fields != "" {
			n.Run("r", "sysctl", "-qw", "net.ipv6.fib_multipath_hash_fields="+c.fields)
		}
		got := hashes(t, n, true)
		if len(got) != c.want || c.want == 1 && got[0] != "IPv6 multipath routing at r" {
			t.Errorf("policy %s, fields %s: %q", c.policy, c.fields, got)
		}
		if got := hashes(t, n, false); len(got) != 0 {
			t.Errorf("policy %s: %q, though nodes see true labels", c.policy, got)
		}
	}
	n.Run("r", "ip", "-6", "route", "del", "2001:db8:9::/64")
	n.Run("r", "sysctl", "-qw", "net.ipv6.fib_multipath_hash_policy=0")
	if got := hashes(t, n, true); len(got) != 0 {
		t.Errorf("%q without multipath routes", got)
	}
}
