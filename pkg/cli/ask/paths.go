// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/words"
)

const pathsLong = `Show the paths that packets took since attach: how many packets and flows went
each way, and what became of them.

A path is the nodes visited, in order; -o wide names the ports as well, and so do
rows that could not be told apart without them. A node that was detached and attached again under the same name is the same in paths.`

// NewPathsCmd returns "radar paths".
func NewPathsCmd(k *kit.Kit) *cobra.Command {
	return newQuestionCmd(k, &cobra.Command{
		Use:   "paths " + kit.EndsUse,
		Short: "Show the paths that packets took, with packets and flows",
		Long:  pathsLong,
		Example: `  radar paths
  radar paths h1 h2
  radar paths --since 10s 'udp and dst port 53'
  radar paths -o json | jq -r '[.path, .packets] | @tsv'`,
	}, &question{byFlow: func() bool { return false }, tellsLeft: true}, func(c *answer.Counts) error {
		paths := c.Paths()
		k.Note(paths.Notes)
		return printPaths(k, paths.List)
	})
}

func printPaths(k *kit.Kit, rows []aggregate.PathRow) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	t := kit.NewTable(
		kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "FLOWS", Right: true}, kit.Column{Title: "BYTES", Right: true},
		kit.Column{Title: "DELIVERED", Right: true}, kit.Column{Title: "LEFT", Right: true}, kit.Column{Title: "LOST", Right: true},
		kit.Column{Title: "EXPIRED", Right: true}, kit.Column{Title: "P50", Right: true}, kit.Column{Title: "P99", Right: true},
		kit.Column{Title: "PATH"})
	alike := make(map[string]int)
	for _, r := range rows {
		alike[pathText(k, r.Path, r.Hops, r.Truncated)]++
	}
	for _, r := range rows {
		path := pathText(k, r.Path, r.Hops, r.Truncated)
		if alike[path] > 1 && !strings.HasSuffix(path, words.LoopMark) {
			path = aggregate.TruncatedText(aggregate.PathText(r.Hops, true), r.Hops, r.Truncated)
		}
		flows := strconv.FormatUint(r.Flows, 10)
		if r.FlowsMore {
			flows += "+"
		}
		p50, p99 := "", ""
		if r.Latency != nil {
			p50, p99 = words.Duration(float64(r.Latency.P50Ns)), words.Duration(float64(r.Latency.P99Ns))
		}
		t.Add(words.Decimal(r.Packets), flows, words.Decimal(r.Bytes), words.Decimal(r.Delivered), words.Decimal(r.Left),
			words.Decimal(r.Lost), words.Decimal(r.Expired), p50, p99, path)
	}
	return k.PrintTable(t)
}

// pathText is how tables show a path that is called name.
func pathText(k *kit.Kit, name string, hops []aggregate.PathHop, truncated bool) string {
	if k.Output == kit.FormatWide {
		name = aggregate.PathText(hops, true)
	} else if _, again, ok := (&aggregate.PathRow{Hops: hops}).Loop(); ok {
		return aggregate.PathText(hops[:again], false) + words.LoopMark
	}
	return aggregate.TruncatedText(name, hops, truncated)
}
