// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/record"
)

// comparison of the made-up world, with all nodes in the domain.
func comparison(t *testing.T) *Comparison {
	t.Helper()
	w := newWorld(t, "h1", "r1", "r2", "h2")
	c, err := NewCaptures(topology())
	if err != nil {
		t.Fatal(err)
	}
	for node, shots := range w.wire {
		if err := c.AddWire(node, pcap(t, 276, shots, cooked)); err != nil {
			t.Fatal(err)
		}
	}
	for node, shots := range w.hooks {
		if err := c.AddHook(node, pcap(t, layers.LinkType(239), shots, nflog)); err != nil {
			t.Fatal(err)
		}
	}
	return c.Reconstruct().Compare(w.domain, w.drops, w.records)
}

// fillAnswers returns the answers that agree with the captures.
func fillAnswers(c *Comparison) *Answers {
	a := &Answers{Latency: map[string][]LatencyAnswer{}, Throughput: map[string][]MeterAnswer{}, Seconds: map[string][]SecondAnswer{}}
	paths, flowsOn := map[string]*PathAnswer{}, map[string]map[string]bool{}
	names, lossOf := map[string]FlowName{}, map[string]map[string]*FlowLossAnswer{}
	list := c.transits()
	for _, p := range list {
		names[p.flow] = nameOf(p.from.Packet)
		r := paths[p.ports]
		if r == nil {
			r, flowsOn[p.ports] = &PathAnswer{}, map[string]bool{}
			for i, h := range p.outcome.hops {
				out := h.outPort()
				if d := p.outcome.drop; d != nil && d.At == record.AtQueue && i == len(p.outcome.hops)-1 {
					out = d.Port
				}
				r.Hops = append(r.Hops, HopAnswer{h.node, h.inPort(), out})
			}
			paths[p.ports] = r
		}
		r.Packets, r.Bytes = r.Packets+1, r.Bytes+p.bytes
		if p.arrived() {
			r.Delivered++
		} else {
			r.Lost++
		}
		if p.from.Frag&maskOffset == 0 {
			flowsOn[p.ports][p.flow] = true
		}
		if d := p.outcome.drop; d != nil {
			if lossOf[d.Name] == nil {
				lossOf[d.Name] = map[string]*FlowLossAnswer{}
			}
			l := lossOf[d.Name][p.flow]
			if l == nil {
				reason := ""
				if len(d.Reasons) > 0 {
					reason = d.Reasons[0]
				}
				l = &FlowLossAnswer{names[p.flow], LossAnswer{Node: d.Node, Port: d.Port, At: d.At, Reason: reason}}
				lossOf[d.Name][p.flow] = l
			}
			l.Packets, l.Bytes = l.Packets+1, l.Bytes+p.bytes
		}
	}
	for path, r := range paths {
		r.Flows = len(flowsOn[path])
		a.Paths = append(a.Paths, *r)
	}
	for _, flows := range lossOf {
		var sum LossAnswer
		for _, l := range flows {
			a.FlowLosses = append(a.FlowLosses, *l)
			packets, bytes := sum.Packets, sum.Bytes
			sum = l.LossAnswer
			sum.Packets, sum.Bytes, sum.Flows = sum.Packets+packets, sum.Bytes+bytes, len(flows)
		}
		a.Losses = append(a.Losses, sum)
	}
	truths := c.flowTruths(list, byCaptures)
	for _, flow := range slices.Sorted(maps.Keys(truths)) {
		a.Flows = append(a.Flows, answerOf(names[flow], truths[flow]))
	}
	fillGroups(c, a)
	return a
}

func nameOf(p *Packet) FlowName {
	n := FlowName{Proto: protoName(p.Proto), Src: p.Src.String(), Dst: p.Dst.String(), Fragments: p.Frag&maskOffset != 0}
	if !n.Fragments {
		n.Sport, n.Dport, n.ICMPType, n.ICMPID = known(p.Sport), known(p.Dport), known(p.ICMPType), known(p.ICMPID)
	}
	return n
}

// fillGroups adds latencies and throughput.
func fillGroups(c *Comparison, a *Answers) {
	hops := map[string][]HopAnswer{}
	for _, p := range a.Paths {
		hops[p.key()] = slices.Clone(p.Hops)
	}
	for by, groups := range c.latencyTruths(byCaptures) {
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			times := groups[name]
			r := LatencyAnswer{Name: name, Hops: hops[name]}
			r.TimesAnswer = TimesAnswer{len(times), times[0], rank(times, 0.5), rank(times, 0.9), rank(times, 0.99), times[len(times)-1]}
			a.Latency[by] = append(a.Latency[by], r)
		}
	}
	for by, groups := range c.meterTruths() {
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			m, peak := groups[name], [2]int{}
			r := MeterAnswer{Name: name, Packets: m.packets, Bytes: m.bytes, Active: len(m.seconds)}
			for at, s := range m.seconds {
				a.Seconds[by] = append(a.Seconds[by], SecondAnswer{name, at, s[0], s[1]})
				if s[1] > peak[1] {
					peak, r.PeakS = s, at
				}
			}
			average, most := m.average(), float64(peak[1]*8)
			most = max(most, average)
			r.Average, r.Peak = &average, &most
			a.Throughput[by] = append(a.Throughput[by], r)
		}
	}
}

