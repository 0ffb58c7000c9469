// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Bridges, edges and what passed them, in every format.
func TestTopoPrint(t *testing.T) {
	d := clitest.NetworkDomain()
	for _, load := range []string{"", "-load"} {
		for _, format := range []kit.GraphFormat{"table", "wide", "json", kit.FormatMermaid, kit.FormatDOT} {
			t.Run(string(format)+load, func(t *testing.T) {
				v := topology.New(d)
				v.Nodes[0].Ports[0].Addresses = []string{"172.17.0.2/16"}
				v.Nodes[0].Ports[0].State, v.Nodes[0].Ports[0].MTU = topo.Up, 1500
				v.Nodes[0].Ports[1].State = topo.Down
				for i := range v.Links {
					for j := range v.Links[i].Ends {
						if e := &v.Links[i].Ends[j]; e.String() == "c1/eth1" {
							e.State = topo.Down
						}
					}
				}
				if load != "" {
					v.AddLoad(answer.NewCounts(clitest.BridgedLoad(), backpack.NewDecoder(d, nil)))
				}
				clitest.Golden(t, "topo"+load+"."+string(format), clitest.Printed(t, kit.FormatTable, func(k *kit.Kit) error {
					k.ShowNames(d)
					return printTopo(k, v, format, nil)
				}))
			})
		}
	}
}

// topologyOf is what "radar topo -o json" says.
func topologyOf(w *clitest.World, args ...string) (v topology.Topology) {
	w.Helper()
	if err := json.Unmarshal([]byte(w.Radar(kit.ExitOK, append([]string{"topo", "-o", "json"}, args...)...)), &v); err != nil {
		w.Fatal(err)
	}
	return v
}

// loadOf finds one direction of a link.
func loadOf(v *topology.Topology, from, to string) topology.LinkLoad {
	for _, l := range v.Links {
		for _, d := range l.Load {
			if d.From == from && d.To == to {
				return d
			}
		}
	}
	return topology.LinkLoad{}
}

// A real network: as ip, ping and nft see it.
func TestTopo(t *testing.T) {
	need.AsRoot(t)
	need.Programs(t, "dot:graphviz")
	w := clitest.NewWorld(t)
	w.In("r1", "nft", "add table t; add chain t f { type filter hook forward priority 0; }; add rule t f udp dport 9999 counter drop")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(7)
	w.In("h1", "bash", "-c", "for i in 1 2 3; do echo x >/dev/udp/10.0.2.2/9999; done")
	w.Settled(17)

	v := topologyOf(w, "--load")
	for _, n := range v.Nodes {
		for _, p := range n.Ports {
			got := w.In(n.Name, "ip", "-br", "address", "show", "dev", p.Name)
			if !slices.Equal(strings.Fields(got)[2:], p.Addresses) || len(p.ShownAddresses()) != 1 {
				t.Errorf("%s/%s has %q, ip says %s", n.Name, p.Name, p.Addresses, got)
			}
		}
	}
	if !strings.Contains(w.In("r1", "nft", "list", "table", "t"), "counter packets 3 ") {
		t.Fatal("nft did not drop 3 packets")
	}
	for _, c := range []struct {
		from, to string
		packets  uint64
	}{{"h1/eth0", "r1/eth0", 10}, {"r1/eth0", "h1/eth0", 7}, {"r1/eth1", "h2/eth0", 7}, {"h2/eth0", "r1/eth1", 7}} {
		if got := loadOf(&v, c.from, c.to); got.Packets != c.packets || got.P50Ns == nil || got.Lost != 0 {
			t.Errorf("%s > %s: %+v, want %d packets and a time", c.from, c.to, got, c.packets)
		}
	}
	if r1 := v.Node("r1"); r1.Load.Lost != 3 || r1.Load.P50Ns == nil || len(v.Links) != 2 {
		t.Errorf("r1: %+v, %d links", r1.Load, len(v.Links))
	}

	// Ports are as the kernel says, everywhere.
	w.In("r1", "ip", "link", "set", "eth1", "mtu", "1400")
	w.In("h2", "ip", "link", "set", "eth0", "down")
	nstest.WaitFor(t, "r1 to notice", func() bool { return strings.Contains(w.In("r1", "ip", "link", "show", "eth1"), "NO-CARRIER") })
	states := map[string]topo.State{"h1/eth0": topo.Up, "r1/eth0": topo.Up, "r1/eth1": topo.NoCarrier, "h2/eth0": topo.Down}
	v = topologyOf(w)
	for _, n := range v.Nodes {
		for _, p := range n.Ports {
			mtu := 1500
			if n.Name+"/"+p.Name == "r1/eth1" {
				mtu = 1400
			}
			if p.State != states[n.Name+"/"+p.Name] || p.MTU != mtu {
				t.Errorf("%s/%s is %q, MTU %d, want %q, %d", n.Name, p.Name, p.State, p.MTU, states[n.Name+"/"+p.Name], mtu)
			}
		}
	}
	for _, l := range v.Links {
		for _, e := range l.Ends {
			if e.State != states[e.String()] {
				t.Errorf("the end %s is %q", e, e.State)
			}
		}
	}
	for _, n := range w.Status().Nodes {
		for _, p := range n.Ports {
			if p.State != states[n.Name+"/"+p.Name] {
				t.Errorf("status: %s/%s is %q", n.Name, p.Name, p.State)
			}
		}
	}
	for _, command := range []string{"status", "topo", "status -o wide", "topo -o wide"} {
		for line, want := range map[string]string{"h1 eth0 ": "up ", "r1 eth1 ": "no carrier ", "h2 eth0 ": "down "} {
			if out := strings.Join(strings.Fields(w.Radar(kit.ExitOK, strings.Fields(command)...)), " "); !strings.Contains(out, line+want) {
				t.Errorf("radar %s: no %q:\n%s", command, line+want, out)
			}
		}
	}
	if out := w.Radar(kit.ExitOK, "topo", "-o", "mermaid"); !strings.Contains(out, "eth1 (no carrier) - eth0 (down)") {
		t.Errorf("the drawing does not mark what is down:\n%s", out)
	}
	w.In("h2", "ip", "link", "set", "eth0", "up")
	w.In("h2", "ip", "route", "add", "default", "via", "10.0.2.1") // it went with the port
	nstest.AwaitCarrier(t, w.Lab.NetNSPath("r1"))

	// A node that is no more attached is outside.
	w.Radar(kit.ExitOK, "detach", "h2")
	w.Ping(2)
	w.Settled(21)
	v = topologyOf(w, "--load")
	if out, in := loadOf(&v, "r1/eth1", "outside"), loadOf(&v, "outside", "r1/eth1"); out.Packets != 2 || in.Packets != 2 {
		t.Errorf("at the edge: %+v out, %+v in", out, in)
	}
	if out := w.Radar(kit.ExitOK, "topo"); !strings.Contains(out, "2 nodes, 3 ports, 1 link\n") || !strings.Contains(out, "edge      outside") {
		t.Errorf("topo said\n%s", out)
	}
	cmd := exec.Command("dot", "-Tsvg")
	cmd.Stdin = strings.NewReader(w.Radar(kit.ExitOK, "topo", "-o", "dot", "--load"))
	if svg, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(svg), ">outside<") {
		t.Errorf("dot: %v: %s", err, svg)
	}
}

