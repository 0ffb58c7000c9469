// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Drops by rules and by the lack of a route: each has its place and its reason, and
// what rules count is what records say.

var headerLocalDrops = []Limit{{
	Modes: []Mode{Header},
	Text:  "under --carry header drops after delivery (INPUT, sockets) are not seen: the header is true by then, and there is no mark",
	Match: `counter local_drop is 0, want`, Times: 1,
}}

const dropRules = `table inet t {
	chain c1 { type filter hook prerouting priority -300
		udp dport 101 counter drop
	}
	chain c2 { type filter hook forward priority 0
		udp dport 102 counter drop
		udp dport 103 counter reject
		udp dport 104 counter reject with icmpx admin-prohibited
	}
	chain c3 { type filter hook input priority 0
		udp dport 105 counter drop
	}
	chain c4 { type filter hook postrouting priority 200
		udp dport 106 counter drop
	}
	chain c5 { type filter hook output priority 0
		udp dport 107 counter drop
	}
}
table netdev n {
	chain c6 { type filter hook ingress device "eth0" priority 0
		udp dport 108 counter drop
	}
}`

// version is what the chain of one version of IP has for cases that both have.
type version struct {
	build               func(w *World)
	ip                  []string // of iproute2
	iptables            string
	table               string // nft's family
	out, far, r2        string // addresses of out and far, r2's towards out
	left, right         string // the outer links' networks
	toOut, toFar, other string // r2's next hops, an address of far's besides
}

var (
	v4 = version{
		build: func(w *World) {
			chain(w)
			w.Listen("far", "0.0.0.0:7")
			w.Attach("r1", "r2", "r3")
		},
		ip: []string{"ip"}, iptables: "iptables", table: "ip",
		out: "10.0.1.1", far: "10.0.4.2", r2: "10.0.2.2", left: "10.0.1.0/24", right: "10.0.4.0/24",
		toOut: "10.0.2.1", toFar: "10.0.3.2", other: "10.0.4.3",
	}
	v6 = version{
		build: chain6,
		ip:    []string{"ip", "-6"}, iptables: "ip6tables", table: "ip6",
		out: out6, far: far6, r2: "fd00:2::2", left: "fd00:1::/64", right: "fd00:4::/64",
		toOut: "fd00:2::1", toFar: "fd00:3::2", other: "fd00:4::3",
	}
)

// iproute runs ip with these words in a node.
func (v version) iproute(w *World, node, words string) {
	w.Run(node, slices.Concat(v.ip, strings.Fields(words))...)
}

// sendDropped sends datagrams to these ports, which r2's rules drop, and one to r2 itself,
// which they drop after delivery.
func (v version) sendDropped(w *World, ports ...uint16) {
	for _, port := range ports {
		p := w.UDP(v.out, v.far, 40)
		p.Dport = port
		w.Send("out", p).Lost("r2", "NETFILTER_DROP")
	}
	local := w.UDP(v.out, v.r2, 40)
	local.Dport = 105
	w.Send("out", local).Ends("delivered")
}

func (v version) dropsByNFT(name string) Case {
	return Case{
		Name: name, Point: 5,
		Shows: "rules that drop and reject at every hook of a router: place, reason and number",
		Needs: []string{"nat"}, LocalDrops: true,
		Counters: map[string]int{"local_drop": 3},
		Limits:   headerLocalDrops,
		Build: func(w *World) {
			v.build(w)
			w.NFT("r2", dropRules)
			w.Counters("r2")
		},
		Send: func(w *World) {
			for range 3 {
				v.sendDropped(w, 101, 102, 103, 104, 106, 108)
				pass := w.UDP(v.out, v.far, 40)
				pass.Dport = 107 // OUTPUT is for packets of the node's own
				w.Send("out", pass)
			}
		},
	}
}

func (v version) dropsByIPTables(name string) Case {
	return Case{
		Name: name, Point: 5,
		Shows: "the same by " + v.iptables,
		Needs: []string{v.iptables}, LocalDrops: true,
		Counters: map[string]int{"local_drop": 3},
		Limits:   headerLocalDrops,
		Build: func(w *World) {
			v.build(w)
			for _, rule := range []string{
				"-t raw -A PREROUTING -p udp --dport 101 -j DROP",
				"-A FORWARD -p udp --dport 102 -j DROP",
				"-A FORWARD -p udp --dport 103 -j REJECT",
				"-A INPUT -p udp --dport 105 -j DROP",
				"-t mangle -A POSTROUTING -p udp --dport 106 -j DROP",
			} {
				w.Run("r2", append([]string{v.iptables}, strings.Fields(rule)...)...)
			}
			w.Observe(v.iptables+" of r2", func() []string {
				var lines []string
				for _, table := range []string{"raw", "filter", "mangle"} {
					lines = append(lines, strings.Split(w.Run("r2", v.iptables, "-t", table, "-vnxL"), "\n")...)
				}
				return lines
			})
		},
		Send: func(w *World) {
			for range 3 {
				v.sendDropped(w, 101, 102, 103, 106)
			}
		},
	}
}

