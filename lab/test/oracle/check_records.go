// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Comparison is the judgement on a set of records.
type Comparison struct {
	truth   *Truth
	domain  Domain
	drops   []Drop
	pairs   []pair
	records map[*journey]*record.Record // also of those that Unseen takes out of pairs
	missing []expectation
	extra   []claim
	blind   int                 // packets whose true header nobody saw
	unseen  map[string]Losses   // see Unseen
	taken   map[*journey]bool   // the packets of unseen
	guessed map[lossPlace]int64 // the same where radar infers that they were lost
	omitted map[*journey]bool   // not measured, as radar counted: in no answer
	only    Selection
}

// Compare gives every packet that came into the domain its record.
func (t *Truth) Compare(d Domain, drops []Drop, records []record.Record) *Comparison {
	c := &Comparison{truth: t, domain: d, drops: drops}
	var want []expectation
	for _, j := range t.journeys {
		f, ok := t.fate(j, d, drops)
		if !ok {
			continue
		}
		o := t.origin(j, d)
		if o == nil {
			c.blind++
			continue
		}
		i := slices.IndexFunc(j.wire, func(u *unit) bool { return d[u.place.node] })
		want = append(want, expectation{j: j, origin: o, fate: f, enters: j.wire[i].at, first: j.arrival(f.hops[0]), ttl: c.ttl(j)})
	}
	c.pairs, c.missing, c.extra = match(want, records)
	c.records = map[*journey]*record.Record{}
	for _, p := range c.pairs {
		c.records[p.j] = p.r
	}
	return c
}

// Rows judges the records: one for every packet, the header as the source saw
// it, the path, the end, the place of every loss. notMeasured is how many packets
// radar itself says it did not measure: exactly so many must be missing. Checks that
// follow expect them in no answer.
func (c *Comparison) Rows(notMeasured int) []*Row {
	if notMeasured == len(c.missing) {
		c.omitted = map[*journey]bool{}
		for _, e := range c.missing {
			c.omitted[e.j] = true
		}
	}
	return []*Row{c.one(notMeasured), c.headers(), c.paths(), c.states(), c.losses()}
}

func (c *Comparison) one(notMeasured int) *Row {
	row := &Row{Check: "one record for every packet", Compared: len(c.pairs)}
	for _, e := range c.missing {
		row.bad("no record: %s, ip id %d, %s", describe(e.j), e.origin.id(), e.fate)
	}
	if notMeasured > 0 && notMeasured == row.Wrong {
		row.Wrong, row.Findings = 0, nil
		row.Note = fmt.Sprintf("%d more not measured, as radar counted", notMeasured)
	} else if notMeasured > 0 {
		row.bad("radar counted %d packets as not measured, %d have no record", notMeasured, len(c.missing))
	}
	for _, x := range c.extra {
		row.bad("record without packet: %s packet %d of %d: %s > %s %s, ip id %d, %s",
			x.r.ID, x.n+1, x.r.Segs, x.r.Src, x.r.Dst, x.r.Proto, x.r.IPID, x.r.State)
	}
	if c.blind > 0 {
		row.bad("%d packets cannot be compared: nobody saw their true header", c.blind)
	}
	return row
}

func (c *Comparison) headers() *Row {
	row := &Row{Check: "header as the source saw it"}
	for _, p := range c.pairs {
		row.Compared++
		if s := c.header(p); s != "" {
			row.bad("%s: %s: %s", p.r.ID, describe(p.j), s)
		}
	}
	return row
}

func (c *Comparison) header(p pair) string {
	switch {
	case p.r.TTL != p.ttl:
		return diffText("ttl", p.r.TTL, p.ttl)
	case p.r.DSCP != int(p.origin.TOS>>2):
		return diffText("dscp", p.r.DSCP, int(p.origin.TOS>>2))
	case p.r.ECN != int(p.origin.TOS&3):
		return diffText("ecn", p.r.ECN, int(p.origin.TOS&3))
	case p.origin.isIPv6() && (p.r.FlowLabel == nil || *p.r.FlowLabel != int(p.origin.Label)):
		return diffText("flow label", orNone(p.r.FlowLabel), int(p.origin.Label))
	case p.n == 0:
		want := 0
		for i := range max(p.r.Segs, 1) {
			if k := p.origin.seg + i; k < p.origin.segs {
				want += (&unit{p.origin.frame, k}).length()
			}
		}
		if p.r.Len != want {
			return diffText("len", p.r.Len, want)
		}
	}
	return ""
}

func (c *Comparison) paths() *Row {
	row := &Row{Check: "path"}
	for _, p := range c.pairs {
		row.Compared++
		got, want := pathOfRecord(p.r), c.pathOf(p.fate)
		if got != want {
			row.bad("%s: %s: recorded %s, really %s", p.r.ID, describe(p.j), got, want)
		}
	}
	return row
}

// pathOf writes the way as the record must show it. A packet that a queue
// dropped was seen to leave for the queue.
func (c *Comparison) pathOf(f fate) string {
	var b strings.Builder
	for i, v := range f.hops {
		out := v.outPort()
		if f.drop != nil && f.drop.At == record.AtQueue && i == len(f.hops)-1 {
			out = f.drop.Port
		}
		fmt.Fprintf(&b, "[%s>%s>%s]", v.inPort(), v.node, out)
	}
	return b.String()
}

func pathOfRecord(r *record.Record) string {
	var b strings.Builder
	for _, h := range r.Hops {
		fmt.Fprintf(&b, "[%s>%s>%s]", h.InPort, h.Node, h.Port)
	}
	return b.String()
}

func (c *Comparison) states() *Row {
	row := &Row{Check: "how it ended"}
	c.unseenNote(row)
	for _, p := range c.pairs {
		row.Compared++
		if p.r.State != p.fate.state {
			row.bad("%s: %s: recorded %s, really %s", p.r.ID, describe(p.j), p.r.State, p.fate)
		}
	}
	return row
}

func (c *Comparison) losses() *Row {
	row := &Row{Check: "place of the loss", MayBeEmpty: true}
	for _, p := range c.pairs {
		if p.fate.state != record.Lost && p.r.Loss == nil {
			continue
		}
		row.Compared++
		if s := lossProblem(p.fate, p.r.Loss); s != "" {
			row.bad("%s: %s: %s, really %s", p.r.ID, describe(p.j), s, p.fate)
		}
	}
	return row
}

func lossProblem(f fate, l *record.Loss) string {
	switch {
	case l == nil, l.Inferred() && f.state == record.Lost:
		return "no loss recorded"
	case f.state != record.Lost:
		return fmt.Sprintf("a loss in %s recorded", l.Node)
	case f.drop == nil:
		return "lost where nothing is known to drop"
	case l.Node != f.where.Node || l.At != f.drop.At:
		return fmt.Sprintf("recorded in %s, %s", l.Node, l.At)
	case f.drop.Port != "" && l.Port != f.drop.Port:
		return fmt.Sprintf("recorded at port %q", l.Port)
	case len(f.drop.Reasons) > 0 && !slices.Contains(f.drop.Reasons, l.Reason):
		return fmt.Sprintf("recorded reason %q", l.Reason)
	}
	return ""
}
