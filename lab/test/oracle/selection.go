// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// Selection is the packets that a question is about. Zero fields select all.
type Selection struct {
	Question string       // for the report
	Since    int64        // Unix ns: came into the domain then or later, by radar's own clock
	Node     string       // went through that node
	TTLBelow int          // came into the domain with less
	State    record.State // how they ended
	Last     int          // the newest of those
}

// Select returns a comparison of those packets alone.
func (c *Comparison) Select(s Selection) *Comparison {
	only := *c
	only.only = s
	return &only
}

// selected returns those that are asked for.
func (c *Comparison) selected(list []transit) []transit {
	s := c.only
	list = slices.DeleteFunc(list, func(p transit) bool {
		there := func(h hop) bool { return h.node == s.Node }
		return p.began() < s.Since || s.State != "" && p.outcome.state != s.State ||
			s.Node != "" && !slices.ContainsFunc(p.outcome.hops, there) ||
			s.TTLBelow > 0 && c.ttl(p.path) >= s.TTLBelow
	})
	if s.Last > 0 && s.Last < len(list) {
		list = list[len(list)-s.Last:]
	}
	return list
}

// ttl of a packet as it came into the domain; 0 if nobody saw its true header, for which
// Rows has an error.
func (c *Comparison) ttl(path *packetPath) int {
	o := c.truth.origin(path, c.domain)
	if o == nil {
		return 0
	}
	return int(o.TTL) - path.forwards(slices.IndexFunc(path.wire, func(pkt *packet) bool { return c.domain[pkt.place.node] }))
}

// CheckSelected compares all answers about the selected packets: one row for everything
// but times by captures, and one for these.
func (c *Comparison) CheckSelected(a *Answers, b Bounds) []*Row {
	certain := &Row{Check: "answers with " + c.only.Question + ": counts, order, times by the records"}
	times := b.row("answers with " + c.only.Question + ": times and order by captures")
	for _, r := range slices.Concat(c.CheckCounts(a), c.CheckThroughput(a), c.CheckFlowTimes(a.Flows, b), c.CheckLatency(a, b)) {
		if r.Timed {
			times.join(r)
		} else {
			certain.join(r)
		}
	}
	certain.Note = fmt.Sprintf("%d packets", len(c.transits()))
	return []*Row{certain, times}
}

// join adds part to a row that sums up several; part must have compared something.
func (r *Row) join(part *Row) {
	r.Compared += part.Compared
	r.Off += part.Off
	if !part.OK() && part.Wrong == 0 {
		r.bad("%s: nothing compared", part.Check)
	}
	for _, f := range part.Findings {
		r.bad("%s: %s", part.Check, f)
	}
	r.Wrong += part.Wrong - len(part.Findings)
}
