// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
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

// secondView is a row of "radar throughput --series".
type secondView struct {
	By      aggregate.By `json:"by"`
	Name    string       `json:"name"`
	TimeS   int64        `json:"time_s"` // Unix time
	Packets uint64       `json:"packets"`
	Bytes   uint64       `json:"bytes"`
}

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
	}}, func(r *answer) error {
		seconds := int64(window / time.Second)
		if isFlow() {
			rows := a.topFlows(r.Flows(r.names, r.keep), "bytes", int(top))
			a.noteFull("flows", r.Totals().OverFlows, aggregate.MaxFlowRows)
			return a.printThroughput(aggregate.ThroughputOfFlows(rows), seconds)
		}
		a.noteRows(r, aggregate.By(by.value))
		now := r.now.Unix()
		rows := r.Throughput(aggregate.By(by.value), r.names, now-seconds, now)
		if series {
			a.noteSeconds(secondsKept(rows), r.asked.since)
			return a.printSeries(rows)
		}
		return a.printThroughput(rows, seconds)
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

// rowSeconds is how many of a row's seconds are kept, and which.
type rowSeconds struct {
	active  uint64 // in all
	seconds []aggregate.Second
}

func secondsKept(rows []aggregate.ThroughputRow) []rowSeconds {
	list := make([]rowSeconds, len(rows))
	for i := range rows {
		list[i] = rowSeconds{rows[i].ActiveS, rows[i].Seconds}
	}
	return list
}

// noteSeconds says where the seconds that are kept begin later than what was asked for.
func (a *app) noteSeconds(rows []rowSeconds, since time.Time) {
	short, from := 0, int64(0)
	for _, r := range rows {
		if s := r.seconds; len(s) >= aggregate.Seconds && s[0].At > since.Unix() && uint64(len(s)) < r.active {
			short++
			from = max(from, s[0].At)
		}
	}
	if short > 0 {
		a.notef("of %s only the newest %d seconds with traffic are kept: from %s on all have theirs",
			plural(short, "row"), aggregate.Seconds, a.clockTime(time.Unix(from, 0)))
	}
}

// secondText is a second in tables.
func (a *app) secondText(at int64) string {
	return time.Unix(at, 0).In(a.location).Format(time.TimeOnly)
}

// printSeries prints the seconds of all rows, in order of time.
func (a *app) printSeries(rows []aggregate.ThroughputRow) error {
	var views []secondView
	for _, r := range rows {
		for _, s := range r.Seconds {
			views = append(views, secondView{r.By, r.Name, s.At, s.Packets, s.Bytes})
		}
	}
	slices.SortStableFunc(views, func(x, y secondView) int { return int(x.TimeS - y.TimeS) })
	if a.output.raw() {
		return printRows(a, views)
	}
	t := newTable(column{title: "TIME"}, column{title: "PACKETS", right: true}, column{title: "BYTES", right: true},
		column{title: "RATE", right: true}, column{title: "NAME"})
	for _, v := range views {
		t.add(a.secondText(v.TimeS), decimal(v.Packets), decimal(v.Bytes),
			humanRate(v.Bytes*8), v.Name)
	}
	return t.flush(a.out)
}
