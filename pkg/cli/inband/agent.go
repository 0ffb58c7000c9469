// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"errors"
	"log/slog"
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
	k.Stderr = kit.BoundLog(k.Stderr)
	log := slog.New(slog.NewTextHandler(k.Stderr, nil))
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := agent.Open(k.Domain, log)
	if err != nil {
		return errors.Join(err, background.TellReady(readyFD, err))
	}
	defer a.Close()
	told := false
	err = a.Run(ctx, func() {
		told = true
		if err := background.TellReady(readyFD, nil); err != nil {
			log.Warn("tell that the agent is ready", "error", err)
		}
		log.Info("INT agent started", "domain", k.Domain, "pid", os.Getpid())
	})
	if err != nil && !told {
		return errors.Join(err, background.TellReady(readyFD, err))
	}
	log.Info("INT agent ends")
	return err
}
