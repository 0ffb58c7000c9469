// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// A packet of which there are copies (a bridge flooded it, a multicast router sent it on
// by several ports, a queue duplicated it) has one log for all of them. The tree is
// built from where each sighting can have come from: the links of the domain say which
// ports can be reached from a port where it went out. Where they say nothing (something
// that is not attached lies between) it came from the latest.

// BranchDrop is where one branch of a tree was freed.
type BranchDrop struct {
	Hop   int  // the last that was seen of the branch
	Local bool // after delivery
	Drop
}

// Prev is the hop from which the packet came to hop i, -1 if it began there.
func (p *Packet) Prev(i int) int {
	if p.Tree {
		return int(p.Hops[i].prev)
	}
	return i - 1
}

// branches says whether the log is one of several copies.
func (d *Decoder) branches(ev []event) bool {
	var last *event // sighting
	for i := range ev {
		e := &ev[i]
		if !e.sighting() {
			continue
		}
		if e.kind == evIgnored || last != nil && d.parts(ev[:i], last, e) {
			return true
		}
		last = e
	}
	return false
}

// parts says whether sighting e cannot be of the copy that was seen at last; before are
// all events before e.
func (d *Decoder) parts(before []event, last, e *event) bool {
	node, lastNode := d.PortNode(e.port), d.PortNode(last.port)
	switch {
	case last.kind == evLeft && d.departs(last) && e.port != last.port:
		return true // what has left the domain is another copy
	case d.departs(e): // twice from one node: handed on between its interfaces
		return node != lastNode && node != NoNode && d.sawNode(before, node)
	case d.departs(last) && d.reaches(last.port, e.port) != no:
		return false
	case !d.departs(last) && node == lastNode:
		return e.port == last.port && !e.verdict(last.kind == evIngress)
	}
	// Not from where it was seen last: from an earlier port, or by one that nobody sees.
	for i := range before {
		if b := &before[i]; b.sighting() && d.departs(b) && d.reaches(b.port, e.port) != no {
			return true
		}
	}
	return false
}

// sawNode says whether any of the events is a sighting in that node.
func (d *Decoder) sawNode(ev []event, node uint16) bool {
	for i := range ev {
		if e := &ev[i]; e.sighting() && d.PortNode(e.port) == node {
			return true
		}
	}
	return false
}

// departs says that the packet goes on from where it was seen. What leaves the domain
// inside a bridge link has come over the link.
func (d *Decoder) departs(e *event) bool {
	return e.kind == evEgress || e.kind == evLeft && d.closing(e.port) == ""
}

// certainty is what is known of whether a packet can get from one port to another.
type certainty uint8

const (
	no certainty = iota
	maybe
	yes
)

// reaches says whether what goes out by one port can come in by another with nothing
// attached between them.
func (d *Decoder) reaches(out, in uint16) certainty {
	if int(max(out, in)) >= len(d.ports) || d.PortNode(out) == NoNode || d.PortNode(in) == NoNode {
		return maybe
	}
	a, b := &d.ports[out], &d.ports[in]
	switch {
	case a.peer == int(in), a.link != "" && a.link == b.link, a.vm != 0 && a.vm == b.vm:
		return yes
	case a.peer >= 0, a.link != "", b.peer >= 0, b.link != "":
		return no
	}
	return maybe
}

// tellTree is tell for a packet with copies, or that may have some. group: it is for
// one, so that a node can have it delivered and send it on.
func (d *Decoder) tellTree(p *Packet, group, complete bool, now uint64) {
	p.Tree = true
	var nat *event
	stamps := 0
	for i := range d.events {
		e := &d.events[i]
		p.LastNs = max(p.LastNs, e.at)
		switch {
		case e.readdressed():
			nat = e
			continue
		case e.kind == evLoss:
			d.dropBranch(p, e)
			continue
		case e.kind == evDequeue:
			p.dequeue(e)
			stamps++
			continue
		case d.departs(e):
			d.depart(p, e, nat, group)
			nat = nil
		case !p.settle(e, nat):
			d.arrive(p, e)
		}
		stamps++
	}
	d.endTree(p, group, now)
	if complete && (stamps > 1 || !p.HasTuple) {
		p.LatencyNs = p.LastNs
		if end := p.lastEnd(); end != NoTime {
			p.LatencyNs = end
		}
	}
	if !complete {
		p.open = true
	}
	d.missingBranch(p)
	p.straighten()
}

// verdict says that the event is the kernel's word on a copy that came in before, by the
// same port: it is delivered after all, or not. waits: that one was not delivered yet.
func (e *event) verdict(waits bool) bool {
	return waits && e.kind == evDeliver || !waits && e.kind == evIngress && e.flags&flagFirst == 0
}

