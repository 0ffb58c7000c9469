// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"net"

	"golang.org/x/sys/unix"
)

var _ = add(Case{
	Fresh: true, // a hop limit and label that look like bits of older packets are counted (stale)
	Name:  "bridges/mld", Point: 4,
	Shows: "multicast and listener discovery of IPv6 over a bridge and a switch pass as they are, and are counted",
	Build: func(w *World) {
		w.Nodes("h1", "h2", "out", "sw", "far")
		w.Link("h1", "eth0", "fd00::1/64", "sw", "to-h1", "")
		w.Link("h2", "eth0", "fd00::2/64", "sw", "to-h2", "")
		w.Link("out", "eth0", "fd00::3/64", "sw", "to-out", "")
		w.Bridge("sw", "br", "to-h1", "to-h2", "to-out")
		segment(w, "a", "10.0.2", "far", "h1", "h2")
		w.Listen("h2", "[::]:7")
		w.Listen("out", "[::]:7")
		w.Attach("h1", "h2", "sw")
	},
	Send: func(w *World) {
		for _, port := range []string{"eth0", "a0"} {
			for _, group := range []string{"ff02::1", "ff05::123", "ff0e::123"} {
				for _, ttl := range []uint8{1, 64, 72} {
					p := w.UDP("fd00::1", group, 60)
					p.TTL = ttl
					w.SendFrame("h1", port, groupMAC6(group), p.Bytes())
					w.Expect(p.Token).Unmeasured()
				}
			}
			// A report of MLDv1 with its router alert, a query of MLDv2.
			for _, kind := range []uint8{130, 131, 143} {
				p := w.Echo("fd00::1", "ff0e::123", 40)
				p.TTL, p.ICMPType = 1, kind
				p.Extensions, p.Next = [][]byte{{0, 0, 5, 2, 0, 0, 1, 0}}, []uint8{0}
				w.SendFrame("h1", port, groupMAC6("ff0e::123"), p.Bytes())
				w.Expect(p.Token).Unmeasured()
			}
		}
	},
	// A multicast echo's kin are compared here, though the default rule leaves them out elsewhere.
	Check: func(r *Run) {
		for _, at := range []string{"out", "far"} {
			n := 0
			for _, c := range r.captures {
				for _, s := range c.seen {
					if c.node == at && s.decoded != nil && s.version == 6 && s.token != 0 && s.isICMP() {
						n++
						if s.frame[s.decoded.l3+7] != 1 {
							r.T.Errorf("%s: hop limit %d of listener discovery", at, s.frame[s.decoded.l3+7])
						}
					}
				}
			}
			if n != 3 {
				r.T.Errorf("%s: %d packets of listener discovery, want 3", at, n)
			}
		}
	},
	Counters: map[string]int{"not_measured_multicast": some, "not_measured_neighbour": some},
})

// groupMAC6 is where frames for an IPv6 group go (RFC 2464, 7).
func groupMAC6(group string) net.HardwareAddr {
	ip := net.ParseIP(group).To16()
	return append(net.HardwareAddr{0x33, 0x33}, ip[12:]...)
}

// tagged puts an 802.1Q tag into an Ethernet frame with an IPv4 packet.
func tagged(to, from net.HardwareAddr, vid byte, ip []byte) []byte {
	return ethernet(to, from, unix.ETH_P_8021Q, append([]byte{0, vid, 0x08, 0x00}, ip...))
}

var _ = add(Case{
	Name: "bridges/vlans", Point: 4,
	Shows: "a switch that filters by VLAN: copies stay in theirs, tags come and go, the rest is dropped",
	Needs: []string{"vlan-filter"},
	Build: func(w *World) {
		silent(w, "h1", "h2", "h3", "out", "sw")
		w.Bridge("sw", "br", hosts(w, "sw", "h1", "h2", "h3", "out")...)
		w.Run("sw", "ip", "link", "set", "dev", "br", "type", "bridge", "vlan_filtering", "1")
		for port, vid := range map[string]string{"to-h1": "10", "to-h2": "10", "to-h3": "20"} {
			w.Run("sw", "bridge", "vlan", "del", "dev", port, "vid", "1")
			w.Run("sw", "bridge", "vlan", "add", "dev", port, "vid", vid, "pvid", "untagged")
		}
		w.Run("sw", "bridge", "vlan", "del", "dev", "to-out", "vid", "1")
		w.Run("sw", "bridge", "vlan", "add", "dev", "to-out", "vid", "10")
		w.Run("sw", "bridge", "vlan", "add", "dev", "to-out", "vid", "20")
		for _, h := range []string{"h1", "h2", "h3"} {
			w.Listen(h, "0.0.0.0:7")
		}
		w.Attach("h1", "h2", "h3", "sw")
	},
	Send: func(w *World) {
		for _, clear := range []bool{false, true} {
			p := w.UDP("10.0.1.1", "10.0.1.255", 60)
			p.MayFrag = clear
			w.SendFrame("h1", "eth0", everybody, p.Bytes())
			w.Expect(p.Token).Ends("delivered").Branches("h2 delivered", "sw left")
			p = w.UDP("10.0.1.3", "10.0.1.255", 60) // nobody else is in VLAN 20
			p.MayFrag = clear
			w.SendFrame("h3", "eth0", everybody, p.Bytes())
			p = w.UDP("10.0.1.4", "10.0.1.3", 60)
			p.MayFrag = clear
			w.SendRaw("out", "eth0", tagged(mac("h3", "eth0"), mac("out", "eth0"), 20, p.Bytes()))
			w.Expect(p.Token).Ends("delivered")
			w.SendRaw("out", "eth0", tagged(everybody, mac("out", "eth0"), 30, w.UDP("10.0.1.4", "10.0.1.255", 60).Bytes()))
			w.Expect(w.serial).Lost("sw", "")
		}
	},
})
