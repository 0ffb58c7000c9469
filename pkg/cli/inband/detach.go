// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/node/agent"
	"github.com/vnetradar/radar/pkg/words"
)

const detachLong = `Take INT off all ports of the domain, or off the nodes and ports named, and leave nothing
behind: no program, map, pin, queueing discipline, process or file. Offloads that --no-gso
has switched off are on again.

Sources stop first. Then packets under way are waited for, at most 5 s: until none with INT has
passed for 0.1 s and none waits in a queue. Sinks go last. Ctrl-C, or --no-drain, skips the wait.

A domain without INT nodes is no error.`

// detachedView is what "radar int detach" prints as JSON.
type detachedView struct {
	Domain   string `json:"domain"`
	Detached bool   `json:"detached"` // false: there was nothing
	Ended    bool   `json:"ended"`    // the whole domain is gone
	Nodes    int    `json:"nodes"`
	Ports    int    `json:"ports"`
}

func newDetachCmd(k *kit.Kit) *cobra.Command {
	noDrain := false
	cmd := &cobra.Command{
		Use:               "detach [NODE[/PORT]...]",
		Short:             "Take INT off ports, sinks last",
		Long:              detachLong,
		Example:           "  radar int detach\n  radar int detach r2          # the others go on\n  radar int detach r1/eth2 --no-drain",
		ValidArgsFunction: completeAttached(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			return detach(k, cmd.Context(), args, noDrain)
		},
	}
	cmd.Flags().BoolVar(&noDrain, "no-drain", false, "do not wait for packets under way")
	return cmd
}

func detach(k *kit.Kit, ctx context.Context, names []string, noDrain bool) error {
	wait, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	done, err := node.Detach(wait, node.DetachRequest{
		Domain: k.Domain, Names: names, Drain: !noDrain,
		EndAgent: func() error { return agent.End(ctx, k.Domain) },
	})
	if system.IsAbsent(err) {
		return printDetached(k, &detachedView{Domain: k.Domain})
	}
	if err != nil {
		return err
	}
	return printDetached(k, &detachedView{k.Domain, true, done.Ended, done.Nodes, done.Ports})
}

func printDetached(k *kit.Kit, v *detachedView) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	text := fmt.Sprintf("INT domain %s: %s with %s detached", v.Domain, words.Plural(v.Nodes, "node"), words.Plural(v.Ports, "port"))
	switch {
	case !v.Detached:
		text = fmt.Sprintf("domain %s has no INT nodes: nothing to do", v.Domain)
	case !v.Ended:
		text = fmt.Sprintf("INT domain %s: %s detached, the others go on", v.Domain, words.Plural(v.Ports, "port"))
	}
	_, err := fmt.Fprintln(k.Out, text)
	return err
}
