// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/answer"
)

// showLossSeries prints the seconds of all places, and returns how many packets were lost there.
func (a *app) showLossSeries(c *answer.Counts, local bool) (packets uint64, err error) {
	rows := c.LossesBySecond(local)
	a.note(rows.Notes)
	return c.Lost(local), a.printLossSeries(rows.List, local)
}

func (a *app) printLossSeries(rows []answer.LossSecond, afterDelivery bool) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	columns := append([]column{{title: "TIME"}, {title: "PACKETS", right: true}, {title: "BYTES", right: true}}, placeColumns...)
	if afterDelivery {
		columns = append(columns, column{title: "NOTE"})
	}
	t := newTable(columns...)
	for _, r := range rows {
		cells := append([]string{a.secondText(r.TimeS), decimal(r.Packets), decimal(r.Bytes)}, a.placeCells(&r.LossPlace)...)
		if afterDelivery {
			cells = append(cells, localNote(&r.LossPlace))
		}
		t.add(cells...)
	}
	return t.flush(a.out)
}

// lossesNow are those of the seconds since the last answer; nil where there is but one answer.
func (a *app) lossesNow(c *answer.Counts, local bool) *answer.RecentLosses {
	if a.view == nil {
		return nil
	}
	return c.LossesBetween(a.view.from, a.view.end, local)
}

// printLossesNow says how many packets these are.
func (a *app) printLossesNow(now *answer.RecentLosses, local bool) {
	if now == nil || a.output.raw() {
		return
	}
	when := "the last second"
	if now.Seconds != 1 {
		when = fmt.Sprintf("the last %d seconds", now.Seconds)
	}
	what := "lost"
	if local {
		what = "dropped after delivery"
	}
	if now.Packets == 0 {
		fmt.Fprintf(a.out, "nothing %s in %s\n", what, when)
		return
	}
	fmt.Fprintf(a.out, "%s %s in %s\n", plural(int(now.Packets), "packet"), what, when)
}

// printLatencySeries prints the latencies of each second.
func (a *app) printLatencySeries(rows []answer.LatencySecond) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	t := newTable(append(append([]column{{title: "TIME"}}, quantileColumns...), column{title: "NAME"})...)
	for i := range rows {
		cells := append([]string{a.secondText(rows[i].TimeS)}, quantileCells(&rows[i].Quantiles)...)
		t.add(append(cells, a.nameText(&rows[i].LatencyRow))...)
	}
	return t.flush(a.out)
}
