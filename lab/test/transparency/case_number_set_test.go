// SPDX-License-Identifier: Apache-2.0

package transparency

import "fmt"

// Rules that set what holds radar's number on links: IPv4's ID, the flow label.

// setNumbers are rules of a chain that do.
func setNumbers(family, hook string) string {
	return fmt.Sprintf("table %s t {\nchain c { type filter hook %s priority 0\nip id set 4242\nip6 flowlabel set 5\n}\n}", family, hook)
}

// setNumberOnBridge is setOnBridge with rules that set the number.
func setNumberOnBridge(name, shows string, rules func(w *World)) Case {
	c := setOnBridge(name, shows, rules)
	c.Name, c.Fresh, c.Counters = "number/"+name, true, nil
	c.Send = func(w *World) {
		nodes := []string{"h2", "out"}
		for i, to := range [][2]string{{"10.0.1.2", "fd00:1::2"}, {"10.0.1.4", "fd00:1::4"}} {
			for _, p := range append(datagrams(w, "10.0.1.1", to[0]), datagrams(w, "fd00:1::1", to[1])...) {
				w.SendFrame("h1", "a0", mac(nodes[i], "a0"), p.Bytes())
				w.Expect(p.Token)
			}
		}
	}
	return c
}

var (
	_ = add(setNumberOnBridge("set-on-bridge", "packets whose IP ID and flow label a bridge between nodes sets, by rules of its family", func(w *World) {
		w.NFT("a", setNumbers("bridge", "forward"))
	}))
	_ = add(setNumberOnBridge("set-by-br_netfilter", "the same by a router's rules that the bridge asks (br_netfilter)", func(w *World) {
		w.Sysctl("a", "bridge/bridge-nf-call-iptables", "1")
		w.Sysctl("a", "bridge/bridge-nf-call-ip6tables", "1")
		w.NFT("a", setNumbers("inet", "forward"))
	}))
	_ = add(Case{
		Name: "number/set-in-node", Point: 1,
		Shows: "packets whose IP ID and flow label a router sets that radar is attached to",
		Fresh: true,
		Build: func(w *World) {
			chain(w)
			w.NFT("r2", setNumbers("inet", "forward"))
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
		Limits: []Limit{
			{Modes: []Mode{Header}, Text: carriesNothing, Match: `no capture saw it at r2/eth[01] out|it is left, want|passed r2/eth[01] in`},
		},
	})
)
