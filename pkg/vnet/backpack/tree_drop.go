// SPDX-License-Identifier: Apache-2.0

package backpack

import "github.com/vnetradar/radar/pkg/packet"

import "github.com/vnetradar/radar/pkg/record"

// withdraw forgets drops at hop i: the branch went on.
func (p *story) withdraw(i int, which func(*packet.BranchDrop) bool) {
	keep := p.Drops[:0]
	for j := range p.Drops {
		if dr := &p.Drops[j]; dr.Hop != i || !which(dr) {
			keep = append(keep, *dr)
		}
	}
	p.Drops = keep
}

// dropBranch adds the drop of event at to the branch that it belongs to.
func (d *Decoder) dropBranch(p *story, at int) {
	e := &d.events[at]
	i := d.branchAt(p, e.port)
	if i < 0 || p.Hops[i].In != e.port && p.Hops[i].Out != e.port {
		for j := range p.Hops {
			if h := &p.Hops[j]; late(h) && h.In == e.port {
				return // the kernel's copy of what a program sent on
			}
		}
	}
	if e.port == packet.NoPort {
		if i = p.onlyInside(); i < 0 {
			return // one of several copies in several nodes: it is not known which
		}
	}
	if i < 0 {
		p.Drops = append(p.Drops, packet.BranchDrop{Drop: d.drop(e, nil, false)})
		return
	}
	h := &p.Hops[i]
	last := event{kind: evEgress, port: h.Out, at: h.OutNs}
	if h.Out == packet.NoPort {
		last = event{kind: evIngress, port: h.In, at: h.InNs}
		if h.Outcome == record.Delivered {
			last.kind = evDeliver
		}
		p.readdress(i, d.natBefore(at, h.In))
	}
	if h.Outcome == record.Left && !h.OnLink {
		return // freed outside of the domain
	}
	if h.Outcome == record.Left {
		h.Outcome = "" // in the queue of the port that it was leaving by
	}
	p.Drops = append(p.Drops, packet.BranchDrop{Hop: i, Local: h.Outcome == record.Delivered, Drop: d.drop(e, &last, h.DequeueNs != packet.NoTime)})
}

// onlyInside is the hop of the copy that must have been freed at a device that is no port:
// that of a node that had it delivered and sent it on (a switch), or the only copy inside a
// node; -1 if several can.
func (p *story) onlyInside() int {
	only, n := -1, 0
	for i := range p.Hops {
		if p.Hops[i].Out != packet.NoPort || inVM(&p.Hops[i]) {
			continue
		}
		only, n = i, n+1
		for j := i + 1; j < len(p.Hops); j++ {
			if h := &p.Hops[j]; h.Copy && h.Node == p.Hops[i].Node {
				return i
			}
		}
	}
	if n != 1 {
		return -1
	}
	return only
}

// branchAt is the hop of the branch that was freed at that port: as it went out by the port,
// inside the port's node, or on the link to it.
func (d *Decoder) branchAt(p *story, port uint16) int {
	inside, node := -1, d.PortNode(port)
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		switch {
		case port != packet.NoPort && h.Out == port:
			return i
		case h.Out == packet.NoPort && !inVM(h) && (node == packet.NoNode || h.Node == node):
			if h.In == port {
				return i
			}
			if inside < 0 {
				inside = i
			}
		}
	}
	if inside >= 0 {
		return inside
	}
	return d.origin(p, port)
}
