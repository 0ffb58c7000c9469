// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

// topoView is the JSON form of "radar topo".
type topoView struct {
	Domain string     `json:"domain"`
	Nodes  []topoNode `json:"nodes"`
	Links  []topoLink `json:"links"`

	loads  map[direction]*linkLoad
	linkOf map[string]*topoLink // by NODE/PORT
}

type topoNode struct {
	nodeView
	Ports []topoPort `json:"ports"` // in place of nodeView's
	Load  *nodeLoad  `json:"load,omitempty"`
}

type topoPort struct {
	portView
	Addresses []string `json:"addresses,omitempty"` // absent also where they cannot be read
}

// shownAddresses leaves link-local ones out, which every IPv6 interface has.
func (p *topoPort) shownAddresses() []string {
	return slices.DeleteFunc(slices.Clone(p.Addresses), func(a string) bool {
		prefix, err := netip.ParsePrefix(a)
		return err == nil && prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast()
	})
}

// linkKind says what is between the ends of a link.
type linkKind string

// The kinds. A pair has two ends, a bridge any number, a tunnel two or more, an edge
// one: what is at its other end is outside of the domain.
const (
	pairLink   linkKind = "pair"
	bridgeLink linkKind = "bridge"
	tunnelLink linkKind = "tunnel"
	edgeLink   linkKind = "edge"
)

type topoLink struct {
	Kind linkKind `json:"kind"`
	Name string   `json:"name,omitempty"` // of a bridge: CLOSINGNODE/BRIDGE; of a tunnel begins with its kind
	// Network is what Docker calls a bridge.
	Network string     `json:"network,omitempty"`
	Ends    []topoEnd  `json:"ends"`
	Load    []linkLoad `json:"load,omitempty"`
}

type topoEnd struct {
	Node   string      `json:"node"`
	Port   string      `json:"port"`
	Role   domain.Role `json:"role"`
	Forced bool        `json:"forced,omitempty"`
	Place  string      `json:"place,omitempty"` // on a bridge
}

// name is the end as tables and latencies name it.
func (e topoEnd) name() string { return e.Node + "/" + e.Port }

// Places of a port on a bridge, as the domain's description has them.
const (
	placeMember = "bridge-port" // a member whose other end is not attached
	placeBridge = "bridge"      // the bridge's own device, toward the stack
)

// newTopoView works the view out from the description alone.
func newTopoView(d *domain.Domain) *topoView {
	v := &topoView{Domain: d.Name, Nodes: []topoNode{}, Links: []topoLink{}}
	for _, n := range nodeViews(d) {
		node := topoNode{nodeView: n, Ports: []topoPort{}}
		for _, p := range n.Ports {
			node.Ports = append(node.Ports, topoPort{portView: p})
		}
		v.Nodes = append(v.Nodes, node)
	}
	bridges := make(map[string]int) // index in Links
	for _, p := range d.Ports {
		node := d.NodeByID(p.Node)
		if p.Removed || node == nil || node.Removed {
			continue
		}
		end := topoEnd{Node: node.Name, Port: p.Name, Role: p.Role, Forced: p.Forced, Place: string(p.Place)}
		switch peer := livingPeer(d, &p); {
		case p.Link != "":
			i, ok := bridges[p.Link]
			if !ok {
				i = len(v.Links)
				bridges[p.Link] = i
				kind := bridgeLink
				if p.Tunnel {
					kind = tunnelLink
				}
				v.Links = append(v.Links, topoLink{Kind: kind, Name: p.Link})
			}
			v.Links[i].Ends = append(v.Links[i].Ends, end)
			v.Links[i].Network = cmp.Or(v.Links[i].Network, p.Network)
		case p.VM != 0:
			other := topoEnd{Node: d.VMByID(p.VM).Name, Port: p.Name, Role: domain.Internal}
			v.Links = append(v.Links, topoLink{Kind: pairLink, Ends: []topoEnd{end, other}})
		case peer == nil:
			v.Links = append(v.Links, topoLink{Kind: edgeLink, Ends: []topoEnd{end}})
		case p.ID < peer.ID || livingPeer(d, peer) == nil || livingPeer(d, peer).ID != p.ID:
			other := topoEnd{Node: d.NodeByID(peer.Node).Name, Port: peer.Name, Role: peer.Role, Forced: peer.Forced}
			link := topoLink{Kind: pairLink, Ends: []topoEnd{end, other}}
			if p.Tunnel {
				link.Kind, link.Name = tunnelLink, p.Kind
			}
			v.Links = append(v.Links, link)
		}
	}
	return v
}

// livingPeer returns the port at the other end of p that is attached, or nil.
func livingPeer(d *domain.Domain, p *domain.Port) *domain.Port {
	if p.Peer < 0 {
		return nil
	}
	peer := d.PortByID(uint16(p.Peer))
	if peer == nil || peer.Removed {
		return nil
	}
	if node := d.NodeByID(peer.Node); node == nil || node.Removed {
		return nil
	}
	return peer
}

// fillAddresses adds the addresses of the ports. A node that cannot be entered, for
// lack of rights or because it is gone, has none.
func (v *topoView) fillAddresses(d *domain.Domain) {
	for i := range v.Nodes {
		n := d.NodeByID(v.Nodes[i].ID)
		if n == nil { // a virtual machine
			continue
		}
		addrs, err := topo.SpecOf(*n).Addresses()
		if err != nil {
			continue
		}
		for j := range v.Nodes[i].Ports {
			p := &v.Nodes[i].Ports[j]
			for _, a := range addrs[p.Ifindex] {
				p.Addresses = append(p.Addresses, a.String())
			}
		}
	}
}

// roleText is the role, and whether somebody chose it.
func roleText(role domain.Role, forced bool) string {
	if forced {
		return string(role) + " (forced)"
	}
	return string(role)
}

// connectedTo says in words what is at the other end of a port.
func (s *shownNames) connectedTo(p *portView, node string) string {
	switch {
	case p.Place == placeBridge:
		return fmt.Sprintf("bridge %s, toward %s itself", s.end(p.Link), node)
	case p.Tunnel && p.Link != "":
		return p.Link
	case p.Link != "":
		return "bridge " + s.end(p.Link)
	case p.Tunnel && p.Peer != "":
		return p.Peer + " by " + p.Kind
	case p.Stitched && p.Peer != "":
		return p.Peer + " by tc redirects"
	case p.Peer != "":
		return p.Peer
	}
	return "outside"
}

// links are the links as tables and drawings show them.
func (s *shownNames) links(list []topoLink) []topoLink {
	list = slices.Clone(list)
	for i := range list {
		l := &list[i]
		l.Ends, l.Load = slices.Clone(l.Ends), slices.Clone(l.Load)
		if l.Kind == bridgeLink {
			l.Name = s.end(l.Name)
		}
		for j := range l.Ends {
			e := &l.Ends[j]
			e.Node, e.Port = s.node(e.Node, e.Port), s.port(e.Node, e.Port)
		}
		for j := range l.Load {
			l.Load[j].From, l.Load[j].To = s.end(l.Load[j].From), s.end(l.Load[j].To)
		}
	}
	return list
}

// countLinks counts the links inside the domain.
func (v *topoView) countLinks() (n int) {
	for _, l := range v.Links {
		if l.Kind != edgeLink {
			n++
		}
	}
	return n
}
