// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/aggregate"
)

func newPathsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "paths",
		Short: "Show the paths that packets took, with packets and flows",
		Long: `Show the paths that packets took since attach: how many packets and flows went
each way, and what became of them.

A path is the nodes visited, in order; -o wide names the ports as well.`,
		Example: "  radar paths\n  radar paths -o json | jq -r '[.path, .packets] | @tsv'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.aggregated(func(r *agent.Reader) error {
				return a.printPaths(r.Collector.Aggregates().Paths(r.Decoder))
			})
		},
	}
}

// aggregated reads everything measured since attach and calls show with it.
func (a *app) aggregated(show func(*agent.Reader) error) error {
	reader, note, err := agent.OpenReader(a.domain)
	if err != nil {
		return err
	}
	defer reader.Close()
	if note != "" {
		fmt.Fprintf(a.stderr, "radar: warning: %s\n", note)
	}
	reader.Collector.AsItStands()
	if err := reader.Collector.Poll(); err != nil {
		return fmt.Errorf("read the ring: %w", err)
	}
	if err := show(reader); err != nil {
		return err
	}
	// After showing: names are looked up only then.
	if err := reader.SymbolsErr(); err != nil {
		fmt.Fprintf(a.stderr, "radar: warning: %v\n", err)
	}
	return nil
}

func (a *app) printPaths(rows []aggregate.PathRow) error {
	if a.output == formatJSON {
		return printRows(a, rows)
	}
	t := newTable(
		column{title: "PACKETS", right: true}, column{title: "FLOWS", right: true}, column{title: "BYTES", right: true},
		column{title: "DELIVERED", right: true}, column{title: "LEFT", right: true}, column{title: "LOST", right: true},
		column{title: "EXPIRED", right: true}, column{title: "P50", right: true}, column{title: "P99", right: true},
		column{title: "PATH"})
	for _, r := range rows {
		flows := strconv.FormatUint(r.Flows, 10)
		if r.FlowsMore {
			flows += "+"
		}
		p50, p99 := "", ""
		if r.Latency != nil {
			p50, p99 = humanDuration(float64(r.Latency.P50Ns)), humanDuration(float64(r.Latency.P99Ns))
		}
		path := r.Path
		if a.output == formatWide {
			path = portPath(r.Hops)
		}
		if r.Truncated {
			path += " ..."
		}
		t.add(decimal(r.Packets), flows, decimal(r.Bytes), decimal(r.Delivered), decimal(r.Left),
			decimal(r.Lost), decimal(r.Expired), p50, p99, path)
	}
	return t.flush(a.out)
}

// portPath is the path with the ports at both ends of each link:
// "h1:e0 > e0:r1:e1 > e0:h2".
func portPath(hops []aggregate.PathHop) string {
	text := ""
	for i, h := range hops {
		if i > 0 {
			text += " > "
		}
		if h.InPort != "" {
			text += h.InPort + ":"
		}
		text += h.Node
		if h.Port != "" {
			text += ":" + h.Port
		}
	}
	return text
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// printRows prints one object a line.
func printRows[T any](a *app, rows []T) error {
	for _, row := range rows {
		if err := printJSON(a.out, row); err != nil {
			return err
		}
	}
	return nil
}
