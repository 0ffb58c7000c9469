// SPDX-License-Identifier: Apache-2.0

// Package topo finds out what a domain is made of: the network namespaces that
// the user named, their interfaces, which interface is wired to which, and what
// addresses each node owns. It only looks: nothing it does changes a node.
//
// It talks to the kernel by netlink dumps, a few per node and no process, so
// that hundreds of nodes cost milliseconds.
package topo

import (
	"net/netip"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// ErrGone says that a node's network namespace does not exist any more.
var ErrGone = system.ErrGone

// Topology is what Discover found.
type Topology struct {
	Nodes []Node // those that were asked for, then closing nodes
	// Bridges are the links between attached ports that are bridges elsewhere.
	Bridges []Bridge
	// Near are the namespaces that are not attached in which other ends of attached
	// ports lie: what happens to those changes roles. In the same order every time.
	Near []NodeSpec
	// Notes are full sentences that the user should read once: ports that TC
	// cannot see everything of, and the like.
	Notes []string
}

// Node is one namespace with the interfaces to attach.
type Node struct {
	NodeSpec
	// Auto: a closing node, found by Discover: the namespace of a bridge between
	// attached ports, attached for the bridge's ports only.
	Auto   bool
	Ports  []Port
	Locals []netip.Addr // addresses that the node owns, of both versions: packets to them end there
	// Redirects: packets to other addresses may end there too, by rules that change the
	// destination (NAT) or routes of type local (TPROXY).
	Redirects bool
}

// Port is one interface to attach.
type Port struct {
	Name    string
	Ifindex int
	Kind    string // link kind: "veth", "tun", ...; "device" for hardware
	L3      bool   // packets have no Ethernet header
	Up      bool
	Fresh   bool // it was never up since it came to this namespace
	XDP     bool // an XDP program is attached: it may take packets past TC
	INT     bool // a program of an INT node is attached: it changes what packets contain
	Tunnel  *Tunnel
	Queue   string // kind of the root queueing discipline, "" if it queues nothing
	Role    domain.Role
	Forced  bool     // Role was given by the user
	Peer    *PortRef // the port at the other end, where it is attached too
	// Stitched: between this port and Peer lie two interfaces in a namespace that is not attached,
	// which tc joins. That can end at any moment, so that no bit may be changed on this link.
	Stitched bool
	// Lower is NODE/INTERFACE of what the port stands on (macvlan, ipvlan, VLAN) in another node;
	// domain.Outside: in a namespace that is not attached; "": it stands on nothing there.
	Lower string
	// Beside are other ports on the same interface, which this one reaches without going out there.
	Beside []PortRef
	Link   string // the bridge link that the port hangs on, see Topology.Link; else ""
	Place  domain.Place
}

// Tunnel is what a port is that puts packets into others.
type Tunnel struct {
	Inside bool // all far ends are attached, and the ways there inside the domain
	// Inherits: at some end the outer header takes TTL or TOS from the inner one, so
	// that this must be true.
	Inherits bool
}

// PortRef points at a port by its place in Topology.Nodes and Node.Ports.
type PortRef struct{ Node, Port int }

// RoleOverride is a role that the user gives to one port.
type RoleOverride struct {
	Node, Port string
	Role       domain.Role
}

// ParseRole reads "NODE/PORT=internal|edge". What it refuses is fault.Usage.
func ParseRole(arg string) (RoleOverride, error) {
	eq := strings.LastIndexByte(arg, '=')
	slash := strings.IndexByte(arg, '/')
	if eq < 0 || slash < 1 || slash+1 >= eq {
		return RoleOverride{}, fault.Usage.Errorf("role %q: write NODE/PORT=internal or NODE/PORT=edge", arg)
	}
	role := domain.Role(arg[eq+1:])
	if role != domain.Internal && role != domain.Edge {
		return RoleOverride{}, fault.Usage.Errorf("role %q: %q is no role, use internal or edge", arg, role)
	}
	return RoleOverride{Node: arg[:slash], Port: arg[slash+1 : eq], Role: role}, nil
}
