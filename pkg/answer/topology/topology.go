// SPDX-License-Identifier: Apache-2.0

// Package topology makes of a domain's description what is drawn: nodes, links, and what was measured on them.
package topology

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Topology is the nodes of a domain, and what connects them.
type Topology struct {
	Domain string         `json:"domain"`
	Nodes  []TopologyNode `json:"nodes"`
	Links  []Link         `json:"links"`

	loads  map[direction]*LinkLoad
	linkOf map[string]*Link // by NODE/PORT
}

// TopologyNode is a node with its ports.
type TopologyNode struct {
	answer.Node
	Class Class          `json:"class"`
	Ports []TopologyPort `json:"ports"` // in place of Node's
	Load  *NodeLoad      `json:"load,omitempty"`
}

// TopologyPort is a port with its addresses.
type TopologyPort struct {
	answer.Port
	Addresses []string `json:"addresses,omitempty"` // absent also where they cannot be read
}

// ShownAddresses are the addresses without link-local ones, which every IPv6 interface has.
func (p *TopologyPort) ShownAddresses() []string {
	return slices.DeleteFunc(slices.Clone(p.Addresses), func(a string) bool {
		prefix, err := netip.ParsePrefix(a)
		return err == nil && prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast()
	})
}

// LinkKind says what is between the ends of a link.
type LinkKind string

// The kinds. A pair has two ends, a bridge any number, a tunnel two or more, an edge
// one: what is at its other end is outside of the domain.
const (
	PairLink   LinkKind = "pair"
	BridgeLink LinkKind = "bridge"
	TunnelLink LinkKind = "tunnel"
	EdgeLink   LinkKind = "edge"
)

// Link connects ports.
type Link struct {
	Kind LinkKind `json:"kind"`
	Name string   `json:"name,omitempty"` // of a bridge: CLOSINGNODE/BRIDGE; of a tunnel begins with its kind
	// Network is what Docker calls a bridge.
	Network string `json:"network,omitempty"`
	// Lower is NODE/INTERFACE of an attached node on which the port of an edge stands (macvlan, ipvlan, VLAN): what
	// it sends goes out there, measured anew.
	Lower string     `json:"lower,omitempty"`
	Ends  []LinkEnd  `json:"ends"`
	Load  []LinkLoad `json:"load,omitempty"`
}

// LinkEnd is a port at the end of a link.
type LinkEnd struct {
	Node   string      `json:"node"`
	Port   string      `json:"port"`
	Role   domain.Role `json:"role"`
	Forced bool        `json:"forced,omitempty"`
	State  topo.State  `json:"state,omitempty"` // as the port has it
	Place  string      `json:"place,omitempty"` // on a bridge
}

// String is the end as latencies name it: NODE/PORT.
func (e LinkEnd) String() string { return e.Node + "/" + e.Port }

// Places of a port on a bridge, as the domain's description has them.
const (
	PlaceMember = "bridge-port" // a member whose other end is not attached
	PlaceBridge = "bridge"      // the bridge's own device, toward the stack
)

// New works it out from the description alone.
func New(d *domain.Domain) *Topology {
	t := &Topology{Domain: d.Name, Nodes: []TopologyNode{}, Links: []Link{}}
	for _, n := range answer.Nodes(d) {
		node := TopologyNode{Node: n, Class: classOf(&n), Ports: []TopologyPort{}}
		for _, p := range n.Ports {
			node.Ports = append(node.Ports, TopologyPort{Port: p})
		}
		t.Nodes = append(t.Nodes, node)
	}
	bridges := make(map[string]int) // index in Links
	for _, p := range d.Ports {
		node := d.NodeByID(p.Node)
		if p.Removed || node == nil || node.Removed {
			continue
		}
		end := LinkEnd{Node: node.Name, Port: p.Name, Role: p.Role, Forced: p.Forced, Place: string(p.Place)}
		switch peer := livingPeer(d, &p); {
		case p.Link != "":
			i, ok := bridges[p.Link]
			if !ok {
				i = len(t.Links)
				bridges[p.Link] = i
				kind := BridgeLink
				if p.Tunnel {
					kind = TunnelLink
				}
				t.Links = append(t.Links, Link{Kind: kind, Name: p.Link})
			}
			t.Links[i].Ends = append(t.Links[i].Ends, end)
			t.Links[i].Network = cmp.Or(t.Links[i].Network, p.Network)
		case p.VM != 0:
			other := LinkEnd{Node: "?", Port: p.Name, Role: domain.Internal}
			if vm := d.VMByID(p.VM); vm != nil {
				other.Node = vm.Name
			}
			t.Links = append(t.Links, Link{Kind: PairLink, Ends: []LinkEnd{end, other}})
		case peer == nil:
			link := Link{Kind: EdgeLink, Ends: []LinkEnd{end}}
			if p.Lower != domain.Outside {
				link.Lower = p.Lower
			}
			t.Links = append(t.Links, link)
		case p.ID < peer.ID || livingPeer(d, peer) == nil || livingPeer(d, peer).ID != p.ID:
			other := LinkEnd{Node: d.NodeByID(peer.Node).Name, Port: peer.Name, Role: peer.Role, Forced: peer.Forced}
			link := Link{Kind: PairLink, Ends: []LinkEnd{end, other}}
			if p.Tunnel {
				link.Kind, link.Name = TunnelLink, p.Kind
			}
			t.Links = append(t.Links, link)
		}
	}
	return t
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

// AddInterfaces adds what the kernel says of the ports: their state, MTU and addresses. A node that cannot be entered,
// for lack of rights or because it is gone, has nothing of it.
func (t *Topology) AddInterfaces(look func(node uint16) map[int]topo.Interface) {
	states := make(map[string]topo.State)
	for i := range t.Nodes {
		interfaces := look(t.Nodes[i].ID)
		for j := range t.Nodes[i].Ports {
			p := &t.Nodes[i].Ports[j]
			now := interfaces[p.Ifindex]
			p.State, p.MTU = now.State, now.MTU
			states[t.Nodes[i].Name+"/"+p.Name] = now.State
			for _, a := range now.Addresses {
				p.Addresses = append(p.Addresses, a.String())
			}
		}
	}
	for i := range t.Links {
		for j := range t.Links[i].Ends {
			e := &t.Links[i].Ends[j]
			e.State = states[e.String()]
		}
	}
}
