// SPDX-License-Identifier: Apache-2.0

package transparency

import "golang.org/x/sys/unix"

var _ = add(Case{
	Name: "marks6/true-fields", Point: 10,
	Shows: "rules of a router that match hop limit, DSCP and flow label count the same",
	Needs: []string{"nat"},
	Build: func(w *World) {
		chain6(w)
		fields := `
			ip6 dscp ef counter
			ip6 dscp af11 counter
			ip6 flowlabel 0x12345 counter
			ip6 flowlabel 0 counter
		}`
		w.NFT("r2", `table ip6 t {
			chain c1 { type filter hook prerouting priority 0
				`+notReports+`
				meta l4proto udp ip6 hoplimit 63 counter
				meta l4proto udp ip6 hoplimit 39 counter`+fields+`
			chain c2 { type filter hook postrouting priority 0
				`+notReports+`
				meta l4proto udp ip6 hoplimit 62 counter
				meta l4proto udp ip6 hoplimit 38 counter`+fields+`
		}`)
		w.Counters("r2")
	},
	Send: func(w *World) {
		for i := range 12 {
			p := w.UDP(out6, far6, 40+i)
			p.TTL, p.TOS, p.Label = []uint8{64, 40}[i%2], []uint8{0xb8, 0x28, 0}[i%3], []uint32{0, 0x12345}[i%4/3]
			w.Send("out", p)
		}
	},
	Limits: []Limit{{
		Modes: []Mode{Header},
		Text:  "in a node that carries the header, rules see rewritten hop limit and flow label on packets that it passes on",
		Match: `nft rules of r2`,
	}},
})

var _ = add(Case{
	Name: "marks6/sockets", Point: 10,
	Shows: "IPv6 sockets with a mark of their own, and answers that inherit one (fwmark_reflect)",
	Needs: []string{"nat"}, Fresh: true,
	Modes: []Mode{Mark}, Flags: []string{"--carry", "auto"},
	Build: func(w *World) {
		chain6(w)
		w.Sysctl("r3", "ipv6/fwmark_reflect", "1")
		w.NFT("r3", `table ip6 t {
			chain c { type filter hook output priority 0
				icmpv6 type echo-reply meta mark 0 counter
				meta mark != 0 counter
			}
		}`)
		w.NFT("r1", `table ip6 t {
			chain c { type filter hook postrouting priority 0
				meta mark & 0xff == 5 counter
			}
		}`)
		w.Sysctl("r1", "ipv6/auto_flowlabels", "0")
		w.Counters("r1")
		w.Counters("r3")
	},
	Send: func(w *World) {
		s := w.Socket("r1", "[fd00:2::1]:4000", [3]int{unix.SOL_SOCKET, unix.SO_MARK, 5})
		for i := range 5 {
			s.Send("["+far6+"]:7", 40+i)
			w.Send("out", w.Echo(out6, "fd00:3::2", 40+i)) // r3 answers
		}
	},
	Check: carriesHeader("r3"),
})
