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
	from, to *unit // first and last sighting in the domain
	alone    bool  // never in a train, and no longer than times are compared for
}

func (p *passage) arrived() bool {
	return p.fate.state == record.Delivered || p.fate.state == record.Left
}

func (p *passage) ns() int64 { return p.to.at - p.from.at }

// passages are all packets that came into the domain, were measured, and are asked for, in
// the order in which they came.
func (c *Comparison) passages() []passage {
	var list []passage
	for _, j := range c.truth.journeys {
		f, ok := c.truth.fate(j, c.domain, c.drops)
		if !ok || c.omitted[j] {
			continue
		}
		p := passage{j: j, fate: f, flow: flowOf(j.first().Packet), path: c.pathOf(f), bytes: j.first().length()}
		p.sight()
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b passage) int { return cmp.Compare(a.from.at, b.from.at) })
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

func (c *Comparison) flowTruths(list []passage) map[string]*flowTruth {
	flows := map[string]*flowTruth{}
	arrivals := map[string][]passage{}
	for _, p := range list {
		f := flows[p.flow]
		if f == nil {
			f = &flowTruth{first: math.MaxInt64, alone: true, paths: map[string]int{}}
			flows[p.flow] = f
		}
		f.packets++
		f.bytes += p.bytes
		f.alone = f.alone && p.alone
		f.first, f.last = min(f.first, p.from.at), max(f.last, p.to.at)
		f.paths[p.nodes]++
		if !p.arrived() {
			f.gone++
			continue
		}
		f.arrived++
		if p.from != p.to {
			f.times = append(f.times, p.ns())
			arrivals[p.flow] = append(arrivals[p.flow], p)
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

// order works out jitter (RFC 3550, 6.4.1) and reordering (RFC 4737, 3.3).
func (f *flowTruth) order(list []passage) {
	slices.SortStableFunc(list, func(a, b passage) int { return cmp.Compare(a.to.at, b.to.at) })
	latest := int64(0)
	for i, p := range list {
		if p.from.at < latest {
			f.reordered++
		}
		near := func(a, b int64) bool { return max(a-b, b-a) <= tick }
		if i > 0 && (near(p.from.at, latest) || near(p.to.at, list[i-1].to.at)) {
			f.unsure++
		}
		latest = max(latest, p.from.at)
		if i > 0 {
			d := p.ns() - list[i-1].ns()
			f.jitter += (math.Abs(float64(d)) - f.jitter) / 16
		}
	}
}

// linkName is a link as radar names it.
func linkName(from, to *unit) string {
	return from.place.ref().String() + " > " + to.place.ref().String()
}
