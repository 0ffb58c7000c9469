// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
)

// lossSecondView is a row of "radar loss --series".
type lossSecondView struct {
	TimeS   int64  `json:"time_s"` // Unix time
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	aggregate.LossPlace
	AfterDelivery bool `json:"after_delivery,omitempty"`
	FreedByTCP    bool `json:"freed_by_tcp,omitempty"`
}

// latencySecondView is a row of "radar latency --series".
type latencySecondView struct {
	TimeS int64 `json:"time_s"` // Unix time
	aggregate.LatencyRow
}

// lossSeconds are the losses, or drops after delivery, second by second.
func lossSeconds(r *answer, local bool) []aggregate.LossSeconds {
	if local {
		return r.LocalDropsBySecond(r.names)
	}
	return r.LossesBySecond(r.names)
}

// showLossSeries prints the seconds of all places, and returns how many packets they have.
func (a *app) showLossSeries(r *answer, local bool) (packets uint64, err error) {
	rows := r.Losses(r.names)
	if local {
		rows = r.LocalDrops(r.names)
	}
	var of []rowSeconds
	var views []lossSecondView
	for _, row := range lossSeconds(r, local) {
		of = append(of, rowSeconds{row.ActiveS, row.Seconds})
		for _, s := range row.Seconds {
			views = append(views, lossSecondView{s.At, s.Packets, s.Bytes, row.LossPlace, local, local && row.FreedByTCP()})
		}
	}
	a.noteSeconds(of, r.asked.since)
	slices.SortStableFunc(views, func(x, y lossSecondView) int { return cmp.Compare(x.TimeS, y.TimeS) })
	packets = sumOf(rows, func(row *aggregate.LossRow) uint64 { return row.Packets })
	return packets, a.aroundLosses(r, local, rows, func() error { return a.printLossSeries(views, local) })
}

func (a *app) printLossSeries(views []lossSecondView, afterDelivery bool) error {
	if a.output.raw() {
		return printRows(a, views)
	}
	columns := append([]column{{title: "TIME"}, {title: "PACKETS", right: true}, {title: "BYTES", right: true}}, placeColumns...)
	if afterDelivery {
		columns = append(columns, column{title: "NOTE"})
	}
	t := newTable(columns...)
	for _, v := range views {
		cells := append([]string{a.secondText(v.TimeS), decimal(v.Packets), decimal(v.Bytes)}, a.placeCells(&v.LossPlace)...)
		if afterDelivery {
			cells = append(cells, localNote(&v.LossPlace))
		}
		t.add(cells...)
	}
	return t.flush(a.out)
}

// recentLosses are the packets that were freed in the last whole seconds, by place.
type recentLosses struct {
	seconds int64
	of      map[aggregate.LossPlace]uint64
	packets uint64
}

// lossesNow are those of the seconds since the last answer; nil where there is but one answer.
func (a *app) lossesNow(r *answer, local bool) *recentLosses {
	if a.view == nil {
		return nil
	}
	now := &recentLosses{seconds: a.view.end - a.view.from, of: make(map[aggregate.LossPlace]uint64)}
	for _, row := range lossSeconds(r, local) {
		for _, s := range row.Seconds {
			if s.At >= a.view.from && s.At < a.view.end && !row.Inferred() {
				now.of[row.LossPlace] += s.Packets
				now.packets += s.Packets
			}
		}
	}
	return now
}

// printLossesNow says how many packets these are.
func (a *app) printLossesNow(now *recentLosses, local bool) {
	if now == nil || a.output.raw() {
		return
	}
	when := "the last second"
	if now.seconds != 1 {
		when = fmt.Sprintf("the last %d seconds", now.seconds)
	}
	what := "lost"
	if local {
		what = "dropped after delivery"
	}
	if now.packets == 0 {
		fmt.Fprintf(a.out, "nothing %s in %s\n", what, when)
		return
	}
	fmt.Fprintf(a.out, "%s %s in %s\n", plural(int(now.packets), "packet"), what, when)
}

// showLatencySeries prints the latencies of each second.
func (a *app) showLatencySeries(r *answer, by aggregate.By) error {
	if from := r.timeline.From(); from > 0 {
		a.notef("only so many seconds are shown: those from %s on", a.clockTime(time.Unix(from, 0)))
	}
	rows := r.timeline.Latency(by, r.names)
	if a.output.raw() {
		views := make([]latencySecondView, len(rows))
		for i, row := range rows {
			views[i] = latencySecondView{row.At, row.LatencyRow}
		}
		return printRows(a, views)
	}
	t := newTable(append(append([]column{{title: "TIME"}}, quantileColumns...), column{title: "NAME"})...)
	for i := range rows {
		cells := append([]string{a.secondText(rows[i].At)}, quantileCells(&rows[i].Quantiles)...)
		t.add(append(cells, a.nameText(&rows[i].LatencyRow))...)
	}
	return t.flush(a.out)
}
