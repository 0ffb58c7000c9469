// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
)

// wrongFarEnd: a bridge got frames out of a tunnel, and has no port that can lead to who is meant. Another end of the tunnel has
// sent them to this one, since its forwarding table says so.
func (l *Links) wrongFarEnd(p *lostThere, dst netip.Addr) []Cause {
	own := l.byName[p.Node+"/"+p.Port]
	if own == nil || !l.isVXLAN(own) {
		return nil
	}
	l.read()
	var ends []*end
	nodes := []string{p.Node}
	for i := range l.all {
		if e := &l.all[i]; e.node != p.Node && (followed(own, e) || e.peer == "" && own.peer == "" && e.link == own.link) && l.isVXLAN(e) {
			ends, nodes = append(ends, e), append(nodes, e.node)
		}
	}
	l.readTunnels(nodes)
	for _, e := range ends {
		said := l.tunnels[e.node]
		if said == nil || !followed(own, e) && !l.sameVNI(own, e) {
			continue
		}
		for _, f := range said.FarEnds {
			if f.Ifindex != e.ifindex || !slices.Contains(l.ownersOf(f.Address.String()), p.Node) {
				continue
			}
			for _, owner := range l.byAddress[dst.String()] {
				if l.now(owner).MAC == f.MAC {
					return []Cause{{Kind: WrongFarEnd, Node: e.node, Port: e.name, Other: owner.node,
						Address: dst.String(), Setting: fmt.Sprintf("fdb %s dst %s", f.MAC, f.Address)}}
				}
			}
		}
	}
	return nil
}

// followed reports whether radar has found two ports to be ends of one tunnel.
func followed(a, b *end) bool { return a.link == b.link && (a.link != "" || a.peer == b.name) }

// sameVNI reports whether two tunnels of which radar does not know the other ends can be one.
func (l *Links) sameVNI(a, b *end) bool {
	x, y := l.tunnels[a.node], l.tunnels[b.node]
	if x == nil || y == nil {
		return false
	}
	one, known := x.VNI[a.ifindex]
	other, both := y.VNI[b.ifindex]
	return known && both && one == other
}

// readTunnels asks nodes for their tunnels, each once a question.
func (l *Links) readTunnels(names []string) {
	if l.tunnels == nil {
		l.tunnels = make(map[string]*inspect.Tunnels)
	}
	var nodes []*domain.Node
	for _, name := range names {
		if _, known := l.tunnels[name]; known {
			continue
		}
		l.tunnels[name] = nil
		if node := l.nodes.node(name); node != nil {
			nodes = append(nodes, node)
		}
	}
	for i, said := range askAll(l.nodes.asker, nodes, l.nodes.inspect.tunnels) {
		if said.ok {
			l.tunnels[nodes[i].Name] = &said.is
		}
	}
}

// leadsOn reports whether a bridge's member can lead to who is not its neighbour: a bridge is at its other end, or nobody knows
// what is.
func (l *Links) leadsOn(node string, port *inspect.BridgePort) bool {
	l.read()
	e := l.byName[node+"/"+port.Name]
	if e == nil {
		return true
	}
	peer := l.byName[e.peer]
	if peer == nil {
		return true
	}
	beside := l.bridgesOf(peer.node)
	return beside == nil || beside.Port(portOf(peer)) != nil
}

func (l *Links) isVXLAN(e *end) bool {
	return slices.ContainsFunc(l.of.Ports, func(p domain.Port) bool {
		return p.Node == e.nodeID && p.Ifindex == e.ifindex && p.Kind == "vxlan" && !p.Removed
	})
}
