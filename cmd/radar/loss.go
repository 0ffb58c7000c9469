// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/aggregate"
)

const lossLong = `Show where packets were lost since attach, and why, by the kernel's own names.

PACKETS counts packets on the wire, SKBS the buffers that the kernel dropped, which
is what tc and nft count (a buffer can hold many segments of one flow).

--local shows what was dropped after delivery instead: in the receiving node's own
input rules or socket buffers. Such packets count as delivered.`

// lossView is a row of "radar loss" in JSON.
type lossView struct {
	aggregate.LossRow
	AfterDelivery bool `json:"after_delivery,omitempty"`
}

func newLossCmd(a *app) *cobra.Command {
	local := false
	cmd := &cobra.Command{
		Use:     "loss",
		Short:   "Show where packets were lost, and why",
		Long:    lossLong,
		Example: "  radar loss\n  radar loss -o json | jq 'select(.at == \"queue\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.aggregated(func(r *agent.Reader) error {
				agg := r.Collector.Aggregates()
				if local {
					return a.printLosses(agg.LocalDrops(r.Decoder), true)
				}
				return a.printLosses(agg.Losses(r.Decoder), false)
			})
		},
	}
	cmd.Flags().BoolVar(&local, "local", false, "show what was dropped after delivery")
	return cmd
}

func (a *app) printLosses(rows []aggregate.LossRow, afterDelivery bool) error {
	if a.output == formatJSON {
		views := make([]lossView, len(rows))
		for i, r := range rows {
			views[i] = lossView{LossRow: r, AfterDelivery: afterDelivery}
		}
		return printRows(a, views)
	}
	t := newTable(
		column{title: "PACKETS", right: true}, column{title: "SKBS", right: true}, column{title: "BYTES", right: true},
		column{title: "NODE"}, column{title: "PORT"}, column{title: "AT"}, column{title: "REASON"},
		column{title: "QDISC"}, column{title: "FUNCTION"})
	for _, r := range rows {
		t.add(decimal(r.Packets), decimal(r.Skbs), decimal(r.Bytes), r.Node, r.Port, string(r.At),
			r.Reason, r.Qdisc, r.Function)
	}
	return t.flush(a.out)
}
