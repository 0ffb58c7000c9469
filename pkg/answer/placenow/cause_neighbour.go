// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// neighbourOf: the next hop did not say its MAC address. What is asked, and answered, between neighbours is not measured.
func (l *Links) neighbourOf(p *lostThere) []Cause {
	src, dst, ok := p.ends()
	if !ok {
		return nil
	}
	return l.Neighbour(p.Node, src, dst)
}

// Neighbour is why the next hop from a node to dst does not answer; src is the source of the packets.
func (l *Links) Neighbour(node string, src, dst netip.Addr) []Cause {
	if l == nil || l.nodes == nil || l.nodes.node(node) == nil {
		return nil
	}
	route, ok := AskNode(l, node, func(n topo.NodeSpec) (inspect.Route, error) {
		return l.nodes.inspect.route(n, dst, netip.Addr{})
	})
	own := l.byName[node+"/"+route.Port]
	if !ok || own == nil || !l.plainRoutes(node, dst) {
		return nil
	}
	l.read()
	next := route.NextHop(dst)
	owners := l.ownersOf(next.String())
	if c := l.macvlanOf(own, owners); c != nil {
		return []Cause{*c}
	}
	if c := l.onTheWay(own, owners); c != nil {
		return []Cause{*c}
	}
	if len(owners) == 0 {
		return []Cause{{Kind: NoNeighbour, Node: node, Address: next.String()}}
	}
	for _, owner := range l.byAddress[next.String()] {
		if c := l.refusesARP(owner, src, next); c != nil {
			return []Cause{*c}
		}
		if c := l.unusable(owner, next); c != nil {
			return []Cause{*c}
		}
	}
	if next.Is6() { // ARP does not pass rules for IP; neighbour discovery does
		return l.bridgedNeighbour(own, next)
	}
	return nil
}

// bridgeBeside is the node whose bridge a port hangs on, with its bridges and the member by which frames of the port
// come in; nil: none that is known.
func (l *Links) bridgeBeside(own *end) (node string, bridges *inspect.Bridges, in *inspect.BridgePort) {
	peer := l.byName[own.peer]
	if peer == nil {
		return "", nil, nil
	}
	if bridges = l.bridgesOf(peer.node); bridges != nil {
		in = bridges.Port(portOf(peer))
	}
	return peer.node, bridges, in
}

// bridgedNeighbour: the rules of a node whose bridge is on the way can drop what neighbours ask.
func (l *Links) bridgedNeighbour(own *end, next netip.Addr) []Cause {
	node, _, in := l.bridgeBeside(own)
	if in == nil {
		return nil
	}
	c := l.callsRules(node, in.Bridge, next)
	if len(c) == 0 || !l.bridgedDrops(node) {
		return nil
	}
	return c
}

// onTheWay is what a bridge between a port and the owners of an address has to do with it.
func (l *Links) onTheWay(own *end, owners []string) *Cause {
	node, bridges, in := l.bridgeBeside(own)
	if in == nil {
		return nil
	}
	for i := range bridges.Ports {
		p := &bridges.Ports[i]
		if p.Master != in.Master {
			continue
		}
		e := l.byName[node+"/"+p.Name]
		leads := p.Ifindex == in.Ifindex
		if e != nil && !leads {
			if far := l.byName[e.peer]; far != nil {
				leads = slices.Contains(owners, far.node)
			}
		}
		switch {
		case !leads: // without owners all but the port by which it comes in
		case p.State.Blocks():
			c := l.blocked(node, p)
			return &c
		case p.Ifindex != in.Ifindex && p.Isolated && in.Isolated:
			return &Cause{Kind: PortIsolated, Node: node, Port: node + "/" + in.Name, Other: node + "/" + p.Name}
		}
	}
	return nil
}

// portOf is the name of an end's port.
func portOf(e *end) string { return e.name[len(e.node)+1:] }

