// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/words"
)

const latencyLong = `Show how long packets took since attach: count, least, 50th, 90th, 99th and 99.9th
percentile, most.

  --by node        inside each node, from ingress to egress
  --by queue       in the queue of each port (tc qdisc), from the node's egress to the
                   link: of the packets that waited, ports at edges left out
  --by link        from there to the next node's ingress
  --by path        from first to last time stamp, for each path; -o wide names the
                   ports by which paths over the same nodes differ
  --by end-to-end  the same, from each first to each last node, and all together
  --by flow        the same for each flow, with its jitter (RFC 3550, 6.4.1). Packets
                   of several flows have no jitter in common: other groups have none

--series shows one row for each second in which packets set out, of the last 300. It asks
the ring, which remembers less than what is counted since attach: standard error says from
when (attach with more --slots).

Percentiles are within 1 %, of flows unless a note says otherwise; count, least and
most are exact.`

// NewLatencyCmd returns "radar latency".
func NewLatencyCmd(k *kit.Kit) *cobra.Command {
	by := kit.NewChoice(string(aggregate.ByEndToEnd), "group", "node", "queue", "link", "path", "end-to-end", "flow")
	top, series := kit.Count(20), false
	isFlow := func() bool { return by.Value == string(aggregate.ByFlow) }
	var cmd *cobra.Command
	cmd = newQuestionCmd(k, &cobra.Command{
		Use:   "latency " + kit.EndsUse,
		Short: "Show latencies of nodes, queues, links, paths or flows, or end to end",
		Long:  latencyLong,
		Example: `  radar latency --by queue
  radar latency h1 web:443
  radar latency --by flow --since 1m 'tcp and port 80'
  radar latency --by node -o json | jq '{name, p99_ns}'
  radar latency --series --since 5m -o csv > latencies.csv`,
	}, &question{byFlow: isFlow, bySecond: func() bool { return series }, checkFlags: func() error {
		if series && isFlow() {
			return fault.Usage.Errorf("--series: seconds are not kept for each flow, use another --by")
		}
		return checkTop(cmd, isFlow())
	}}, func(c *answer.Counts) error {
		if series {
			seconds := c.LatencyBySecond(aggregate.By(by.Value))
			k.Note(seconds.Notes)
			return printLatencySeries(k, seconds.List)
		}
		var rows answer.Rows[aggregate.LatencyRow]
		if isFlow() {
			rows = c.LatencyOfFlows(int(top))
		} else {
			rows = c.Latency(aggregate.By(by.Value))
		}
		k.Note(rows.Notes)
		return printLatency(k, rows.List, isFlow())
	})
	by.Add(cmd, "by", "what to group by")
	cmd.Flags().BoolVar(&series, "series", false, "show each second")
	cmd.Flags().Var(&top, "top", "with --by flow, show the first N; 0: all")
	return cmd
}

// checkTop refuses --top where rows are not flows: they are all shown.
func checkTop(cmd *cobra.Command, flows bool) error {
	if kit.IsTyped(cmd, "top") && !flows {
		return fault.Usage.Errorf("--top: only with --by flow; other rows are all shown")
	}
	return nil
}

var quantileColumns = []kit.Column{
	{Title: "COUNT", Right: true}, {Title: "MIN", Right: true}, {Title: "P50", Right: true},
	{Title: "P90", Right: true}, {Title: "P99", Right: true}, {Title: "P99.9", Right: true},
	{Title: "MAX", Right: true},
}

func quantileCells(q *aggregate.Quantiles) []string {
	cells := []string{words.Decimal(q.Count)}
	for _, ns := range []int64{q.MinNs, q.P50Ns, q.P90Ns, q.P99Ns, q.P999Ns, q.MaxNs} {
		cells = append(cells, words.Duration(float64(ns)))
	}
	return cells
}

// nameText is what tables call a row.
func nameText(k *kit.Kit, r *aggregate.LatencyRow) string {
	if len(r.Hops) > 0 {
		return pathText(k, r.Name, r.Hops, r.Truncated)
	}
	return r.Name
}

func printLatency(k *kit.Kit, rows []aggregate.LatencyRow, flows bool) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	columns := slices.Clone(quantileColumns)
	if flows {
		columns = append(columns, kit.Column{Title: "JITTER", Right: true})
	}
	t := kit.NewTable(append(columns, kit.Column{Title: "NAME"})...)
	for _, r := range rows {
		cells := quantileCells(&r.Quantiles)
		if flows {
			jitter := ""
			if r.JitterNs != nil {
				jitter = words.Duration(float64(*r.JitterNs))
			}
			cells = append(cells, jitter)
		}
		t.Add(append(cells, nameText(k, &r))...)
	}
	return k.PrintTable(t)
}