func answerOf(name FlowName, f *flowTruth) FlowAnswer {
	r := FlowAnswer{FlowName: name, Packets: f.packets, Bytes: f.bytes, Delivered: f.arrived, Lost: f.gone,
		FirstNs: f.first, Duration: f.last - f.first, Reordered: f.reordered}
	if r.Duration > 0 {
		rate := float64(f.bytes) * 8e9 / float64(r.Duration)
		r.Rate = &rate
	}
	if n := len(f.times); n > 0 {
		r.Latency = &TimesAnswer{n, f.times[0], rank(f.times, 0.5), rank(f.times, 0.9), rank(f.times, 0.99), f.times[n-1]}
		jitter, ratio := int64(f.jitter), float64(f.reordered)/float64(f.arrived)
		r.Jitter, r.Ratio = &jitter, &ratio
	}
	for path, n := range f.paths {
		r.PathList = append(r.PathList, struct {
			Path    string `json:"path"`
			Packets int    `json:"packets"`
		}{path, n})
	}
	return r
}

// TestAnswers: answers that agree with the captures pass. Each that is spoiled is
// found by the named rows and no others.
func TestAnswers(t *testing.T) {
	c := comparison(t)
	// timed is a flow whose times are compared.
	truths := c.flowTruths(c.transits(), byCaptures)
	timed := func(a *Answers) *FlowAnswer {
		i := slices.IndexFunc(a.Flows, func(r FlowAnswer) bool { return truths[r.key()].alone && r.Jitter != nil })
		return &a.Flows[i]
	}
	const paths, flows, places, byFlow = "radar paths", "radar flows: packets", "radar loss: packets", "radar loss --by flow"
	const recordsRow = "radar flows: completion, rate, latency, jitter, reordering, by the records"
	twice := func(name string) []string {
		return []string{name + ": quantiles, by the records", name + ": quantiles"}
	}
	for _, m := range []struct {
		name  string
		spoil func(a *Answers)
		rows  []string
	}{
		{"nothing", func(*Answers) {}, nil},
		{"path missing", func(a *Answers) { a.Paths = a.Paths[1:] }, []string{paths}},
		{"path that is none", func(a *Answers) { a.Paths[0].Hops[0].Port = "x" }, []string{paths}},
		{"packets of a path", func(a *Answers) { a.Paths[0].Packets++ }, []string{paths}},
		{"bytes of a path", func(a *Answers) { a.Paths[0].Bytes++ }, []string{paths}},
		{"flows of a path", func(a *Answers) { a.Paths[0].Flows++ }, []string{paths}},
		{"ends of a path", func(a *Answers) { a.Paths[0].Expired++ }, []string{paths}},
		{"flow missing", func(a *Answers) { a.Flows = slices.DeleteFunc(a.Flows, func(r FlowAnswer) bool { return r.Fragments }) }, []string{flows}},
		{"flow that is none", func(a *Answers) { a.Flows = append(a.Flows, FlowAnswer{Packets: 1}) }, []string{flows}},
		{"bytes of a flow", func(a *Answers) { a.Flows[0].Bytes-- }, []string{flows}},
		{"ends of a flow", func(a *Answers) { a.Flows[0].Lost++ }, []string{flows}},
		{"paths of a flow", func(a *Answers) { a.Flows[0].PathList[0].Packets++ }, []string{flows}},
		{"bytes of a loss", func(a *Answers) { a.Losses[0].Bytes++ }, []string{places}},
		{"flows of a loss", func(a *Answers) { a.Losses[0].Flows++ }, []string{places}},
		{"flow of a loss missing", func(a *Answers) { a.FlowLosses = a.FlowLosses[1:] }, []string{byFlow}},
		{"completion time", func(a *Answers) { timed(a).Duration += timed(a).Duration/50 + 200_000 }, []string{recordsRow, "radar flows: completion"}},
		{"rate", func(a *Answers) { *timed(a).Rate *= 1000 }, []string{recordsRow, "radar flows: rate"}},
		{"p50", func(a *Answers) { timed(a).Latency.P50 += 200_000 }, []string{recordsRow, "radar flows: latency"}},
		{"count of times", func(a *Answers) { timed(a).Latency.Count-- }, []string{recordsRow, "radar flows: latency"}},
		{"jitter", func(a *Answers) { *timed(a).Jitter += 200_000 }, []string{recordsRow, "radar flows: jitter"}},
		{"no jitter", func(a *Answers) { timed(a).Jitter = nil }, []string{recordsRow}},
		{"ratio of reordering", func(a *Answers) { *timed(a).Ratio += 0.01 }, []string{recordsRow}},
		{"reordering", func(a *Answers) { timed(a).Reordered += timed(a).Packets; *timed(a).Ratio++ }, []string{recordsRow, "radar flows: reordering"}},
		{"latency of a path", func(a *Answers) { a.Latency["path"][0].P50 += 200_000 }, twice("radar latency --by path")},
		{"latency of a path missing", func(a *Answers) { a.Latency["path"] = a.Latency["path"][1:] }, twice("radar latency --by path")},
		{"latency of a path that is none", func(a *Answers) {
			a.Latency["path"] = append(a.Latency["path"], LatencyAnswer{Hops: make([]HopAnswer, 1)})
		},
			twice("radar latency --by path")},
		{"latency of a node that is none", func(a *Answers) { a.Latency["node"] = append(a.Latency["node"], LatencyAnswer{Name: "x"}) },
			twice("radar latency --by node")},
		{"times of a link", func(a *Answers) { a.Latency["link"][0].Count++ }, twice("radar latency --by link")},
		{"bytes on a path", func(a *Answers) { a.Throughput["path"][1].Bytes++ }, []string{"radar throughput --by path"}},
		{"throughput of a path missing", func(a *Answers) { a.Throughput["path"] = a.Throughput["path"][:1] }, []string{"radar throughput --by path"}},
		{"throughput of a path that is none", func(a *Answers) { a.Throughput["path"][1].Name += " > x" }, []string{"radar throughput --by path"}},
		{"peak on a path", func(a *Answers) { *a.Throughput["path"][1].Peak *= 2 }, []string{"radar throughput --by path"}},
		{"seconds on a path", func(a *Answers) { a.Seconds["path"][1].Packets++ }, []string{"radar throughput --by path"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			a := fillAnswers(c)
			m.spoil(a)
			wrong := []string{}
			b := Bounds{P99: 100 * time.Microsecond}
			for _, row := range slices.Concat(c.CheckCounts(a), c.CheckFlowTimes(a.Flows, b), c.CheckLatency(a, b), c.CheckThroughput(a)) {
				if row.Wrong > 0 || row.Compared == 0 {
					wrong = append(wrong, row.Check)
				}
			}
			same := len(wrong) == len(m.rows)
			for i := range m.rows {
				same = same && strings.HasPrefix(wrong[i], m.rows[i])
			}
			if !same {
				t.Errorf("rows %q are wrong, want %q", wrong, m.rows)
			}
		})
	}
}

