// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
)

// printLosses prints rows; recent are the packets of the last seconds, nil: nobody asks for them.
func (a *app) printLosses(rows []answer.LossRow, afterDelivery bool, recent *answer.RecentLosses) error {
	if a.output.raw() {
		return printRows(a, rows)
	}
	columns := []column{{title: "PACKETS", right: true}}
	if recent != nil {
		columns = append(columns, column{title: fmt.Sprintf("LAST %ds", recent.Seconds), right: true})
	}
	columns = append(append(columns, column{title: "SKBS", right: true}, column{title: "BYTES", right: true}, column{title: "FLOWS", right: true}),
		placeColumns...)
	if afterDelivery {
		columns = append(columns, column{title: "NOTE"})
	}
	if a.output == formatWide {
		columns = append(columns, column{title: "TOP FLOWS"})
	}
	t := newTable(columns...)
	for _, r := range rows {
		flows := decimal(r.Flows)
		if r.FlowsMore {
			flows += "+"
		}
		cells := []string{decimal(r.Packets)}
		if recent != nil {
			cells = append(cells, decimal(recent.Of[r.LossPlace]))
		}
		cells = append(append(cells, decimal(r.Skbs), decimal(r.Bytes), flows), a.placeCells(&r.LossPlace)...)
		if afterDelivery {
			cells = append(cells, localNote(&r.LossPlace))
		}
		if a.output == formatWide {
			var top []string
			for _, f := range r.TopFlows {
				top = append(top, fmt.Sprintf("%s (%d)", f.String(), f.Packets))
			}
			cells = append(cells, strings.Join(top, ", "))
		}
		t.add(cells...)
	}
	return t.flush(a.out)
}

var placeColumns = []column{
	{title: "NODE"}, {title: "PORT"}, {title: "AT"}, {title: "REASON"}, {title: "QDISC"}, {title: "FUNCTION"}, {title: "WHY"},
}

func (a *app) placeCells(p *aggregate.LossPlace) []string {
	return []string{p.Node, a.shown.port(p.Node, p.Port), string(p.At), p.Reason, p.Qdisc, p.Function, shortWhy(p.Reason, p.Function)}
}

// localNote is what tables say about it.
func localNote(p *aggregate.LossPlace) string {
	if p.FreedByTCP() {
		return "freed by TCP itself"
	}
	return ""
}
