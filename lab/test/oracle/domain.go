// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/record"
)

// Domain is the set of attached nodes, by name. Empty: radar is not there.
type Domain map[string]bool

// NewDomain returns the domain of the named nodes.
func NewDomain(nodes ...string) Domain {
	d := Domain{}
	for _, n := range nodes {
		d[n] = true
	}
	return d
}

// outside reports whether the port or its peer is not attached: there no wire may
// show anything of radar.
func (d Domain) outside(t *Topology, p *place) bool {
	port := t.port(p.ref())
	return !d[p.node] || port == nil || !d[port.Peer.Node]
}

// inside returns the hops at attached nodes.
func (d Domain) inside(hops []hop) []hop {
	var in []hop
	for _, h := range hops {
		if d[h.node] {
			in = append(in, h)
		}
	}
	return in
}

// Drop is a place of the network that drops packets, known from its set-up.
type Drop struct {
	Name string // in the table
	Node string // "" for any
	Port string // of the queue; "" where any port of the node will do
	At   record.At
	// Reasons that the record may give; empty: not compared.
	Reasons []string
	// Match reports whether it drops the packet, which then must not leave the node;
	// nil for a queue, which may drop any.
	Match func(*Packet) bool
	// Kernel is the kernel's own count, as nft and tc show it; -1: not known. Skbs: it
	// counts buffers, so a train that is dropped as a whole is one.
	Kernel int64
	Skbs   bool
}

// outcome is how a packet's path through the domain ends, by the captures.
type outcome struct {
	state record.State
	hops  []hop
	drop  *Drop // lost, and the place is one that drops packets
	where Ref   // lost: in this node, or behind this port
	link  bool  // lost between two ports
}

// outcome of a packet within the domain; ok is false if it never came there.
func (t *Truth) outcome(path *packetPath, d Domain, drops []Drop) (o outcome, ok bool) {
	o.hops = d.inside(path.hops())
	if len(o.hops) == 0 {
		return o, false
	}
	h := o.hops[len(o.hops)-1]
	switch {
	case h.out == nil && t.topo.owns(h.node, h.in.Dst):
		o.state = record.Delivered
	case h.out != nil && !d[t.topo.port(h.out.place.ref()).Peer.Node]:
		o.state = record.Left
	case h.out != nil:
		o.state, o.where, o.link = record.Lost, h.out.place.ref(), true
	default:
		o.state, o.where = record.Lost, Ref{Node: h.node}
		o.drop = dropAt(drops, h)
	}
	return o, true
}

// dropAt finds what dropped a packet that entered a node and did not leave it.
// Rules that name packets come before queues.
func dropAt(drops []Drop, h hop) *Drop {
	var queue *Drop
	for i := range drops {
		d := &drops[i]
		switch {
		case d.Node != "" && d.Node != h.node:
		case d.Match == nil:
			queue = d
		case d.Match(h.in.Packet):
			return d
		}
	}
	return queue
}

func (o outcome) String() string {
	switch {
	case o.state != record.Lost:
		return string(o.state)
	case o.link:
		return "lost behind " + o.where.String()
	case o.drop != nil:
		return fmt.Sprintf("lost in %s by %s", o.where.Node, o.drop.Name)
	}
	return "lost in " + o.where.Node
}
