// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// transit is one packet's path through the domain, as radar's answers count it.
type transit struct {
	path     *packetPath
	outcome  outcome
	flow     string
	ports    string // the path, with ports
	nodes    string // "h1 > r1"
	bytes    int
	from, to *packet        // first and last sighting in the domain
	alone    bool           // never in a train, and no longer than times are compared for
	r        *record.Record // nil: there is none
}

// witness is the source of the times. Answers must agree with the records exactly, on every
// machine. Records are compared with captures (CheckStamps); on a quiet machine answers are
// too.
type witness bool

const (
	byCaptures witness = false
	byRecords  witness = true
)

func (p *transit) arrived() bool {
	return p.outcome.state == record.Delivered || p.outcome.state == record.Left
}

// ns from the first to the last moment in the domain, by captures.
func (p *transit) ns() int64 { return p.to.at - p.from.at }

// span is the first and the last moment in the domain; two: there are two.
func (p *transit) span(w witness) (from, to int64, two bool) {
	if w == byCaptures || p.r == nil {
		return p.from.at, p.to.at, p.from != p.to
	}
	if last := p.r.LastNs(); last != nil {
		return p.r.TNs, p.r.TNs + *last, true
	}
	return p.r.TNs, p.r.TNs, false
}

// began is when radar saw it first: radar selects packets by this time.
func (p *transit) began() int64 {
	at, _, _ := p.span(byRecords)
	return at
}

// moments of hop i: when the packet came into the node, and when it went out.
func (p *transit) moments(w witness, i int) (m moments) {
	if w == byRecords && p.r != nil && len(p.r.Hops) == len(p.outcome.hops) {
		return momentsOf(p.r, i)
	}
	if h := p.outcome.hops[i]; h.in != nil {
		m.in = &h.in.at
	}
	if h := p.outcome.hops[i]; h.out != nil {
		m.out = &h.out.at
	}
	return m
}

// transits are all packets that came into the domain, were measured and are selected, in
// the order in which they came.
func (c *Comparison) transits() []transit {
	var list []transit
	for _, path := range c.truth.paths {
		o, ok := c.truth.outcome(path, c.domain, c.drops)
		if !ok || c.omitted[path] {
			continue
		}
		p := transit{path: path, outcome: o, flow: flowOf(path.first().Packet), ports: c.pathOf(o), bytes: path.first().length(), r: c.records[path]}
		p.sight()
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b transit) int { return cmp.Compare(a.began(), b.began()) })
	return c.selected(list)
}

// sight works out nodes, from, to and alone, which it returns.
func (p *transit) sight() bool {
	p.alone = true
	var nodes []string
	for _, h := range p.outcome.hops {
		nodes = append(nodes, h.node)
		for _, pkt := range []*packet{h.in, h.out} {
			if pkt == nil {
				continue
			}
			if p.from == nil {
				p.from = pkt
			}
			p.to = pkt
			p.alone = p.alone && pkt.segs == 1 && pkt.Len <= maxFrame
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
	unsure                        int // the captures' microseconds do not show whether they are
	paths                         map[string]int
}

func (c *Comparison) flowTruths(list []transit, w witness) map[string]*flowTruth {
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

// tick: captures may show two times that are at most so near in the wrong order, ns.
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
func linkName(from, to *packet) string {
	return from.place.ref().String() + " > " + to.place.ref().String()
}
