// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
)

// Addresses: lane L, link k between the nodes k and k+1 of the line, host 1 is the end
// towards the line's beginning, 2 the other.
func Addr4(lane, link, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(1 + lane), byte(link), byte(host)})
}

func Addr6(lane, link, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0x77, 2: byte(1 + lane), 7: byte(link), 15: byte(host)})
}

// MaxLanes is how many the addresses can tell apart, less what addresses of nobody need.
const MaxLanes = 252

// Nowhere are addresses that the first router drops packets for; nobody has them.
var Nowhere = netip.MustParsePrefix("10.254.0.0/16")

// Line lays links from each of the nodes to the next, and routes between all ends.
func (n *Network) Line(lane int, nodes []int) (ports []int, err error) {
	links := len(nodes) - 1
	for k := range links {
		ends := [2]End{
			{Node: nodes[k], Name: fmt.Sprintf("l%dright", lane)},
			{Node: nodes[k+1], Name: fmt.Sprintf("l%dleft", lane)},
		}
		for i := range ends {
			ends[i].Addr = []netip.Prefix{netip.PrefixFrom(Addr4(lane, k, i+1), 24)}
			if n.IPv6 {
				ends[i].Addr = append(ends[i].Addr, netip.PrefixFrom(Addr6(lane, k, i+1), 64))
			}
		}
		p, err := n.Connect(ends[0], ends[1])
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
			if err := n.Route(nodes[i], netip.PrefixFrom(Addr4(lane, k, 0), 24), next(Addr4)); err != nil {
				return nil, err
			}
			if n.IPv6 {
				if err := n.Route(nodes[i], netip.PrefixFrom(Addr6(lane, k, 0), 64), next(Addr6)); err != nil {
					return nil, err
				}
			}
		}
	}
	return ports, nil
}

// NewLine makes a network of one line: a host, routers, a host.
func NewLine(routers int) (*Network, error) {
	n, err := New(routers+2, false)
	if err != nil {
		return nil, err
	}
	nodes := make([]int, routers+2)
	for i := range nodes {
		nodes[i] = i
	}
	if _, err := n.Line(0, nodes); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}
