// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/words"
)

const lossLong = `Show where packets were lost since attach, and why, by the kernel's own names.

PACKETS counts packets on the wire, SKBS the buffers that the kernel dropped, which
is what tc and nft count (a buffer can hold many segments of one flow).

FLOWS is how many flows lost packets there; -o wide names those that lost most,
--by flow shows a row for each flow and place.

AT and PORT say how far packets came: AT ingress they came in by PORT, and the node did
not have them yet; AT egress, queue or link they went out by it. AT node they were inside:
PORT is the input port, or the output port once the kernel had chosen it (NEIGH_...,
rules behind routing; the same in a bridge).
"veth3c1f (to db/eth0)" is the bridge's end of the link to db.

WHY says in plain words what REASON, or FUNCTION, stands for, and which ports are not up
now, where that can be why: it need not have been so when the packets were lost. Where netfilter
or a token bucket has dropped packets, the node is asked: conntrack's counters since attach, its
rules, and the burst, as they are now. Nodes that do not answer within 1 s, or 2 s for all of
them, are named below the rows.

Below the rows stands what nodes dropped before it was sent (their own rules, no answer
to ARP): such packets have no record. Packets that went round in a circle have a line of
their own, and so have those that have not ended, and ports that are not up now.

The rows have all faults since attach, also those that are fixed: --since 1m shows new ones.

REASON NOT_SEEN is no loss that the kernel told of. These packets expired: they went in
there (AT node) or out by that port (AT link), and nobody saw them again within the
timeout. In a virtual machine or a forwarder in user space they were lost or consumed.

REASON NOT_FORWARDED: a process forwards the packets of that node by packet sockets, and
has not sent these on; FUNCTION is the process. (The kernel drops its own copies there,
always, for reasons that mean nothing.) The agent has to have seen the process forward.

With -f a line says how many packets were lost in the last second, or since the last
answer, and a column where. Packets that were NOT_SEEN again are known when the timeout is
over: they are in neither. --series shows one row for each place and second in which packets
were lost there, of the last 300, instead.

--after-delivery shows what was dropped after delivery instead: in the receiving node's own
input rules or socket buffers. Such packets count as delivered; radar flows has them in
its column DROPPED. What TCP itself frees
(data that it had already, what is left when a connection is closed) has a NOTE: that
is no fault. Nodes drop more than is seen: what they drop later, such as fragments whose rest
does not come, and what they free like any packet, such as a SYN for a full listener. Below
the rows stand the nodes' own counters (nstat) that count more than the rows.`

// NewLossCmd returns "radar loss".
func NewLossCmd(k *kit.Kit) *cobra.Command {
	local, failIfLost, series, by := false, false, false, kit.NewChoice("place", "group", "place", "flow")
	isFlow := func() bool { return by.Value == string(aggregate.ByFlow) }
	q := &question{byFlow: isFlow, tellsLeft: true}
	q.checkFlags = func() error {
		switch {
		case failIfLost && q.follow:
			return fault.Usage.Errorf("--fail-if-lost: a command that goes on (-f) has no exit code to tell it by")
		case series && isFlow():
			return fault.Usage.Errorf("--series: seconds are not kept for each flow, use --by place")
		}
		return nil
	}
	cmd := newQuestionCmd(k, &cobra.Command{
		Use:   "loss " + kit.EndsUse,
		Short: "Show where packets were lost, why, and of which flows",
		Long:  lossLong,
		Example: `  radar loss
  radar loss h1                              # of its packets, and in it
  radar loss --by flow --since 10m
  radar loss --fail-if-lost --since 1m --dst h2 || echo packets were lost
  radar loss --series -o csv > losses.csv
  radar loss -o json | jq 'select(.at == "queue")'`,
	}, q, func(c *answer.Counts) error {
		show := showLosses
		switch {
		case isFlow():
			show = showFlowLosses
		case series:
			show = showLossSeries
		}
		n, err := show(k, c, local)
		if err == nil && failIfLost && n > 0 {
			return kit.WithCode(kit.ExitLost, fmt.Errorf("%s lost", words.PacketsWere(n)))
		}
		return err
	})
	cmd.Flags().BoolVar(&failIfLost, "fail-if-lost", false, "end with exit code 5 if a row is shown: for scripts")
	cmd.Flags().BoolVar(&series, "series", false, "show each second")
	cmd.Flags().BoolVar(&local, "after-delivery", false, "show what was dropped after delivery")
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "local" { // its first name, by which scripts ask
			name = "after-delivery"
		}
		return pflag.NormalizedName(name)
	})
	by.Add(cmd, "by", "what to group by")
	return cmd
}

// showLosses prints rows, and returns how many packets they have.
func showLosses(k *kit.Kit, c *answer.Counts, local bool) (packets uint64, err error) {
	rows := c.Losses(local)
	k.Note(rows.Notes)
	now := lossesNow(k, c, local)
	printLossesNow(k, now, local)
	for i := range rows.List {
		packets += rows.List[i].Packets
	}
	return packets, k.PrintLosses(rows.List, local, now)
}

// showFlowLosses prints rows of flows, and returns how many packets they have.
func showFlowLosses(k *kit.Kit, c *answer.Counts, local bool) (packets uint64, err error) {
	rows := c.LossesByFlow(local)
	k.Note(rows.Notes)
	for i := range rows.List {
		packets += rows.List[i].Packets
	}
	return packets, printFlowLosses(k, rows.List, local)
}

func printFlowLosses(k *kit.Kit, rows []answer.LossFlowRow, afterDelivery bool) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, rows)
	}
	columns := append([]kit.Column{{Title: "PACKETS", Right: true}, {Title: "BYTES", Right: true}, {Title: "FLOW"}}, kit.PlaceColumns...)
	if afterDelivery {
		columns = append(columns, kit.Column{Title: "NOTE"})
	}
	t := kit.NewTable(columns...)
	for _, r := range rows {
		cells := append([]string{words.Decimal(r.Packets), words.Decimal(r.Bytes), r.String()}, k.PlaceCells(&r.LossPlace, &r.Place)...)
		if afterDelivery {
			cells = append(cells, kit.LocalNote(&r.LossPlace))
		}
		t.Add(cells...)
	}
	return k.PrintTable(t)
}
