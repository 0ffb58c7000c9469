// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// passage is one packet's way through the domain, as questions count it.
type passage struct {
	j        *journey
	fate     fate
	flow     string
	path     string // with ports
	nodes    string // "h1 > r1"
	bytes    int
	from, to *unit          // first and last sighting in the domain
	alone    bool           // never in a train, and no longer than times are compared for
	r        *record.Record // nil: there is none
}

// witness is who says when a packet was somewhere. Answers are held to records, to which
// they must agree exactly, whatever the machine did; records are held to captures
// (CheckStamps), and on a quiet machine answers, too.
type witness bool

const (
	byCaptures witness = false
	byRecords  witness = true
)

func (p *passage) arrived() bool {
	return p.fate.state == record.Delivered || p.fate.state == record.Left
}

// ns from the first to the last moment in the domain, by captures.
func (p *passage) ns() int64 { return p.to.at - p.from.at }

// span is the first and the last moment in the domain; two: they are two.
func (p *passage) span(w witness) (from, to int64, two bool) {
	switch {
	case w == byCaptures || p.r == nil:
		return p.from.at, p.to.at, p.from != p.to
	case p.r.LatencyNs == nil:
		return p.r.TNs, p.r.TNs, false
	}
	return p.r.TNs, p.r.TNs + *p.r.LatencyNs, true
}

// began is when radar saw it first: questions about some of the packets go by that.
func (p *passage) began() int64 {
	at, _, _ := p.span(byRecords)
	return at
}

// moments of visit i: when it came into the node, and out.
func (p *passage) moments(w witness, i int) (m moments) {
	if w == byRecords && p.r != nil && len(p.r.Hops) == len(p.fate.hops) {
		return momentsOf(p.r, i)
	}
	if v := p.fate.hops[i]; v.in != nil {
		m.in = &v.in.at
	}
	if v := p.fate.hops[i]; v.out != nil {
		m.out = &v.out.at
	}
	return m
}

// passages are all packets that came into the domain, were measured, and are asked for, in
// the order in which they came.
func (c *Comparison) passages() []passage {
	var list []passage
	for _, j := range c.truth.journeys {
		f, ok := c.truth.fate(j, c.domain, c.drops)
		if !ok || c.omitted[j] {
			continue
		}
		p := passage{j: j, fate: f, flow: flowOf(j.first().Packet), path: c.pathOf(f), bytes: j.first().length(), r: c.records[j]}
		p.sight()
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b passage) int { return cmp.Compare(a.began(), b.began()) })
	return c.selected(list)
}

// sight works out nodes, from, to and alone, which it returns.
func (p *passage) sight() bool {
	p.alone = true
	var nodes []string
	for _, v := range p.fate.hops {
		nodes = append(nodes, v.node)
		for _, u := range []*unit{v.in, v.out} {
			if u == nil {
				continue
			}
			if p.from == nil {
				p.from = u
			}
			p.to = u
			p.alone = p.alone && u.segs == 1 && u.Len <= maxFrame
		}
	}
	p.nodes = strings.Join(nodes, " > ")
	return p.alone
}

// flowTruth is what the captures say about one flow.
type flowTruth struct {
	packets, bytes, arrived, gone int
	first, last                   int64
	alone                         bool
	times                         []int64 // sorted
	jitter                        float64
	reordered                     int
	unsure                        int // whether they are, the captures' microseconds do not tell
	paths                         map[string]int
}

func (c *Comparison) flowTruths(list []passage, w witness) map[string]*flowTruth {
	flows := map[string]*flowTruth{}
	arrivals := map[string][]arrival{}
	for _, p := range list {
		from, to, two := p.span(w)
		f := flows[p.flow]
		if f == nil {
			f = &flowTruth{first: math.MaxInt64, alone: true, paths: map[string]int{}}
			flows[p.flow] = f
		}
		f.packets++
		f.bytes += p.bytes
		f.alone = f.alone && p.alone
		f.first, f.last = min(f.first, from), max(f.last, to)
		f.paths[p.nodes]++
		if !p.arrived() {
			f.gone++
			continue
		}
		f.arrived++
		if two {
			f.times = append(f.times, to-from)
			arrivals[p.flow] = append(arrivals[p.flow], arrival{from, to})
		}
	}
	for name, f := range flows {
		slices.Sort(f.times)
		f.order(arrivals[name])
	}
	return flows
}

// tick is how near to each other times of captures may be the other way round.
const tick = 2000

// arrival is when a packet of a flow was sent, and when it arrived.
type arrival struct{ from, to int64 }

// order works out jitter (RFC 3550, 6.4.1) and reordering (RFC 4737, 3.3).
func (f *flowTruth) order(list []arrival) {
	slices.SortStableFunc(list, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from)) })
	latest := int64(0)
	for i, p := range list {
		if p.from < latest {
			f.reordered++
		}
		near := func(a, b int64) bool { return max(a-b, b-a) <= tick }
		if i > 0 && (near(p.from, latest) || near(p.to, list[i-1].to)) {
			f.unsure++
		}
		latest = max(latest, p.from)
		if i > 0 {
			d := p.to - p.from - (list[i-1].to - list[i-1].from)
			f.jitter += (math.Abs(float64(d)) - f.jitter) / 16
		}
	}
}

// linkName is a link as radar names it.
func linkName(from, to *unit) string {
	return from.place.ref().String() + " > " + to.place.ref().String()
}
