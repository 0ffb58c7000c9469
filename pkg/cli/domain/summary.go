// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// summaryView is the JSON form of a domain's summary.
type summaryView struct {
	*agent.Summary
	End      string           `json:"end,omitempty"` // why "radar attach" ended
	Counters []status.Counter `json:"counters"`      // those that are not 0

	losses []answer.LossRow
}

// newSummaryView asks the nodes of d about places of losses, as every answer does; d is nil where they are not there.
func newSummaryView(ctx context.Context, d *domain.Domain, s *agent.Summary, end agent.End) *summaryView {
	shown := *s
	shown.Warnings = kit.Rendered(s.Warnings)
	v := &summaryView{Summary: &shown, End: string(end), Counters: []status.Counter{}}
	for _, c := range status.Counters(s.Counters, kit.Face) {
		if c.Value != 0 {
			v.Counters = append(v.Counters, c)
		}
	}
	v.losses = answer.LossRowsNow(ctx, d, v.Losses)
	return v
}

// printSummary prints what became of all packets, with everything that was not
// measured and everything lost.
func printSummary(k *kit.Kit, ctx context.Context, d *domain.Domain, s *agent.Summary, end agent.End) error {
	v := newSummaryView(ctx, d, s, end)
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	what := "detached"
	if end != agent.Interrupted {
		what = "measured so far"
	}
	if _, err := fmt.Fprintf(k.Out, "\ndomain %s %s: %s, %s\n",
		s.Domain, what, words.Plural(s.Nodes, "node"), words.Plural(s.Ports, "port")); err != nil {
		return err
	}
	return printSummaryTable(k, v)
}

func printSummaryTable(k *kit.Kit, v *summaryView) error {
	fmt.Fprintf(k.Out, "measured for %v\n\n", v.Duration.Round(time.Millisecond))
	if err := printTotals(k, v.Totals, v.Counters); err != nil {
		return err
	}
	if len(v.losses) > 0 {
		fmt.Fprintln(k.Out)
		if err := k.PrintLosses(v.losses, false, nil); err != nil {
			return err
		}
	}
	for _, text := range v.Warnings {
		fmt.Fprintf(k.Stderr, "radar: warning: %s\n", text)
	}
	return nil
}
