// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"time"
)

// Interfaces above and beside the ports that radar attaches to: VLANs, VRFs, MACVLANs,
// and IFBs that packets are redirected to.

// overVLANs is the chain with two links that carry a VLAN tag: r1 - r2, inside, and
// r3 - far, whose tagged frames are compared.
func overVLANs(w *World, more ...string) {
	w.Nodes("out", "r1", "r2", "r3", "far")
	w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
	w.Link("r1", "eth1", "", "r2", "eth0", "")
	w.Link("r2", "eth1", "10.0.3.1/24", "r3", "eth0", "10.0.3.2/24")
	w.Link("r3", "eth1", "", "far", "eth0", "")
	vlan := func(node, port, addr string) {
		w.Device(node, "v5", addr, append([]string{"link", port, "type", "vlan", "id", "5"}, more...)...)
	}
	vlan("r1", "eth1", "10.0.2.1/24")
	vlan("r2", "eth0", "10.0.2.2/24")
	vlan("r3", "eth1", "10.0.4.1/24")
	vlan("far", "eth0", "10.0.4.2/24")
	w.Forward("r1", "r2", "r3")
	w.Route("out", "default", "10.0.1.2")
	w.Route("far", "default", "10.0.4.1")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r2", "10.0.4.0/24", "10.0.3.2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("r3", "10.0.1.0/24", "10.0.3.1")
	w.Attach("r1", "r2", "r3")
}

// bothWays are packets of all kinds, in both directions, and TTLs that end at each router.
func bothWays(w *World) {
	routers := []string{"r1", "r2", "r3"}
	for ttl := range 4 {
		for _, p := range kinds(w, "10.0.1.1", "10.0.4.2") {
			p.TTL = uint8(ttl + 1)
			if s := w.Send("out", p); ttl < len(routers) {
				s.Lost(routers[ttl], "IP_INHDR")
			}
		}
	}
	mixture(w, 4)
	for _, p := range kinds(w, "10.0.4.2", "10.0.1.1") {
		w.Send("far", p)
	}
}

// freedAbove is what radar does not know under --carry header, of so many packets.
func freedAbove(times int) []Limit {
	return []Limit{{
		Modes: []Mode{Header}, Times: times,
		Text:  "under --carry header what is freed at a device above a node's ports (VLAN, VRF, IFB) ends as expired: it bears no mark there",
		Match: `it is expired, want lost`,
	}}
}

