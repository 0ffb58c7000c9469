// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/words"
)

const throughputLong = `Show how much passed where: packets and IP bytes since attach, and how fast.

  AVERAGE     over the seconds in which something passed: without what the first one
              has before the first packet, and the last one behind the last packet,
              and over one second at least
  LAST        over the last --window whole seconds
  PEAK, AT    of the second of the clock with most bytes, and which one that was; or
              AVERAGE, if that is more: a short burst can lie in two of these seconds,
              with a part in each. So PEAK is never less than AVERAGE

  --by link   what came out at the end of each link, behind the sender's queue
  --by port   what came in and what went out by each port, before its queue
  --by node   packets that visited each node, its own and those for it too
  --by path   what set out over the same nodes, by whatever ports
  --by flow   each flow over its duration

The row "all" is every packet once, when it set out. --series shows one row for each
second with traffic, of the last 300, instead.`

// NewThroughputCmd returns "radar throughput".
func NewThroughputCmd(k *kit.Kit) *cobra.Command {
	by := kit.NewChoice(string(aggregate.ByLink), "group", "link", "port", "node", "path", "flow")
	window, top, series := 10*time.Second, kit.Count(20), false
	isFlow := func() bool { return by.Value == string(aggregate.ByFlow) }
	var cmd *cobra.Command
	cmd = newQuestionCmd(k, &cobra.Command{
		Use:   "throughput " + kit.EndsUse,
		Short: "Show packets and bytes of links, ports, nodes, paths or flows, by second",
		Long:  throughputLong,
		Example: `  radar throughput -f
  radar throughput --by port --window 60s
  radar throughput --series -o csv > links.csv`,
	}, &question{byFlow: isFlow, checkFlags: func() error {
		switch {
		case window < time.Second, window > aggregate.Seconds*time.Second, window%time.Second != 0:
			return fault.Usage.Errorf("--window %v: use 1s to %ds, in whole seconds", window, aggregate.Seconds)
		case series && isFlow():
			return fault.Usage.Errorf("--series: seconds are not kept for each flow, use another --by")
		}
		return checkTop(cmd, isFlow())
	}}, func(c *answer.Counts) error {
		if series {
			rows := c.ThroughputBySecond(aggregate.By(by.Value))
			k.Note(rows.Notes)
			return printSeries(k, rows.List)
		}
		seconds := int64(window / time.Second)
		var rows answer.Rows[aggregate.ThroughputRow]
		if isFlow() {
			rows = c.ThroughputOfFlows(int(top))
		} else {
			rows = c.Throughput(aggregate.By(by.Value), seconds)
		}
		k.Note(rows.Notes)
		return printThroughput(k, rows.List, seconds)
	})
	by.Add(cmd, "by", "what to group by")
	cmd.Flags().DurationVar(&window, "window", window, "what LAST is the average of")
	cmd.Flags().Var(&top, "top", "with --by flow, show the first N; 0: all")
	cmd.Flags().BoolVar(&series, "series", false, "show each second")
	return cmd
}

func printThroughput(k *kit.Kit, rows []aggregate.ThroughputRow, seconds int64) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	t := kit.NewTable(
		kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "BYTES", Right: true}, kit.Column{Title: "AVERAGE", Right: true},
		kit.Column{Title: fmt.Sprintf("LAST %ds", seconds), Right: true}, kit.Column{Title: "PEAK", Right: true},
		kit.Column{Title: "AT"}, kit.Column{Title: "NAME"})
	for _, r := range rows {
		cells := []string{words.Decimal(r.Packets), words.Decimal(r.Bytes)}
		for _, v := range []*uint64{r.AverageBps, r.LastBps, r.PeakBps} {
			cell := ""
			if v != nil {
				cell = words.Rate(*v)
			}
			cells = append(cells, cell)
		}
		at := ""
		if r.PeakS > 0 {
			at = secondText(k, r.PeakS)
		}
		t.Add(append(cells, at, r.Name)...)
	}
	return k.PrintTable(t)
}

// secondText is a second in tables.
func secondText(k *kit.Kit, at int64) string {
	return time.Unix(at, 0).In(k.Location).Format(time.TimeOnly)
}

// printSeries prints the seconds of all rows.
func printSeries(k *kit.Kit, rows []answer.ThroughputSecond) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	t := kit.NewTable(kit.Column{Title: "TIME"}, kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "BYTES", Right: true},
		kit.Column{Title: "RATE", Right: true}, kit.Column{Title: "NAME"})
	for _, r := range rows {
		t.Add(secondText(k, r.TimeS), words.Decimal(r.Packets), words.Decimal(r.Bytes), words.Rate(r.Bytes*8), r.Name)
	}
	return k.PrintTable(t)
}
