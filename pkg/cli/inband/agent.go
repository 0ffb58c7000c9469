// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/telemetry/node/agent"
)

// newAgentCmd is the background agent that "radar int attach" starts.
func newAgentCmd(k *kit.Kit) *cobra.Command {
	var readyFD int
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "Be the agent of an INT domain, until another process detaches it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return runAgent(k, cmd.Context(), readyFD) },
	}
	cmd.Flags().IntVar(&readyFD, background.FlagReadyFD, 0, "pipe to tell when it works")
	return cmd
}

func runAgent(k *kit.Kit, ctx context.Context, readyFD int) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return k.InBackground(readyFD, func(b *kit.Background) error {
		a, err := agent.Open(k.Domain, b.Log)
		if err != nil {
			return err
		}
		defer a.Close()
		err = a.Run(ctx, func() {
			b.Ready()
			b.Log.Info("INT agent started", "domain", k.Domain, "pid", os.Getpid())
		})
		if err == nil || b.Told {
			b.Log.Info("INT agent ends")
		}
		return err
	})
}
