// SPDX-License-Identifier: Apache-2.0

package transparency

import "strconv"

// MTU sets that of all ports of all nodes.
func (w *World) MTU(mtu int) {
	w.T.Helper()
	for _, n := range w.nodes {
		for _, l := range w.ports(n) {
			w.Run(n, "ip", "link", "set", l.Attrs().Name, "mtu", strconv.Itoa(mtu))
		}
	}
}

// Offload switches offloads of all ports of nodes: "gro on", ...
func (w *World) Offload(nodes []string, args ...string) {
	w.T.Helper()
	for _, n := range nodes {
		for _, l := range w.ports(n) {
			w.Run(n, append([]string{"ethtool", "-K", l.Attrs().Name}, args...)...)
		}
	}
}

var (
	routers = []string{"r1", "r2", "r3"}
	ends    = []string{"out", "far"}
	all     = []string{"out", "r1", "r2", "r3", "far"}
)

// talks are connections of both versions: a few bytes, and more than fit into a window.
func talks(w *World) {
	for i, size := range []int{100, 5000, 300000} {
		from, to := ":"+strconv.Itoa(5000+i), ":"+strconv.Itoa(80+i)
		w.Talk(talk{"out", "10.0.1.1" + from, "far", "10.0.4.2" + to, size, size / 2})
		w.Talk(talk{"far", "[" + far6 + "]" + from, "out", "[" + out6 + "]" + to, size / 2, size})
	}
}

// tcpCase is talks through chain.
func tcpCase(name, shows string, needs []string, build func(w *World)) Case {
	return Case{
		Name: "tcp/" + name, Point: 9, Shows: shows, Needs: needs,
		Build: func(w *World) {
			chain(w)
			w.Route("r1", "fd00:3::/64", "fd00:2::2")
			build(w)
			w.Attach("r1", "r2", "r3")
		},
		Send:  talks,
		Rules: []Rule{tcpStreams},
	}
}

var ethtool = []string{"ethtool"}

var (
	_ = add(tcpCase("plain", "connections of hosts' own stacks through the domain", nil, func(*World) {}))
	_ = add(tcpCase("jumbo", "the same over links with an MTU of 9,000", nil, func(w *World) { w.MTU(9000) }))
	_ = add(tcpCase("jumbo-beside", "a jumbo link beside links of 1,500", nil, func(w *World) {
		w.Run("r1", "ip", "link", "set", "eth1", "mtu", "9000")
		w.Run("r2", "ip", "link", "set", "eth0", "mtu", "9000")
	}))
	_ = add(pathMTU())
	_ = add(tcpCase("gro-on", "routers and hosts that join packets (GRO), where senders cut them themselves", ethtool, func(w *World) {
		w.Offload(all, "gro", "on")
		w.Offload(ends, "tso", "off", "gso", "off")
	}))
	_ = add(tcpCase("gro-off", "no GRO, and no segmentation offload anywhere", ethtool, func(w *World) {
		w.Offload(all, "gro", "off", "tso", "off", "gso", "off")
	}))
	_ = add(tcpCase("gro-jumbo", "GRO over jumbo links", ethtool, func(w *World) {
		w.MTU(9000)
		w.Offload(all, "gro", "on")
		w.Offload(ends, "tso", "off", "gso", "off")
	}))
	_ = add(tcpCase("tx-off", "checksums by software at every port", ethtool, func(w *World) { w.Offload(all, "tx", "off") }))
	_ = add(tcpCase("tx-off-in-domain", "checksums by software at routers, offloaded at hosts", ethtool, func(w *World) { w.Offload(routers, "tx", "off") }))
	_ = add(tcpCase("rx-off", "receivers that check by themselves what was offloaded", ethtool, func(w *World) { w.Offload(all, "rx", "off", "gro", "on") }))
)

// pathMTU is a case of connections whose segments do not fit into a link in the domain.
func pathMTU() Case {
	c := tcpCase("path-mtu", "jumbo links with one of 1,300 between them: hosts find the path's MTU", nil, func(w *World) {
		w.MTU(9000)
		narrow(w, 1300)
	})
	c.Point = 1
	c.Rules = append(c.Rules, quotedTCP)
	c.SentAnew = []string{"r2 PKT_TOO_BIG", "r3 PKT_TOO_BIG"}
	return c
}
