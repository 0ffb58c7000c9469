// SPDX-License-Identifier: Apache-2.0

package transparency

// Drops and translations of IPv6: as for IPv4, each has its place and its reason.

var _ = add(Case{
	Name: "drops6/routing", Point: 5,
	Shows: "IPv6 packets that have no route: none at all, blackhole, prohibit and unreachable routes, an end of the hop limit",
	Build: func(w *World) {
		chain6(w)
		w.Route("r1", "fd00:9::/32", "fd00:2::2")
		for i, kind := range []string{"blackhole", "prohibit", "unreachable"} {
			w.Run("r2", "ip", "-6", "route", "add", kind, "fd00:9:"+string(rune('1'+i))+"::/48")
		}
	},
	Send: func(w *World) {
		for range 3 {
			for _, to := range []string{"fd00:9::1", "fd00:9:1::1", "fd00:9:2::1", "fd00:9:3::1"} {
				w.Send("out", w.UDP(out6, to, 40)).Lost("r2", "")
			}
			short := w.UDP(out6, far6, 40)
			short.TTL = 2
			w.Send("out", short).Lost("r2", "IP_INHDR")
		}
	},
})

var _ = add(Case{
	Name: "drops6/translated", Point: 5,
	Shows: "IPv6 packets that a router translates and then drops, in both directions",
	Needs: []string{"nat"}, Modes: []Mode{Mark}, LocalDrops: true,
	Limits: []Limit{{
		Text:  "IPv6 packets that came for an address of a router's own, were translated and then dropped show as delivered, with a drop after delivery",
		Match: `it is delivered, want lost|counter local_drop is 6`,
	}},
	Build: func(w *World) {
		chain6(w)
		w.NFT("r2", `table ip6 t {
			chain p { type nat hook prerouting priority -100
				ip6 daddr fd00:2::2 udp dport 80 dnat to [fd00:4::2]:7
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
	},
	Send: func(w *World) {
		for i := range 3 {
			p := w.UDP(out6, "fd00:2::2", 40+i)
			p.Dport = 80
			w.Send("out", p).Lost("r2", "NETFILTER_DROP")
			ask := w.UDP(out6, far6, 40+i)
			ask.Dport = 8
			w.Send("out", ask)
			answer := w.UDP(far6, "fd00:3::1", 40+i)
			answer.Sport, answer.Dport = 8, ask.Sport
			w.Send("far", answer).Lost("r2", "NETFILTER_DROP")
		}
	},
})

var _ = add(Case{
	Name: "nat6/both", Point: 5,
	Shows: "an IPv6 server behind a router that translates destinations and ports, before one that translates sources; errors of a host behind them",
	Needs: []string{"nat"},
	// Two changes of an IPv6 packet's addresses take the room of six nodes.
	Flags: []string{"--max-hops", "12"},
	Build: func(w *World) {
		chain6(w)
		w.NFT("r1", `table ip6 t {
			chain p { type nat hook prerouting priority -100
				ip6 daddr fd00:1::2 udp dport { 80, 81 } counter dnat to fd00:4::2
				ip6 daddr fd00:1::2 icmpv6 type echo-request counter dnat to fd00:4::2
			}
		}`)
		w.NFT("r3", `table ip6 t {
			chain q { type nat hook postrouting priority 100
				udp dport { 80, 81 } counter snat to fd00:4::1
				icmpv6 type echo-request counter snat to fd00:4::1
			}
		}`)
		w.Listen("far", "[::]:80")
		w.Counters("r1")
		w.Counters("r3")
	},
	// Under --carry header what came for an address of the translating node's own is
	// called delivered there, and a second story begins. See docs/transparency.md.
	Check: falseDeliveries(25),
	Send: func(w *World) {
		for i := range 5 {
			for _, port := range []uint16{80, 81} { // nobody listens at 81
				p := w.UDP(out6, "fd00:1::2", 140+i)
				p.Dport, p.Label = port, uint32(i)*0x3333
				w.Send("out", p)
			}
			w.Send("out", w.Echo(out6, "fd00:1::2", 40+i))
		}
	},
})

const redirectRules6 = `table ip6 t {
	chain p { type nat hook prerouting priority -100
		udp dport 53 counter redirect to :5353
		udp dport 54 counter dnat to [fd00:1::2]:5353
	}
	chain i { type filter hook input priority 0
		udp dport 5353 @th,64,32 0x52647220 counter
		udp dport 5353 ip6 length 120 counter drop
	}
}`

var _ = add(Case{
	Name: "nat6/redirect", Point: 5,
	Shows: "IPv6 datagrams to others that a router's rules hand to a socket of its own, whole and in fragments; some are dropped there",
	Needs: []string{"nat", "local_in"}, Fresh: true, LocalDrops: true,
	Counters: map[string]int{"local_drop": some},
	Modes:    []Mode{Mark},
	Build: func(w *World) {
		chain6(w)
		w.NFT("r1", redirectRules6)
		w.Listen("r1", "[::]:5353")
		w.Counters("r1")
	},
	Send: func(w *World) {
		for i := range 6 {
			p := w.UDP(out6, far6, 40+i)
			p.Dport = 53 + uint16(i%2)
			w.Send("out", p).Ends("delivered")
		}
		dropped := w.UDP(out6, far6, 112)
		dropped.Dport = 53
		w.Send("out", dropped).Ends("delivered")
		p := w.UDP(out6, far6, 2000)
		p.Dport = 53
		for _, b := range Fragments6(p, 5, 800) {
			w.SendBytes("out", b)
		}
		w.Expect(p.Token).Ends("delivered")
		w.Send("out", w.UDP(out6, far6, 60)) // and what is not redirected goes on
	},
})
