// SPDX-License-Identifier: Apache-2.0

package transparency

// chain is out - r1 - r2 - r3 - far, of which the routers are attached.
func chain(w *World) {
	w.Nodes("out", "r1", "r2", "r3", "far")
	w.Link("out", "eth0", "10.0.1.1/24 fd00:1::1/64", "r1", "eth0", "10.0.1.2/24 fd00:1::2/64")
	w.Link("r1", "eth1", "10.0.2.1/24 fd00:2::1/64", "r2", "eth0", "10.0.2.2/24 fd00:2::2/64")
	w.Link("r2", "eth1", "10.0.3.1/24 fd00:3::1/64", "r3", "eth0", "10.0.3.2/24 fd00:3::2/64")
	w.Link("r3", "eth1", "10.0.4.1/24 fd00:4::1/64", "far", "eth0", "10.0.4.2/24 fd00:4::2/64")
	w.Forward("r1", "r2", "r3")
	w.Route("out", "default", "10.0.1.2")
	w.Route("out", "default", "fd00:1::2")
	w.Route("far", "default", "10.0.4.1")
	w.Route("far", "default", "fd00:4::1")
	w.Route("r1", "10.0.4.0/24", "10.0.2.2")
	w.Route("r1", "fd00:4::/64", "fd00:2::2")
	w.Route("r1", "10.0.3.0/24", "10.0.2.2")
	w.Route("r2", "10.0.4.0/24", "10.0.3.2")
	w.Route("r2", "fd00:4::/64", "fd00:3::2")
	w.Route("r2", "10.0.1.0/24", "10.0.2.1")
	w.Route("r2", "fd00:1::/64", "fd00:2::1")
	w.Route("r3", "10.0.1.0/24", "10.0.3.1")
	w.Route("r3", "fd00:1::/64", "fd00:3::1")
	w.Route("r3", "10.0.2.0/24", "10.0.3.1")
}

var _ = add(Case{
	Name: "ttl/expiry", Point: 1,
	Shows: "errors of routers in the domain to packets whose TTL ends there, of every kind",
	Build: func(w *World) {
		chain(w)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		routers := []string{"r1", "r2", "r3"}
		for ttl := range 5 {
			for _, p := range []*Packet{
				w.UDP("10.0.1.1", "10.0.4.2", 60), w.TCP("10.0.1.1", "10.0.4.2", SYN, 0),
				w.TCP("10.0.1.1", "10.0.4.2", ACK, 100), w.Echo("10.0.1.1", "10.0.4.2", 56),
			} {
				p.TTL, p.TOS = uint8(ttl+1), 0x28
				s := w.Send("out", p)
				if ttl < len(routers) {
					s.Lost(routers[ttl], "IP_INHDR")
				}
			}
		}
	},
})
