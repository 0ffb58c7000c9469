// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/words"
)

// PrintLosses prints rows; recent are the packets of the last seconds, nil: nobody asks for them.
func (k *Kit) PrintLosses(rows []answer.LossRow, afterDelivery bool, recent *answer.RecentLosses) error {
	if k.Output.Raw() {
		return PrintRows(k, rows)
	}
	columns := []Column{{Title: "PACKETS", Right: true}}
	if recent != nil {
		columns = append(columns, Column{Title: fmt.Sprintf("LAST %ds", recent.Seconds), Right: true})
	}
	columns = append(append(columns, Column{Title: "SKBS", Right: true}, Column{Title: "BYTES", Right: true}, Column{Title: "FLOWS", Right: true}),
		PlaceColumns...)
	if afterDelivery {
		columns = append(columns, Column{Title: "NOTE"})
	}
	if k.Output == FormatWide {
		columns = append(columns, Column{Title: "TOP FLOWS"})
	}
	t := NewTable(columns...)
	for _, r := range rows {
		flows := words.Decimal(r.Flows)
		if r.FlowsMore {
			flows += "+"
		}
		cells := []string{words.Decimal(r.Packets)}
		if recent != nil {
			cells = append(cells, words.Decimal(recent.Of[r.LossPlace]))
		}
		cells = append(append(cells, words.Decimal(r.Skbs), words.Decimal(r.Bytes), flows), k.PlaceCells(&r.LossPlace, &r.Place)...)
		if afterDelivery {
			cells = append(cells, LocalNote(&r.LossPlace))
		}
		if k.Output == FormatWide {
			var top []string
			for _, f := range r.TopFlows {
				top = append(top, fmt.Sprintf("%s (%d)", f.String(), f.Packets))
			}
			cells = append(cells, strings.Join(top, ", "))
		}
		t.Add(cells...)
	}
	return k.PrintTable(t)
}

// PlaceColumns are those of where packets were lost, and why.
var PlaceColumns = []Column{
	{Title: "NODE"}, {Title: "PORT"}, {Title: "AT"}, {Title: "REASON"}, {Title: "QDISC"}, {Title: "FUNCTION"}, {Title: "WHY"},
}

// PlaceCells are the cells of PlaceColumns.
func (k *Kit) PlaceCells(p *aggregate.LossPlace, now *placenow.Place) []string {
	return []string{p.Node, k.Shown.Port(p.Node, p.Port), string(p.At), p.Reason, p.Qdisc, p.Function, k.Shown.LossWhy(p, now)}
}

// LocalNote is what tables say about it.
func LocalNote(p *aggregate.LossPlace) string {
	if p.FreedByTCP() {
		return "freed by TCP itself"
	}
	return ""
}
