// SPDX-License-Identifier: Apache-2.0

package transparency

import "strings"

// Translation of addresses: what leaves the domain is what would leave without radar,
// and a record is one story through the change.

// headerNAT is what --carry header cannot do: without a mark, a packet that a node
// translates is known by its bits alone.
func headerNAT(match string) []Limit {
	return []Limit{{
		Modes: []Mode{Header},
		Text:  "under --carry header the story of a packet ends at a node that translates its addresses, if it is found by key (DF clear, low TTL) or came for an address of that node's own",
		Match: match,
	}}
}

var _ = add(Case{
	Name: "nat/masquerade", Point: 5,
	Shows: "datagrams, echoes and answers through a masquerading router; errors of a router and of a host behind it",
	Needs: []string{"nat"},
	Build: func(w *World) {
		chain(w)
		w.NFT("r2", `table ip t {
			chain c { type nat hook postrouting priority 100
				oifname "eth1" counter masquerade
			}
		}`)
		w.Listen("far", "0.0.0.0:7")
		w.Counters("r2")
		w.Attach("r1", "r2", "r3")
	},
	Limits: headerNAT(`it is expired, want lost|its records say 0 times`),
	Send: func(w *World) {
		for i := range 5 {
			w.Send("out", w.UDP("10.0.1.1", "10.0.4.2", 40+i))
			w.Send("out", w.Echo("10.0.1.1", "10.0.4.2", 40+i))
			closed := w.UDP("10.0.1.1", "10.0.4.2", 60+i)
			closed.Dport = 9 // nobody there: the answer quotes the translated packet
			w.Send("out", closed)
			short := w.UDP("10.0.1.1", "10.0.4.2", 80+i)
			short.TTL = 3
			w.Send("out", short).Lost("r3", "IP_INHDR")
		}
	},
})

var _ = add(Case{
	Name: "nat/both", Point: 5,
	Shows: "a server behind a router that translates destinations and ports, before one that translates sources; two translations on one path",
	Needs: []string{"nat"},
	Build: func(w *World) {
		chain(w)
		w.NFT("r1", `table ip t {
			chain p { type nat hook prerouting priority -100
				ip daddr 10.0.1.2 udp dport 80 counter dnat to 10.0.4.2:7
				ip daddr 10.0.1.2 icmp type echo-request counter dnat to 10.0.4.2
			}
		}`)
		w.NFT("r3", `table ip t {
			chain q { type nat hook postrouting priority 100
				udp dport 7 counter snat to 10.0.4.1
				icmp type echo-request counter snat to 10.0.4.1
			}
		}`)
		w.Listen("far", "0.0.0.0:7")
		w.Counters("r1")
		w.Counters("r3")
		w.Attach("r1", "r2", "r3")
	},
	Check:  falseDeliveries(20),
	Limits: headerNAT(`it is expired, want|its records say 0 times`),
	Send: func(w *World) {
		for i := range 5 {
			for _, mayFrag := range []bool{false, true} {
				p := w.UDP("10.0.1.1", "10.0.1.2", 140+i)
				p.Dport, p.MayFrag = 80, mayFrag
				w.Send("out", p)
			}
			w.Send("out", w.Echo("10.0.1.1", "10.0.1.2", 40+i))
		}
	},
})

var _ = add(Case{
	Name: "nat/hairpin", Point: 5,
	Shows: "hosts on one side of a router that reach each other by its outer address",
	Needs: []string{"nat"},
	Build: func(w *World) {
		w.Nodes("out", "r", "in", "srv")
		w.Link("out", "eth0", "10.0.1.1/24", "r", "eth0", "10.0.1.2/24")
		w.Link("in", "eth0", "10.0.2.1/24", "r", "eth1", "10.0.2.2/24")
		w.Link("srv", "eth0", "10.0.3.1/24", "r", "eth2", "10.0.3.2/24")
		w.Route("out", "default", "10.0.1.2")
		w.Route("in", "default", "10.0.2.2")
		w.Route("srv", "default", "10.0.3.2")
		w.Forward("r")
		w.NFT("r", `table ip t {
			chain p { type nat hook prerouting priority -100
				ip daddr 10.0.1.2 udp dport 80 counter dnat to 10.0.3.1:7
				ip daddr 10.0.1.2 icmp type echo-request counter dnat to 10.0.3.1
			}
			chain q { type nat hook postrouting priority 100
				ip saddr 10.0.2.0/24 ip daddr 10.0.3.0/24 counter masquerade
			}
		}`)
		w.Listen("srv", "0.0.0.0:7")
		w.Counters("r")
		w.Attach("r", "in")
	},
	Limits: headerNAT(`passed r/eth2 out once, its records say 0 times`),
	Send: func(w *World) {
		for _, from := range []string{"in", "out"} {
			src := map[string]string{"in": "10.0.2.1", "out": "10.0.1.1"}[from]
			for i := range 4 {
				p := w.UDP(src, "10.0.1.2", 40+i)
				p.Dport = 80
				w.Send(from, p)
				w.Send(from, w.Echo(src, "10.0.1.2", 40+i))
			}
		}
	},
})

