// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// All copies of a packet (a bridge flooded it, a multicast router sent it on by several
// ports, a queue duplicated it) share one log. The tree is built from where each sighting
// can have come from: the links of the domain say which ports can be reached from a port
// where the packet went out. If they do not show it, because something that is not attached
// lies between, it came from the latest.

// assembleTree is assemble for a packet that has copies, or may have them. group: it is sent
// to a group, so that a node may both have it delivered and send it on.
func (d *Decoder) assembleTree(p *story, group, complete bool, now uint64) {
	p.Tree = true
	stamps := 0
	for i := range d.events {
		e := &d.events[i]
		p.LastNs = max(p.LastNs, e.at)
		switch {
		case e.readdressed():
			continue
		case e.kind == evLoss:
			d.dropBranch(p, i)
			continue
		case e.kind == evDequeue:
			p.dequeue(e)
			stamps++
			continue
		case d.departs(e):
			d.depart(p, e, d.natBefore(i, e.port), group)
		case !p.deliverOrNot(e, d.natBefore(i, e.port)) && !d.completeLate(p, e):
			d.arrive(p, e, d.natBefore(i, e.port))
		}
		stamps++
	}
	d.natAtEnd(p)
	p.branchesOutsideVMs()
	d.endTree(p, group, now)
	if complete && (stamps > 1 || !p.HasTuple) {
		p.LatencyNs = p.LastNs
		if end := p.lastEnd(); end != packet.NoTime {
			p.LatencyNs = end
		}
	}
	if !complete {
		p.Open = true
	}
	d.missingBranch(p)
	p.straighten()
}

// verdict reports whether the event decides about a copy that came in before, by the same port:
// it is delivered after all, or it is not. waits: that copy was not delivered yet.
func (e *event) verdict(waits bool) bool {
	return waits && e.kind == evDeliver || !waits && e.kind == evIngress && e.flags&flagFirst == 0
}

// deliverOrNot corrects the outcome of a copy by the kernel's verdict; false: e is none. Of
// several copies it is about one that was not lost before.
func (p *story) deliverOrNot(e, nat *event) bool {
	i := p.awaiting(e, true)
	if i < 0 {
		i = p.awaiting(e, false)
	}
	if i < 0 {
		return false
	}
	h := &p.Hops[i]
	h.Outcome = ""
	if e.kind == evDeliver {
		h.Outcome = record.Delivered
		p.withdraw(i, func(dr *packet.BranchDrop) bool { return !dr.Local })
	}
	p.readdress(i, nat)
	return true
}

// awaiting is the last hop that e can be the verdict on, -1 if there is none; whole: one of
// which no drop is known.
func (p *story) awaiting(e *event, whole bool) int {
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if h.In != e.port || h.Out != packet.NoPort || !e.verdict(h.Outcome != record.Delivered) {
			continue
		}
		if !whole || !slices.ContainsFunc(p.Drops, func(dr packet.BranchDrop) bool { return dr.Hop == i }) {
			return i
		}
	}
	return -1
}

// arrive adds a sighting at the end of a link.
func (d *Decoder) arrive(p *story, e, nat *event) {
	prev := d.branchFromVM(p, e)
	if prev < 0 {
		prev = d.origin(p, e.port)
	}
	h := packet.Hop{Node: d.PortNode(e.port), In: e.port, Out: packet.NoPort, InNs: e.at, OutNs: packet.NoTime, DequeueNs: packet.NoTime, From: int16(prev), Gap: e.gap, Moved: e.moved}
	if h.Node == packet.NoNode {
		d.unlisted = true
	}
	switch e.kind {
	case evDeliver:
		h.Outcome = record.Delivered
	case evIgnored:
		h.Outcome, h.Unread = record.Ignored, e.flags&flagUnread != 0
	case evLeft:
		h.Outcome = record.Left
		if d.closing(e.port) == domain.BridgePort {
			h.In, h.InNs, h.Out, h.OutNs, h.OnLink = packet.NoPort, packet.NoTime, e.port, e.at, true
		}
	}
	if h.From >= 0 {
		p.withdraw(int(h.From), func(dr *packet.BranchDrop) bool { return dr.Port == p.Hops[h.From].Out })
	}
	p.Hops = append(p.Hops, h)
	if e.kind == evDeliver {
		p.readdress(len(p.Hops)-1, nat)
	}
}

// depart adds a sighting where the packet goes out of a node.
func (d *Decoder) depart(p *story, e, nat *event, group bool) {
	node := d.PortNode(e.port)
	if node == packet.NoNode {
		d.unlisted = true
	}
	i := -1 // the hop that ends here
	for j := len(p.Hops) - 1; j >= 0 && node != packet.NoNode && d.closing(e.port) == ""; j-- {
		h := &p.Hops[j]
		if h.Node != node {
			continue
		}
		if h.Out == packet.NoPort && !(group && h.Outcome == record.Delivered) {
			i = j
			break
		}
		if i < 0 {
			i = j
		}
	}
	switch {
	case i < 0:
		p.Hops = append(p.Hops, packet.Hop{Node: node, In: packet.NoPort, InNs: packet.NoTime, DequeueNs: packet.NoTime, From: int16(d.origin(p, packet.NoPort))})
		i = len(p.Hops) - 1
	case p.Hops[i].Out != packet.NoPort || group && p.Hops[i].Outcome == record.Delivered:
		h := p.Hops[i]
		p.Hops = append(p.Hops, packet.Hop{Node: node, In: h.In, InNs: h.InNs, DequeueNs: packet.NoTime, From: h.From, Copy: true})
		i = len(p.Hops) - 1
	default:
		p.withdraw(i, func(*packet.BranchDrop) bool { return true })
	}
	h := &p.Hops[i]
	h.Out, h.OutNs, h.Outcome = e.port, e.at, ""
	if e.kind == evLeft {
		h.Outcome = record.Left
	}
	p.readdress(i, nat)
	d.branchIntoVM(p, e, i)
}

// natBefore is the change of addresses of the copy that event i is about: the last at that
// port, unless another event there has used it; nil if there is none.
func (d *Decoder) natBefore(i int, port uint16) *event {
	for i--; i >= 0; i-- {
		e := &d.events[i]
		switch {
		case e.readdressed() && e.port == port:
			return e
		case e.sighting() && e.port == port, e.kind == evLoss && (e.port == port || e.port == packet.NoPort):
			return nil
		}
	}
	return nil
}

// natAtEnd sets new addresses of a packet that changed after it was delivered: the node has
// other ports for it than those that it was sent to.
func (d *Decoder) natAtEnd(p *story) {
	for i := range d.events {
		e := &d.events[i]
		if !e.readdressed() || d.natBefore(len(d.events), e.port) != e {
			continue
		}
		for j := len(p.Hops) - 1; j >= 0; j-- {
			if h := &p.Hops[j]; h.In == e.port && h.Out == packet.NoPort && h.Outcome == record.Delivered {
				p.readdress(j, e)
				break
			}
		}
	}
}

// readdress notes the addresses that the packet had at the end of hop i; nil: they are not
// known to have changed.
func (p *story) readdress(i int, nat *event) {
	if nat == nil {
		return
	}
	h := &p.Hops[i]
	h.Tuple = nat.tuple()
	h.Changed = h.Tuple != p.TupleBefore(i)
}
