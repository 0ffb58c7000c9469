// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"math"

	"github.com/vnetradar/radar/pkg/record"
)

// bracket is the two moments, Unix ns, between which a stamp of radar must lie, however busy
// the machine is. A packet tap sees a packet that comes in before radar does, and one that
// goes out after radar. So both of radar's stamps, of the packet as it comes in and as it
// goes out, lie between the two captures. The sender's own note of a packet comes before
// them, the socket's after them.
type bracket struct{ from, to int64 }

const (
	// Limits that nobody saw; sums with them do not overflow.
	longAgo  = math.MinInt64 / 4
	whenever = math.MaxInt64 / 4

	// resolution of captures, ns: they cut off everything below a microsecond.
	resolution = 1000
	// clockError, ns: radar's clock may be so far off the captures'. Stamps are of
	// CLOCK_MONOTONIC, captures of CLOCK_REALTIME. Both run at one rate, also while NTP
	// slews them. The difference is measured once, to some ns (pkg/host/clock), and holds
	// until somebody sets the clock; whoever runs the captures must notice that.
	clockError = 10_000
)

func (b bracket) holds(ns, slack int64) bool { return b.from-slack <= ns && ns <= b.to+slack }

// entry is the bracket of radar's stamp as the packet comes in. exit is that of the stamp as
// it goes out, and of the moment at which it leaves the port's queue.
func (path *packetPath) entry(h hop) bracket {
	switch {
	case h.out != nil:
		return bracket{h.in.at, h.out.at + resolution}
	case h.in == path.last() && path.socket != nil:
		return bracket{h.in.at, path.socket.at + resolution}
	}
	return bracket{h.in.at, whenever}
}

func (path *packetPath) exit(h hop) bracket {
	b := bracket{longAgo, whenever}
	if h.out != nil {
		b.to = h.out.at + resolution
	}
	switch {
	case h.in != nil:
		b.from = h.in.at
	case h.out == path.first() && path.sent != nil:
		b.from = path.sent.at
	}
	return b
}

// arrival is the bracket of the first stamp of a packet that comes into the domain there.
func (path *packetPath) arrival(h hop) bracket {
	if h.in != nil {
		return path.entry(h)
	}
	return path.exit(h)
}

// moments are when a packet was at one hop, Unix ns; nil: not known. left is when it left
// the queue behind the port.
type moments struct{ in, out, left *int64 }

func momentsOf(r *record.Record, i int) (m moments) {
	h := &r.Hops[i]
	if h.AtNs == nil {
		return m
	}
	at := r.TNs + *h.AtNs
	if h.Port == "" {
		m.in = &at
		return m
	}
	m.out = &at
	if h.NodeNs != nil {
		in := at - *h.NodeNs
		m.in = &in
	}
	if h.QueueNs != nil {
		left := at + *h.QueueNs
		m.left = &left
	}
	return m
}

// stamp is one moment of a record, and its bracket by the captures.
type stamp struct {
	bracket
	ns   int64
	what string
}

// stampsOf returns those of one packet, in the order of its path.
func stampsOf(p pair) (list []stamp) {
	add := func(ns *int64, b bracket, what string) {
		if ns != nil {
			list = append(list, stamp{b, *ns, what})
		}
	}
	for i, h := range p.outcome.hops {
		m := momentsOf(p.r, i)
		if h.in != nil {
			add(m.in, p.path.entry(h), "into "+h.in.place.ref().String())
		}
		exit := Ref{h.node, p.r.Hops[i].Port}.String()
		add(m.out, p.path.exit(h), "out to "+exit)
		add(m.left, p.path.exit(h), "out of the queue of "+exit)
	}
	if l := p.r.Loss; p.outcome.state == record.Lost && l != nil && l.AtNs != nil && !l.Inferred() {
		at := p.r.TNs + *l.AtNs
		add(&at, bracket{p.path.last().at, whenever}, "lost in "+l.Node)
	}
	return list
}
