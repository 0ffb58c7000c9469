// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// bridgedDomain has two containers on a bridge that the host closes, a third whose
// other end is not attached, and a router behind the first.
func bridgedDomain() *domain.Domain {
	return &domain.Domain{
		Version: 1, Name: "default", Epoch: 1, Options: domain.Options{Slots: 64},
		Nodes: []domain.Node{
			{ID: 1, Name: "c1", Spec: "docker:c1"}, {ID: 2, Name: "c2", Spec: "docker:c2"},
			{ID: 3, Name: "host", Spec: "netns:host", Auto: true}, {ID: 4, Name: "r1", Spec: "netns:r1"},
			{ID: 5, Name: "gone", Spec: "netns:gone", Removed: true},
		},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: -1, Link: "host/docker0"},
			{ID: 1, Node: 2, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: -1, Link: "host/docker0"},
			{ID: 2, Node: 3, Name: "docker0", Ifindex: 3, Kind: "bridge", Role: domain.Edge, Peer: -1, Link: "host/docker0", Place: "bridge"},
			{ID: 3, Node: 3, Name: "veth77", Ifindex: 9, Kind: "veth", Role: domain.Edge, Peer: -1, Link: "host/docker0", Place: "bridge-port"},
			{ID: 4, Node: 1, Name: "eth1", Ifindex: 3, Kind: "veth", Role: domain.Internal, Peer: 5},
			{ID: 5, Node: 4, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 4},
			{ID: 6, Node: 4, Name: "eth1", Ifindex: 3, Kind: "veth", Role: domain.Edge, Forced: true, Peer: 7},
			{ID: 7, Node: 5, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 6, Removed: true},
		},
	}
}

// networkBridge is the bridge of a network of Docker's.
const networkBridge = "br-ed1512852e24"

// networkDomain is bridgedDomain with a bridge that Docker calls otherwise.
func networkDomain() *domain.Domain {
	d := bridgedDomain()
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Link != "" {
			p.Link = "host/" + networkBridge
		}
		if p.Place == domain.Bridge {
			p.Name, p.Network = networkBridge, "shop"
		}
	}
	return d
}

// bridgedLoad is traffic of every kind that bridgedDomain has.
func bridgedLoad() *aggregate.Aggregates {
	agg := aggregate.New(0)
	hop := func(node, in, out uint16, inNs, outNs int64) packet.Hop {
		return packet.Hop{Node: node, In: in, Out: out, InNs: inNs, OutNs: outNs, DequeueNs: packet.NoTime}
	}
	const none = packet.NoPort
	add := func(n int, state record.State, loss packet.Drop, hops ...packet.Hop) {
		agg.Add(&packet.Packet{State: state, Hops: hops, Segs: n, Lost: state == record.Lost, Loss: loss, LatencyNs: packet.NoTime})
	}
	// From c1 by the bridge to c2, and to the host itself.
	add(10, record.Delivered, packet.Drop{}, hop(1, none, 0, -1, 0), hop(2, 1, none, 1500, -1))
	add(3, record.Delivered, packet.Drop{}, hop(1, none, 0, -1, 0), hop(3, 2, none, 900, -1))
	// The host to c2; a stranger on the bridge to c1, and c1's answers.
	add(4, record.Delivered, packet.Drop{}, hop(3, none, 2, -1, 0), hop(2, 1, none, 700, -1))
	add(5, record.Delivered, packet.Drop{}, hop(3, 3, none, 0, -1), hop(1, 0, none, 600, -1))
	add(6, record.Left, packet.Drop{}, hop(1, none, 0, -1, 0), hop(3, none, 3, -1, 800))
	// Through the domain's other edge: c1's, and what r1 forwards to it.
	add(7, record.Left, packet.Drop{}, hop(1, none, 4, -1, 0), hop(4, 5, 6, 2000, 2500))
	add(8, record.Delivered, packet.Drop{}, hop(4, 6, 5, 0, 400), hop(1, 4, none, 1400, -1))
	// Lost: in c1's queue to the bridge, before c2 had it, by r1's rules.
	add(2, record.Lost, packet.Drop{Node: 1, Port: 0, At: record.AtQueue}, hop(1, none, 0, -1, 0))
	add(1, record.Lost, packet.Drop{Node: 2, Port: 1, At: record.AtIngress}, hop(1, none, 0, -1, 0))
	add(9, record.Lost, packet.Drop{Node: 4, Port: none, At: record.AtNode}, hop(1, none, 4, -1, 0), hop(4, 5, none, 2000, -1))
	// Not seen again: behind c1's port on the bridge, inside r1.
	add(11, record.Expired, packet.Drop{}, hop(1, none, 0, -1, 0))
	add(12, record.Expired, packet.Drop{}, hop(1, none, 4, -1, 0), hop(4, 5, none, 2000, -1))
	return agg
}

