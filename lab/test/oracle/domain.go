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

// outside says whether what a wire shows there must be free of any trace: the
// port or its peer is not attached.
func (d Domain) outside(t *Topology, p *place) bool {
	port := t.port(p.ref())
	return !d[p.node] || port == nil || !d[port.Peer.Node]
}

// inside are the visits of attached nodes.
func (d Domain) inside(vs []visit) []visit {
	var in []visit
	for _, v := range vs {
		if d[v.node] {
			in = append(in, v)
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
	// Match says which packets it drops; nil for a queue, which may drop any.
	// A packet that Match picks must not leave the node.
	Match func(*Packet) bool
	// Kernel is the kernel's own count, as nft and tc show it. Skbs: it counts
	// buffers, so a train that is dropped as a whole is one. -1: not known.
	Kernel int64
	Skbs   bool
}

// fate is how a packet's way through the domain ends, by the captures.
type fate struct {
	state record.State
	hops  []visit
	drop  *Drop // lost, and the place is one that drops packets
	where Ref   // lost: in this node, or behind this port
	link  bool  // lost between two ports
}

// fate of a packet within the domain; ok is false if it never came there.
func (t *Truth) fate(j *journey, d Domain, drops []Drop) (f fate, ok bool) {
	f.hops = d.inside(j.visits())
	if len(f.hops) == 0 {
		return f, false
	}
	v := f.hops[len(f.hops)-1]
	switch {
	case v.out == nil && t.topo.owns(v.node, v.in.Dst):
		f.state = record.Delivered
	case v.out != nil && !d[t.topo.port(v.out.place.ref()).Peer.Node]:
		f.state = record.Left
	case v.out != nil:
		f.state, f.where, f.link = record.Lost, v.out.place.ref(), true
	default:
		f.state, f.where = record.Lost, Ref{Node: v.node}
		f.drop = dropAt(drops, v)
	}
	return f, true
}

// dropAt finds what dropped a packet that entered a node and did not leave it.
// Rules that name packets come before queues.
func dropAt(drops []Drop, v visit) *Drop {
	var queue *Drop
	for i := range drops {
		d := &drops[i]
		switch {
		case d.Node != "" && d.Node != v.node:
		case d.Match == nil:
			queue = d
		case d.Match(v.in.Packet):
			return d
		}
	}
	return queue
}

func (f fate) String() string {
	switch {
	case f.state != record.Lost:
		return string(f.state)
	case f.link:
		return "lost behind " + f.where.String()
	case f.drop != nil:
		return fmt.Sprintf("lost in %s by %s", f.where.Node, f.drop.Name)
	}
	return "lost in " + f.where.Node
}
