// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

/*
A virtual machine is a node without programs. A packet that goes out by one of its taps is in
it at the same time; one that comes in by a tap has just left it. So the two hops share one
stamp. The machine's end of a tap is a port of its own, with the tap's number and packet.VMSide.
*/

// vm returns the virtual machine that has a port open, 0 if none has.
func (d *Decoder) vm(port uint16) uint16 {
	if int(port) >= len(d.ports) {
		return 0
	}
	return d.ports[port].vm
}

// leaveVM notes that a packet which comes in at e comes from a virtual machine, which
// forwarded it or sent it.
func (d *Decoder) leaveVM(p *story, e *event) {
	vm := d.vm(e.port)
	if vm == 0 || e.out() {
		return
	}
	n := len(p.Hops)
	if n == 0 || p.Hops[n-1].Node != vm || p.Hops[n-1].Out != packet.NoPort {
		p.Hops = append(p.Hops, packet.Hop{Node: vm, In: packet.NoPort, InNs: packet.NoTime, DequeueNs: packet.NoTime})
		n++
	}
	h := &p.Hops[n-1]
	h.Out, h.OutNs = e.port|packet.VMSide, e.at
}

// enterVM notes that a packet which goes out at e goes into a virtual machine. One that
// leaves the domain there is in it only if it is for the machine.
func (d *Decoder) enterVM(p *story, e *event) {
	vm := d.vm(e.port)
	if vm == 0 || !e.out() || e.kind == evLeft && !d.owned[ownAddr{vm, p.lastDst()}] {
		return
	}
	p.Hops = append(p.Hops, packet.Hop{Node: vm, In: e.port | packet.VMSide, InNs: e.at, Out: packet.NoPort, OutNs: packet.NoTime, DequeueNs: packet.NoTime})
}

// lastDst is the destination address that the packet had last.
func (p *story) lastDst() packet.Addr {
	for i := len(p.Hops) - 1; i >= 0; i-- {
		if p.Hops[i].Changed {
			return p.Hops[i].Tuple.Dst
		}
	}
	return p.Dst
}

// inVM returns the virtual machine that the packet went into last and was not seen to
// leave, 0 if there is none.
func (d *Decoder) inVM(p *story) uint16 {
	if n := len(p.Hops); n > 0 && p.Hops[n-1].Out == packet.NoPort {
		if _, ok := packet.TapOf(p.Hops[n-1].In); ok {
			return p.Hops[n-1].Node
		}
	}
	return 0
}

// outsideVM removes the hop in a virtual machine that the packet did not reach: the kernel
// dropped it before.
func (d *Decoder) outsideVM(p *story) {
	if d.inVM(p) != 0 && p.State == record.Lost {
		p.Hops = p.Hops[:len(p.Hops)-1]
	}
}

// inVM reports whether the hop is in a virtual machine, which the packet may have left.
func inVM(h *packet.Hop) bool {
	_, in := packet.TapOf(h.In)
	_, out := packet.TapOf(h.Out)
	return in || out
}

// branchFromVM is leaveVM for a packet with copies: it returns the hop in the machine, -1
// if there is none.
func (d *Decoder) branchFromVM(p *story, e *event) int {
	vm := d.vm(e.port)
	if vm == 0 || e.out() {
		return -1
	}
	first := -1 // of the hops there, for another copy of what went in
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if h.Node != vm {
			continue
		}
		if h.Out == packet.NoPort && h.Outcome == "" {
			h.Out, h.OutNs = e.port|packet.VMSide, e.at
			p.withdraw(int(h.From), func(dr *packet.BranchDrop) bool { return dr.Port == p.Hops[h.From].Out })
			return i
		}
		if !h.Copy {
			first = max(first, i)
		}
	}
	h := packet.Hop{Node: vm, In: packet.NoPort, InNs: packet.NoTime, DequeueNs: packet.NoTime, From: int16(d.origin(p, packet.NoPort))}
	if first >= 0 {
		h.In, h.InNs, h.From, h.Copy = p.Hops[first].In, p.Hops[first].InNs, p.Hops[first].From, true
	}
	h.Out, h.OutNs = e.port|packet.VMSide, e.at
	p.Hops = append(p.Hops, h)
	return len(p.Hops) - 1
}

// branchIntoVM is enterVM for the copy of a packet that went out at hop i.
func (d *Decoder) branchIntoVM(p *story, e *event, i int) {
	vm := d.vm(e.port)
	if vm == 0 {
		return
	}
	h := packet.Hop{Node: vm, In: e.port | packet.VMSide, InNs: e.at, Out: packet.NoPort, OutNs: packet.NoTime, DequeueNs: packet.NoTime, From: int16(i)}
	if e.kind == evLeft {
		dst := p.TupleBefore(i).Dst
		if p.Hops[i].Changed {
			dst = p.Hops[i].Tuple.Dst
		}
		if !d.owned[ownAddr{vm, dst}] {
			return
		}
		p.Hops[i].Outcome, h.Outcome = "", record.Delivered
	}
	p.Hops = append(p.Hops, h)
}

// branchesOutsideVMs is outsideVM for each copy of a packet.
func (p *story) branchesOutsideVMs() {
	for i := len(p.Hops) - 1; i >= 0; i-- {
		h := &p.Hops[i]
		if !inVM(h) || h.Out != packet.NoPort || p.goesOn(i) {
			continue
		}
		if slices.ContainsFunc(p.Drops, func(dr packet.BranchDrop) bool { return dr.Hop == int(h.From) && !dr.Local }) {
			p.removeHop(i)
		}
	}
}

// removeHop removes a hop that no other comes from.
func (p *story) removeHop(i int) {
	prev := max(int(p.Hops[i].From), 0)
	p.Hops = slices.Delete(p.Hops, i, i+1)
	for j := range p.Hops {
		if h := &p.Hops[j]; int(h.From) > i {
			h.From--
		}
	}
	for j := range p.Drops {
		switch dr := &p.Drops[j]; {
		case dr.Hop == i:
			dr.Hop = prev
		case dr.Hop > i:
			dr.Hop--
		}
	}
}
