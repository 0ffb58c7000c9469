// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// wrongFarEnd: a bridge got frames out of a tunnel, and does not reach who is meant. Another end of the tunnel has sent them
// to this one, since its forwarding table says so.
func (l *Links) wrongFarEnd(p *lostThere, dst netip.Addr) []Cause {
	own := l.byName[p.Node+"/"+p.Port]
	if own == nil || !l.isVXLAN(own) {
		return nil
	}
	l.read()
	var nodes []*domain.Node
	for i := range l.all {
		e := &l.all[i]
		if node := l.nodes.node(e.node); node != nil && e.node != p.Node && sameTunnel(own, e) && l.isVXLAN(e) && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	for i, said := range askAll(l.nodes.asker, nodes, l.nodes.inspect.farEnds) {
		for _, f := range said.is {
			for _, owner := range l.byAddress[dst.String()] {
				if l.now(owner).MAC != f.MAC || !slices.Contains(l.ownersOf(f.Address.String()), p.Node) {
					continue
				}
				return []Cause{{Kind: WrongFarEnd, Node: nodes[i].Name, Port: l.portName(nodes[i], f.Ifindex), Other: owner.node,
					Address: dst.String(), Setting: fmt.Sprintf("fdb %s dst %s", f.MAC, f.Address)}}
			}
		}
	}
	return nil
}

// sameTunnel reports whether two ports can be ends of one tunnel. Where radar does not follow a tunnel, it does not know.
func sameTunnel(a, b *end) bool {
	return a.link == b.link && (a.link != "" || a.peer == b.name || a.peer == "" && b.peer == "")
}

func (l *Links) isVXLAN(e *end) bool {
	return slices.ContainsFunc(l.of.Ports, func(p domain.Port) bool {
		return p.Node == e.nodeID && p.Ifindex == e.ifindex && p.Kind == "vxlan" && !p.Removed
	})
}

// portName is the NODE/PORT of that number.
func (l *Links) portName(node *domain.Node, ifindex int) string {
	for i := range l.all {
		if e := &l.all[i]; e.nodeID == node.ID && e.ifindex == ifindex {
			return e.name
		}
	}
	return node.Name
}