const redirectRules = `table ip t {
	chain p { type nat hook prerouting priority -100
		udp dport 53 counter redirect to :5353
		udp dport 54 counter dnat to ADDR:5353
	}
	chain i { type filter hook input priority 0
		udp dport 5353 @th,64,32 0x52647220 counter
		udp dport 5353 ip length 140 counter drop
	}
}`

var _ = add(Case{
	Name: "nat/redirect", Point: 5,
	Shows: "datagrams to others that a router's rules hand to a socket of its own, whole, in fragments and with DF clear; some are dropped there",
	Needs: []string{"nat", "local_in"}, Fresh: true, LocalDrops: true,
	Counters: map[string]int{"local_drop": some},
	Modes:    []Mode{Mark},
	Build:    func(w *World) { redirecting(w, "r1", "10.0.1.2") },
	Send:     sendRedirected,
})

var _ = add(Case{
	Name: "nat/redirect-header", Point: 5,
	Shows: "the same where the mark is not carried",
	Needs: []string{"nat"}, Fresh: true,
	Modes: []Mode{Header},
	Build: func(w *World) { redirecting(w, "r2", "10.0.2.2") },
	Send: func(w *World) {
		for i := range 4 {
			p := w.UDP("10.0.1.1", "10.0.4.2", 40+i)
			p.Dport = 53
			w.Send("out", p)
		}
	},
	Limits: []Limit{
		{Text: carriesNothing, Match: `no capture saw it at r2/eth0 out|it is left, want|passed r2/eth0 in`},
	},
})

var _ = add(Case{
	Name: "nat/to-itself-header", Point: 5,
	Shows: "datagrams that a router's rules translate to an address of its own, where the mark is not carried",
	Needs: []string{"nat"}, Fresh: true,
	Modes: []Mode{Header},
	Build: func(w *World) {
		redirectingBy(w, "r2", `table ip t {
			chain p { type nat hook prerouting priority -100
				udp dport 53 counter dnat to 10.0.2.2:5353
			}
		}`)
	},
	Send: func(w *World) {
		for i := range 4 {
			p := w.UDP("10.0.1.1", "10.0.4.2", 40+i)
			p.Dport = 53
			w.Send("out", p)
		}
	},
	Limits: []Limit{
		{Text: carriesNothing, Match: `no capture saw it at r2/eth0 out|it is left, want|passed r2/eth0 in`},
	},
})

func redirecting(w *World, node, addr string) {
	redirectingBy(w, node, strings.ReplaceAll(redirectRules, "ADDR", addr))
}

func redirectingBy(w *World, node, rules string) {
	chain(w)
	w.NFT(node, rules)
	w.Listen(node, "0.0.0.0:5353")
	w.Counters(node)
	w.Attach("r1", "r2", "r3")
}

func sendRedirected(w *World) {
	for i := range 6 {
		p := w.UDP("10.0.1.1", "10.0.4.2", 40+i)
		p.Dport, p.MayFrag = 53+uint16(i%2), i > 3
		w.Send("out", p).Ends("delivered")
	}
	dropped := w.UDP("10.0.1.1", "10.0.4.2", 112)
	dropped.Dport = 53
	w.Send("out", dropped).Ends("delivered")
	for _, size := range []int{2000, 9000} {
		p := w.UDP("10.0.1.1", "10.0.4.2", size)
		p.Dport, p.MayFrag = 53, true
		for _, b := range Fragments(p, 800) {
			w.SendBytes("out", b)
		}
		w.Expect(p.Token).Ends("delivered")
	}
	other := w.UDP("10.0.1.1", "10.0.4.2", 60) // and what is not redirected goes on
	w.Send("out", other)
}
