// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/aggregate"
)

const latencyLong = `Show how long packets took since attach: count, least, 50th, 90th, 99th and 99.9th
percentile, most.

  --by node        inside each node, from ingress to egress
  --by link        from one node's egress to the next node's ingress: the queue of
                   the sending port is part of it
  --by path        from first to last time stamp, for each path
  --by end-to-end  the same, from each first to each last node, and all together

Percentiles are within 1 %; count, least and most are exact.`

// byFlag is the value of --by.
type byFlag aggregate.By

var byValues = []aggregate.By{aggregate.ByNode, aggregate.ByLink, aggregate.ByPath, aggregate.ByEndToEnd}

func (b *byFlag) String() string { return string(*b) }

// Type names the value in help texts.
func (b *byFlag) Type() string { return "group" }

// Set checks and sets the value.
func (b *byFlag) Set(s string) error {
	names := make([]string, len(byValues))
	for i, v := range byValues {
		if s == string(v) {
			*b = byFlag(v)
			return nil
		}
		names[i] = string(v)
	}
	return fmt.Errorf("unknown group %q: use %s", s, strings.Join(names, ", "))
}

func newLatencyCmd(a *app) *cobra.Command {
	by := byFlag(aggregate.ByEndToEnd)
	cmd := &cobra.Command{
		Use:     "latency",
		Short:   "Show latencies of nodes, links, paths or end to end",
		Long:    latencyLong,
		Example: "  radar latency --by link\n  radar latency --by node -o json | jq '{name, p99_ns}'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.aggregated(func(r *agent.Reader) error {
				return a.printLatency(r.Collector.Aggregates().Latency(aggregate.By(by), r.Decoder))
			})
		},
	}
	cmd.Flags().Var(&by, "by", "what to group by: node, link, path or end-to-end")
	completeWith(cmd, "by", "node", "link", "path", "end-to-end")
	return cmd
}

func (a *app) printLatency(rows []aggregate.LatencyRow) error {
	if a.output == formatJSON {
		return printRows(a, rows)
	}
	t := newTable(
		column{title: "COUNT", right: true}, column{title: "MIN", right: true}, column{title: "P50", right: true},
		column{title: "P90", right: true}, column{title: "P99", right: true}, column{title: "P99.9", right: true},
		column{title: "MAX", right: true}, column{title: "NAME"})
	for _, r := range rows {
		cells := []string{decimal(r.Count)}
		for _, ns := range []int64{r.MinNs, r.P50Ns, r.P90Ns, r.P99Ns, r.P999Ns, r.MaxNs} {
			cells = append(cells, humanDuration(float64(ns)))
		}
		t.add(append(cells, r.Name)...)
	}
	return t.flush(a.out)
}