// A macvlan that stands on another node's interface is connected to that, whose row says so, too; where the interface's
// namespace is not attached it is outside. What is beside it on the same interface it reaches unseen.
func TestTopoMacvlan(t *testing.T) {
	need.AsRoot(t)
	w := clitest.NewWorld(t)
	others := nstest.New(t, "c", "d")
	for _, name := range []string{"c", "d"} {
		w.In("h2", "ip", "link", "add", "m0", "link", "eth0", "netns", others.Name(name), "type", "macvlan", "mode", "bridge")
		others.Up(name, "m0")
	}
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", others.Spec("c"), others.Spec("d")}, w.Lab.AttachArgs()...)...)
	rows := func(command string, want ...string) {
		t.Helper()
		out := strings.Join(strings.Fields(w.Radar(kit.ExitOK, strings.Fields(command)...)), " ")
		for _, row := range want {
			if !strings.Contains(out, row) {
				t.Errorf("radar %s: no %q:\n%s", command, row, out)
			}
		}
	}
	rows("topo", "c m0 up edge h2/eth0 by macvlan, beside d/m0", "d m0 up edge h2/eth0 by macvlan, beside c/m0",
		"h2 eth0 up internal r1/eth1, below c/m0, d/m0")
	rows("status", "c m0 up edge h2/eth0", "h2 eth0 up internal r1/eth1")
	rows("topo -o mermaid", `n0 -.-|"m0 - eth0"| n4 n1 -.-|"m0 - eth0"| n4`)
	rows("topo -o dot", `n0 -- n4 [taillabel="m0", headlabel="eth0", style=dashed]`)
	v := topologyOf(w)
	if p := v.Node("c").Ports[0]; p.Lower != "h2/eth0" || !slices.Equal(p.Beside, []string{"d/m0"}) || p.Peer != "" {
		t.Errorf("c: %+v", p)
	}
	if p := v.Node("h2").Ports[0]; !slices.Equal(p.Uppers, []string{"c/m0", "d/m0"}) || p.Peer != "r1/eth1" {
		t.Errorf("h2: %+v", p)
	}
	w.Radar(kit.ExitOK, "detach", "h2")
	rows("topo", "c m0 up edge outside by macvlan, beside d/m0", "r1 eth1 up edge outside")
	w.Radar(kit.ExitOK, "detach", "d")
	rows("topo", "c m0 up edge outside by macvlan")
	v = topologyOf(w)
	if p := v.Node("c").Ports[0]; p.Lower != topology.Outside || len(p.Beside) > 0 {
		t.Errorf("c: %+v", p)
	}
}

// What two nodes have one of is said by topo and status, and on the page: a MAC address on a link, an IP address anywhere.
func TestTopoDoubles(t *testing.T) {
	need.AsRoot(t)
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	const said = "several nodes have one address"
	for _, command := range []string{"topo", "status"} {
		if out := w.Radar(kit.ExitOK, command); strings.Contains(out, said) {
			t.Errorf("radar %s:\n%s", command, out)
		}
	}
	w.In("h1", "ip", "link", "set", "eth0", "address", "02:00:00:00:77:01")
	w.In("r1", "ip", "link", "set", "eth0", "address", "02:00:00:00:77:01")
	w.In("h2", "ip", "address", "add", "10.0.1.1/24", "dev", "eth0") // h1's
	w.In("r1", "ip", "address", "add", "10.0.2.2/24", "dev", "eth1") // h2's
	for _, command := range []string{"topo", "status"} {
		w.Says([]string{command}, "02:00:00:00:77:01 on one link: h1/eth0, r1/eth0; 10.0.2.2 on one link: h2/eth0, r1/eth1; 10.0.1.1: h1/eth0, h2/eth0")
	}
}
