// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// meterTruth is what passed a place: the packets that captures saw, in the seconds that
// radar's records say.
type meterTruth struct {
	packets, bytes int
	first, last    int64            // of the packets, Unix ns
	seconds        map[int64][2]int // packets, bytes
}

func (m *meterTruth) add(at int64, bytes int) {
	if m.packets == 0 {
		m.first, m.last = at, at
	}
	m.first, m.last = min(m.first, at), max(m.last, at)
	m.packets++
	m.bytes += bytes
	s := at / 1e9
	m.seconds[s] = [2]int{m.seconds[s][0] + 1, m.seconds[s][1] + bytes}
}

// average is bits/s over the seconds with traffic. The first and the last second count from
// the first and until the last packet. The sum counts as one second at least.
func (m *meterTruth) average() float64 {
	idle := m.first - m.first/1e9*1e9 + (m.last/1e9+1)*1e9 - m.last
	return float64(m.bytes) * 8 / max(1, float64(len(m.seconds))-float64(idle)/1e9)
}

// CheckThroughput compares what passed links, ports, nodes and paths, in all and by second,
// for each group that the answers have.
func (c *Comparison) CheckThroughput(a *Answers) []*Row {
	truth := c.meterTruths()
	var rows []*Row
	for _, by := range slices.Sorted(maps.Keys(a.Throughput)) {
		rows = append(rows, c.meterRow(by, truth[by], a))
	}
	return rows
}

// meterTruths is what passed, by group and name.
func (c *Comparison) meterTruths() map[string]map[string]*meterTruth {
	truth := map[string]map[string]*meterTruth{"link": {}, "port": {}, "node": {}, "path": {}}
	add := func(by, name string, at int64, bytes int) {
		if truth[by][name] == nil {
			truth[by][name] = &meterTruth{seconds: map[int64][2]int{}}
		}
		truth[by][name].add(at, bytes)
	}
	for _, p := range c.transits() {
		begin, _, _ := p.span(byRecords)
		for by := range truth {
			add(by, "all", begin, p.bytes)
		}
		add("path", p.nodes, begin, p.bytes)
		for i, h := range p.outcome.hops {
			m := p.moments(byRecords, i)
			came := begin
			switch {
			case m.in != nil:
				came = *m.in
			case m.out != nil:
				came = *m.out
			}
			if h.in != nil {
				add("port", h.in.place.ref().String()+" in", came, p.bytes)
			}
			add("node", h.node, came, p.bytes)
			if h.out != nil && !c.queued(h.out) {
				went := came
				if m.out != nil {
					went = *m.out
				}
				add("port", h.out.place.ref().String()+" out", went, p.bytes)
			}
			if i > 0 && h.in != nil {
				add("link", linkName(p.outcome.hops[i-1].out, h.in), came, p.bytes)
			}
		}
	}
	return truth
}

func (c *Comparison) meterRow(by string, truth map[string]*meterTruth, a *Answers) *Row {
	meters := a.Throughput[by]
	seconds, asked := a.Seconds[by]
	row := &Row{Check: "radar throughput --by " + by + ": sums, averages, peaks, seconds"}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(truth)) {
		m := truth[name]
		known[name] = true
		i := slices.IndexFunc(meters, func(r MeterAnswer) bool { return r.Name == name })
		if i < 0 {
			row.bad("%s: missing", name)
			continue
		}
		row.Compared++
		checkMeter(row, &meters[i], m)
		if !asked {
			continue
		}
		got := map[int64]SecondAnswer{}
		for _, s := range seconds {
			if s.Name == name {
				got[s.Time] = s
			}
		}
		for at := range m.seconds {
			if _, ok := got[at]; !ok {
				got[at] = SecondAnswer{}
			}
		}
		for at, s := range got {
			row.Compared++
			if want := m.seconds[at]; s.Packets != want[0] || s.Bytes != want[1] {
				row.bad("%s, second %d: %d packets, %d bytes; really %d, %d", name, at, s.Packets, s.Bytes, want[0], want[1])
			}
		}
	}
	for _, r := range meters {
		if !known[r.Name] && (by != "port" || !c.queuePort(r.Name)) {
			row.bad("%s: %d packets, but nothing passed", r.Name, r.Packets)
		}
	}
	row.Note = fmt.Sprintf("%d places", len(truth))
	return row
}

// checkMeter compares sums and what follows from the seconds.
func checkMeter(row *Row, r *MeterAnswer, m *meterTruth) {
	if r.Packets != m.packets || r.Bytes != m.bytes {
		row.bad("%s: %d packets, %d bytes; really %d, %d", r.Name, r.Packets, r.Bytes, m.packets, m.bytes)
	}
	peak := 0
	for _, s := range m.seconds {
		peak = max(peak, s[1])
	}
	average := m.average()
	if r.Active != len(m.seconds) || r.Average == nil || math.Abs(*r.Average-average) > 1 ||
		r.Peak == nil || *r.Peak < *r.Average || math.Abs(*r.Peak-max(float64(peak*8), average)) > 1 || m.seconds[r.PeakS][1] != peak {
		row.bad("%s: %d seconds, average %v, peak %v at %d; really %d, %.0f, %d", r.Name,
			r.Active, deref(r.Average), deref(r.Peak), r.PeakS, len(m.seconds), average, peak*8)
	}
}

func deref(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func distance(a, b int) int { return max(a-b, b-a) }

// queuePort reports whether a row counts what went into a queue: captures are behind the
// queue and do not see that.
func (c *Comparison) queuePort(name string) bool {
	for _, n := range c.truth.topo.Nodes {
		for _, p := range n.Ports {
			if p.Queue != nil && name == (Ref{n.Name, p.Name}).String()+" out" {
				return true
			}
		}
	}
	return false
}