// Bridges, edges and what passed them, in every format.
func TestTopoPrint(t *testing.T) {
	d := networkDomain()
	for _, load := range []string{"", "-load"} {
		for _, format := range []graphFormat{"table", "wide", "json", formatMermaid, formatDOT} {
			t.Run(string(format)+load, func(t *testing.T) {
				v := answer.NewTopology(d)
				v.Nodes[0].Ports[0].Addresses = []string{"172.17.0.2/16"}
				if load != "" {
					v.AddLoad(answer.NewCounts(bridgedLoad(), backpack.NewDecoder(d, nil)))
				}
				golden(t, "topo"+load+"."+string(format), printed(t, formatTable, func(a *app) error {
					a.showNames(d)
					return a.printTopo(v, format)
				}))
			})
		}
	}
}

// topology is what "radar topo -o json" says.
func (w *world) topology(args ...string) (v answer.Topology) {
	w.Helper()
	if err := json.Unmarshal([]byte(w.radar(exitOK, append([]string{"topo", "-o", "json"}, args...)...)), &v); err != nil {
		w.Fatal(err)
	}
	return v
}

// in runs a command in a machine, and returns what it printed.
func (w *world) in(machine string, argv ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	out, err := w.lab.Command(ctx, machine, argv...).CombinedOutput()
	if err != nil {
		w.Fatalf("%s: %v: %v\n%s", machine, argv, err, out)
	}
	return string(out)
}

// loadOf finds one direction of a link.
func loadOf(v *answer.Topology, from, to string) answer.LinkLoad {
	for _, l := range v.Links {
		for _, d := range l.Load {
			if d.From == from && d.To == to {
				return d
			}
		}
	}
	return answer.LinkLoad{}
}

// A real network: as ip, ping and nft see it.
func TestTopo(t *testing.T) {
	need.AsRoot(t)
	need.Programs(t, "dot:graphviz")
	w := newWorld(t)
	w.in("r1", "nft", "add table t; add chain t f { type filter hook forward priority 0; }; add rule t f udp dport 9999 counter drop")
	w.radar(exitOK, append([]string{"attach", "-d"}, w.lab.AttachArgs()...)...)
	w.ping(7)
	w.in("h1", "bash", "-c", "for i in 1 2 3; do echo x >/dev/udp/10.0.2.2/9999; done")
	w.settled(17)

	v := w.topology("--load")
	for _, n := range v.Nodes {
		for _, p := range n.Ports {
			got := w.in(n.Name, "ip", "-br", "address", "show", "dev", p.Name)
			if !slices.Equal(strings.Fields(got)[2:], p.Addresses) || len(p.ShownAddresses()) != 1 {
				t.Errorf("%s/%s has %q, ip says %s", n.Name, p.Name, p.Addresses, got)
			}
		}
	}
	if !strings.Contains(w.in("r1", "nft", "list", "table", "t"), "counter packets 3 ") {
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

	// A node that is no more attached is outside.
	w.radar(exitOK, "detach", "h2")
	w.ping(2)
	w.settled(21)
	v = w.topology("--load")
	if out, in := loadOf(&v, "r1/eth1", "outside"), loadOf(&v, "outside", "r1/eth1"); out.Packets != 2 || in.Packets != 2 {
		t.Errorf("at the edge: %+v out, %+v in", out, in)
	}
	if out := w.radar(exitOK, "topo"); !strings.Contains(out, "2 nodes, 3 ports, 1 link\n") || !strings.Contains(out, "edge      outside") {
		t.Errorf("topo said\n%s", out)
	}
	cmd := exec.Command("dot", "-Tsvg")
	cmd.Stdin = strings.NewReader(w.radar(exitOK, "topo", "-o", "dot", "--load"))
	if svg, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(svg), ">outside<") {
		t.Errorf("dot: %v: %s", err, svg)
	}
}
