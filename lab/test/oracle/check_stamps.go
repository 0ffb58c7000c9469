// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"math"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// CheckStamps checks radar's times against the limits that captures put on them: each stamp
// lies between the packet's captures around it, and two stamps are as far apart as these
// allow (see bracket). That needs no quiet machine: whatever delays a packet happens between
// the same captures. Left out are trains, whose packets share captures, and packets that
// share their content with others, because they may be mistaken for each other. The times of
// a record must also be the differences of its own stamps.
func (c *Comparison) CheckStamps() []*Row {
	moments := &Row{Check: "stamps between their captures"}
	spans := &Row{Check: "times between stamps, as captures allow"}
	nearest, narrowest := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, p := range c.pairs {
		if !p.certain() {
			continue
		}
		if s := sums(p.r); s != "" {
			spans.bad("%s: %s: %s", p.r.ID, describe(p.path), s)
		}
		list := stampsOf(p)
		for i, s := range list {
			moments.Compared++
			nearest = min(nearest, s.ns-s.from, s.to-s.ns)
			if !s.holds(s.ns, clockError) {
				moments.bad("%s: %s: %s %+.2f us from the capture before it, %+.2f us from the one behind it",
					p.r.ID, describe(p.path), s.what, us(s.ns-s.from), us(s.ns-s.to))
			}
			for _, from := range list[:i] {
				spans.Compared++
				allowed := bracket{max(s.from-from.to, 0), s.to - from.from}
				took := s.ns - from.ns
				narrowest = min(narrowest, took-allowed.from, allowed.to-took)
				if !allowed.holds(took, 0) {
					spans.bad("%s: %s: from %s until %s: %.2f us, captures allow %.2f to %.2f us",
						p.r.ID, describe(p.path), from.what, s.what, us(took), us(allowed.from), us(allowed.to))
				}
			}
		}
	}
	if moments.Compared > 0 {
		moments.Note = fmt.Sprintf("nearest %.2f us, clocks may differ by %.0f us", us(nearest), us(clockError))
	}
	if spans.Compared > 0 {
		spans.Note = fmt.Sprintf("nearest %.2f us", us(narrowest))
	}
	return []*Row{moments, spans}
}

// sums returns which time of a record contradicts its other times; "": none does.
func sums(r *record.Record) string {
	var first, sent, last *int64 // the first moment, when it went onto the link, the last one
	for i := range r.Hops {
		h, m := &r.Hops[i], momentsOf(r, i)
		for _, at := range []*int64{m.in, m.out} {
			if at != nil && first == nil {
				first = at
			}
			if at != nil {
				last = at
			}
		}
		if h.LinkNs != nil && sent != nil && m.in != nil && *m.in-*sent != *h.LinkNs {
			return fmt.Sprintf("the link to %s took %d ns, its ends are %d ns apart", h.Node, *h.LinkNs, *m.in-*sent)
		}
		if sent = m.left; sent == nil {
			sent = m.out
		}
	}
	arrived := r.State == record.Delivered || r.State == record.Left
	if arrived && r.LatencyNs != nil && first != nil && *last-*first != *r.LatencyNs {
		return fmt.Sprintf("it took %d ns, its first and last stamp are %d ns apart", *r.LatencyNs, *last-*first)
	}
	return ""
}

// certain reports whether no other captures and no other record can be this packet's.
func (p *pair) certain() bool {
	if p.alike || p.path.alike || p.r.Segs > 1 || len(p.r.Hops) != len(p.outcome.hops) {
		return false
	}
	for i, h := range p.outcome.hops {
		if p.r.Hops[i].Node != h.node {
			return false
		}
	}
	return !slices.ContainsFunc(p.path.wire, func(pkt *packet) bool { return pkt.segs > 1 })
}
