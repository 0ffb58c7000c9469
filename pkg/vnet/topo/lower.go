// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// base is the interface of another namespace that a port stands on: what comes for a macvlan, an
// ipvlan or a VLAN comes in there first, and what that sends goes out there.
type base struct {
	nsid    int // as wire has it
	ifindex int
}

// stands are the ports that stand on interfaces of other namespaces.
type stands struct {
	of    map[PortRef]base
	mates map[base][]PortRef // those that reach each other past it
}

// baseOf returns what a port stands on; ok is false if that is nothing, or in its own namespace.
func baseOf(l netlink.Link, w *wire) (b base, ok bool) {
	ok = l.Attrs().NetNsID >= 0 && l.Attrs().ParentIndex > 0 && !w.pair && w.tunnel == nil
	return base{l.Attrs().NetNsID, l.Attrs().ParentIndex}, ok
}

// bridges says whether an interface hands frames to others on the same one that do so as well,
// without sending them out there.
func bridges(l netlink.Link) bool {
	switch v := l.(type) {
	case *netlink.Macvlan:
		return v.Mode == netlink.MACVLAN_MODE_BRIDGE
	case *netlink.Macvtap:
		return v.Mode == netlink.MACVLAN_MODE_BRIDGE
	case *netlink.IPVlan:
		return v.Flag == netlink.IPVLAN_FLAG_BRIDGE
	case *netlink.IPVtap:
		return v.Flag == netlink.IPVLAN_FLAG_BRIDGE
	}
	return false
}

// mostMates bounds how many ports are named that reach each other over one base: a node can have as many as it likes, and each
// names all others.
const mostMates = 64

// findStands notes the ports that stand on others. That those are outside is said until
// nameLowers knows better.
func (t *Topology) findStands(probes []probe) *stands {
	s := &stands{make(map[PortRef]base), make(map[base][]PortRef)}
	for i := range probes {
		for j := range probes[i].wires {
			w, ref := &probes[i].wires[j], PortRef{i, j}
			if w.base == nil {
				continue
			}
			s.of[ref] = *w.base
			t.Port(ref).Lower = domain.Outside
			if w.bridges && len(s.mates[*w.base]) < mostMates {
				s.mates[*w.base] = append(s.mates[*w.base], ref)
			}
		}
	}
	for _, mates := range s.mates {
		for _, ref := range mates {
			for _, other := range mates {
				if other != ref {
					t.Port(ref).Beside = append(t.Port(ref).Beside, other)
				}
			}
		}
	}
	return s
}

// nameLowers names what ports stand on that is in one node, by the names of that node's interfaces.
func (s *stands) nameLowers(t *Topology, nsid int, node string, names map[int]string) {
	for ref, b := range s.of {
		if name := names[b.ifindex]; b.nsid == nsid && name != "" {
			t.Port(ref).Lower = node + "/" + name
		}
	}
}

// forgetLower is nameLowers of a node that the topology has no more.
func (t *Topology) forgetLower(node string) {
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			if p := &t.Nodes[i].Ports[j]; strings.HasPrefix(p.Lower, node+"/") {
				p.Lower = domain.Outside
			}
		}
	}
}

// namesOf are the names of interfaces by their numbers.
func namesOf(links []netlink.Link) map[int]string {
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names
}
