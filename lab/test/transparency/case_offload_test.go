// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"golang.org/x/sys/unix"
)

// tcpTrains sends TCP trains of several lengths.
func tcpTrains(w *World) {
	for _, segments := range []int{2, 5, 17, 40} {
		p := w.TCP("10.0.1.1", "10.0.4.2", ACK, segments*1000-300)
		w.SendTrain("out", "eth0", mac("r1", "eth0"), p, 1000)
	}
}

var _ = add(Case{
	Name: "offload/tso", Point: 9,
	Shows: "TCP trains that stay whole through the domain",
	Build: func(w *World) {
		chain(w)
		w.Attach("r1", "r2", "r3")
	},
	Send: tcpTrains,
})

var _ = add(Case{
	Name: "offload/cut", Point: 9,
	Shows: "TCP trains that a device without TSO and checksum offload cuts in the domain",
	Needs: []string{"ethtool"},
	Build: func(w *World) {
		chain(w)
		w.Run("r2", "ethtool", "-K", "eth1", "tso", "off", "gso", "off", "tx", "off")
		w.Attach("r1", "r2", "r3")
	},
	Send: tcpTrains,
})

var _ = add(Case{
	Name: "offload/udp", Point: 9,
	Shows: "trains of UDP datagrams (UDP_SEGMENT) from a node of the domain",
	Needs: []string{"udp-gso"},
	Build: func(w *World) {
		chain(w)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		s := w.Socket("r1", "10.0.2.1:5555", [3]int{unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000})
		s.Connect("10.0.4.2:7")
		for _, size := range []int{900, 2000, 4700, 20000} {
			s.Send("", size)
		}
	},
	Rules: []Rule{{
		Name: "udp-gso-id", Why: "the kernel draws the first IP ID of a connected socket",
		Apply: func(frame []byte, d *decoded) {
			if d != nil && d.version == 4 && d.sport == 5555 {
				setID(frame[d.l3:], 0)
			}
		},
	}},
})
