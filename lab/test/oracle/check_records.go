// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Comparison is a set of records beside what really happened.
type Comparison struct {
	truth   *Truth
	domain  Domain
	drops   []Drop
	pairs   []pair
	records map[*packetPath]*record.Record // with those that Unseen takes out of pairs
	missing []expectation
	extra   []claim
	blind   int                  // packets whose true header nobody saw
	unseen  map[string]Losses    // see Unseen
	taken   map[*packetPath]bool // the packets of unseen
	guessed map[lossPlace]int64  // how many of them radar infers to be lost, and where
	omitted map[*packetPath]bool // radar counted them as not measured: in no answer
	only    Selection
}

// Compare gives every packet that came into the domain its record.
func (t *Truth) Compare(d Domain, drops []Drop, records []record.Record) *Comparison {
	c := &Comparison{truth: t, domain: d, drops: drops}
	var want []expectation
	for _, path := range t.paths {
		o, ok := t.outcome(path, d, drops)
		if !ok {
			continue
		}
		origin := t.origin(path, d)
		if origin == nil {
			c.blind++
			continue
		}
		i := slices.IndexFunc(path.wire, func(pkt *packet) bool { return d[pkt.place.node] })
		want = append(want, expectation{path: path, origin: origin, outcome: o, enters: path.wire[i].at, first: path.arrival(o.hops[0]), ttl: c.ttl(path)})
	}
	c.pairs, c.missing, c.extra = match(want, records)
	c.records = map[*packetPath]*record.Record{}
	for _, p := range c.pairs {
		c.records[p.path] = p.r
	}
	return c
}

// Rows checks the records: one for every packet, the header as the source saw
// it, the path, the end, the place of every loss. notMeasured is how many packets
// radar counted as not measured: exactly so many records must be missing. Later
// checks expect these packets in no answer.
func (c *Comparison) Rows(notMeasured int) []*Row {
	if notMeasured == len(c.missing) {
		c.omitted = map[*packetPath]bool{}
		for _, e := range c.missing {
			c.omitted[e.path] = true
		}
	}
	return []*Row{c.one(notMeasured), c.headers(), c.tcp(), c.paths(), c.states(), c.losses()}
}

func (c *Comparison) one(notMeasured int) *Row {
	row := &Row{Check: "one record for every packet", Compared: len(c.pairs)}
	for _, e := range c.missing {
		row.bad("no record: %s, ip id %d, %s", describe(e.path), e.origin.id(), e.outcome)
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
			row.bad("%s: %s: %s", p.r.ID, describe(p.path), s)
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
				want += (&packet{p.origin.frame, k}).length()
			}
		}
		if p.r.Len != want {
			return diffText("len", p.r.Len, want)
		}
	}
	return ""
}

// tcp compares TCP headers with those that the source sent. A train's is that of its skb. Where others have
// the same IP header, it is not known whose record this is.
func (c *Comparison) tcp() *Row {
	row := &Row{Check: tcpRow, MayBeEmpty: true}
	for _, p := range c.pairs {
		if p.n > 0 || p.alike || !p.origin.isTCP() {
			continue
		}
		row.Compared++
		if s := tcpProblem(p.r, p.origin); s != "" {
			row.bad("%s: %s: %s", p.r.ID, describe(p.path), s)
		}
	}
	return row
}

const tcpRow = "TCP header as the source saw it"

// tcpProblem compares a record with the segments that it stands for, of which pkt is the first.
func tcpProblem(r *record.Record, pkt *packet) string {
	h := pkt.ip[pkt.hdrLen:]
	seq, flags, payload := binary.BigEndian.Uint32(h[4:])+uint32(pkt.seg*pkt.size), int(h[12]&1)<<8|int(h[13]), 0
	end := min(pkt.seg+max(r.Segs, 1), pkt.segs)
	for k := pkt.seg; k < end; k++ {
		payload += (&packet{pkt.frame, k}).length() - pkt.hdrLen - pkt.l4Len
	}
	// As the kernel cuts a train.
	if pkt.seg > 0 {
		flags &^= tcpCWR
	}
	if end < pkt.segs {
		flags &^= tcpFIN | tcpPSH
	}
	ack, hasAck := int(binary.BigEndian.Uint32(h[8:])), flags&tcpACK != 0
	for _, f := range []struct {
		name string
		got  *int
		want int
		none bool
	}{
		{"tcp_seq", r.TCPSeq, int(seq), false},
		{"tcp_ack", r.TCPAck, ack, !hasAck},
		{"tcp_flags", r.TCPFlags, flags, false},
		{"tcp_window", r.TCPWindow, int(binary.BigEndian.Uint16(h[14:])), false},
		{"tcp_payload", r.TCPPayload, payload, false},
	} {
		if f.none != (f.got == nil) || f.got != nil && *f.got != f.want {
			return diffText(f.name, orNone(f.got), f.want)
		}
	}
	return ""
}

func (c *Comparison) paths() *Row {
	row := &Row{Check: "path"}
	for _, p := range c.pairs {
		row.Compared++
		got, want := pathOfRecord(p.r), c.pathOf(p.outcome)
		if got != want {
			row.bad("%s: %s: recorded %s, really %s", p.r.ID, describe(p.path), got, want)
		}
	}
	return row
}

// pathOf writes the path as the record must show it. Radar saw a packet leave for
// the queue that dropped it.
func (c *Comparison) pathOf(o outcome) string {
	var b strings.Builder
	for i, h := range o.hops {
		out := h.outPort()
		if o.drop != nil && o.drop.At == record.AtQueue && i == len(o.hops)-1 {
			out = o.drop.Port
		}
		fmt.Fprintf(&b, "[%s>%s>%s]", h.inPort(), h.node, out)
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
		if p.r.State != p.outcome.state {
			row.bad("%s: %s: recorded %s, really %s", p.r.ID, describe(p.path), p.r.State, p.outcome)
		}
	}
	return row
}

func (c *Comparison) losses() *Row {
	row := &Row{Check: "place of the loss", MayBeEmpty: true}
	for _, p := range c.pairs {
		if p.outcome.state != record.Lost && p.r.Loss == nil {
			continue
		}
		row.Compared++
		if s := lossProblem(p.outcome, p.r.Loss); s != "" {
			row.bad("%s: %s: %s, really %s", p.r.ID, describe(p.path), s, p.outcome)
		}
	}
	return row
}

func lossProblem(o outcome, l *record.Loss) string {
	switch {
	case l == nil, l.Inferred() && o.state == record.Lost:
		return "no loss recorded"
	case o.state != record.Lost:
		return fmt.Sprintf("a loss in %s recorded", l.Node)
	case o.drop == nil:
		return "lost where nothing is known to drop"
	case l.Node != o.where.Node || l.At != o.drop.At:
		return fmt.Sprintf("recorded in %s, %s", l.Node, l.At)
	case o.drop.Port != "" && l.Port != o.drop.Port:
		return fmt.Sprintf("recorded at port %q", l.Port)
	case len(o.drop.Reasons) > 0 && !slices.Contains(o.drop.Reasons, l.Reason):
		return fmt.Sprintf("recorded reason %q", l.Reason)
	}
	return ""
}
