// SPDX-License-Identifier: Apache-2.0

package transparency

import "fmt"

// Drops inside a switch: by rules of the bridge family, at ports that take nothing from
// each other, for lack of a port, in a port's queue, and at the bridge device above the
// ports.

// switched is a switch between h1, h2 and out; its bridge has an address.
func switched(w *World) {
	silent(w, "h1", "h2", "out", "sw")
	w.Bridge("sw", "br", hosts(w, "sw", "h1", "h2", "out")...)
	w.Addresses("sw", "br", "10.0.1.254/24")
	for _, h := range []string{"h2", "out"} {
		w.Listen(h, "0.0.0.0:7")
	}
	w.Attach("h1", "h2", "sw")
}

const bridgeRules = `table bridge t {
	chain c1 { type filter hook prerouting priority -300
		udp dport 101 counter drop
	}
	chain c2 { type filter hook forward priority 0
		udp dport 102 counter drop
		udp dport 103 oifname "to-h2" counter drop
	}
	chain c3 { type filter hook input priority 0
		udp dport 104 counter drop
	}
	chain c4 { type filter hook postrouting priority 0
		udp dport 105 oifname "to-h2" counter drop
	}
}`

var _ = add(Case{
	Name: "bridges/rules", Point: 4,
	Shows: "rules of the bridge family that drop in a switch: place and reason, of packets and of single copies",
	Build: func(w *World) {
		switched(w)
		w.NFT("sw", bridgeRules)
		w.Counters("sw")
	},
	Send: func(w *World) {
		to := func(port uint16, dst string) *Packet {
			p := w.UDP("10.0.1.1", dst, 60)
			p.Dport = port
			return p
		}
		w.Send("h2", w.UDP("10.0.1.2", "10.0.1.1", 60)) // h2 is known
		for range 2 {
			for _, port := range []uint16{101, 102, 103, 105} {
				w.Send("h1", to(port, "10.0.1.2")).Lost("sw", "NETFILTER_DROP")
			}
			w.Send("h1", to(104, "10.0.1.254")).Ends("delivered")
			for _, c := range []struct {
				port uint16
				ends []string
			}{
				{101, []string{"sw delivered"}}, // as the port is where the node takes it; the record has the drop
				{102, []string{"sw delivered"}},
				{103, []string{"sw delivered", "sw left"}},
				{104, []string{"h2 delivered", "sw delivered", "sw left"}},
				{105, []string{"sw delivered", "sw left"}},
			} {
				p := to(c.port, "10.0.1.255")
				w.SendFrame("h1", "eth0", everybody, p.Bytes())
				w.Expect(p.Token).Ends("delivered").Branches(c.ends...)
			}
		}
	},
	LocalDrops: true,
	Counters:   map[string]int{"local_drop": some},
	Limits:     headerLocalDrops,
})

var _ = add(Case{
	Name: "bridges/ports", Point: 4,
	Shows: "isolated ports of a switch, and ports that flood nothing: the loss has its place",
	Build: func(w *World) {
		switched(w)
		for _, p := range []string{"to-h1", "to-h2"} {
			w.Run("sw", "ip", "link", "set", "dev", p, "type", "bridge_slave", "isolated", "on")
		}
		w.Listen("sw", "0.0.0.0:7")
	},
	Send: func(w *World) {
		w.Send("h2", w.UDP("10.0.1.2", "10.0.1.254", 60)) // h2 is known
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", "10.0.1.2", 60)
			p.MayFrag = clear
			w.Send("h1", p).Lost("sw", "")
			p = w.UDP("10.0.1.1", "10.0.1.255", 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("sw delivered", "sw left")
		}
		w.Run("sw", "ip", "link", "set", "dev", "to-out", "type", "bridge_slave", "flood", "off")
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", "10.0.1.3", 60) // nobody has learned out's address
			p.MayFrag = clear
			w.Send("h1", p).Lost("sw", "")
		}
	},
	LocalDrops: true,
})

var _ = add(Case{
	Name: "bridges/queue", Point: 4,
	Shows: "a switch's port whose queue is full: a packet, and one copy of others, is lost there",
	Build: func(w *World) {
		switched(w)
		w.Listen("sw", "0.0.0.0:7")
		w.Queue("sw", "to-h2", "handle", "1:", "pfifo", "limit", "0")
		w.QueueCounters("sw", "to-h2")
	},
	Send: func(w *World) {
		w.Send("h2", w.UDP("10.0.1.2", "10.0.1.254", 60)) // h2 is known
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", "10.0.1.2", 60)
			p.MayFrag = clear
			w.Send("h1", p).Lost("sw", "QDISC_DROP")
			p = w.UDP("10.0.1.1", "10.0.1.255", 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("sw delivered", "sw left", "sw lost")
		}
	},
})

var _ = add(Case{
	Name: "bridges/above", Point: 4,
	Shows: "copies that nodes drop at a bridge device above their ports: each branch has its loss",
	Build: func(w *World) {
		silent(w, "h1", "h2", "h3", "out")
		segment(w, "a", "10.0.1", "out", "h1", "h2", "h3")
		for i, h := range []string{"h2", "h3"} {
			w.Run(h, "ip", "address", "flush", "dev", "a0")
			w.Bridge(h, "br", "a0")
			w.Address(h, "br", fmt.Sprintf("10.0.1.%d/24", i+2))
			w.NFT(h, `table ip t {
				chain c { type filter hook prerouting priority -300
					iifname "br" udp dport 101 counter drop
				}
			}`)
			w.Counters(h)
		}
		w.Attach("h1", "h2", "h3")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", theGroup, 60)
			p.Dport, p.MayFrag = 101, clear
			w.SendFrame("h1", "a0", groupMAC(theGroup), p.Bytes())
			w.Expect(p.Token).Ends("left").Branches("a left", "a left", "h2 lost", "h3 lost")
		}
	},
	Limits: []Limit{{
		Modes: []Mode{Header},
		Text:  "under --carry header a copy for a group that is freed at a bridge or VLAN device above a node's ports has no outcome: it is in flight, then expired",
		Match: `its copies end .*"h2 in_flight" "h3 in_flight"`,
	}},
	Check: func(r *Run) {
		if r.Mode == Mark {
			r.wantBranchLoss("h2", "a0", "nft_do_chain", "NETFILTER_DROP")
			r.wantBranchLoss("h3", "a0", "nft_do_chain", "NETFILTER_DROP")
		}
	},
})