// refusesARP: the kernel answers ARP only of those whose packets it would take by that port.
func (l *Links) refusesARP(owner *end, src, next netip.Addr) *Cause {
	if !src.Is4() || !next.Is4() {
		return nil
	}
	route, ok := AskNode(l, owner.node, func(n topo.NodeSpec) (inspect.Route, error) {
		return l.nodes.inspect.routeFrom(n, next, src, owner.ifindex)
	})
	if !ok || route.Kind != inspect.ReversePath || !l.plainRoutes(owner.node, src) {
		return nil
	}
	c := Cause{Kind: ARPRefused, Node: owner.node, Port: owner.name, Address: src.String()}
	back, ok := AskNode(l, owner.node, func(n topo.NodeSpec) (inspect.Route, error) {
		return l.nodes.inspect.route(n, src, netip.Addr{})
	})
	switch {
	case !ok || back.Port == portOf(owner): // refused for another reason
		return nil
	case back.Port != "":
		c.Other = owner.node + "/" + back.Port
	}
	return &c
}

// unusable: the address is there, and the node neither uses it nor answers for it.
func (l *Links) unusable(owner *end, address netip.Addr) *Cause {
	if !address.Is6() {
		return nil
	}
	list, _ := AskNode(l, owner.node, l.nodes.inspect.unusable)
	for _, a := range list {
		if a.Address == address {
			return &Cause{Kind: AddressUnusable, Node: owner.node, Port: owner.node + "/" + a.Port, Address: address.String(), State: string(a.State)}
		}
	}
	return nil
}

// otherHost: packets came to a host that is not meant. Is it because they were sent by the parent of who is meant?
func (l *Links) otherHost(p *lostThere) []Cause {
	_, dst, ok := p.ends()
	own := l.byName[p.Node+"/"+p.Port]
	if !ok || own == nil {
		return nil
	}
	owners := l.ownersOf(dst.String())
	for _, e := range []*end{own, l.byName[own.peer]} {
		if e == nil {
			continue
		}
		if c := l.macvlanOf(e, owners); c != nil {
			return []Cause{*c}
		}
	}
	return nil
}

// macvlanOf: one of these nodes has a macvlan whose parent is that port, or the port is one whose parent they have. The
// kernel passes nothing between the two.
func (l *Links) macvlanOf(port *end, nodes []string) *Cause {
	for _, name := range nodes {
		if c := l.macvlanIn(name, port.node, port.ifindex, port.name); c != nil {
			return c
		}
		for i := range l.all {
			if e := &l.all[i]; e.node == name {
				if c := l.macvlanIn(port.node, name, e.ifindex, e.name); c != nil {
					return c
				}
			}
		}
	}
	return nil
}

// macvlanIn looks in a node for one whose parent is a port of another node.
func (l *Links) macvlanIn(node, other string, parent int, parentName string) *Cause {
	list, known := l.macvlans[node]
	if !known {
		list, _ = AskNode(l, node, l.nodes.inspect.macvlans)
		if l.macvlans == nil {
			l.macvlans = make(map[string][]inspect.Macvlan)
		}
		l.macvlans[node] = list
	}
	for _, m := range list {
		if m.Parent != parent {
			continue
		}
		if node != other {
			number, ok := AskNode(l, node, func(n topo.NodeSpec) (int, error) {
				return l.nodes.inspect.numberOf(n, topo.SpecOf(*l.nodes.node(other)))
			})
			if !ok || number < 0 || number != m.Inside {
				continue
			}
		}
		return &Cause{Kind: MacvlanParent, Node: node, Port: node + "/" + m.Port, Other: parentName, State: m.Kind}
	}
	return nil
}

// Unusables are the addresses of all nodes that these have and do not use.
func (l *Links) Unusables() (list []Cause) {
	if l == nil || l.nodes == nil {
		return nil
	}
	var nodes []*domain.Node
	for _, n := range l.of.Chosen() {
		if node := l.nodes.node(n.Name); node != nil {
			nodes = append(nodes, node)
		}
	}
	for i, said := range askAll(l.nodes.asker, nodes, l.nodes.inspect.unusable) {
		for _, a := range said.is {
			list = append(list, Cause{Kind: AddressUnusable, Node: nodes[i].Name, Port: nodes[i].Name + "/" + a.Port,
				Address: a.Address.String(), State: string(a.State)})
		}
	}
	return list
}
