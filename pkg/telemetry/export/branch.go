// SPDX-License-Identifier: Apache-2.0

package export

import (
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// branch is the way of one copy of a packet, of most packets of the packet itself.
type branch struct {
	hops []int        // indices, the source first
	loss *record.Loss // nil: it was delivered, or left
}

// lostAtLast says whether the copy was lost at the node of its last hop.
func (b *branch) lostAtLast(r *record.Record) bool {
	n := len(b.hops)
	return b.loss != nil && n > 0 && r.Hops[b.hops[n-1]].Node == b.loss.Node
}

// lossAt is the loss, if hop i is the last one and it was there.
func (b *branch) lossAt(r *record.Record, i int) *record.Loss {
	if !b.lostAtLast(r) || b.hops[len(b.hops)-1] != i {
		return nil
	}
	return b.loss
}

// branches are the ways of a packet that have ended where a node saw them end. Of others a sink
// has nothing to report: they are counted.
func (c *Counts) branches(r *record.Record) []branch {
	if !slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Outcome != "" }) {
		if !c.ended(r.State) {
			return nil
		}
		b := branch{hops: way(r, len(r.Hops)-1)}
		if r.State == record.Lost {
			b.loss = lossOr(r.Loss)
		}
		return []branch{b}
	}
	var list []branch
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Outcome == "" || !c.ended(h.Outcome) {
			continue
		}
		b := branch{hops: way(r, i)}
		if h.Outcome == record.Lost {
			b.loss = lossOr(lossAt(r, i))
		}
		list = append(list, b)
	}
	for i := range r.Losses {
		// A copy may be lost where another one lives on.
		l := &r.Losses[i]
		if l.AfterDelivery || l.Hop < 0 || l.Hop >= len(r.Hops) || r.Hops[l.Hop].Outcome == record.Lost && lossAt(r, l.Hop) == &l.Loss {
			continue
		}
		list = append(list, branch{hops: way(r, l.Hop), loss: &l.Loss})
	}
	if len(list) > 1 {
		c.Branched++
	}
	return list
}

// lossAt is where the copy was lost that was seen last at hop i; nil if that is not known.
func lossAt(r *record.Record, i int) *record.Loss {
	for n := range r.Losses {
		if l := &r.Losses[n]; l.Hop == i && !l.AfterDelivery {
			return &l.Loss
		}
	}
	return nil
}

// lossOr is l, or a loss of which nothing is known.
func lossOr(l *record.Loss) *record.Loss {
	if l == nil {
		return &record.Loss{}
	}
	return l
}

// way is the way to hop i, from where the packet began.
func way(r *record.Record, i int) (hops []int) {
	for ; i >= 0; i = r.PrevOf(i) {
		hops = append(hops, i)
	}
	slices.Reverse(hops)
	return hops
}

// ended says whether a node saw that end, and counts it otherwise.
func (c *Counts) ended(s record.State) bool {
	switch s {
	case record.Delivered, record.Left, record.Lost:
		return true
	case record.Expired:
		c.Expired++
	case record.Ignored:
		c.Ignored++
	default:
		c.InFlight++
	}
	return false
}