var (
	_ = add(v4.dropsByNFT("drops/nftables"))
	_ = add(v6.dropsByNFT("drops6/nftables"))
	_ = add(v4.dropsByIPTables("drops/iptables"))
	_ = add(v6.dropsByIPTables("drops6/ip6tables"))
)

var _ = add(Case{
	Name: "drops/routing", Point: 5,
	Shows: "packets that have no route: none at all, blackhole, prohibit and unreachable routes, a source that the filter refuses, an end of TTL",
	Build: func(w *World) {
		chain(w)
		w.Route("r1", "10.9.0.0/16", "10.0.2.2")
		w.Run("r2", "ip", "route", "add", "blackhole", "10.9.1.0/24")
		w.Run("r2", "ip", "route", "add", "prohibit", "10.9.2.0/24")
		w.Run("r2", "ip", "route", "add", "unreachable", "10.9.3.0/24")
		w.Sysctl("r2", "ipv4/conf/eth0/rp_filter", "1")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for range 3 {
			w.Send("out", w.UDP("10.0.1.1", "10.9.1.1", 40)).Lost("r2", "")
			w.Send("out", w.UDP("10.0.4.77", "10.0.4.2", 40)).Lost("r2", "")
			short := w.UDP("10.0.1.1", "10.0.4.2", 40)
			short.TTL = 2
			w.Send("out", short).Lost("r2", "IP_INHDR")
		}
		// Once each: the kernel rations these errors by time.
		for _, to := range []string{"10.9.0.1", "10.9.2.1", "10.9.3.1"} {
			w.Send("out", w.UDP("10.0.1.1", to, 40)).Lost("r2", "")
		}
	},
})

var _ = add(Case{
	Name: "drops/translated", Point: 5,
	Shows: "packets that a router translates and then drops, in both directions: lost in it, both tuples shown",
	Needs: []string{"nat"}, Modes: []Mode{Mark},
	Build: func(w *World) {
		chain(w)
		w.NFT("r2", `table ip t {
			chain p { type nat hook prerouting priority -100
				ip daddr 10.0.2.2 udp dport 80 dnat to 10.0.4.2:7
			}
			chain q { type nat hook postrouting priority 100
				oifname "eth1" masquerade
			}
			chain f { type filter hook forward priority 0
				udp dport 7 counter drop
				udp sport 8 counter drop
			}
		}`)
		w.Counters("r2")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for i := range 3 {
			p := w.UDP("10.0.1.1", "10.0.2.2", 40+i)
			p.Dport = 80
			w.Send("out", p).Lost("r2", "NETFILTER_DROP")
			ask := w.UDP("10.0.1.1", "10.0.4.2", 40+i)
			ask.Dport = 8
			w.Send("out", ask)
			answer := w.UDP("10.0.4.2", "10.0.3.1", 40+i) // to the router's own address
			answer.Sport, answer.Dport = 8, ask.Sport
			w.Send("far", answer).Lost("r2", "NETFILTER_DROP")
		}
	},
	Check: func(r *Run) {
		there, back := 0, 0
		for i := range r.Records {
			rec := &r.Records[i]
			if rec.State != record.Lost {
				continue
			}
			at := rec.Hops[len(rec.Hops)-1]
			switch {
			case rec.Dst == "10.0.2.2" && at.Dst == "10.0.4.2" && deref(at.Dport) == 7:
				there++
			case rec.Src == "10.0.4.2" && rec.Dst == "10.0.3.1" && at.Dst == "10.0.1.1" && rec.Loss.Node == "r2":
				back++
			default:
				r.T.Errorf("lost without its new addresses: %s, %+v", show(rec), at)
			}
		}
		if there != 3 || back != 3 {
			r.T.Errorf("%d lost forward, %d on the return path, want 3 and 3", there, back)
		}
	},
})
