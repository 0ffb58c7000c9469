// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
)

// Addresses: lane L, link k between the nodes k and k+1 of the line, host 1 is the end
// towards the line's beginning, 2 the other.
func addr4(lane, link, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(1 + lane), byte(link), byte(host)})
}

func addr6(lane, link, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0x77, 2: byte(1 + lane), 7: byte(link), 15: byte(host)})
}

// maxLanes is how many the addresses can tell apart, less what addresses of nobody need.
const maxLanes = 252

// nowhere are addresses that the first router drops packets for; nobody has them.
var nowhere = netip.MustParsePrefix("10.254.0.0/16")

// line lays links from each of the nodes to the next, and routes between all ends.
func (n *network) line(lane int, nodes []int) (ports []int, err error) {
	links := len(nodes) - 1
	for k := range links {
		ends := [2]end{
			{node: nodes[k], name: fmt.Sprintf("l%dright", lane)},
			{node: nodes[k+1], name: fmt.Sprintf("l%dleft", lane)},
		}
		for i := range ends {
			ends[i].addr = []netip.Prefix{netip.PrefixFrom(addr4(lane, k, i+1), 24)}
			if n.ipv6 {
				ends[i].addr = append(ends[i].addr, netip.PrefixFrom(addr6(lane, k, i+1), 64))
			}
		}
		p, err := n.connect(ends[0], ends[1])
		if err != nil {
			return nil, err
		}
		ports = append(ports, p[0], p[1])
	}
	for i := range nodes {
		for k := range links {
			var next func(addr func(int, int, int) netip.Addr) netip.Addr
			switch {
			case k > i:
				next = func(addr func(int, int, int) netip.Addr) netip.Addr { return addr(lane, i, 2) }
			case k < i-1:
				next = func(addr func(int, int, int) netip.Addr) netip.Addr { return addr(lane, i-1, 1) }
			default: // its own
				continue
			}
			if err := n.route(nodes[i], netip.PrefixFrom(addr4(lane, k, 0), 24), next(addr4)); err != nil {
				return nil, err
			}
			if n.ipv6 {
				if err := n.route(nodes[i], netip.PrefixFrom(addr6(lane, k, 0), 64), next(addr6)); err != nil {
					return nil, err
				}
			}
		}
	}
	return ports, nil
}

// newLine makes a network of one line: a host, routers, a host.
func newLine(routers int) (*network, error) {
	n, err := newNetwork(routers+2, false)
	if err != nil {
		return nil, err
	}
	nodes := make([]int, routers+2)
	for i := range nodes {
		nodes[i] = i
	}
	if _, err := n.line(0, nodes); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}
