// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/agent"
)

// summaryView is the JSON form of a domain's summary.
type summaryView struct {
	*agent.Summary
	End      string        `json:"end,omitempty"` // why "radar attach" ended
	Counters []counterView `json:"counters"`      // those that are not 0
}

func newSummaryView(s *agent.Summary, end agent.End) *summaryView {
	shown := *s
	shown.Warnings = rendered(s.Warnings)
	v := &summaryView{Summary: &shown, End: string(end), Counters: []counterView{}}
	for _, c := range counterViews(s.Counters) {
		if c.Value != 0 {
			v.Counters = append(v.Counters, c)
		}
	}
	return v
}

// printSummary prints what became of all packets, with everything that was not
// measured and everything lost.
func (a *app) printSummary(s *agent.Summary, end agent.End) error {
	v := newSummaryView(s, end)
	if a.output == formatJSON {
		return printJSON(a.out, v)
	}
	what := "detached"
	if end != agent.Interrupted {
		what = "measured so far"
	}
	if _, err := fmt.Fprintf(a.out, "\ndomain %s %s: %s, %s\n",
		s.Domain, what, plural(s.Nodes, "node"), plural(s.Ports, "port")); err != nil {
		return err
	}
	return a.printSummaryTable(v)
}

func (a *app) printSummaryTable(v *summaryView) error {
	fmt.Fprintf(a.out, "measured for %v\n\n", v.Duration.Round(time.Millisecond))
	if err := a.printTotals(v.Totals, v.Counters); err != nil {
		return err
	}
	if len(v.Losses) > 0 {
		fmt.Fprintln(a.out)
		if err := a.printLosses(v.Losses, false, nil); err != nil {
			return err
		}
	}
	for _, text := range v.Warnings {
		fmt.Fprintf(a.stderr, "radar: warning: %s\n", text)
	}
	return nil
}
