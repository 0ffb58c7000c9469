// SPDX-License-Identifier: Apache-2.0

package backpack

import "github.com/vnetradar/radar/pkg/packet"

// branches reports whether the log is one of several copies.
func (d *Decoder) branches(ev []event) bool {
	if d.asBefore(ev) {
		return false
	}
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
	d.straight = d.straight[:0]
	for i := range ev {
		d.straight = append(d.straight, ev[i].step())
	}
	return false
}

// step is all of an event but when it was, and new addresses.
type step struct {
	kind, flags uint8
	port        uint16
}

func (e *event) step() step { return step{e.kind, e.flags, e.port} }

// asBefore reports whether the events are those of the last packet that had no branches: most
// packets take the path of the one before.
func (d *Decoder) asBefore(ev []event) bool {
	if len(ev) != len(d.straight) {
		return false
	}
	for i := range ev {
		if ev[i].step() != d.straight[i] {
			return false
		}
	}
	return true
}

// parts reports whether sighting e cannot be of the copy that was seen at last; before are
// all events before e.
func (d *Decoder) parts(before []event, last, e *event) bool {
	node, lastNode := d.PortNode(e.port), d.PortNode(last.port)
	switch {
	case last.kind == evLeft && d.departs(last) && e.port != last.port:
		return true // what has left the domain is another copy
	case d.departs(e): // twice from one node: its interfaces passed it on
		return node != lastNode && node != packet.NoNode && d.sawNode(before, node)
	case d.departs(last) && d.reaches(last.port, e.port) != no:
		return false
	case !d.departs(last) && node == lastNode:
		return e.port == last.port && !e.verdict(last.kind == evIngress)
	}
	// Not from where it was seen last: from an earlier port, or from one that nobody sees.
	for i := range before {
		if b := &before[i]; b.sighting() && d.departs(b) && d.reaches(b.port, e.port) != no {
			return true
		}
	}
	return false
}

// sawNode reports whether any of the events is a sighting in that node.
func (d *Decoder) sawNode(ev []event, node uint16) bool {
	for i := range ev {
		if e := &ev[i]; e.sighting() && d.PortNode(e.port) == node {
			return true
		}
	}
	return false
}

// departs reports whether the packet goes on from where it was seen. One that leaves the
// domain inside a bridge link has come over the link.
func (d *Decoder) departs(e *event) bool {
	return e.kind == evEgress || e.kind == evLeft && d.closing(e.port) == ""
}

// certainty is whether a packet can get from one port to another, as far as it is known.
type certainty uint8

const (
	no certainty = iota
	maybe
	yes
)

// reaches returns whether a packet that goes out by one port can come in by another, with
// nothing attached between them.
func (d *Decoder) reaches(out, in uint16) certainty {
	if tap, ok := packet.TapOf(out); ok { // a virtual machine's end
		if tap == in {
			return yes
		}
		return no
	}
	if int(max(out, in)) >= len(d.ports) || d.PortNode(out) == packet.NoNode || d.PortNode(in) == packet.NoNode {
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

// origin is the hop from which a packet came to that port; NoPort: to a port that is not
// known.
func (d *Decoder) origin(p *story, port uint16) int {
	if i, how := d.sender(p, len(p.Hops), port); how != no {
		return i
	}
	for i := len(p.Hops) - 1; i >= 0; i-- {
		if h := &p.Hops[i]; !h.OnLink && h.Outcome == "" {
			return i // it went on, and nobody saw how
		}
	}
	return len(p.Hops) - 1
}

// sender is the hop among the first n that sent a packet to that port, and how sure that is.
func (d *Decoder) sender(p *story, n int, port uint16) (hop int, how certainty) {
	best, guess := -1, -1
	for i := n - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if port == packet.NoPort && guess < 0 && inVM(h) && h.Out == packet.NoPort && h.Outcome == "" {
			guess = i
		}
		if h.Out == packet.NoPort || h.OnLink {
			continue
		}
		switch d.reaches(h.Out, port) {
		case yes:
			if !p.cameFrom(i, port) {
				return i, yes
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
	switch {
	case best >= 0:
		return best, yes
	case guess >= 0:
		return guess, maybe
	}
	return -1, no
}

// completeLate adds an arrival that is noted after the packet went on from its node, and
// reports whether e is one. A program that reads an interface gets its copy before the node's
// ingress: it may send that on before another CPU notes the arrival. The time of the arrival
// is not known then.
func (d *Decoder) completeLate(p *story, e *event) bool {
	node := d.PortNode(e.port)
	if e.kind != evIngress && e.kind != evIgnored || node == packet.NoNode || d.closing(e.port) != "" || d.vm(e.port) != 0 {
		return false
	}
	for i := range p.Hops {
		h := &p.Hops[i]
		if h.Node != node || h.In != packet.NoPort || h.OnLink || h.Copy || h.From < 0 {
			continue
		}
		from, how := d.sender(p, i, e.port)
		if how == no {
			continue
		}
		was := h.From
		for j := i; j < len(p.Hops); j++ {
			if c := &p.Hops[j]; j == i || c.Copy && c.Node == node && c.In == packet.NoPort && c.From == was {
				c.In, c.From = e.port, int16(from)
			}
		}
		return true
	}
	return false
}

// late reports whether the packet's arrival was noted after it had gone on.
func late(h *packet.Hop) bool { return h.In != packet.NoPort && h.InNs == packet.NoTime }

// cameFrom reports whether a copy came from hop i to that port already.
func (p *story) cameFrom(i int, port uint16) bool {
	for j := i + 1; j < len(p.Hops); j++ {
		if h := &p.Hops[j]; int(h.From) == i && !h.Copy && (h.In == port || h.OnLink && h.Out == port) {
			return true
		}
	}
	return false
}
