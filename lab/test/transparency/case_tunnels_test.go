// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"time"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// viaTunnel is the chain out - r1 - r2 - r3 - far, of which the routers are attached; what
// goes between out and far travels through a tunnel from r1 to r3. kind is the kind of
// the interface and what the command "ip link add" wants to know beyond the two ends.
func viaTunnel(w *World, kind ...string) {
	chain(w)
	tunnelEnd(w, "r1", "10.0.9.1/24", "10.0.2.1", "10.0.3.2", kind)
	tunnelEnd(w, "r3", "10.0.9.2/24", "10.0.3.2", "10.0.2.1", kind)
	w.Run("r1", "ip", "route", "replace", "10.0.4.0/24", "via", "10.0.9.2", "dev", "tun")
	w.Run("r3", "ip", "route", "replace", "10.0.1.0/24", "via", "10.0.9.1", "dev", "tun")
	w.Attach("r1", "r2", "r3")
}

// tunnelEnd makes one end of a tunnel, with a neighbour entry for the other.
func tunnelEnd(w *World, node, addr, local, remote string, kind []string) {
	args := append([]string{"type"}, kind...)
	if kind[0] != "geneve" {
		args = append(args, "local", local)
	}
	w.Device(node, "tun", addr, append(args, "remote", remote)...)
}

// plainTraffic is UDP, TCP, echoes, fragments and what has few hops left, in both directions.
func plainTraffic(w *World) {
	for _, way := range [][3]string{{"out", "10.0.1.1", "10.0.4.2"}, {"far", "10.0.4.2", "10.0.1.1"}} {
		for i := range 4 {
			udp := w.UDP(way[1], way[2], 40+300*i)
			udp.TOS = uint8(0x28 + 4*i + i)
			w.Send(way[0], udp)
			w.Send(way[0], w.TCP(way[1], way[2], ACK, 100*i))
			clear := w.UDP(way[1], way[2], 60)
			clear.MayFrag = true
			w.Send(way[0], clear)
			low := w.UDP(way[1], way[2], 60)
			low.TTL = uint8(4 + i)
			w.Send(way[0], low)
		}
	}
}

// tunnelCase is a case of one kind of tunnel.
func tunnelCase(name, shows string, needs string, kind ...string) Case {
	return Case{
		Name: "tunnels/" + name, Point: 6, Shows: shows, Needs: []string{needs},
		Fresh: true, // other cases' packets have the same keys
		Build: func(w *World) {
			viaTunnel(w, kind...)
			w.Listen("out", "0.0.0.0:7")
			w.Listen("far", "0.0.0.0:7")
		},
		Send:  plainTraffic,
		Check: linkedTunnel,
	}
}

// withoutEthernet is a tunnel whose packets have no Ethernet header. What comes out of it cannot
// be read before Linux 5.14: there it is an edge, and measured again from where it leaves the node.
func withoutEthernet(c Case) Case {
	if !kernel.Older(kernel.Release(), 5, 14) {
		return c
	}
	c.Check = func(r *Run) {
		for _, node := range []string{"r1", "r3"} {
			if role := r.topo.role(node, "tun"); role != "edge" {
				r.T.Errorf("the tunnel's end at %s is %s, want edge", node, role)
			}
		}
	}
	c.Limits = append(c.Limits, Limit{
		Modes: []Mode{Mark},
		Match: `passed r[13]/tun in once, its records say 0 times|counter foreign_mark is`, // the outer one's mark
		Text:  "before Linux 5.14 what comes out of a tunnel without Ethernet headers (IPIP, SIT, GRE, ip6tnl) is not measured there, but from where it leaves the node",
	})
	return c
}

// linkedTunnel wants attach to have seen that the tunnel is a link inside the domain.
func linkedTunnel(r *Run) {
	for _, node := range []string{"r1", "r3"} {
		if role := r.topo.role(node, "tun"); role != "internal" {
			r.T.Errorf("the tunnel's end at %s is %s, want internal", node, role)
		}
	}
}

