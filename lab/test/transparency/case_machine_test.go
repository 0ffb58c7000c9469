// SPDX-License-Identifier: Apache-2.0

package transparency

import "fmt"

// machineRouter is out - v - far, where v only bridges: the router is a virtual machine
// on two taps of v.
func machineRouter(w *World) {
	w.Nodes("out", "v", "far")
	w.Link("out", "eth0", "10.0.1.1/24", "v", "eth0", "")
	w.Link("v", "eth1", "", "far", "eth0", "10.0.2.2/24")
	neighbour := func(addr, node string) string {
		return fmt.Sprintf("ip neighbour add %s lladdr %v dev $dev; ", addr, mac(node, "eth0"))
	}
	w.Machine("v", "r", map[string]string{"tap0": "eth0", "tap1": "eth1"},
		card{"tap0", "10.0.1.2/24", neighbour("10.0.1.1", "out")},
		card{"tap1", "10.0.2.1/24", neighbour("10.0.2.2", "far") + "ip link set $dev mtu 1200; echo 1 > ipv4/ip_forward"})
	w.Run("out", "ip", "neighbour", "add", "10.0.1.2", "lladdr", mac("r", "tap0").String(), "dev", "eth0")
	w.Run("far", "ip", "neighbour", "add", "10.0.2.1", "lladdr", mac("r", "tap1").String(), "dev", "eth0")
	w.Route("out", "default", "10.0.1.2")
	w.Route("far", "default", "10.0.2.1")
	w.Attach("v")
	// What the machine gets and sends must not show a trace either.
	w.Outside("v/tap0", "v/tap1")
}

var _ = add(Case{
	Name: "function/machine", Point: 8,
	Shows: "packets through, to and from a router that is a virtual machine",
	Needs: []string{"tun", "uml"},
	Fresh: true, // a machine is behind ports of one run
	Flags: []string{"--vm", "r=v/tap0,v/tap1,10.0.1.2,10.0.2.1"},
	Build: func(w *World) {
		machineRouter(w)
		w.Listen("far", "0.0.0.0:7")
	},
	Send: func(w *World) {
		for ttl := range 4 {
			for _, p := range []*Packet{
				w.UDP("10.0.1.1", "10.0.2.2", 60), w.TCP("10.0.1.1", "10.0.2.2", ACK, 100), w.Echo("10.0.1.1", "10.0.2.2", 56),
			} {
				// 80 lies in a band: it must not be taken for radar's own.
				p.TTL, p.TOS = []uint8{1, 2, 80, 255}[ttl], 0x28
				if s := w.Send("out", p); p.TTL == 1 {
					s.Ends("expired") // the machine answered it
				}
			}
		}
		for _, size := range []int{1172, 1173, 1472} { // of which the first fits
			p := w.UDP("10.0.1.1", "10.0.2.2", size)
			if s := w.Send("out", p); size > 1172 {
				s.Ends("expired")
			}
		}
		// To the machine itself, and from it: its answers.
		w.Send("out", w.Echo("10.0.1.1", "10.0.1.2", 56)).Ends("delivered")
		w.Send("out", w.Echo("10.0.1.1", "10.0.2.1", 56)).Ends("delivered")
		w.Send("far", w.UDP("10.0.2.2", "10.0.2.1", 30)).Ends("delivered") // no socket: an error
		w.Send("far", w.Echo("10.0.2.2", "10.0.1.1", 800))
		same := w.UDP("10.0.1.1", "10.0.2.2", 0) // only the ID differs
		same.Payload = nil
		for id := range 3 {
			same.ID = uint16(100 + id)
			w.SendBytes("out", same.Bytes())
		}
	},
	// The datagrams to ports without a socket, and TCP without a connection.
	LocalDrops: true,
})
