// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
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

func newThroughputCmd(a *app) *cobra.Command {
	by := choice{string(aggregate.ByLink), "group", []string{"link", "port", "node", "path", "flow"}}
	window, top, series := 10*time.Second, count(20), false
	isFlow := func() bool { return by.value == string(aggregate.ByFlow) }
	var cmd *cobra.Command
	cmd = newQuestionCmd(a, &cobra.Command{
		Use:   "throughput [EXPRESSION]",
		Short: "Show packets and bytes of links, ports, nodes, paths or flows, by second",
		Long:  throughputLong,
		Example: `  radar throughput -f
  radar throughput --by port --window 60s
  radar throughput --series -o csv > links.csv`,
	}, &question{byFlow: isFlow, checkFlags: func() error {
		switch {
		case window < time.Second, window > aggregate.Seconds*time.Second, window%time.Second != 0:
			return usagef("--window %v: use 1s to %ds, in whole seconds", window, aggregate.Seconds)
		case series && isFlow():
			return usagef("--series: seconds are not kept for each flow, use another --by")
		}
		return checkTop(cmd, isFlow())
	}}, func(c *answer.Counts) error {
		if series {
			rows := c.ThroughputBySecond(aggregate.By(by.value))
			a.note(rows.Notes)
			return a.printSeries(rows.List)
		}
		seconds := int64(window / time.Second)
		var rows answer.Rows[aggregate.ThroughputRow]
		if isFlow() {
			rows = c.ThroughputOfFlows(int(top))
		} else {
			rows = c.Throughput(aggregate.By(by.value), seconds)
		}
		a.note(rows.Notes)
		return a.printThroughput(rows.List, seconds)
	})
	addChoice(cmd, &by, "by", "what to group by")
	cmd.Flags().DurationVar(&window, "window", window, "what LAST is the average of")
	cmd.Flags().Var(&top, "top", "with --by flow, show the first N; 0: all")
	cmd.Flags().BoolVar(&series, "series", false, "show each second")
	return cmd
}

func (a *app) printThroughput(rows []aggregate.ThroughputRow, seconds int64) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	t := newTable(
		column{title: "PACKETS", right: true}, column{title: "BYTES", right: true}, column{title: "AVERAGE", right: true},
		column{title: fmt.Sprintf("LAST %ds", seconds), right: true}, column{title: "PEAK", right: true},
		column{title: "AT"}, column{title: "NAME"})
	for _, r := range rows {
		cells := []string{decimal(r.Packets), decimal(r.Bytes)}
		for _, v := range []*uint64{r.AverageBps, r.LastBps, r.PeakBps} {
			cell := ""
			if v != nil {
				cell = humanRate(*v)
			}
			cells = append(cells, cell)
		}
		at := ""
		if r.PeakS > 0 {
			at = a.secondText(r.PeakS)
		}
		t.add(append(cells, at, r.Name)...)
	}
	return t.flush(a.out)
}

// secondText is a second in tables.
func (a *app) secondText(at int64) string {
	return time.Unix(at, 0).In(a.location).Format(time.TimeOnly)
}

// printSeries prints the seconds of all rows.
func (a *app) printSeries(rows []answer.ThroughputSecond) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	t := newTable(column{title: "TIME"}, column{title: "PACKETS", right: true}, column{title: "BYTES", right: true},
		column{title: "RATE", right: true}, column{title: "NAME"})
	for _, r := range rows {
		t.add(a.secondText(r.TimeS), decimal(r.Packets), decimal(r.Bytes), humanRate(r.Bytes*8), r.Name)
	}
	return t.flush(a.out)
}
