// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"fmt"
	"net/netip"

	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// otherZone: rules dropped answers of connections that the node has let begin. Its conntrack has noted these in a zone in
// which it did not look for the answers.
func (l *Links) otherZone(p *lostThere) []Cause {
	for i := range p.flows {
		f := &p.flows[i]
		proto, known := protos[f.Proto]
		src, err := netip.ParseAddr(f.Src)
		dst, failed := netip.ParseAddr(f.Dst)
		if !known || err != nil || failed != nil || f.Sport == nil || f.Dport == nil {
			continue
		}
		from, to := netip.AddrPortFrom(src, uint16(*f.Sport)), netip.AddrPortFrom(dst, uint16(*f.Dport))
		zone, _ := AskNode(l, p.Node, func(n topo.NodeSpec) (uint16, error) { return rules.UnansweredZone(n, proto, from, to) })
		if zone == 0 {
			return nil
		}
		return []Cause{{Kind: OtherZone, Node: p.Node, Setting: fmt.Sprintf("ct zone %d", zone)}}
	}
	return nil
}
