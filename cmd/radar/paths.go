// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
)

const pathsLong = `Show the paths that packets took since attach: how many packets and flows went
each way, and what became of them.

A path is the nodes visited, in order; -o wide names the ports as well, and so do
rows that could not be told apart without them. A node that was detached and attached again under the same name is the same in paths.`

func newPathsCmd(a *app) *cobra.Command {
	return newQuestionCmd(a, &cobra.Command{
		Use:   "paths [EXPRESSION]",
		Short: "Show the paths that packets took, with packets and flows",
		Long:  pathsLong,
		Example: `  radar paths
  radar paths --since 10s 'udp and dst port 53'
  radar paths -o json | jq -r '[.path, .packets] | @tsv'`,
	}, &question{byFlow: func() bool { return false }}, func(c *answer.Counts) error {
		paths := c.Paths()
		a.note(paths.Notes)
		return a.printPaths(paths.List)
	})
}

func (a *app) printPaths(rows []aggregate.PathRow) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	t := newTable(
		column{title: "PACKETS", right: true}, column{title: "FLOWS", right: true}, column{title: "BYTES", right: true},
		column{title: "DELIVERED", right: true}, column{title: "LEFT", right: true}, column{title: "LOST", right: true},
		column{title: "EXPIRED", right: true}, column{title: "P50", right: true}, column{title: "P99", right: true},
		column{title: "PATH"})
	alike := make(map[string]int)
	for _, r := range rows {
		alike[a.pathText(r.Path, r.Hops, r.Truncated)]++
	}
	for _, r := range rows {
		path := a.pathText(r.Path, r.Hops, r.Truncated)
		if alike[path] > 1 && !strings.HasSuffix(path, loopMark) {
			path = aggregate.TruncatedText(aggregate.PathText(r.Hops, true), r.Hops, r.Truncated)
		}
		flows := strconv.FormatUint(r.Flows, 10)
		if r.FlowsMore {
			flows += "+"
		}
		p50, p99 := "", ""
		if r.Latency != nil {
			p50, p99 = humanDuration(float64(r.Latency.P50Ns)), humanDuration(float64(r.Latency.P99Ns))
		}
		t.add(decimal(r.Packets), flows, decimal(r.Bytes), decimal(r.Delivered), decimal(r.Left),
			decimal(r.Lost), decimal(r.Expired), p50, p99, path)
	}
	return t.flush(a.out)
}

// pathText is how tables show a path that is called name.
func (a *app) pathText(name string, hops []aggregate.PathHop, truncated bool) string {
	if a.output == formatWide {
		name = aggregate.PathText(hops, true)
	} else if _, again, ok := (&aggregate.PathRow{Hops: hops}).Loop(); ok {
		return aggregate.PathText(hops[:again], false) + loopMark
	}
	return aggregate.TruncatedText(name, hops, truncated)
}
