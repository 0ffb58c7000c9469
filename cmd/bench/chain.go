// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"

	"github.com/vnetradar/radar/cmd/bench/network"
)

// Nodes of a chain.
const (
	h1 = iota
	r1
	h2
	nNodes
)

// hook is one of the four places on the path where a packet is seen.
type hook struct {
	name    string
	node    int
	ingress bool
}

// hooks are in the packet's order, and in that of a line's ports; of a chain with one lane
// a hook's number is the port's too.
var hooks = [4]hook{
	{"source egress", h1, false},
	{"transit ingress", r1, true},
	{"transit egress", r1, false},
	{"sink ingress", h2, true},
}

// lanesPerChain is how many lanes share their three nodes, so that no node has more
// addresses than radar looks up at once (tables.NodeEntries: 13; a router has two a lane).
const lanesPerChain = 6

// chain is h1 - r1 - h2, with several lanes side by side, or several such groups of nodes.
type chain struct {
	*network.Network
	lanes []lane
}

// lane is one path from an h1 to an h2.
type lane struct {
	first int    // node: h1 of its group
	ports [4]int // where the hooks are, numbers of network.ports
}

func newChain(lanes int, ipv6 bool) (_ *chain, err error) {
	if lanes > network.MaxLanes {
		return nil, fmt.Errorf("there are addresses for %d lanes, not for %d", network.MaxLanes, lanes)
	}
	groups := (lanes + lanesPerChain - 1) / lanesPerChain
	n, err := network.New(groups*nNodes, ipv6)
	if err != nil {
		return nil, err
	}
	c := &chain{Network: n}
	for l := range lanes {
		first := l / lanesPerChain * nNodes
		ports, err := n.Line(l, []int{first + h1, first + r1, first + h2})
		if err != nil {
			n.Close()
			return nil, err
		}
		c.lanes = append(c.lanes, lane{first: first, ports: [4]int(ports)})
	}
	// Where packets leave the chain for network.Nowhere.
	if err := n.Route(h1, network.Nowhere, network.Addr4(0, 0, 2)); err != nil {
		n.Close()
		return nil, err
	}
	if err := n.Blackhole(r1, network.Nowhere); err != nil {
		n.Close()
		return nil, err
	}
	return c, nil
}

// device is the interface of a hook.
func (c *chain) device(lane, hook int) int { return c.Ports[c.lanes[lane].ports[hook]].Device }

// sink is the address of a lane's end.
func sink(lane int) netip.Addr { return network.Addr4(lane, 1, 2) }

func sink6(lane int) netip.Addr { return network.Addr6(lane, 1, 2) }