// settle takes the kernel's verdict on a copy; false if it is none.
func (p *Packet) settle(e, nat *event) bool {
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if h.In != e.port || h.Out != NoPort || !e.verdict(h.Outcome != record.Delivered) {
			continue
		}
		h.Outcome = ""
		if e.kind == evDeliver {
			h.Outcome = record.Delivered
		}
		if nat != nil && nat.port == e.port {
			h.Changed, h.Tuple = true, nat.tuple()
		}
		return true
	}
	return false
}

// arrive adds a sighting at the end of a link.
func (d *Decoder) arrive(p *Packet, e *event) {
	h := Hop{Node: d.PortNode(e.port), In: e.port, Out: NoPort, InNs: e.at, OutNs: NoTime, DequeueNs: NoTime, prev: int16(d.origin(p, e.port))}
	if h.Node == NoNode {
		d.strangers = true
	}
	switch e.kind {
	case evDeliver:
		h.Outcome = record.Delivered
	case evIgnored:
		h.Outcome = record.Ignored
	case evLeft:
		h.Outcome = record.Left
		if d.closing(e.port) == domain.BridgePort {
			h.In, h.InNs, h.Out, h.OutNs, h.OnLink = NoPort, NoTime, e.port, e.at, true
		}
	}
	if h.prev >= 0 {
		p.withdraw(int(h.prev), func(dr *BranchDrop) bool { return dr.Port == p.Hops[h.prev].Out })
	}
	p.Hops = append(p.Hops, h)
}

// origin is the hop from which a packet came to that port, NoPort: to one that is not
// known.
func (d *Decoder) origin(p *Packet, port uint16) int {
	best, guess, last := -1, -1, -1 // by certainty; last: went on, nobody saw how
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if last < 0 && !h.OnLink && h.Outcome == "" {
			last = i
		}
		if h.Out == NoPort || h.OnLink {
			continue
		}
		switch d.reaches(h.Out, port) {
		case yes:
			if !p.cameFrom(i, port) {
				return i
			}
			if best < 0 {
				best = i
			}
		case maybe:
			if guess < 0 {
				guess = i
			}
		}
	}
	for _, i := range []int{best, guess, last} {
		if i >= 0 {
			return i
		}
	}
	return len(p.Hops) - 1
}

// cameFrom says whether a copy came from hop i to that port already.
func (p *Packet) cameFrom(i int, port uint16) bool {
	for j := i + 1; j < len(p.Hops); j++ {
		if h := &p.Hops[j]; int(h.prev) == i && !h.Copy && (h.In == port || h.OnLink && h.Out == port) {
			return true
		}
	}
	return false
}

// depart adds a sighting where the packet goes out of a node.
func (d *Decoder) depart(p *Packet, e, nat *event, group bool) {
	node := d.PortNode(e.port)
	if node == NoNode {
		d.strangers = true
	}
	i := -1 // the visit that ends here
	for j := len(p.Hops) - 1; j >= 0 && node != NoNode && d.closing(e.port) == ""; j-- {
		h := &p.Hops[j]
		if h.Node != node {
			continue
		}
		if h.Out == NoPort && !(group && h.Outcome == record.Delivered) {
			i = j
			break
		}
		if i < 0 {
			i = j
		}
	}
	switch {
	case i < 0:
		p.Hops = append(p.Hops, Hop{Node: node, In: NoPort, InNs: NoTime, DequeueNs: NoTime, prev: int16(d.origin(p, NoPort))})
		i = len(p.Hops) - 1
	case p.Hops[i].Out != NoPort || group && p.Hops[i].Outcome == record.Delivered:
		h := p.Hops[i]
		p.Hops = append(p.Hops, Hop{Node: node, In: h.In, InNs: h.InNs, DequeueNs: NoTime, prev: h.prev, Copy: true})
		i = len(p.Hops) - 1
	default:
		p.withdraw(i, func(*BranchDrop) bool { return true })
	}
	h := &p.Hops[i]
	h.Out, h.OutNs, h.Outcome = e.port, e.at, ""
	if e.kind == evLeft {
		h.Outcome = record.Left
	}
	if nat != nil {
		if t := nat.tuple(); t != p.inherited(i) {
			h.Changed, h.Tuple = true, t
		}
	}
}

// inherited are the addresses with which the packet came to hop i.
func (p *Packet) inherited(i int) Tuple {
	for i = p.Prev(i); i >= 0; i = p.Prev(i) {
		if p.Hops[i].Changed {
			return p.Hops[i].Tuple
		}
	}
	return p.Tuple
}

// withdraw forgets drops at hop i: the branch went on.
func (p *Packet) withdraw(i int, which func(*BranchDrop) bool) {
	keep := p.Drops[:0]
	for j := range p.Drops {
		if dr := &p.Drops[j]; dr.Hop != i || !which(dr) {
			keep = append(keep, *dr)
		}
	}
	p.Drops = keep
}

