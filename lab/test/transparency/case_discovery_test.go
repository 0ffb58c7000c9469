// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Discovery makes nodes find their neighbours by asking.
func (w *World) Discovery(nodes ...string) {
	w.T.Helper()
	w.asking = append(w.asking, nodes...)
}

var _ = add(Case{
	Name: "ipv6/discovery", Point: 3,
	Shows: "neighbours that hosts and routers find by asking: solicitations and advertisements pass untouched, with hop limit 255",
	Build: func(w *World) {
		// sw is a switch between out and r1.
		w.Nodes("out", "sw", "r1", "far")
		w.Link("out", "eth0", "fd00:1::1/64", "sw", "p1", "")
		w.Link("r1", "eth0", "fd00:1::2/64 fe80::1/64", "sw", "p2", "") // routers ask by link-local addresses
		w.Link("r1", "eth1", "fd00:2::1/64 fe80::1/64", "far", "eth0", "fd00:2::2/64")
		w.Bridge("sw", "br", "p1", "p2")
		w.Forward("r1")
		w.Route("out", "default", "fd00:1::2")
		w.Route("far", "default", "fd00:2::1")
		w.Discovery("out", "r1", "far")
		w.Listen("far", "[::]:7")
		w.Listen("out", "[::]:7")
		w.Attach("sw", "r1")
		w.Observe("neighbours", func() []string {
			var lines []string
			for _, n := range []string{"out", "r1", "far"} {
				for _, l := range strings.Split(w.Run(n, "ip", "-6", "neigh", "show"), "\n") {
					lines = append(lines, n+": "+strings.Join(strings.Fields(l)[:min(5, len(strings.Fields(l)))], " "))
				}
			}
			slices.Sort(lines)
			return lines
		})
	},
	Send: func(w *World) {
		for i := range 3 {
			w.Send("out", w.UDP("fd00:1::1", "fd00:2::2", 40+i))
			w.Send("far", w.UDP("fd00:2::2", "fd00:1::1", 40+i))
		}
		for _, kind := range []byte{133, 134, 137} { // router discovery, redirect
			p := w.Echo("fd00:1::1", "fd00:1::2", 56)
			p.ICMPType, p.TTL = kind, 255
			w.SendFrame("out", "eth0", mac("r1", "eth0"), p.Bytes())
			w.Expect(p.Token).Unmeasured()
		}
	},
	Seen: isDiscovery,
	Check: func(r *Run) { // without that, nothing is shown
		asked, answered := 0, 0
		for _, c := range r.captures {
			for _, s := range c.seen {
				if isDiscovery(s) && s.dir == in && (c.node == "out" || c.node == "far") {
					asked += btoi(s.icmpType == 135)
					answered += btoi(s.icmpType == 136)
					if hops := s.frame[s.decoded.l3+7]; hops != 255 {
						r.T.Errorf("discovery with hop limit %d", hops)
					}
				}
			}
		}
		if asked < 1 || answered < 1 {
			r.T.Errorf("%d solicitations and %d advertisements arrived, want some", asked, answered)
		}
	},
	Counters: map[string]int{"not_measured_neighbour": some},
})

// isDiscovery reports whether it is a message of neighbour or router discovery (RFC 4861).
func isDiscovery(s *sighting) bool {
	d := s.decoded
	return d != nil && d.version == 6 && d.proto == unix.IPPROTO_ICMPV6 && d.icmpType >= 133 && d.icmpType <= 137
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
