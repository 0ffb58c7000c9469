// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// place is where and why packets were freed. Names, not numbers: a snapshot is read
// by processes that may not see the kernel's symbols.
type place struct {
	Node, Port              uint16
	At                      record.At
	Reason, Qdisc, Function string
}

// MaxHits bounds how many flows are kept of all losses together.
const MaxHits = 65536

// tally counts what was freed at one place.
type tally struct {
	packets, skbs, bytes uint64
	flows                map[*flow]hit
	overFlows            uint64 // packets whose flow may be a further one
	when                 meter
}

// hit is what one flow lost at one place.
type hit struct {
	packets, bytes uint64
	there          packet.Tuple // of the last of them, as nodes had changed it; zero: as it was sent
}

// add adds more of the same flow, which came later.
func (h hit) add(more hit) hit {
	return hit{h.packets + more.packets, h.bytes + more.bytes, more.there}
}

// there is what nodes had changed a packet's addresses and ports to when it came to a place; zero: to nothing. hop is the last
// that was seen of it; -1: the last one at the place's node, or of all.
func there(p *packet.Packet, d *packet.Drop, hop int) packet.Tuple {
	for i := len(p.Hops) - 1; i >= 0 && hop < 0; i-- {
		if p.Hops[i].Node == d.Node {
			hop = i
		}
	}
	if hop < 0 || hop >= len(p.Hops) {
		hop = len(p.Hops) - 1
	}
	for range p.Hops { // a chain is no longer
		if hop < 0 {
			break
		}
		if p.Hops[hop].Changed {
			return p.Hops[hop].Tuple
		}
		hop = p.Prev(hop)
	}
	return packet.Tuple{}
}

// EachLoss calls fn for what Losses counts of a packet, with when that was since its first stamp, ns. A place that is not
// known is one without a node.
func EachLoss(p *packet.Packet, fn func(d *packet.Drop, ns int64)) {
	call := func(d *packet.Drop) {
		if d.At == "" {
			d = &packet.Drop{Node: packet.NoNode, Port: packet.NoPort, At: record.AtNode, AtNs: d.AtNs}
		}
		fn(d, lossNs(p, d))
	}
	if p.State == record.Lost && len(p.Drops) == 0 || p.State == record.Expired && p.Missing {
		call(&p.Loss)
	}
	if p.Tree {
		for i := range p.Drops {
			if !p.Drops[i].Local {
				call(&p.Drops[i].Drop)
			}
		}
	}
}

// addBranchDrops counts where copies of a packet were freed: each branch is a loss of
// its own, also where the packet arrived by another.
func (a *Aggregates) addBranchDrops(p *packet.Packet, f *flow) {
	for i := range p.Drops {
		d := &p.Drops[i]
		table := a.losses
		if d.Local {
			a.totals.LocalDrops += uint64(p.Segs)
			table = a.localDrops
		}
		a.tally(table, p, &d.Drop, d.Hop, f)
	}
}

// tally counts a drop of the packet, hop as in there. f is nil if the packet is in no flow.
func (a *Aggregates) tally(table map[place]*tally, p *packet.Packet, d *packet.Drop, hop int, f *flow) {
	k := place{d.Node, d.Port, d.At, d.Reason, d.Qdisc, d.Function.Name()}
	if k.At == "" { // the loss did not fit into the backpack: only that it happened
		k = place{Node: packet.NoNode, Port: packet.NoPort, At: record.AtNode}
	}
	t := table[k]
	if t == nil {
		if len(table) >= MaxLosses {
			a.totals.OverLosses += uint64(p.Segs)
			return
		}
		t = &tally{flows: make(map[*flow]hit)}
		table[k] = t
	}
	t.packets += uint64(p.Segs)
	t.bytes += uint64(p.Len)
	if d.First {
		t.skbs++
	}
	t.when.add(lossMoment(p, d, a.offset), uint64(p.Segs), uint64(p.Len), &a.seconds)
	a.hit(t, f, hit{uint64(p.Segs), uint64(p.Len), there(p, d, hop)})
}

// lossMoment is when a packet was freed; where nobody knows, when it was seen last.
func lossMoment(p *packet.Packet, d *packet.Drop, offset int64) moment {
	clock := clockOf(p, offset)
	return clock.at(lossNs(p, d))
}

// lossNs is lossMoment since the packet's first stamp.
func lossNs(p *packet.Packet, d *packet.Drop) int64 {
	ns := d.AtNs
	for i := range p.Hops {
		if d.AtNs == packet.NoTime {
			ns = max(ns, p.StampNs(i))
		}
	}
	return max(ns, 0)
}

// hit counts what a flow lost.
func (a *Aggregates) hit(t *tally, f *flow, more hit) {
	h, known := t.flows[f]
	switch {
	case f == nil || !known && a.hits >= MaxHits:
		t.overFlows += more.packets
		return
	case !known:
		a.hits++
	}
	t.flows[f] = h.add(more)
}