// TestNotMeasured: packets that radar counted as not measured are in no answer; all others
// must be.
func TestNotMeasured(t *testing.T) {
	for _, counted := range []int{1, 0} {
		c := comparison(t)
		c.missing = append(c.missing, c.pairs[0].expectation)
		c.pairs = c.pairs[1:]
		all := len(c.transits())
		c.Rows(counted)
		if n := len(c.transits()); n != all-counted {
			t.Errorf("one record is missing, %d counted: %d packets of %d are expected in answers", counted, n, all)
		}
	}
}

// The captures' own jitter and reordering, by hand.
func TestOrderOfFlow(t *testing.T) {
	at := func(sent, arrived int64) arrival { return arrival{sent * 1e6, arrived * 1e6} }
	var f flowTruth
	f.order([]arrival{at(0, 10), at(0, 25), at(10, 30), at(40, 60)})
	// Took 10, 25, 20, 20 ms. J: 0, +15/16 = 0.9375, +(5-0.9375)/16 = 1.1914..., -1.1914/16
	// = 1.1169... ms. The first two were sent at once.
	if f.reordered != 0 || f.unsure != 1 || int64(f.jitter) != 1116943 {
		t.Errorf("%+v, want none reordered, one not sure, jitter 1.116943 ms", f)
	}
	var g flowTruth
	g.order([]arrival{at(0, 100), at(10, 20), at(20, 30), at(30, 110)})
	// 20: latest 10; 30: 20; 100: sent at 0, reordered; 110.
	// J: 0, +(0)/16, +(90)/16 = 5.625 ms, +(20-5.625)/16 = 6.5234375 ms.
	if g.reordered != 1 || g.unsure != 0 || int64(g.jitter) != 6523437 {
		t.Errorf("%+v, want 1 packet reordered, jitter 6.5234375 ms", g)
	}
}
