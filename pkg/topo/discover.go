// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/domain"
)

// dumpTries bounds how often a dump is repeated that changes interrupted.
const dumpTries = 5

// probe is one node while its topology is being found out.
type probe struct {
	ns     netns.NsHandle
	handle *netlink.Handle
	wires  []wire // one for each port
}

// wire is where the kernel says the other end of a port is.
type wire struct {
	pair    bool // the port has one other end
	ifindex int  // its number there
	nsid    int  // the namespace's id as seen from here; -1: the same namespace
}

// Discover looks at the nodes and works out ports, peers, roles and addresses.
// A port whose other end is attached too is internal, any other is an edge;
// roles override that. An override for a port that does not exist, or a node
// given twice, is ErrUsage; a node that has vanished ErrGone.
func Discover(nodes []NodeSpec, roles []RoleOverride) (*Topology, error) {
	if err := checkDuplicates(nodes); err != nil {
		return nil, err
	}
	t := &Topology{Nodes: make([]Node, len(nodes))}
	probes := make([]probe, len(nodes))
	defer func() {
		for i := range probes {
			probes[i].close()
		}
	}()
	for i, spec := range nodes {
		t.Nodes[i].NodeSpec = spec
		if err := probes[i].look(&t.Nodes[i]); err != nil {
			return nil, fmt.Errorf("discover node %s: %w", spec.Name, err)
		}
	}
	connect(t, probes)
	t.assignRoles()
	return t, t.override(roles)
}

// look fills in the node's ports and addresses.
func (p *probe) look(n *Node) error {
	p.ns = netns.None()
	ns, err := n.Open()
	if err != nil {
		return err
	}
	p.ns = ns
	if p.handle, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	links, err := listLinks(p.handle)
	if err != nil {
		return err
	}
	for _, l := range links {
		if !attachable(l) {
			continue
		}
		a := l.Attrs()
		n.Ports = append(n.Ports, Port{
			Name: a.Name, Ifindex: a.Index, Kind: l.Type(), L3: isL3(l),
			Up: a.Flags&net.FlagUp != 0, XDP: hasXDP(l), Role: domain.Edge,
		})
		p.wires = append(p.wires, wire{pair: pairKinds[l.Type()], ifindex: a.ParentIndex, nsid: a.NetNsID})
	}
	n.Locals, err = localAddrs(ns)
	return err
}

func (p *probe) close() {
	if p.handle != nil {
		p.handle.Close()
	}
	if p.ns.IsOpen() {
		p.ns.Close()
	}
}

func listLinks(h *netlink.Handle) ([]netlink.Link, error) {
	for try := 1; ; try++ {
		links, err := h.LinkList()
		if err == nil {
			return links, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == dumpTries {
			return nil, fmt.Errorf("list interfaces: %w", err)
		}
	}
}

// assignRoles sets each port's role from its peer.
func (t *Topology) assignRoles() {
	for i := range t.Nodes {
		for j := range t.Nodes[i].Ports {
			p := &t.Nodes[i].Ports[j]
			if p.XDP {
				t.Notes = append(t.Notes, fmt.Sprintf("%s/%s has an XDP program, which can take packets past radar: what is sent to it leaves the domain restored", t.Nodes[i].Name, p.Name))
			}
			if p.Peer == nil {
				continue
			}
			// A packet that XDP redirects never meets our TC ingress: its bits
			// must be true when it gets there.
			if peer := t.Port(*p.Peer); !peer.XDP {
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
			return err
		}
		if r.Role == domain.Internal && p.Peer == nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s/%s is internal because you say so: if its other end is not attached, packets leave there with rewritten header bits", r.Node, r.Port))
		}
		p.Role, p.Forced = r.Role, true
	}
	return nil
}

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
		return nil, usagef("role for %s/%s: node %s has no such port, it has %q", node, port, node, names)
	}
	return nil, usagef("role for %s/%s: there is no node %s", node, port, node)
}
