// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"math"

	"github.com/vnetradar/radar/pkg/record"
)

// bracket is between which moments a stamp of radar must lie, Unix ns, however busy the
// machine is. A packet tap sees what comes in before radar does, and what goes out after
// it: so radar's stamp of what comes in lies between the captures of the packet as it
// comes in and as it goes out, and so does the stamp of what goes out. A sender's own note
// of a packet comes before all that, a socket's after it.
type bracket struct{ from, to int64 }

const (
	// Borders that nobody saw; far enough from the limits that sums stay below these.
	longAgo  = math.MinInt64 / 4
	whenever = math.MaxInt64 / 4

	// resolution of captures, ns: they cut off what is less than a microsecond.
	resolution = 1000
	// clockError is by how much, ns, a moment of radar's may be off the captures'. Stamps
	// are CLOCK_MONOTONIC's, captures CLOCK_REALTIME's. Both run at one rate, also while NTP
	// slews them. The difference is measured once, to some ns (pkg/host/clock), and holds until
	// somebody sets the clock; who runs the captures must notice that.
	clockError = 10_000
)

func (b bracket) holds(ns, slack int64) bool { return b.from-slack <= ns && ns <= b.to+slack }

// entry is the bracket of radar's stamp as the packet comes in, exit of the one as it
// goes out, and of the moment at which it leaves the port's queue.
func (j *journey) entry(v visit) bracket {
	switch {
	case v.out != nil:
		return bracket{v.in.at, v.out.at + resolution}
	case v.in == j.last() && j.socket != nil:
		return bracket{v.in.at, j.socket.at + resolution}
	}
	return bracket{v.in.at, whenever}
}

func (j *journey) exit(v visit) bracket {
	b := bracket{longAgo, whenever}
	if v.out != nil {
		b.to = v.out.at + resolution
	}
	switch {
	case v.in != nil:
		b.from = v.in.at
	case v.out == j.first() && j.sent != nil:
		b.from = j.sent.at
	}
	return b
}

// arrival is the bracket of the first stamp of a packet that comes into the domain there.
func (j *journey) arrival(v visit) bracket {
	if v.in != nil {
		return j.entry(v)
	}
	return j.exit(v)
}

// moments are when a packet was at one hop by radar's record, Unix ns; nil: it does not
// say. left is when it left the queue behind the port.
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

// stamp is one moment of a record, and where captures say that it lies.
type stamp struct {
	bracket
	ns   int64
	what string
}

// stampsOf are those of one packet, in the order of its way.
func stampsOf(p pair) (list []stamp) {
	add := func(ns *int64, b bracket, what string) {
		if ns != nil {
			list = append(list, stamp{b, *ns, what})
		}
	}
	for i, v := range p.fate.hops {
		m := momentsOf(p.r, i)
		if v.in != nil {
			add(m.in, p.j.entry(v), "into "+v.in.place.ref().String())
		}
		exit := Ref{v.node, p.r.Hops[i].Port}.String()
		add(m.out, p.j.exit(v), "out to "+exit)
		add(m.left, p.j.exit(v), "out of the queue of "+exit)
	}
	if l := p.r.Loss; p.fate.state == record.Lost && l != nil && l.AtNs != nil && !l.Inferred() {
		at := p.r.TNs + *l.AtNs
		add(&at, bracket{p.j.last().at, whenever}, "lost in "+l.Node)
	}
	return list
}
