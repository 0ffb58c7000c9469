// SPDX-License-Identifier: Apache-2.0

package transparency

import "fmt"

// setRules are rules of a chain that set the TTL and the hop limit, each DSCP to another: in none
// of radar's bands, in several of them, too low for one.
func setRules(family, hook string) string {
	rules := ""
	for dscp, ttl := range []int{64, 100, 200, 255, 2} {
		rules += fmt.Sprintf("ip dscp %d ip ttl set %d\nip6 dscp %d ip6 hoplimit set %d\n", dscp, ttl, dscp, ttl)
	}
	return fmt.Sprintf("table %s t {\nchain c { type filter hook %s priority 0\n%s}\n}", family, hook, rules)
}

// datagrams are some for each of setRules.
func datagrams(w *World, src, dst string) (list []*Packet) {
	for dscp := range uint8(5) {
		some := []*Packet{w.UDP(src, dst, 60), w.UDP(src, dst, 0)}
		if some[0].Src.Is4() {
			p := w.UDP(src, dst, 60)
			p.MayFrag = true
			some = append(some, p)
		}
		for _, p := range some {
			p.TOS = dscp << 2
		}
		list = append(list, some...)
	}
	return list
}

// setKinds are packets of other kinds as well.
func setKinds(w *World, src, dst string) (list []*Packet) {
	for dscp := range uint8(5) {
		for _, p := range []*Packet{w.TCP(src, dst, SYN, 0), w.TCP(src, dst, ACK, 100), w.Echo(src, dst, 56)} {
			p.TOS = dscp << 2
			list = append(list, p)
		}
	}
	return append(datagrams(w, src, dst), list...)
}

var bothVersions = [][2]string{{"10.0.1.1", "10.0.4.2"}, {"fd00:1::1", "fd00:4::2"}}

var _ = add(Case{
	Name: "ttl/set-hidden", Point: 1,
	Shows: "packets whose TTL a router in the domain sets that radar is not attached to",
	Flags: aroundHidden,
	Build: func(w *World) {
		hidden(w)
		w.NFT("r2", setRules("inet", "forward"))
		w.Listen("far", "[::]:7")
	},
	Send: func(w *World) {
		for _, way := range bothVersions {
			for _, p := range setKinds(w, way[0], way[1]) {
				w.Send("out", p)
			}
		}
	},
	Counters: map[string]int{"ttl_set": some},
})

var _ = add(Case{
	Name: "ttl/set-in-node", Point: 1,
	Shows: "packets whose TTL a router sets that radar is attached to",
	Build: func(w *World) {
		chain(w)
		w.NFT("r2", setRules("inet", "forward"))
		w.Listen("far", "[::]:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, way := range bothVersions {
			for _, p := range setKinds(w, way[0], way[1]) {
				w.Send("out", p)
			}
		}
	},
	Counters: map[string]int{"ttl_set": orNone},
})

// setOnBridge is a bridge between attached nodes and one outside that sets the TTL of what it
// passes on: to one port, and to all.
func setOnBridge(name, shows string, rules func(w *World)) Case {
	return Case{
		Name: "ttl/" + name, Point: 1, Shows: shows,
		Build: func(w *World) {
			w.Nodes("h1", "h2", "h3", "out")
			segment(w, "a", "10.0.1", "out", "h1", "h2", "h3")
			for i, h := range []string{"h1", "h2", "h3", "out"} {
				w.Addresses(h, "a0", fmt.Sprintf("fd00:1::%d/64", i+1))
				w.Listen(h, "[::]:7")
				// What the bridge has learned would depend on when the node first says something.
				w.Run("a", "bridge", "fdb", "replace", mac(h, "a0").String(), "dev", "to-"+h, "master", "static")
			}
			oneReport(w, "h1", "h2", "h3", "out")
			rules(w)
			w.Attach("h1", "h2", "h3")
		},
		Send: func(w *World) {
			nodes := []string{"h2", "out"}
			for i, to := range [][2]string{{"10.0.1.2", "fd00:1::2"}, {"10.0.1.4", "fd00:1::4"}} {
				for _, p := range append(datagrams(w, "10.0.1.1", to[0]), datagrams(w, "fd00:1::1", to[1])...) {
					w.SendFrame("h1", "a0", mac(nodes[i], "a0"), p.Bytes())
					w.Expect(p.Token)
				}
			}
			for dscp := range uint8(5) {
				p := w.UDP("10.0.1.1", "10.0.1.255", 60)
				p.TOS = dscp << 2
				w.SendFrame("h1", "a0", everybody, p.Bytes())
				w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "h3 delivered", "a left", "a left")
			}
		},
		Rules:    []Rule{reports},
		Counters: map[string]int{"ttl_set": some},
	}
}

var (
	_ = add(setOnBridge("set-on-bridge", "packets whose TTL a bridge between nodes sets, by a rule of its family", func(w *World) {
		w.NFT("a", setRules("bridge", "forward"))
	}))
	_ = add(setOnBridge("set-by-br_netfilter", "the same by a router's rule that the bridge asks (br_netfilter)", func(w *World) {
		w.Sysctl("a", "bridge/bridge-nf-call-iptables", "1")
		w.Sysctl("a", "bridge/bridge-nf-call-ip6tables", "1")
		w.NFT("a", setRules("inet", "forward"))
	}))
)
