// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"slices"
)

// target is what a figure should be: at most the bound, or at least.
type target struct {
	what    string
	bench   string
	table   int
	row     string // "": the one that is worst
	cell    int
	bound   float64
	atLeast bool
}

// Benches are the benchmarks that targets are about.
func Benches() (names []string) {
	for _, t := range targets {
		names = append(names, t.bench)
	}
	return names
}

// targets that the project has set itself.
var targets = []target{
	{what: "per packet, of the floor's", bench: "hooks", row: "of the floor's", cell: 2, bound: 1.6},
	{what: "per segment of a train, of the floor's", bench: "gso", row: "of the floor's", cell: 2, bound: 1.5},
	{what: "echo, of do-nothing programs'", bench: "exchange", table: 1, cell: 0, bound: 1.10},
	{what: "echo, of none's", bench: "exchange", table: 1, cell: 1, bound: 1.20},
	{what: "TCP throughput, of none's", bench: "throughput", row: "TCP, of none's", cell: 2, bound: 0.95, atLeast: true},
	{what: "UDP throughput, of none's", bench: "throughput", row: "UDP of 1400 bytes, of none's", cell: 2, bound: 0.95, atLeast: true},
	{what: "per packet, the fuller the ring", bench: "curve-slots", cell: 1, bound: 1.10},
	{what: "per packet, the more flows", bench: "curve-flows", cell: 1, bound: 1.10},
	{what: "per packet, the more ports", bench: "curve-ports", cell: 1, bound: 1.10},
	{what: "attaching many ports", bench: "attach", row: "tcx", cell: 0, bound: 5},
	{what: "detaching them", bench: "attach", row: "tcx", cell: 1, bound: 5},
	{what: "the agent at 100,000 packets/s, of a CPU", bench: "agent", row: "the agent", cell: 1, bound: 5},
	{what: "the agent at rest, of a CPU", bench: "agent", row: "the agent", cell: 0, bound: 0.1},
	{what: "packets, 1 % kept, full ring", bench: "queries", row: "packets, 1 % kept", cell: 1, bound: 1},
	{what: "latency, full ring", bench: "queries", row: "latency", cell: 1, bound: 1},
	{what: "loss, full ring", bench: "queries", row: "loss", cell: 1, bound: 1},
	{what: "latency, the more packets there were", bench: "queries", row: "latency", cell: 3, bound: 1.10},
	{what: "flows, the more packets there were", bench: "queries", row: "flows", cell: 3, bound: 1.10},
	{what: "packets -f with a filter, of a CPU", bench: "queries", table: 1, row: "packets -f, 1 % kept", cell: 0, bound: 2},
	{what: "packets -f, of a CPU", bench: "queries", table: 1, row: "packets -f", cell: 0, bound: 10},
}

// figure is the one that the target is about, and its row; nil: the report has none.
func (t *target) figure(r *Report) (worst *Figure, row string) {
	for _, m := range r.Benchmarks {
		if m.Name != t.bench || t.table >= len(m.Tables) {
			continue
		}
		for _, line := range m.Tables[t.table].Rows {
			if t.row != "" && line.Name != t.row || t.cell >= len(line.Cells) {
				continue
			}
			f := line.Cells[t.cell].Figure
			if f != nil && (worst == nil || t.atLeast != (f.Median > worst.Median)) {
				worst, row = f, line.Name
			}
		}
	}
	return worst, row
}

func (t *target) reached(f *Figure) bool {
	if t.atLeast {
		return f.Median >= t.bound
	}
	return f.Median <= t.bound
}

// targetsName is what holds figures to targets, as a benchmark is named.
const targetsName = "targets"

// Compare holds what was measured to the targets, and puts the result at the report's end;
// nil: there is nothing to compare.
func (r *Report) Compare() *Measured {
	r.Benchmarks = slices.DeleteFunc(r.Benchmarks, func(m *Measured) bool { return m.Name == targetsName })
	t := Table{Columns: []string{"target", "", "measured", "", "benchmark"}}
	for _, target := range targets {
		f, row := target.figure(r)
		if f == nil {
			continue
		}
		sign, verdict, from := "<=", "reached", target.bench
		if target.atLeast {
			sign = ">="
		}
		if !target.reached(f) {
			verdict = "not reached"
		}
		if target.row == "" {
			from += ", " + row
		}
		bound := Of(f.Unit, []float64{target.bound})
		unit := ""
		if f.Unit == Seconds {
			unit = " s"
		}
		t.Rows = append(t.Rows, Row{target.what, []Cell{
			{Text: fmt.Sprintf("%s %s%s", sign, bound, unit)}, {Figure: f}, {Text: verdict}, {Text: from},
		}})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	m := &Measured{Name: targetsName, About: "what the figures should be, by medians; of several rows the worst", Tables: []Table{t}}
	r.Benchmarks = append(r.Benchmarks, m)
	return m
}
