// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// endTree sets the outcome of each last hop, and the state of the packet that follows.
func (d *Decoder) endTree(p *story, group bool, now uint64) {
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
		p.endUnwanted(open)
	}
	p.held = p.ended(open) || p.State == record.Lost
	for i := range p.Drops {
		if dr := &p.Drops[i]; !dr.Local && p.State == record.Lost {
			p.Lost, p.Loss = true, dr.Drop
			break
		}
	}
}

// endUnwanted ends a packet for one host that came only to nodes which did not want it, if no
// other copy was seen until it is final. A program that reads packets for other nodes (a
// forwarder) may have it. Else it was lost: it was sent to an address that its receiver does not
// have (its neighbour entry is out of date). Or it came from outside of the domain, because a
// switch there flooded it, and its receiver is not in the domain.
func (p *story) endUnwanted(open record.State) {
	lost := -1
	unread := open == record.Expired
	for i := range p.Hops {
		if h := &p.Hops[i]; h.Outcome == record.Ignored {
			unread = unread && h.Unread
			if lost < 0 && h.From >= 0 {
				lost = i
			}
		}
	}
	switch {
	case unread && lost >= 0:
		h := &p.Hops[lost]
		p.State, h.Outcome = record.Lost, record.Lost
		p.Drops = append(p.Drops, packet.BranchDrop{Hop: lost, Drop: packet.Drop{Node: h.Node, Port: h.In, At: record.AtIngress,
			Reason: record.OtherHost, AtNs: h.InNs, First: true}})
	case unread: // it stays so
	default:
		p.State = open
		for i := range p.Hops {
			if h := &p.Hops[i]; h.Outcome == record.Ignored {
				h.Outcome = open
			}
		}
	}
}

// missingBranch sets where an expired packet was not seen again: at the last of its
// branches.
func (d *Decoder) missingBranch(p *story) {
	if p.State != record.Expired || p.Open {
		return
	}
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if h.Outcome != record.Expired {
			continue
		}
		if h.Moved && h.Out == packet.NoPort {
			p.Moved = true
			return
		}
		p.Missing = true
		p.Loss = packet.Drop{Node: h.Node, Port: h.In, At: record.AtNode, Reason: record.NotSeen, AtNs: packet.NoTime, First: true}
		if tap, ok := packet.TapOf(h.In); ok {
			p.Loss.Port = tap
		}
		if h.Out != packet.NoPort {
			p.Loss.Port, p.Loss.At = h.Out, record.AtLink
		}
		return
	}
}

// ended reports whether any branch has that outcome.
func (p *story) ended(s record.State) bool {
	if s == record.Lost && slices.ContainsFunc(p.Drops, func(dr packet.BranchDrop) bool { return !dr.Local }) {
		return true
	}
	return slices.ContainsFunc(p.Hops, func(h packet.Hop) bool { return h.Outcome == s })
}

// goesOn reports whether a branch goes on from hop i.
func (p *story) goesOn(i int) bool {
	for j := i + 1; j < len(p.Hops); j++ {
		if int(p.Hops[j].From) == i {
			return true
		}
	}
	return false
}

// lastEnd is when the last branch arrived, NoTime if none did.
func (p *story) lastEnd() int64 {
	end := int64(packet.NoTime)
	for i := range p.Hops {
		if s := p.Hops[i].Outcome; s == record.Delivered || s == record.Left {
			end = max(end, p.StampNs(i))
		}
	}
	return end
}

// straighten turns a tree with one branch into a linear path.
func (p *story) straighten() {
	for i := range p.Hops {
		if h := &p.Hops[i]; int(h.From) != i-1 || h.Copy {
			return
		}
	}
	if n := len(p.Hops); len(p.Drops) > 1 || len(p.Drops) == 1 && p.Drops[0].Hop != n-1 {
		return
	}
	if len(p.Drops) == 1 { // one that is neither lost nor local came before all known events: withdrawn
		local := p.Drops[0].Local
		p.Loss, p.Lost, p.LocalDrop = p.Drops[0].Drop, !local && p.State == record.Lost, local
	}
	p.Tree, p.Drops = false, p.Drops[:0]
	for i := range p.Hops {
		p.Hops[i].Outcome, p.Hops[i].From = "", 0
	}
}
