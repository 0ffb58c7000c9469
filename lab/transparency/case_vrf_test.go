// SPDX-License-Identifier: Apache-2.0

package transparency

var _ = add(Case{
	Name: "marks/vrf", Point: 10,
	Shows: "a router whose ports are in a VRF with a table of its own: forwarded packets, answers and sockets of the VRF",
	Needs: []string{"vrf"}, Fresh: true,
	Build: func(w *World) {
		chain6(w)
		w.Device("r2", "blue", "", "type", "vrf", "table", "10")
		for _, p := range []string{"eth0", "eth1"} {
			w.Run("r2", "ip", "link", "set", p, "master", "blue")
		}
		// Their addresses and routes have moved to the VRF's table, those via neighbours
		// are gone.
		for _, r := range [][2]string{{"10.0.1.0/24", "10.0.2.1"}, {"10.0.4.0/24", "10.0.3.2"},
			{"fd00:1::/64", "fd00:2::1"}, {"fd00:4::/64", "fd00:3::2"}} {
			w.Try("r2", "ip", "route", "del", r[0])
			w.Route("r2", r[0], r[1], "vrf", "blue")
		}
		for _, a := range [][2]string{{"eth0", "fd00:2::2/64"}, {"eth1", "fd00:3::1/64"}} {
			w.Try("r2", "ip", "-6", "addr", "add", a[1], "dev", a[0]) // IPv6 loses them
		}
	},
	Send: func(w *World) {
		for i := range 4 {
			for _, ip := range [][3]string{{"10.0.1.1", "10.0.4.2", "10.0.3.1"}, {out6, far6, "fd00:3::1"}} {
				w.Send("out", w.UDP(ip[0], ip[1], 40+i))
				w.Send("out", w.Echo(ip[0], ip[1], 40+i))
				w.Send("out", w.Echo(ip[0], ip[2], 40+i)) // the router in its VRF answers
				short := w.UDP(ip[0], ip[1], 60+i)
				short.TTL = 2
				w.Send("out", short).Lost("r2", "IP_INHDR")
			}
		}
	},
})
