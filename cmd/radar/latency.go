// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
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

func newLatencyCmd(a *app) *cobra.Command {
	by := choice{string(aggregate.ByEndToEnd), "group", []string{"node", "queue", "link", "path", "end-to-end", "flow"}}
	top, series := count(20), false
	isFlow := func() bool { return by.value == string(aggregate.ByFlow) }
	var cmd *cobra.Command
	cmd = newQuestionCmd(a, &cobra.Command{
		Use:   "latency [EXPRESSION]",
		Short: "Show latencies of nodes, queues, links, paths or flows, or end to end",
		Long:  latencyLong,
		Example: `  radar latency --by queue
  radar latency --by flow --since 1m 'tcp and port 80'
  radar latency --by node -o json | jq '{name, p99_ns}'
  radar latency --series --since 5m -o csv > latencies.csv`,
	}, &question{byFlow: isFlow, bySecond: func() bool { return series }, checkFlags: func() error {
		if series && isFlow() {
			return usagef("--series: seconds are not kept for each flow, use another --by")
		}
		return checkTop(cmd, isFlow())
	}}, func(c *answer.Counts) error {
		if series {
			seconds := c.LatencyBySecond(aggregate.By(by.value))
			a.note(seconds.Notes)
			return a.printLatencySeries(seconds.List)
		}
		var rows answer.Rows[aggregate.LatencyRow]
		if isFlow() {
			rows = c.LatencyOfFlows(int(top))
		} else {
			rows = c.Latency(aggregate.By(by.value))
		}
		a.note(rows.Notes)
		return a.printLatency(rows.List, isFlow())
	})
	addChoice(cmd, &by, "by", "what to group by")
	cmd.Flags().BoolVar(&series, "series", false, "show each second")
	cmd.Flags().Var(&top, "top", "with --by flow, show the first N; 0: all")
	return cmd
}

// checkTop refuses --top where rows are not flows: they are all shown.
func checkTop(cmd *cobra.Command, flows bool) error {
	if isTyped(cmd, "top") && !flows {
		return usagef("--top: only with --by flow; other rows are all shown")
	}
	return nil
}

var quantileColumns = []column{
	{title: "COUNT", right: true}, {title: "MIN", right: true}, {title: "P50", right: true},
	{title: "P90", right: true}, {title: "P99", right: true}, {title: "P99.9", right: true},
	{title: "MAX", right: true},
}

func quantileCells(q *aggregate.Quantiles) []string {
	cells := []string{decimal(q.Count)}
	for _, ns := range []int64{q.MinNs, q.P50Ns, q.P90Ns, q.P99Ns, q.P999Ns, q.MaxNs} {
		cells = append(cells, humanDuration(float64(ns)))
	}
	return cells
}

// nameText is what tables call a row.
func (a *app) nameText(r *aggregate.LatencyRow) string {
	if len(r.Hops) > 0 {
		return a.pathText(r.Name, r.Hops, r.Truncated)
	}
	return r.Name
}

func (a *app) printLatency(rows []aggregate.LatencyRow, flows bool) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	columns := slices.Clone(quantileColumns)
	if flows {
		columns = append(columns, column{title: "JITTER", right: true})
	}
	t := newTable(append(columns, column{title: "NAME"})...)
	for _, r := range rows {
		cells := quantileCells(&r.Quantiles)
		if flows {
			jitter := ""
			if r.JitterNs != nil {
				jitter = humanDuration(float64(*r.JitterNs))
			}
			cells = append(cells, jitter)
		}
		t.add(append(cells, a.nameText(&r))...)
	}
	return t.flush(a.out)
}
