// SPDX-License-Identifier: Apache-2.0

package backpack

import "github.com/vnetradar/radar/pkg/packet"

import "github.com/vnetradar/radar/pkg/vnet/domain"

// Addresses that move. The programs note at TC ingress whether the node owns the destination.
// They learn some time later that it has got an address, or lost it. What they noted meanwhile
// is corrected here, by the time at which the agent saw the change. If the arrival and the
// change are too close to say which came first, the end of the packet is not known.

// moves are the changes of one node's address, in the order in which they happened.
type moves []domain.Move

// SetMoves replaces what is known of addresses that moved.
func (d *Decoder) SetMoves(m *domain.Moves) {
	d.moves = make(map[ownAddr]moves)
	d.forgotten = m.Forgotten
	for _, c := range m.Changes {
		key := ownAddr{c.Node, c.Addr.As16()}
		d.moves[key] = append(d.moves[key], c)
	}
}

// owned returns whether the node had the address at that time (CLOCK_MONOTONIC, ns), by the
// changes alone: maybe, if it was about to change. known is false if no change shows it.
func (m moves) owned(at uint64) (owned certainty, known bool) {
	for i := len(m) - 1; i >= 0; i-- {
		if at >= m[i].Before { // and so have those before it
			return certain(m[i].Owned), true
		}
		if at > m[i].After {
			return maybe, true
		}
	}
	return no, false // before the first one: as the programs said
}

func certain(owned bool) certainty {
	if owned {
		return yes
	}
	return no
}

// rectify corrects what the programs noted of arrivals before they knew that an address had
// moved.
func (d *Decoder) rectify(p *story) {
	if len(d.moves) == 0 && len(d.forgotten) == 0 || !p.HasTuple {
		return
	}
	dst := p.Dst
	for i := range d.events {
		e := &d.events[i]
		switch {
		case e.readdressed():
			dst = e.tuple().Dst
		case e.kind == evIngress || e.kind == evDeliver:
			d.rectifyArrival(e, p.T0+uint64(e.at), dst)
		}
	}
}

func (d *Decoder) rectifyArrival(e *event, at uint64, dst packet.Addr) {
	if d.closing(e.port) != "" {
		return
	}
	node := d.PortNode(e.port)
	owned, known := d.moves[ownAddr{node, dst}].owned(at)
	switch {
	case !known:
		e.moved = e.kind == evIngress && at < d.forgotten[node]
	case owned == maybe:
		e.moved = true
	case owned == yes:
		e.kind = evDeliver
	case e.kind == evDeliver:
		e.kind = evIngress
	}
}
