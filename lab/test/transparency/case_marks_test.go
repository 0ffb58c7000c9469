// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Marks: rules of a node that use bits of skb->mark work as without radar, and rules
// that look at header fields see the true ones.

// notReports keeps what a node says of its multicast groups, when it likes, from a chain's counters.
const notReports = "icmpv6 type mld2-listener-report return"

// markUsers gives the routers of a chain rules that use marks: r1 some bits, for policy
// routing; r2 the mark as a whole, saved in the connection's and restored from it.
func (v version) markUsers(w *World) {
	v.build(w)
	passing := ""
	if v.table == "ip6" {
		passing = notReports
	}
	w.NFT("r1", `table `+v.table+` t {
		chain p { type filter hook prerouting priority -150
			udp dport 7 meta mark set meta mark | 0x07000000 counter
		}
		chain q { type filter hook postrouting priority 0
			meta mark & 0xff000000 == 0x07000000 counter
		}
	}`)
	v.iproute(w, "r1", "rule add fwmark 0x07000000/0xff000000 table 107")
	v.iproute(w, "r1", "route add "+v.right+" via "+v.r2+" table 107")
	w.NFT("r2", `table `+v.table+` t {
		chain p { type filter hook prerouting priority -150
			`+passing+`
			ct state new udp dport 7 meta mark set 0x80000001 ct mark set meta mark counter
			ct state != new meta mark set ct mark counter
		}
		chain q { type filter hook postrouting priority 0
			`+passing+`
			meta mark 0x80000001 counter
			meta mark 0 counter
			counter
		}
	}`)
	v.iproute(w, "r2", "rule add fwmark 0x80000001 table 108")
	v.iproute(w, "r2", "route add "+v.right+" via "+v.toFar+" table 108")
	v.iproute(w, "r2", "route add "+v.left+" via "+v.toOut+" table 108")
	v.iproute(w, "r2", "route del "+v.right) // only those with the mark have a route
	v.iproute(w, "r2", "route add "+v.other+" via "+v.toFar)
	w.Addresses("far", "eth0", v.other+v.right[strings.Index(v.right, "/"):])
	w.Counters("r1")
	w.Counters("r2")
}

func (v version) sendMarked(w *World) {
	for i := range 5 {
		p := w.UDP(v.out, v.far, 40+i)
		w.Send("out", p)
		answer := w.UDP(v.far, v.out, 40+i)
		answer.Sport, answer.Dport = 7, p.Sport
		w.Send("far", answer)
		q := w.UDP(v.out, v.far, 60+i)
		q.MayFrag, q.Label = true, 0x54321
		w.Send("out", q)
		w.Send("out", w.Echo(v.out, v.other, 40+i))
	}
}

// carriesHeader wants one node and no other to carry the header.
func carriesHeader(node string) func(r *Run) {
	return func(r *Run) {
		for _, n := range r.Status.Nodes {
			if (n.Header != "") != (n.Name == node) {
				r.T.Errorf("node %s carries the header: %q", n.Name, n.Header)
			}
		}
	}
}

func (v version) markRules(name string) Case {
	return Case{
		Name: name, Point: 10,
		Shows: "policy routing and CONNMARK in nodes of a domain that chose free bits, and the header where there are none",
		Needs: []string{"nat"}, Fresh: true,
		Modes: []Mode{Mark}, Flags: []string{"--carry", "auto"},
		Build: v.markUsers, Send: v.sendMarked,
		Check: func(r *Run) {
			carriesHeader("r2")(r)
			if r.Status.Options.Carry != "mark=0x00ffff80" { // of 64K slots
				r.T.Errorf("carried in %s, want bits below those that r1 uses", r.Status.Options.Carry)
			}
		},
	}
}

func (v version) markHeader(name string) Case {
	return Case{
		Name: name, Point: 10,
		Shows: "the same where all nodes carry the header",
		Needs: []string{"nat"}, Modes: []Mode{Header},
		Build: v.markUsers, Send: v.sendMarked,
	}
}

var (
	_ = add(v4.markRules("marks/rules"))
	_ = add(v6.markRules("marks6/rules"))
	_ = add(v4.markHeader("marks/header"))
	_ = add(v6.markHeader("marks6/header"))
)

// seeing gives r2 rules that match TTL, DSCP and IP ID.
func seeing(w *World) {
	chain(w)
	w.NFT("r2", `table ip t {
		chain c1 { type filter hook prerouting priority 0
			ip ttl 63 counter
			ip ttl 39 counter
			ip dscp ef counter
			ip dscp af11 counter
			ip id 4660 counter
			ip id 0 counter
		}
		chain c2 { type filter hook postrouting priority 0
			ip ttl 62 counter
			ip ttl 38 counter
			ip dscp ef counter
			ip dscp af11 counter
			ip id 4660 counter
			ip id 0 counter
		}
	}`)
	w.Listen("far", "0.0.0.0:7")
	w.Counters("r2")
	w.Attach("r1", "r2", "r3")
}

func sendSeen(w *World) {
	for i := range 12 {
		p := w.UDP("10.0.1.1", "10.0.4.2", 40+i)
		p.TTL, p.TOS, p.MayFrag = []uint8{64, 40}[i%2], []uint8{0xb8, 0x28, 0}[i%3], i%4 == 3
		if i%4 == 1 {
			p.ID = 4660
		}
		w.Send("out", p)
	}
}

var _ = add(Case{
	Name: "marks/true-fields", Point: 10,
	Shows: "rules of a router that match TTL, DSCP and IP ID count the same",
	Needs: []string{"nat"}, Build: seeing, Send: sendSeen,
	Limits: []Limit{{
		Modes: []Mode{Header},
		Text:  "in a node that carries the header, rules see rewritten TTL and IP ID on packets that it passes on",
		Match: `nft rules of r2`, Times: 6,
	}},
})

var _ = add(Case{
	Name: "marks/sockets", Point: 10,
	Shows: "sockets with a mark of their own, and answers that inherit one (fwmark_reflect)",
	Needs: []string{"nat"}, Fresh: true,
	Modes: []Mode{Mark}, Flags: []string{"--carry", "auto"},
	Build: func(w *World) {
		chain(w)
		w.Sysctl("r3", "ipv4/fwmark_reflect", "1")
		w.NFT("r3", `table ip t {
			chain c { type filter hook output priority 0
				meta mark 0 counter
				meta mark != 0 counter
			}
		}`)
		w.NFT("r1", `table ip t {
			chain c { type filter hook postrouting priority 0
				meta mark & 0xff == 5 counter
			}
		}`)
		w.Listen("far", "0.0.0.0:7")
		w.Counters("r1")
		w.Counters("r3")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		s := w.Socket("r1", "10.0.2.1:4000", [3]int{unix.SOL_SOCKET, unix.SO_MARK, 5})
		for i := range 5 {
			s.Send("10.0.4.2:7", 40+i)
			w.Send("out", w.Echo("10.0.1.1", "10.0.3.2", 40+i)) // r3 answers
		}
	},
	Rules: []Rule{{
		Name: "socket-id", Why: "a socket draws its first IP ID",
		Apply: func(frame []byte, d *decoded) {
			if d != nil && d.version == 4 && d.proto == unix.IPPROTO_UDP {
				setID(frame[d.l3:], 0)
			}
		},
	}},
	Check: func(r *Run) {
		for _, n := range r.Status.Nodes {
			if (n.Header != "") != (n.Name == "r3") {
				r.T.Errorf("node %s carries the header: %q", n.Name, n.Header)
			}
		}
	},
})
