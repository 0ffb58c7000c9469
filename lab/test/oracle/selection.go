// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// Selection is which packets a question was put about. Zero fields ask for nothing.
type Selection struct {
	Question string       // as it was put, for the report
	Since    int64        // Unix ns: came into the domain then or later, by radar's own clock
	Node     string       // visited that node
	TTLBelow int          // came into the domain with less
	State    record.State // ended so
	Last     int          // the newest of those
}

// Select returns the comparison of those packets alone, for answers to a question
// about them.
func (c *Comparison) Select(s Selection) *Comparison {
	only := *c
	only.only = s
	return &only
}

// selected takes those that are asked for from all passages.
func (c *Comparison) selected(list []passage) []passage {
	s := c.only
	list = slices.DeleteFunc(list, func(p passage) bool {
		visited := func(v visit) bool { return v.node == s.Node }
		return p.began() < s.Since || s.State != "" && p.fate.state != s.State ||
			s.Node != "" && !slices.ContainsFunc(p.fate.hops, visited) ||
			s.TTLBelow > 0 && c.ttl(p.j) >= s.TTLBelow
	})
	if s.Last > 0 && s.Last < len(list) {
		list = list[len(list)-s.Last:]
	}
	return list
}

// ttl of a packet as it came into the domain; 0 if nobody saw its true header, which
// is a mistake of its own.
func (c *Comparison) ttl(j *journey) int {
	o := c.truth.origin(j, c.domain)
	if o == nil {
		return 0
	}
	return int(o.TTL) - j.forwards(slices.IndexFunc(j.wire, func(u *unit) bool { return c.domain[u.place.node] }))
}

// CheckSelected compares all answers about the packets of the selection, in one row
// for what is certain and one for times by captures.
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
	certain.Note = fmt.Sprintf("%d packets", len(c.passages()))
	return []*Row{certain, times}
}

// join adds a row to one of several; it must have compared something.
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
