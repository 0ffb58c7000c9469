// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"github.com/vishvananda/netns"
)

// macvlan adds one to a node's port and moves it to another node.
func macvlan(w *World, node, port, to, name, addr string) {
	w.T.Helper()
	above(w, node, port, to, name, addr, "macvlan", "mode", "bridge")
}

// above adds an interface of some kind to a node's port and moves it to another node.
func above(w *World, node, port, to, name, addr string, kind ...string) {
	w.T.Helper()
	w.Run(node, append([]string{"ip", "link", "add", "name", name, "link", port, "type"}, kind...)...)
	h := w.Handle(node)
	l, err := h.LinkByName(name)
	if err == nil {
		var ns netns.NsHandle
		if ns, err = netns.GetFromPath(w.Path(to)); err == nil {
			err = h.LinkSetNsFd(l, int(ns))
			ns.Close()
		}
	}
	if err != nil {
		w.T.Fatalf("%s %s for %s: %v", kind[0], name, to, err)
	}
	w.fixMAC(to, name)
	w.Up(to, name)
	w.Addresses(to, name, addr)
}

var _ = add(Case{
	Name: "bridges/macvlan", Point: 4,
	Shows: "macvlan interfaces of other nodes on a node's port: true headers in them, unicast and copies of groups",
	Needs: []string{"macvlan"},
	Build: func(w *World) {
		silent(w, "out", "r", "h", "c1", "c2")
		w.Link("out", "eth0", "10.0.1.1/24", "r", "eth0", "10.0.1.2/24")
		w.Link("r", "eth1", "10.0.2.1/24", "h", "eth0", "")
		w.Forward("r")
		macvlan(w, "h", "eth0", "c1", "m0", "10.0.2.2/24")
		macvlan(w, "h", "eth0", "c2", "m0", "10.0.2.3/24")
		for _, n := range []string{"c1", "c2"} {
			w.Route(n, "default", "10.0.2.1")
			w.Listen(n, "0.0.0.0:7")
		}
		w.Route("out", "default", "10.0.1.2")
		w.Listen("out", "0.0.0.0:7")
		w.Attach("r", "h", "c1")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			for _, ends := range [][2]string{{"out", "10.0.1.1"}, {"c1", "10.0.2.2"}, {"c2", "10.0.2.3"}} {
				for _, dst := range []string{"10.0.1.1", "10.0.2.2", "10.0.2.3"} {
					if dst == ends[1] {
						continue
					}
					p := w.UDP(ends[1], dst, 60)
					p.MayFrag = clear
					w.Send(ends[0], p)
				}
			}
			p := w.UDP("10.0.2.1", "10.0.2.255", 60)
			p.MayFrag = clear
			w.SendFrame("r", "eth1", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered")
		}
	},
	Limits: []Limit{{
		Text: "a packet for a macvlan interface on a node's port ends at that port as expired, a broadcast as ignored, though it arrives; " +
			"what macvlans of one port send each other is not in records of that port",
		Match: `(?s)it is (expired|ignored), want delivered.*\[eth0 h \]|passed h/eth0 in once, its records say 0 times`,
	}, {
		Modes: []Mode{Mark},
		Text:  "radar's bits of skb->mark stay on packets that a macvlan takes from a node's port into another namespace",
		Match: `counter mark_busy is`,
	}, {
		Modes: []Mode{Header},
		Text:  "under --carry header macvlan interfaces on a node's port, in namespaces that are not attached, get rewritten TTL and ID",
		Match: `c2/m0 in: .*differs in id|UDP socket c2`,
	}},
})
