// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// within reports whether an address lies in a prefix; any does in none.
func within(p *Prefix, addr string) bool {
	if p == nil {
		return true
	}
	a, err := netip.ParseAddr(addr)
	return err == nil && p.Contains(a)
}

// pathMeasure compares the nodes that packets visit. One of its lists is there.
type pathMeasure struct {
	*share               // of paths: beyond it they are not told apart
	path, crosses, never []string
	asked, against       uint64 // packets
	incomplete           uint64
	paths                map[string]uint64
	worst                worst
}

func (m *pathMeasure) add(r *record.Record) {
	if m.never == nil && !arrived(r) {
		return
	}
	m.asked += uint64(r.Segs)
	text := words.Path(r)
	if m.paths == nil {
		m.paths = make(map[string]uint64)
	}
	if m.paths[text] > 0 || m.fits(0) {
		m.paths[text] += uint64(r.Segs)
	}
	if m.holds(r) {
		if m.never != nil && r.Truncated {
			m.incomplete += uint64(r.Segs)
		}
		return
	}
	m.against += uint64(r.Segs)
	m.worst.add(r.ID, float64(r.Segs), func() string { return text })
}

func (m *pathMeasure) holds(r *record.Record) bool {
	visits := func(node string) bool {
		return slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Node == node })
	}
	switch {
	case m.never != nil:
		return !slices.ContainsFunc(m.never, visits)
	case m.crosses != nil:
		return !slices.ContainsFunc(m.crosses, func(node string) bool { return !visits(node) })
	}
	return !r.Truncated && r.Straight() &&
		slices.EqualFunc(r.Hops, m.path, func(h record.Hop, node string) bool { return h.Node == node })
}

func (m *pathMeasure) judge(to *Result) {
	switch {
	case m.never != nil:
		to.Promised = "never crosses " + strings.Join(m.never, ", ")
		to.Measured = fmt.Sprintf("%d of %d cross it", m.against, m.asked)
	case m.crosses != nil:
		to.Promised = "crosses " + strings.Join(m.crosses, ", ")
		to.Measured = fmt.Sprintf("%d of %d do", m.asked-m.against, m.asked)
	default:
		to.Promised = strings.Join(m.path, record.Arrow)
		to.Measured = fmt.Sprintf("%d of %d took it", m.asked-m.against, m.asked)
	}
	to.Verdict, to.Evidence = verdict(m.against == 0), m.worst.evidence()
	to.Values["against"], to.Values["paths"] = float64(m.against), float64(len(m.paths))
	switch {
	case m.incomplete > 0: // what is not seen of a path may be the node
		to.Verdict, to.Undecided = Fails, m.against == 0
		to.Cause = fmt.Sprintf("of %s parts of the path are missing: attach anew with more ‹max-hops›", packets(m.incomplete))
	case m.asked == 0:
		to.Verdict, to.Cause, to.Undecided = Fails, "no packet that was selected arrived", true
	}
}

// balanceMeasure counts by which way each flow goes.
type balanceMeasure struct {
	*share // of ways of flows
	of     Balance
	flows  map[string]map[string]uint64 // packets by way, by flow
	first  map[string]string            // a packet's ID by way
}

func newBalanceMeasure(b *Balance, of *share) *balanceMeasure {
	return &balanceMeasure{share: of, of: *b, flows: make(map[string]map[string]uint64), first: make(map[string]string)}
}

func (m *balanceMeasure) add(r *record.Record) {
	for _, way := range m.waysOf(r) {
		flow := flowOf(r)
		if m.flows[flow][way] == 0 {
			if !m.fits(r.Segs) {
				continue
			}
		}
		if m.flows[flow] == nil {
			m.flows[flow] = make(map[string]uint64)
		}
		m.flows[flow][way] += uint64(r.Segs)
		if m.first[way] == "" {
			m.first[way] = r.ID
		}
	}
}

