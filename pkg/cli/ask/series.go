// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/words"
)

// showLossSeries prints the seconds of all places, and returns how many packets were lost there.
func showLossSeries(k *kit.Kit, c *answer.Counts, local bool) (packets uint64, err error) {
	rows := c.LossesBySecond(local)
	k.Note(rows.Notes)
	return c.Lost(local), printLossSeries(k, rows.List, local)
}

func printLossSeries(k *kit.Kit, rows []answer.LossSecond, afterDelivery bool) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	columns := append([]kit.Column{{Title: "TIME"}, {Title: "PACKETS", Right: true}, {Title: "BYTES", Right: true}}, kit.PlaceColumns...)
	if afterDelivery {
		columns = append(columns, kit.Column{Title: "NOTE"})
	}
	t := kit.NewTable(columns...)
	for _, r := range rows {
		cells := append([]string{secondText(k, r.TimeS), words.Decimal(r.Packets), words.Decimal(r.Bytes)}, k.PlaceCells(&r.LossPlace, &r.Place)...)
		if afterDelivery {
			cells = append(cells, kit.LocalNote(&r.LossPlace))
		}
		t.Add(cells...)
	}
	return k.PrintTable(t)
}

// lossesNow are those of the seconds since the last answer; nil where there is but one answer.
func lossesNow(k *kit.Kit, c *answer.Counts, local bool) *answer.RecentLosses {
	if k.View == nil {
		return nil
	}
	return c.LossesBetween(k.View.From, k.View.End, local)
}

// printLossesNow says how many packets these are.
func printLossesNow(k *kit.Kit, now *answer.RecentLosses, local bool) {
	if now == nil || k.Output.Raw() {
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
		fmt.Fprintf(k.Out, "nothing %s in %s\n", what, when)
		return
	}
	fmt.Fprintf(k.Out, "%s %s in %s\n", words.Plural(int(now.Packets), "packet"), what, when)
}

// printLatencySeries prints the latencies of each second.
func printLatencySeries(k *kit.Kit, rows []answer.LatencySecond) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	t := kit.NewTable(append(append([]kit.Column{{Title: "TIME"}}, quantileColumns...), kit.Column{Title: "NAME"})...)
	for i := range rows {
		cells := append([]string{secondText(k, rows[i].TimeS)}, quantileCells(&rows[i].Quantiles)...)
		t.Add(append(cells, nameText(k, &rows[i].LatencyRow))...)
	}
	return k.PrintTable(t)
}