var (
	_ = add(tunnelCase("vxlan", "a VXLAN tunnel in the domain: the inner packet keeps its story",
		"vxlan", "vxlan", "id", "42", "dstport", "4789"))
	_ = add(tunnelCase("vxlan-inherit", "one whose outer TTL and TOS are the inner ones",
		"vxlan", "vxlan", "id", "42", "dstport", "4789", "ttl", "inherit", "tos", "inherit"))
	_ = add(tunnelCase("geneve", "a Geneve tunnel", "geneve", "geneve", "id", "42"))
	_ = add(withoutEthernet(tunnelCase("gre", "a GRE tunnel, whose outer TTL is the inner one", "gre", "gre", "key", "7")))
	_ = add(withoutEthernet(tunnelCase("gre-ttl", "a GRE tunnel with a TTL of its own", "gre", "gre", "ttl", "64", "tos", "inherit")))
	_ = add(tunnelCase("gretap", "a GRE tunnel of Ethernet frames", "gretap", "gretap", "ttl", "64"))
	_ = add(withoutEthernet(tunnelCase("ipip", "an IPIP tunnel, whose outer TTL is the inner one", "ipip", "ipip")))
)

var _ = add(Case{
	Name: "tunnels/queues", Point: 6,
	Shows: "queues below a VXLAN tunnel: the packet inside waits in that of its own node",
	Needs: []string{"vxlan", "tbf"},
	Fresh: true,
	Build: func(w *World) {
		viaTunnel(w, "vxlan", "id", "42", "dstport", "4789")
		w.Queue("r1", "eth1", "handle", "1:", "tbf", "rate", "2mbit", "burst", "2000", "limit", "500kb")
		w.Queue("r2", "eth1", "handle", "1:", "tbf", "rate", "1mbit", "burst", "2000", "limit", "500kb")
		w.Listen("far", "0.0.0.0:7")
	},
	Send: burst,
	Check: func(r *Run) {
		linkedTunnel(r)
		r.wantWaitsBelow("r1", "tun", "eth1")
	},
})

// wantWaitsBelow checks that packets which went into a tunnel by tun left the queue of port, below it,
// when those around them did.
func (r *Run) wantWaitsBelow(node, tun, port string) {
	r.T.Helper()
	left := make(map[string]int64) // when, by the packet inside
	for i := range r.Records {
		if h := &r.Records[i].Hops[0]; r.Records[i].Inner != "" && h.Node == node && h.Port == port && h.QueueNs != nil {
			left[r.Records[i].Inner] = r.Records[i].TNs + *h.AtNs + *h.QueueNs
		}
	}
	waited := 0
	for i := range r.Records {
		rec := &r.Records[i]
		for _, h := range rec.Hops {
			if h.Node != node || h.Port != tun {
				continue
			}
			at, below := left[rec.ID]
			switch {
			case below != (h.QueueNs != nil):
				r.T.Errorf("a wait in the queue below %s/%s is %v, in the record of the packet inside %v\n  record %s", node, tun, below, !below, show(rec))
			case below && rec.TNs+*h.AtNs+*h.QueueNs != at:
				r.T.Errorf("the wait below %s/%s ends %v from that of the packet around it\n  record %s", node, tun, time.Duration(rec.TNs+*h.AtNs+*h.QueueNs-at), show(rec))
			case below:
				waited++
			}
		}
	}
	if waited == 0 && r.Mode == Mark { // only a mark shows what is inside
		r.T.Errorf("no packet waited below %s/%s", node, tun)
	}
}

var _ = add(Case{
	Name: "tunnels/trains", Point: 6,
	Shows: "TCP trains through a tunnel, whose outer packets are cut in the domain",
	Needs: []string{"vxlan", "ethtool"},
	// Trains of a tunnel have no records, those inside must.
	Counters: map[string]int{"not_measured_segs": some},
	Build: func(w *World) {
		viaTunnel(w, "vxlan", "id", "42", "dstport", "4789")
		// No answers: GRO joins what comes out of the tunnel, unless a capture has a copy
		// of it, and far answers each skb.
		w.NFT("far", `table ip t {
			chain c { type filter hook prerouting priority -300; ip protocol tcp drop; }
		}`)
		w.Run("r2", "ethtool", "-K", "eth1", "tso", "off", "gso", "off", "tx", "off")
	},
	Send: func(w *World) {
		for _, segments := range []int{2, 5, 17} {
			p := w.TCP("10.0.1.1", "10.0.4.2", ACK, segments*1000-300)
			w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000)
		}
	},
})