// dropBranch adds a drop to the branch that it belongs to.
func (d *Decoder) dropBranch(p *Packet, e *event) {
	i := d.branchAt(p, e.port)
	if e.port == NoPort {
		if i = p.onlyInside(); i < 0 {
			return // of several copies in as many nodes: whose, nothing says
		}
	}
	if i < 0 {
		p.Drops = append(p.Drops, BranchDrop{Drop: d.drop(e, nil, false)})
		return
	}
	h := &p.Hops[i]
	last := event{kind: evEgress, port: h.Out, at: h.OutNs}
	if h.Out == NoPort {
		last = event{kind: evIngress, port: h.In, at: h.InNs}
	}
	if h.Outcome == record.Left && !h.OnLink {
		return // freed outside of the domain
	}
	p.Drops = append(p.Drops, BranchDrop{Hop: i, Local: h.Outcome == record.Delivered, Drop: d.drop(e, &last, h.DequeueNs != NoTime)})
}

// onlyInside is the hop of the one copy that can have been freed at a device that is no
// port: that of a node that had it delivered and sent it on (a switch), or the only one
// inside a node; -1 if that is not clear.
func (p *Packet) onlyInside() int {
	only, n := -1, 0
	for i := range p.Hops {
		if p.Hops[i].Out != NoPort {
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

// branchAt is the hop of the branch that was freed at that port: on its way out by it,
// inside its node, or on the link to it.
func (d *Decoder) branchAt(p *Packet, port uint16) int {
	inside, node := -1, d.PortNode(port)
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		switch {
		case port != NoPort && h.Out == port:
			return i
		case h.Out == NoPort && (node == NoNode || h.Node == node):
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

// endTree gives each last hop its outcome, and the packet the state that they make. A
// packet for one host that nobody wanted is with a program that reads what is not for its
// node (a forwarder), or was lost there.
func (d *Decoder) endTree(p *Packet, group bool, now uint64) {
	open := d.openState(p, now)
	for i := range p.Hops {
		h := &p.Hops[i]
		if h.Outcome == "" && !p.goesOn(i) {
			h.Outcome = open
			for _, dr := range p.Drops {
				if dr.Hop == i && !dr.Local {
					h.Outcome = record.Lost
				}
			}
		}
	}
	p.State = open
	for _, s := range [...]record.State{record.Delivered, record.Left, record.InFlight, record.Lost, record.Expired, record.Ignored} {
		if p.ended(s) {
			p.State = s
			break
		}
	}
	if p.State == record.Ignored && !group {
		p.State = open
		for i := range p.Hops {
			if h := &p.Hops[i]; h.Outcome == record.Ignored {
				h.Outcome = open
			}
		}
	}
	p.held = p.ended(open) || p.State == record.Lost
	for i := range p.Drops {
		if dr := &p.Drops[i]; !dr.Local && p.State == record.Lost {
			p.Lost, p.Loss = true, dr.Drop
			break
		}
	}
}

// missingBranch says where an expired packet was not seen again: at the last of its
// branches.
func (d *Decoder) missingBranch(p *Packet) {
	if p.State != record.Expired || p.open {
		return
	}
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if h.Outcome != record.Expired {
			continue
		}
		p.Missing = true
		p.Loss = Drop{Node: h.Node, Port: h.In, At: record.AtNode, Reason: record.NotSeen, AtNs: NoTime, First: true}
		if h.Out != NoPort {
			p.Loss.Port, p.Loss.At = h.Out, record.AtLink
		}
		return
	}
}

// ended says whether any branch has that outcome.
func (p *Packet) ended(s record.State) bool {
	if s == record.Lost && slices.ContainsFunc(p.Drops, func(dr BranchDrop) bool { return !dr.Local }) {
		return true
	}
	return slices.ContainsFunc(p.Hops, func(h Hop) bool { return h.Outcome == s })
}

// goesOn says whether a branch leads on from hop i.
func (p *Packet) goesOn(i int) bool {
	for j := i + 1; j < len(p.Hops); j++ {
		if int(p.Hops[j].prev) == i {
			return true
		}
	}
	return false
}

// lastEnd is when the last branch arrived, NoTime if none did.
func (p *Packet) lastEnd() int64 {
	end := int64(NoTime)
	for i := range p.Hops {
		if s := p.Hops[i].Outcome; s == record.Delivered || s == record.Left {
			end = max(end, p.StampNs(i))
		}
	}
	return end
}

// straighten makes a tree of one branch the line that it is.
func (p *Packet) straighten() {
	for i := range p.Hops {
		if h := &p.Hops[i]; int(h.prev) != i-1 || h.Copy {
			return
		}
	}
	if n := len(p.Hops); len(p.Drops) > 1 || len(p.Drops) == 1 && p.Drops[0].Hop != n-1 {
		return
	}
	if len(p.Drops) == 1 {
		p.Loss, p.Lost, p.LocalDrop = p.Drops[0].Drop, !p.Drops[0].Local, p.Drops[0].Local
	}
	p.Tree, p.Drops = false, p.Drops[:0]
	for i := range p.Hops {
		p.Hops[i].Outcome, p.Hops[i].prev = "", 0
	}
}
