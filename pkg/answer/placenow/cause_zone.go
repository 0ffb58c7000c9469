// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"fmt"
	"net/netip"

	"github.com/vnetradar/radar/pkg/vnet/rules"
)

// otherZone: rules that come behind conntrack dropped answers of connections that the node has let begin, and has in a zone.
// If packets that come back are not given that zone, conntrack does not find their connection.
func (l *Links) otherZone(p *lostThere, droppers []rules.Dropper) []Cause {
	behind := false
	for i := range droppers {
		behind = behind || !droppers[i].BeforeConntrack
	}
	if !behind {
		return nil
	}
	for i := range p.flows {
		f := &p.flows[i]
		proto, known := protos[f.Proto]
		src, err := netip.ParseAddr(f.Src)
		dst, failed := netip.ParseAddr(f.Dst)
		if !known || err != nil || failed != nil || f.Sport == nil || f.Dport == nil {
			continue
		}
		from, to := netip.AddrPortFrom(src, uint16(*f.Sport)), netip.AddrPortFrom(dst, uint16(*f.Dport))
		for _, c := range l.unanswered(p.Node) {
			if c.Proto == proto && c.Src == from && c.Dst == to {
				return []Cause{{Kind: OtherZone, Node: p.Node, Setting: fmt.Sprintf("ct zone %d", c.Zone)}}
			}
		}
	}
	return nil
}

// unanswered asks a node, once a question, for the connections that it has in zones without an answer.
func (l *Links) unanswered(node string) []rules.ZonedAnswer {
	list, known := l.zoned[node]
	if !known {
		if l.zoned == nil {
			l.zoned = make(map[string][]rules.ZonedAnswer)
		}
		list, _ = AskNode(l, node, l.nodes.inspect.zoned)
		l.zoned[node] = list
	}
	return list
}
