// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// NewStatusCmd returns "radar status".
func NewStatusCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show nodes, ports, totals and counters",
		Long: `Show what is attached, whether its agent lives, and what became of every packet:

  seen = delivered + left + lost + expired + ignored + in flight + not measured + unread

A packet of which there were copies counts once: as delivered if any copy was.
"not measured" has a counter for each reason. "unread" packets were measured, and
the ring came round to their slots before the agent, or anyone else, had read what
became of them: more slots or a living agent help. What does not add up is shown as
"unaccounted": while packets pass, counters and ring are read a moment apart.

STATE is what the kernel says of a port now: up, down, or "no carrier", which is up itself,
but nobody is at the other end: its peer is down.

What the agent cannot do, as follow the topology where the disk of the state directory is
full, is a note here and beside every answer, until it can again.

Counters that are 0 are shown in JSON only; -o wide explains each.

-o wide also shows what radar itself costs: how much of one core the agent has used
since it started, its own memory, and how long the hooks take, ns a run (a run is a packet,
a train of packets in one buffer, or, of the loss hook, any buffer that the machine
frees as a drop). The kernel measures programs only while it is told to: for that
-o wide switches kernel.bpf_stats_enabled on for 0.2 s, as bpftool does, unless it is on
already. Meanwhile each run of every BPF program of the machine takes some 50 ns more.
The numbers are averages over all that the kernel has measured since attach. -o json has
what was measured before, and switches nothing on.`,
		Example: "  radar status\n  radar status -o wide\n  radar status -o json | jq .totals",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return showStatus(k, cmd.Context()) },
	}
}

func showStatus(k *kit.Kit, ctx context.Context) error {
	view, err := status.Read(ctx, k.Domain, k.Sentences(),
		status.Wanted{Cost: k.Output != kit.FormatTable, Measure: k.Output == kit.FormatWide, Changers: true})
	if err != nil {
		return err
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, view)
	}
	d, err := domain.Load(k.Domain)
	if err != nil {
		return err
	}
	k.ShowNames(d)
	return printStatus(k, view)
}