var (
	_ = add(Case{
		Name: "vlan/links", Point: 9,
		Limits: freedAbove(8),
		Shows:  "links with a VLAN tag, inside and to outside: tagged frames, errors, answers",
		Needs:  []string{"vlan"},
		Build: func(w *World) {
			overVLANs(w)
			w.Listen("far", "0.0.0.0:7")
		},
		Send: bothWays,
	})
	_ = add(Case{
		Name: "vlan/provider", Point: 9,
		Limits: freedAbove(8),
		Shows:  "the same with the tags of provider bridges (802.1ad)",
		Needs:  []string{"vlan"},
		Build: func(w *World) {
			overVLANs(w, "protocol", "802.1ad")
			w.Listen("far", "0.0.0.0:7")
		},
		Send: bothWays,
	})
	_ = add(Case{
		Name: "vlan/cut-inside", Point: 9,
		Shows: "TCP trains that the queue of a VLAN device cuts, above the port that radar is attached to",
		Needs: []string{"vlan", "tbf"},
		Build: func(w *World) {
			overVLANs(w)
			w.Queue("r1", "v5", "tbf", "rate", "100mbit", "burst", "3000", "limit", "1mb")
		},
		Send: tcpTrains,
	})
	_ = add(Case{
		Name: "vlan/another-node", Point: 9,
		Shows: "a VLAN of a node's port that was moved to another node: what both get and send",
		Needs: []string{"vlan"},
		Build: func(w *World) {
			w.Nodes("out", "r", "h", "c")
			w.Link("out", "eth0", "10.0.1.1/24", "r", "eth0", "10.0.1.2/24")
			w.Link("r", "eth1", "10.0.3.1/24", "h", "eth0", "10.0.3.2/24")
			w.Device("r", "v5", "10.0.2.1/24", "link", "eth1", "type", "vlan", "id", "5")
			above(w, "h", "eth0", "c", "v5", "10.0.2.2/24", "vlan", "id", "5")
			w.Forward("r")
			for node, via := range map[string]string{"out": "10.0.1.2", "h": "10.0.3.1", "c": "10.0.2.1"} {
				w.Route(node, "default", via)
			}
			for _, node := range []string{"out", "h", "c"} {
				w.Listen(node, "0.0.0.0:7")
			}
			w.Attach("r", "h", "c")
		},
		Send: func(w *World) {
			for _, clear := range []bool{false, true} {
				for _, end := range [][2]string{{"h", "10.0.3.2"}, {"c", "10.0.2.2"}} {
					there, back := w.UDP("10.0.1.1", end[1], 60), w.UDP(end[1], "10.0.1.1", 60)
					there.MayFrag, back.MayFrag = clear, clear
					w.Send("out", there)
					w.Send(end[0], back)
				}
			}
		},
		Limits: []Limit{{
			Modes: []Mode{Header},
			Text:  "under --carry header a packet for an interface of another node on a node's port ends at that port as expired",
			Match: `(?s)it is expired, want delivered.*\[eth0 h \]`,
		}},
	})
	_ = add(Case{
		Name: "vrf/router", Point: 9,
		Limits: freedAbove(8),
		Shows:  "a router whose ports belong to a VRF: through it, to it, and what it answers",
		Needs:  []string{"vrf"},
		Build: func(w *World) {
			chain(w)
			w.Run("r2", "ip", "link", "add", "red", "type", "vrf", "table", "10")
			w.Up("r2", "red")
			for _, port := range []string{"eth0", "eth1"} {
				w.Run("r2", "ip", "link", "set", port, "master", "red")
			}
			// Routes go with the port's table.
			w.Run("r2", "ip", "route", "replace", "10.0.4.0/24", "via", "10.0.3.2", "vrf", "red")
			w.Run("r2", "ip", "route", "replace", "10.0.1.0/24", "via", "10.0.2.1", "vrf", "red")
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for range 3 {
				w.Send("out", w.Echo("10.0.1.1", "10.0.2.2", 56))
			}
			bothWays(w)
		},
	})
	_ = add(Case{
		Name: "macvlan/containers", Point: 9,
		Shows: "two routers on MACVLANs of one interface that belongs to neither: their ports are edges, packets between them true",
		Needs: []string{"macvlan"},
		Build: func(w *World) {
			w.Nodes("out", "r1", "host", "r2", "far", "beside")
			w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
			w.Link("host", "parent", "", "beside", "eth0", "10.0.2.3/24")
			w.macvlan("host", "parent", "r1", "10.0.2.1/24")
			w.macvlan("host", "parent", "r2", "10.0.2.2/24")
			w.Link("r2", "eth1", "10.0.4.1/24", "far", "eth0", "10.0.4.2/24")
			w.Forward("r1", "r2")
			w.Route("out", "default", "10.0.1.2")
			w.Route("far", "default", "10.0.4.1")
			w.Route("beside", "10.0.1.0/24", "10.0.2.1")
			w.Route("r1", "10.0.4.0/24", "10.0.2.2")
			w.Route("r2", "10.0.1.0/24", "10.0.2.1")
			w.Listen("far", "0.0.0.0:7")
			w.Listen("beside", "0.0.0.0:7")
			w.Attach("r1", "r2")
		},
		Send: func(w *World) {
			for _, dst := range []string{"10.0.4.2", "10.0.2.3"} {
				for _, p := range kinds(w, "10.0.1.1", dst) {
					w.Send("out", p)
				}
			}
		},
	})
	_ = add(Case{
		Name: "macvlan/above-port", Point: 9,
		Shows: "a router that sends by a MACVLAN above its port",
		Needs: []string{"macvlan"},
		Build: func(w *World) {
			chain(w)
			w.Device("r2", "mv", "10.0.3.7/24", "link", "eth1", "type", "macvlan", "mode", "bridge")
			w.Run("r2", "ip", "address", "del", "10.0.3.1/24", "dev", "eth1")
			w.Route("r2", "10.0.4.0/24", "10.0.3.2")
			w.Run("r3", "ip", "route", "replace", "10.0.1.0/24", "via", "10.0.3.7")
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		Send: bothWays,
	})
)

// macvlan gives a node a MACVLAN of another node's interface, named mv.
func (w *World) macvlan(of, parent, node, addr string) {
	w.T.Helper()
	w.Run(of, "ip", "link", "add", "link", parent, "name", "mv-"+node, "type", "macvlan", "mode", "bridge")
	w.Run(of, "ip", "link", "set", "mv-"+node, "netns", w.Name(node))
	w.Run(node, "ip", "link", "set", "mv-"+node, "name", "mv")
	w.fixMAC(node, "mv")
	w.Up(node, "mv")
	w.Addresses(node, "mv", addr)
}

// toIFB sends what comes to r2 from r1 through an IFB with a discipline.
func toIFB(w *World, queue ...string) {
	line(w)
	w.Device("r2", "ifb0", "", "type", "ifb")
	w.Queue("r2", "ifb0", queue...)
	w.mirred("r2", "eth0", "ingress", "redirect", "ifb0")
	w.Listen("far", "0.0.0.0:7")
	w.QueueCounters("r2", "ifb0")
	w.Attach("r1", "r2", "r3")
}

// mirred redirects or mirrors what comes to a port, or (egress) leaves it.
func (w *World) mirred(node, port, hook, how, to string) {
	w.T.Helper()
	w.Run(node, "tc", "qdisc", "add", "dev", port, "clsact")
	w.Run(node, "tc", "filter", "add", "dev", port, hook, "prio", "20", "protocol", "all", "u32", "match", "u32", "0", "0",
		"action", "mirred", "egress", how, "dev", to)
}

var (
	_ = add(Case{
		Name: "ifb/shaped", Point: 10,
		Shows: "a node that shapes what comes in, by an IFB: bytes and order; the wait is time in the node",
		Needs: []string{"ifb", "mirred", "tbf"},
		Build: func(w *World) { toIFB(w, "handle", "1:", "tbf", "rate", "2mbit", "burst", "2000", "limit", "500kb") },
		Send:  func(w *World) { mixture(w, 12); burst(w) },
		Check: func(r *Run) {
			var most time.Duration
			for i := range r.Records {
				for _, h := range r.Records[i].Hops {
					if h.NodeNs != nil && h.Node == "r2" {
						most = max(most, time.Duration(*h.NodeNs))
					}
				}
			}
			if r.checkTimes && r.Mode == Mark && most < time.Millisecond {
				r.T.Errorf("the longest time in r2 is %v, its IFB's queue should hold them longer", most)
			}
		},
	})
	_ = add(Case{
		Name: "ifb/loss", Point: 10,
		Limits: freedAbove(10),
		Shows:  "packets that an IFB's queue loses: they are lost in that node",
		Needs:  []string{"ifb", "mirred", "netem"},
		Build:  func(w *World) { toIFB(w, append([]string{"handle", "1:", "netem"}, everySecond...)...) },
		Send: func(w *World) {
			for i := range 20 {
				if s := w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 60+i)); i%2 == 1 {
					s.Lost("r2", "QDISC_DROP")
				}
			}
		},
	})
	_ = add(Case{
		Name: "mirror/port", Point: 10,
		Shows: "a router that mirrors what comes in to a port outside: both copies true",
		Needs: []string{"mirred"},
		Build: func(w *World) {
			line(w)
			w.Nodes("monitor")
			w.Sysctl("monitor", "ipv6/conf/all/disable_ipv6", "1")
			w.Link("r2", "mon", "", "monitor", "eth0", "")
			w.mirred("r2", "eth0", "ingress", "mirror", "mon")
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			for i := range 10 {
				w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 60+i))
			}
		},
	})
	_ = add(Case{
		Name: "ifb/out", Point: 10,
		Shows: "a node that shapes what goes out, inside the domain and at an edge, by an IFB: one departure, the wait is a queue's",
		Needs: []string{"ifb", "mirred", "tbf"},
		Build: func(w *World) {
			line(w)
			for _, r := range []string{"r2", "r3"} {
				w.Device(r, "ifb0", "", "type", "ifb")
				w.Queue(r, "ifb0", "handle", "1:", "tbf", "rate", "2mbit", "burst", "2000", "limit", "500kb")
				w.mirred(r, "eth1", "egress", "redirect", "ifb0")
				w.QueueCounters(r, "ifb0")
			}
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			mixture(w, 12)
			burst(w)
			w.Send("r2", w.UDP("10.0.3.1", "10.0.4.2", 200)) // the nodes' own
			w.Send("r3", w.UDP("10.0.4.1", "10.0.4.2", 200))
		},
		Check: func(r *Run) {
			if r.checkTimes {
				r.wantWaits("r2", "eth1", 5*time.Millisecond)
			}
		},
	})
	_ = add(Case{
		Name: "mirror/redirect-out", Point: 10,
		Shows: "a router that redirects what leaves by an edge, or by a port inside, to another port: it has left by that one",
		Needs: []string{"mirred", "udp-gso"},
		Build: func(w *World) {
			line(w)
			// What r2 sends to r3, and what r3 sends to far, goes by other links: r2's into
			// the domain all the same, r3's out of it.
			w.Link("r2", "by", "", "r3", "by", "")
			w.Link("r3", "aside", "", "far", "eth1", "")
			w.mirred("r2", "eth1", "egress", "redirect", "by")
			w.mirred("r3", "eth1", "egress", "redirect", "aside")
			w.Run("r3", "ip", "link", "set", "by", "address", mac("r3", "eth0").String())
			w.Run("far", "ip", "link", "set", "eth1", "address", mac("far", "eth0").String())
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) {
			mixture(w, 12)
			for i := range 3 {
				w.SendTrain("out", "eth0", mac("r1", "eth0"), w.TCP("10.0.1.1", "10.0.4.2", ACK, 1000*(2+i*3)), 1000)
			}
			w.Send("r2", w.UDP("10.0.3.1", "10.0.4.2", 200)) // the nodes' own
			w.Send("r3", w.UDP("10.0.4.1", "10.0.4.2", 200))
			w.Send("far", w.Echo("10.0.4.2", "10.0.1.1", 100))
		},
	})
	_ = add(Case{
		Name: "mirror/out", Point: 10,
		Shows: "a router that mirrors what leaves by an edge to another port: both copies have left",
		Needs: []string{"mirred"},
		Build: func(w *World) {
			line(w)
			w.Nodes("monitor")
			w.Link("r3", "mon", "", "monitor", "eth0", "")
			w.mirred("r3", "eth1", "egress", "mirror", "mon")
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		Send: func(w *World) { mixture(w, 4) },
	})
)
