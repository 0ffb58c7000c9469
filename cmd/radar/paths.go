// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
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
	}, &question{byFlow: func() bool { return false }}, func(r *answer) error {
		a.noteRows(r, aggregate.ByPath)
		return a.printPaths(r.Paths(r.names))
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
		if alike[path] > 1 {
			path = truncatedText(aggregate.PathText(r.Hops, true), r.Truncated)
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

// incompleteMark is behind paths of which hops may be missing.
const incompleteMark = " ... (incomplete)"

// pathText is how tables show a path that is called name.
func (a *app) pathText(name string, hops []aggregate.PathHop, truncated bool) string {
	if a.output == formatWide {
		name = aggregate.PathText(hops, true)
	}
	return truncatedText(name, truncated)
}

// truncatedText marks a path of which hops may be missing.
func truncatedText(path string, truncated bool) string {
	if truncated {
		path += incompleteMark
	}
	return path
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