func (m *balanceMeasure) waysOf(r *record.Record) (list []string) {
	if m.of.Over != NextHops {
		if arrived(r) {
			list = append(list, words.Path(r))
		}
		return list
	}
	for i := range r.Hops {
		if prev := r.PrevOf(i); prev >= 0 && r.Hops[prev].Node == m.of.At && r.Hops[i].Node != m.of.At {
			list = append(list, r.Hops[i].Node)
		}
	}
	return list
}

// defaultP is the level of the balance test: a lab whose hash is fair fails it once in 1,000 runs.
const defaultP = 0.001

func (m *balanceMeasure) judge(to *Result) {
	counts := make(map[string]float64)
	for _, ways := range m.flows {
		counts[mostOf(ways)]++
	}
	p := defaultP
	if m.of.P != nil {
		p = float64(*m.of.P)
	}
	over := "paths"
	if m.of.Over == NextHops {
		over = "next hops of " + m.of.At
	}
	to.Promised = fmt.Sprintf("flows balanced over %s (p at least %g)", over, p)
	ways, weights := m.expected(counts)
	measured := make([]float64, len(ways))
	var parts []string
	for i, way := range ways {
		measured[i] = counts[way]
		to.Values[way] = counts[way]
		parts = append(parts, fmt.Sprintf("%s: %g", way, counts[way]))
		to.Evidence = appendEvidence(to.Evidence, m.first[way], "went by "+way)
	}
	to.Measured = fmt.Sprintf("%s by %s", words.Plural(len(m.flows), "flow"), strings.Join(parts, ", "))
	if to.Cause = m.unfit(counts, ways, weights); to.Cause != "" {
		to.Verdict, to.Undecided = Fails, m.over > 0 || len(m.flows) < leastExpected*max(len(ways), 2)
		return
	}
	x2, got := stats.ChiSquare(measured, weights)
	to.Values["chi_square"], to.Values["p"] = x2, got
	to.Measured += fmt.Sprintf(" (chi-square %.3g, p %.3g)", x2, got)
	to.Verdict = verdict(got >= p)
}

func appendEvidence(list []Evidence, id, what string) []Evidence {
	if id == "" || len(list) >= mostEvidence {
		return list
	}
	return append(list, Evidence{id, what})
}

// mostOf is the way by which most packets of a flow go.
func mostOf(ways map[string]uint64) string {
	names := slices.Sorted(maps.Keys(ways))
	return slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(ways[a], ways[b]) })
}

// expected are the ways that there are to be, and their weights.
func (m *balanceMeasure) expected(counts map[string]float64) (ways []string, weights []float64) {
	if m.of.Weights == nil {
		ways = slices.Sorted(maps.Keys(counts))
		for range ways {
			weights = append(weights, 1)
		}
		return ways, weights
	}
	ways = slices.Sorted(maps.Keys(m.of.Weights))
	for _, way := range ways {
		weights = append(weights, float64(m.of.Weights[way]))
	}
	return ways, weights
}

// leastExpected is how many flows each way must be expected to have, so that chi-square holds.
const leastExpected = 5

// unfit says why the test cannot be made, or is lost without it; "": it can.
func (m *balanceMeasure) unfit(counts map[string]float64, ways []string, weights []float64) string {
	for _, way := range slices.Sorted(maps.Keys(counts)) {
		if !slices.Contains(ways, way) {
			return fmt.Sprintf("%s went by %s, which has no weight", words.Plural(int(counts[way]), "flow"), way)
		}
	}
	switch want := m.of.Ways; {
	case m.over > 0:
		return fmt.Sprintf("there are too many flows: for %s there was no room, select fewer", packets(m.over))
	case len(m.flows) == 0:
		return "no packet that was selected went by any"
	case want != nil && len(counts) != int(*want) && m.of.Weights == nil:
		return fmt.Sprintf("%s taken, %d are wanted", words.Plural(len(counts), "way"), *want)
	case len(ways) < 2:
		return "all flows took one way"
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	if need := leastExpected * sum / slices.Min(weights); float64(len(m.flows)) < need {
		return fmt.Sprintf("too few flows: the test needs %.0f", need)
	}
	return ""
}
