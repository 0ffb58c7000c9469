// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// DoubleNotes say which MAC addresses several nodes have on one link, and which IP addresses: packets for one may go
// to another. look gives the interfaces of a node by their numbers.
//
// An address of one host on the loopback interface may well be that of several nodes (anycast), and so may those that a
// node has for itself, such as those of a bridge in it.
func DoubleNotes(d *domain.Domain, look func(node uint16) map[int]topo.Interface) []answer.Note {
	owners := ownersOf(d, look)
	list := slices.Concat(doubles(owners, true, func(o *owner) []string { return o.mac() }),
		doubles(owners, true, (*owner).linkAddresses))
	known := make(map[string]bool)
	for _, double := range list {
		known[double.Address] = true
	}
	for _, double := range doubles(owners, false, (*owner).networkAddresses) {
		if !known[double.Address] {
			list = append(list, double)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []answer.Note{note.Doubled{Doubles: list}}
}

// owner is an interface of a node.
type owner struct {
	topo.Interface
	node    string
	segment string // the link that it is on
	port    *domain.Port
}

func (o *owner) name() string { return o.node + "/" + o.Name }

// ownersOf are the interfaces of a domain's nodes. Of a closing node only those on the links count: it is no part of the
// domain.
func ownersOf(d *domain.Domain, look func(node uint16) map[int]topo.Interface) (owners []owner) {
	links := unionOf(d)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Removed {
			continue
		}
		ports := make(map[int]*domain.Port)
		for j := range d.Ports {
			if p := &d.Ports[j]; p.Node == n.ID && !p.Removed {
				ports[p.Ifindex] = p
			}
		}
		interfaces := look(n.ID)
		for index, itf := range interfaces {
			if p := ports[index]; p != nil && itf.Bridge != 0 {
				links.join(portKey(p.ID), innerKey(n.ID, itf.Bridge))
			}
		}
		for index, itf := range interfaces {
			if p := ports[index]; itf.Name != "" && (p != nil || !n.Auto) {
				owners = append(owners, owner{Interface: itf, node: n.Name, port: p, segment: links.keyOf(n.ID, index, p)})
			}
		}
	}
	for i := range owners {
		owners[i].segment = links.of(owners[i].segment)
	}
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Compare(a.name(), b.name()) })
	return owners
}

// mac is the address that frames for the owner have. A bridge's member sends none of its own, and a VLAN and an ipvlan
// have that of the interface below.
func (o *owner) mac() []string {
	if o.MAC.IsZero() || o.Bridge != 0 || o.port == nil || o.port.Lower != "" && o.Kind != "macvlan" && o.Kind != "macvtap" {
		return nil
	}
	return []string{o.MAC.String()}
}

// linkAddresses are those that must be one node's on a link.
func (o *owner) linkAddresses() (list []string) {
	for _, p := range o.Addresses {
		if a := p.Addr(); !o.Loopback && !a.IsMulticast() && !a.IsUnspecified() && !a.IsLoopback() {
			list = append(list, a.String())
		}
	}
	return list
}

// networkAddresses are those that should be one node's.
func (o *owner) networkAddresses() (list []string) {
	if o.port == nil || o.Loopback || o.Kind == "dummy" {
		return nil
	}
	for _, p := range o.Addresses {
		if a := p.Addr(); !p.IsSingleIP() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !a.IsLoopback() {
			list = append(list, a.String())
		}
	}
	return list
}

// doubles are the addresses that owners of several nodes have, on one link or anywhere, in the order of the addresses.
func doubles(owners []owner, oneLink bool, of func(*owner) []string) (list []note.Double) {
	type key struct{ segment, address string }
	having := make(map[key][]*owner)
	for i := range owners {
		for _, address := range of(&owners[i]) {
			k := key{address: address}
			if oneLink {
				k.segment = owners[i].segment
			}
			having[k] = append(having[k], &owners[i])
		}
	}
	for k, all := range having {
		if !slices.ContainsFunc(all, func(o *owner) bool { return o.node != all[0].node }) || oneLink && all[0].isBelow(all) {
			continue
		}
		double := note.Double{Address: k.address, OneLink: oneLink}
		for _, o := range all {
			double.Ports = append(double.Ports, o.name())
		}
		list = append(list, double)
	}
	slices.SortFunc(list, func(a, b note.Double) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), slices.Compare(a.Ports, b.Ports))
	})
	return list
}

// isBelow reports whether two owners are a macvlan and the interface on which it stands, whose address it has taken.
func (o *owner) isBelow(all []*owner) bool {
	if len(all) != 2 {
		return false
	}
	stands := func(a, b *owner) bool { return a.port != nil && a.port.Lower == b.name() && a.MAC == b.MAC }
	return stands(all[0], all[1]) || stands(all[1], all[0])
}

// union are links, as sets of what is on them.
type union map[string]string

func (s union) of(key string) string {
	for s[key] != "" {
		key = s[key]
	}
	return key
}

func (s union) join(a, b string) {
	if a, b = s.of(a), s.of(b); a != b {
		s[a] = b
	}
}

func portKey(id uint16) string { return fmt.Sprintf("port %d", id) }
func innerKey(node uint16, ifindex int) string {
	return fmt.Sprintf("interface %d of %d", ifindex, node)
}
func (s union) keyOf(node uint16, ifindex int, p *domain.Port) string {
	if p != nil {
		return portKey(p.ID)
	}
	return innerKey(node, ifindex)
}

// unionOf joins what a domain's description says is one link. What tunnels carry is not told apart, and left out.
func unionOf(d *domain.Domain) union {
	s := make(union)
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Removed || p.Tunnel {
			continue
		}
		if p.Peer >= 0 {
			s.join(portKey(p.ID), portKey(uint16(p.Peer)))
		}
		if p.Link != "" {
			s.join(portKey(p.ID), "link "+p.Link)
		}
		if node := d.NodeByID(p.Node); node != nil {
			s.join(portKey(p.ID), "port "+node.Name+"/"+p.Name)
		}
		if p.Lower != "" && p.Lower != domain.Outside && p.Kind != "vlan" {
			s.join(portKey(p.ID), "port "+p.Lower)
		}
		for _, id := range p.Beside {
			s.join(portKey(p.ID), portKey(id))
		}
	}
	return s
}
