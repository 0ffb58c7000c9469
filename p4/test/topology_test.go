// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"fmt"
	"net/netip"
	"slices"
)

// The network: h1 - s1 - s2 or s3 - s4 - h2, and c. Each link has a capture at one of its ends.
var links = []link{
	{"A", "h1", "eth0"}, {"L2", "s2", "eth0"}, {"L3", "s3", "eth0"}, {"R2", "s4", "eth1"}, {"R3", "s4", "eth2"},
	{"B", "h2", "eth0"}, {"T", "c", "eth0"},
}

type link struct{ name, machine, port string }

func hostMAC(n byte) []byte        { return []byte{2, 0, 0, 0, 0, n} }
func routerMAC(s, port int) mac    { return mac{2, 0, 0, 0, byte(s), byte(port)} }
func reportPort(s int) int         { return map[int]int{1: 4, 2: 3, 3: 3, 4: 4}[s] }
func insidePorts(s int) []int      { return map[int][]int{1: {2, 3}, 2: {1, 2}, 3: {1, 2}, 4: {2, 3}}[s] }
func l2Port(s, port int) uint32    { return uint32(100*s + port) }
func isEdge(s int) bool            { return s == 1 || s == 4 }
func nodeID(s int) uint32          { return 0xa0 + uint32(s) }
func switchOf(node uint32) int     { return int(node) - 0xa0 }
func hostAddr(v, n int) netip.Addr { return netip.MustParseAddr(hostAddrs[v][n-1]) }

// hostAddrs are addresses that no kernel has: nobody answers.
var hostAddrs = map[int][]string{4: {"10.0.1.77", "10.0.2.77"}, 6: {"fd00:1::77", "fd00:2::77"}}

// step is one link of a way through the network.
type step struct {
	link     string
	s        int // the switch behind it, 0: none
	in, out  int // its ports
	from, to mac // on the link; zero: as sent
}

// ways are those from h1 to h2.
var ways = [2][]step{way(2), way(3)}

func way(middle int) []step {
	m := fmt.Sprint(middle)
	return []step{
		{link: "A", s: 1, in: 1, out: middle},
		{link: "L" + m, s: middle, in: 1, out: 2, from: routerMAC(1, middle), to: routerMAC(middle, 1)},
		{link: "R" + m, s: 4, in: middle, out: 1, from: routerMAC(middle, 2), to: routerMAC(4, middle)},
		{link: "B", from: routerMAC(4, 1), to: mac(hostMAC(2))},
	}
}

// plain is the frame as routers send it on, hops routers later.
func plain(sent []byte, hops int, st step) []byte {
	b := slices.Clone(sent)
	if hops == 0 {
		return b
	}
	copy(b, st.to[:])
	copy(b[6:], st.from[:])
	p := parse(b)
	if p.v == 6 {
		b[p.l3+7] -= byte(hops)
	} else {
		b[p.l3+8] -= byte(hops)
		h := b[p.l3:][:int(b[p.l3]&15)*4]
		h[10], h[11] = 0, 0
		be.PutUint16(h[10:], ^ones(h))
	}
	return b
}