var _ = add(Case{
	Name: "tunnels/outside", Point: 6,
	Shows: "a tunnel that ends outside of the domain: inner and outer headers are true there",
	Needs: []string{"vxlan"},
	Build: func(w *World) {
		chain(w)
		tunnelEnd(w, "r1", "10.0.9.1/24", "10.0.2.1", "10.0.4.2", []string{"vxlan", "id", "42", "dstport", "4789"})
		tunnelEnd(w, "far", "10.0.9.2/24", "10.0.4.2", "10.0.2.1", []string{"vxlan", "id", "42", "dstport", "4789"})
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for i := range 4 {
			w.Send("out", w.UDP("10.0.1.1", "10.0.9.2", 40+100*i))
		}
	},
	Rules: []Rule{{
		Name: "outer-id", Why: "the kernel draws the IP ID of a tunnel's packets",
		Apply: func(frame []byte, d *decoded) {
			if d != nil && d.version == 4 && d.proto == 17 && d.dport == 4789 {
				setID(frame[d.l3:], 0)
			}
		},
	}},
})

var _ = add(Case{
	Name: "tunnels/loss", Point: 6,
	Shows: "a rule that drops the packets around: both have their loss at its place",
	Needs: []string{"vxlan"},
	Modes: []Mode{Mark},
	Build: func(w *World) {
		viaTunnel(w, "vxlan", "id", "42", "dstport", "4789")
		w.NFT("r2", `table ip t {
			chain f { type filter hook forward priority 0; udp dport 4789 counter drop; }
		}`)
		w.Counters("r2")
	},
	Send: func(w *World) {
		for range 4 {
			w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 60)).Lost("r2", "NETFILTER_DROP")
		}
	},
})

// cutInside is the chain, of which r2 sends to r3 by a bridge whose own queue cuts trains:
// between the ports that radar is attached to.
func cutInside(w *World) {
	w.Nodes("out", "r1", "r2", "r3", "far")
	w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
	w.Link("r1", "eth1", "10.0.2.1/24", "r2", "eth0", "10.0.2.2/24")
	w.Link("r2", "eth1", "", "r3", "eth0", "10.0.3.2/24")
	w.Bridge("r2", "br", "eth1")
	w.Addresses("r2", "br", "10.0.3.1/24")
	w.Link("r3", "eth1", "10.0.4.1/24", "far", "eth0", "10.0.4.2/24")
	w.Forward("r1", "r2", "r3")
	w.Route("out", "default", "10.0.1.2")
	w.Route("far", "default", "10.0.4.1")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r2", "10.0.4.0/24", "10.0.3.2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("r3", "10.0.1.0/24", "10.0.3.1")
	w.Queue("r2", "br", "tbf", "rate", "100mbit", "burst", "3000", "limit", "1mb")
	w.Attach("r1", "r2", "r3")
}

var _ = add(Case{
	Name: "offload/cut-inside", Point: 9,
	Shows: "TCP trains that the queue of a bridge inside a node cuts",
	Needs: []string{"tbf"},
	Build: cutInside,
	Send:  tcpTrains,
})

var _ = add(Case{
	Name: "offload/cut-inside-udp", Point: 9,
	Shows: "the same of UDP datagrams with equal content",
	Needs: []string{"tbf", "udp-gso"},
	Build: func(w *World) {
		cutInside(w)
		w.Listen("far", "0.0.0.0:7")
	},
	Send: func(w *World) {
		for _, segments := range []int{2, 5, 17} {
			w.SendTrain("out", "eth0", mac("r1", "eth0"), w.UDP("10.0.1.1", "10.0.4.2", segments*1000-300), 1000)
		}
	},
})
