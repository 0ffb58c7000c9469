// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// probe is one node while its topology is being found out.
type probe struct {
	ns    netns.NsHandle // open, so that the namespace stays
	wires []wire         // one for each port
	names map[int]string // of all interfaces, by their numbers
}

// wire is where the kernel says the other end of a port is.
type wire struct {
	pair    bool // the port has one other end
	ifindex int  // its number there
	nsid    int  // id of the namespace there, see observer; -1: the port's own
	tunnel  *tunnel
	base    *base // nil: it stands on nothing elsewhere
	bridges bool  // see bridges
}

// Discover looks at the nodes and works out ports, peers, roles and addresses.
// A port whose other end is attached too is internal, any other is an edge;
// roles override that. Ports on a bridge in a namespace that is not attached are
// internal as well: the domain is closed around the bridge, whose namespace is added
// as a closing node. An override for a port that does not exist, or a node
// given twice, is fault.Usage; a node that has vanished ErrGone.
func Discover(nodes []NodeSpec, roles []RoleOverride) (*Topology, error) {
	if err := checkDuplicates(nodes); err != nil {
		return nil, err
	}
	t := &Topology{Nodes: make([]Node, len(nodes))}
	probes := make([]probe, 0, len(nodes))
	defer func() {
		for i := range probes {
			probes[i].ns.Close()
		}
	}()
	for i, spec := range nodes {
		t.Nodes[i].NodeSpec = spec
		ns, err := spec.Open()
		if err != nil {
			return nil, fmt.Errorf("discover node %s: %w", spec.Name, err)
		}
		probes = append(probes, probe{ns: ns})
	}
	o, err := newObserver(probes)
	if err != nil {
		return nil, fmt.Errorf("discover nodes: %w", err)
	}
	defer o.close()
	for i := range probes {
		if err := probes[i].look(&t.Nodes[i], o, i); err != nil {
			return nil, fmt.Errorf("discover node %s: %w", nodes[i].Name, err)
		}
	}
	connect(t, o, probes)
	stands := t.findStands(probes)
	for i := range probes {
		stands.nameLowers(t, i, t.Nodes[i].Name, probes[i].names)
	}
	if err := closeBridges(t, o, probes, stands); err != nil {
		return nil, err
	}
	if err := t.checkINT(); err != nil {
		return nil, err
	}
	t.assignRoles()
	t.joinTunnels(probes)
	t.assignTunnels()
	return t, t.override(roles)
}

// look fills in the node's ports and addresses.
func (p *probe) look(n *Node, o *observer, nsid int) error {
	links, about, err := o.links(nsid)
	if err != nil {
		return err
	}
	p.names = namesOf(links)
	for _, l := range links {
		if !attachable(l) {
			continue
		}
		a := l.Attrs()
		n.Ports = append(n.Ports, Port{
			Name: a.Name, Ifindex: a.Index, Kind: l.Type(), L3: isL3(l),
			Up: a.Flags&net.FlagUp != 0, Fresh: about[a.Index].fresh, XDP: hasXDP(l), Queue: about[a.Index].queue, Role: domain.Edge,
		})
		w := wire{pair: pairKinds[l.Type()], ifindex: a.ParentIndex, nsid: a.NetNsID,
			tunnel: newTunnel(l, about[a.Index].inherits), bridges: bridges(l)}
		if b, ok := baseOf(l, &w); ok {
			w.base = &b
		}
		p.wires = append(p.wires, w)
	}
	if n.Locals, n.Redirects, err = localAddrs(p.ns); err != nil {
		return err
	}
	return host.InNetns(p.ns, func() error {
		n.Redirects = n.Redirects || redirects()
		for i := range n.Ports {
			n.Ports[i].INT = system.ChangesPackets(n.Ports[i].Ifindex)
		}
		return nil
	})
}

// checkINT refuses ports of INT nodes on bridge links and tunnels inside the domain: their ends
// cannot be edges one by one.
func (t *Topology) checkINT() error {
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			p := &t.Nodes[i].Ports[j]
			if p.INT && (p.Link != "" || p.Tunnel != nil) {
				return fault.Unsupported.Errorf("%s/%s is a port of an INT node, which changes packets, and hangs on a bridge or is a tunnel's end: detach INT there first («int detach %s/%s»)", t.Nodes[i].Name, p.Name, t.Nodes[i].Name, p.Name)
			}
		}
	}
	return nil
}

// assignRoles sets each port's role from its peer.
func (t *Topology) assignRoles() {
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			p := &t.Nodes[i].Ports[j]
			if p.XDP {
				t.Notes = append(t.Notes, fmt.Sprintf("%s/%s has an XDP program, which can take packets past radar: what is sent to it leaves the domain restored", t.Nodes[i].Name, p.Name))
			}
			if p.Link != "" && p.Place == "" {
				p.Role = domain.Internal
			}
			if p.Peer == nil {
				continue
			}
			peer := t.Port(*p.Peer)
			// What INT changes between the two hooks of a node is no longer the packet that
			// was known there: its story ends before, and another one begins behind.
			if p.INT || peer.INT {
				if p.INT {
					t.Notes = append(t.Notes, fmt.Sprintf("%s/%s is a port of an INT node, which changes packets: it is an edge, where stories of packets end and begin", t.Nodes[i].Name, p.Name))
				}
				continue
			}
			// A packet that XDP redirects never meets our TC ingress: its bits
			// must be true when it gets there.
			if !peer.XDP {
				p.Role = domain.Internal
			}
		}
	}
}

// assignTunnels makes the ends of tunnels inside the domain internal.
func (t *Topology) assignTunnels() {
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			if p := &t.Nodes[i].Ports[j]; p.Tunnel != nil && p.Tunnel.Inside && !p.XDP {
				p.Role = domain.Internal
			}
		}
	}
}

// Port returns the port that a reference means.
func (t *Topology) Port(ref PortRef) *Port { return &t.Nodes[ref.Node].Ports[ref.Port] }

// override applies the user's roles.
func (t *Topology) override(roles []RoleOverride) error {
	for _, r := range roles {
		p, err := t.find(r.Node, r.Port)
		if err != nil {
			return fault.Usage.Errorf("role for %s/%s: %v", r.Node, r.Port, err)
		}
		if p.Place != "" {
			return fault.Usage.Errorf("role for %s/%s: radar found this port itself, at a bridge between nodes, and closes the domain there", r.Node, r.Port)
		}
		if r.Role == domain.Internal && p.Peer == nil && p.Link == "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s/%s is internal because you say so: if its other end is not attached, packets leave there with rewritten header bits", r.Node, r.Port))
		}
		p.Role, p.Forced = r.Role, true
	}
	return nil
}

// find returns a port by its name, or fault.Usage.
func (t *Topology) find(node, port string) (*Port, error) {
	for i := range t.Nodes {
		if t.Nodes[i].Name != node {
			continue
		}
		var names []string
		for j := range t.Nodes[i].Ports {
			if p := &t.Nodes[i].Ports[j]; p.Name == port {
				return p, nil
			}
			names = append(names, t.Nodes[i].Ports[j].Name)
		}
		return nil, fault.Usage.Errorf("node %s has no port %s%s, it has: %s", node, port, fault.Meant(port, names), strings.Join(names, ", "))
	}
	var names []string
	for _, n := range t.Nodes {
		names = append(names, n.Name)
	}
	return nil, fault.Usage.Errorf("there is no node %s%s, there are: %s", node, fault.Meant(node, names), strings.Join(names, ", "))
}
