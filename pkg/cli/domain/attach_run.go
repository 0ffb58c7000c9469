// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/words"
)

// attachPlan shows what attaching would do. notes are what the user should know
// of the nodes that were asked for.
func attachPlan(k *kit.Kit, ctx context.Context, req datapath.AttachRequest, notes []string) error {
	plan, err := datapath.Plan(ctx, req)
	if err != nil {
		return err
	}
	plan.Warnings = append(notes, plan.Warnings...)
	selector.NameNetworks(ctx, plan.Domain)
	k.ShowNames(plan.Domain)
	view := newAttachView(plan, true)
	view.follows(&req, plan.Domain)
	return printAttached(k, view)
}

// attachAndRun attaches the nodes, then provides an agent: this process, one in
// the background, or the one that runs already.
func attachAndRun(k *kit.Kit, ctx context.Context, f *attachOptions, req datapath.AttachRequest, notes []string, running agent.Process) error {
	ctx, second, stop := interruptible(ctx)
	defer stop()
	view := &attachView{Domain: req.Domain}
	if !req.Empty() {
		result, err := datapath.Attach(ctx, req)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("interrupted, what was attached is detached again: %w", err)
		}
		if err != nil {
			return err
		}
		result.Warnings = append(notes, result.Warnings...)
		nameNetworks(k, ctx, result.Domain)
		view = newAttachView(result, false)
		view.follows(&req, result.Domain)
	}
	if running.PID != 0 {
		view.Agent = &background.Started{PID: running.PID}
		if err := f.startRecorder(req.Domain, view); err != nil {
			return errors.Join(err, printAttached(k, view))
		}
		return errors.Join(printAttached(k, view), touch(f.readyFile))
	}
	err := f.startRecorder(req.Domain, view)
	if err == nil {
		err = f.provideAgent(k, ctx, second, view)
	}
	if err != nil && view.New && !view.ran {
		// Without an agent the lease would end in a moment: leave nothing behind.
		_, undo := datapath.Detach(context.WithoutCancel(ctx), datapath.DetachRequest{Domain: req.Domain, NoDrain: true})
		err = errors.Join(err, undo)
	}
	return err
}

// provideAgent is the agent, or starts one.
func (f *attachOptions) provideAgent(k *kit.Kit, ctx, second context.Context, view *attachView) error {
	if f.daemon {
		return attachBackground(k, f, view)
	}
	return attachForeground(k, ctx, second, f, view)
}

// nameNetworks asks Docker for the names of the networks whose bridges the domain is closed around,
// and keeps them. The agent does so for those that come later.
func nameNetworks(k *kit.Kit, ctx context.Context, d *domain.Domain) {
	if names := selector.NameNetworks(ctx, d); len(names) > 0 {
		_, err := datapath.SetNetworks(d.Name, names)
		k.Warn(err)
	}
	k.ShowNames(d)
}

// showNamesNow is ShowNames of the domain as it is, for answers that are given when it is gone.
func showNamesNow(k *kit.Kit) {
	if d, err := domain.Load(k.Domain); err == nil {
		k.ShowNames(d)
	}
}

func attachBackground(k *kit.Kit, f *attachOptions, view *attachView) error {
	started, err := agent.Start(k.Domain)
	if err != nil {
		return err
	}
	view.Agent, view.ran = &started, true
	return errors.Join(printAttached(k, view), touch(f.readyFile))
}

// attachForeground is the agent until the user ends it, then detaches.
func attachForeground(k *kit.Kit, ctx, second context.Context, f *attachOptions, view *attachView) error {
	ag, err := agent.Open(k.Domain, slog.New(kit.NewLineHandler(k.Stderr)))
	if errors.Is(err, resident.ErrRunning) && view.Memory != nil {
		// Another process that attached at the same time was faster.
		running, findErr := agent.Find(k.Domain)
		view.Agent, view.ran = &background.Started{PID: running.PID}, true
		return errors.Join(findErr, printAttached(k, view), touch(f.readyFile))
	}
	if err != nil {
		return err
	}
	defer ag.Close()
	var readyErr error
	end, err := ag.Run(ctx, func() {
		view.ran = true
		readyErr = errors.Join(evenUnread(printAttached(k, view)), evenUnread(k.Out.Flush()), touch(f.readyFile))
		k.Progressf("measuring; Ctrl-C ends it")
	})
	if err != nil {
		return errors.Join(err, readyErr)
	}
	showNamesNow(k)
	if end != agent.Interrupted {
		// Another process has the domain now, or has detached it, or may attach nodes to it just now.
		fmt.Fprintf(k.Stderr, "radar: %s\n", endText(end))
		return errors.Join(readyErr, evenUnread(printSummary(k, ctx, nil, ag.Summary(), end)))
	}
	recorder := findRecorder(k)
	d, _ := domain.Load(k.Domain) // Finish says what is wrong with it
	summary, err := ag.Finish(second, agent.FinishOptions{Progress: drainProgress(k)})
	return errors.Join(err, awaitRecorder(k, second, recorder), readyErr, evenUnread(printSummary(k, second, d, summary, end)))
}

// evenUnread is err, unless it says that nobody reads our output any more: what
// goes on for long does not end for that, and other errors must not hide behind.
func evenUnread(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func endText(end agent.End) string {
	switch end {
	case agent.HandedOver:
		return "another process took the domain over"
	case agent.Deserted:
		return "all nodes of the domain are gone, and its lease is over: what was measured can be asked for until it is detached"
	}
	return "the domain was detached by another process"
}

// NewAgentCmd is the background agent that "attach -d" starts.
func NewAgentCmd(k *kit.Kit) *cobra.Command {
	var readyFD int
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "Be the agent of an attached domain, until another process detaches it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(k, cmd.Context(), readyFD)
		},
	}
	cmd.Flags().IntVar(&readyFD, background.FlagReadyFD, 0, "pipe to tell when it works")
	return cmd
}

func runAgent(k *kit.Kit, ctx context.Context, readyFD int) error {
	ctx, second, stop := interruptible(ctx)
	defer stop()
	return k.InBackground(readyFD, func(b *kit.Background) error {
		ag, err := agent.Open(k.Domain, b.Log)
		if err != nil {
			return err
		}
		defer ag.Close()
		end, err := ag.Run(ctx, func() {
			b.Ready()
			b.Log.Info("agent started", "domain", k.Domain, "pid", os.Getpid())
		})
		switch {
		case err != nil && !b.Told:
			return err
		case err != nil || end != agent.Interrupted:
			b.Log.Info("agent ends", "why", string(end))
			return err
		}
		b.Log.Info("agent ends, detaching", "domain", k.Domain)
		d, _ := domain.Load(k.Domain) // Finish says what is wrong with it
		summary, err := ag.Finish(second, agent.FinishOptions{})
		return errors.Join(err, printSummary(k, second, d, summary, end))
	})
}

// interruptible returns a context that ends at the first signal to stop, and one
// that ends at the second.
func interruptible(parent context.Context) (first, second context.Context, stop func()) {
	first, cancelFirst := context.WithCancel(parent)
	second, cancelSecond := context.WithCancel(context.WithoutCancel(parent))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for _, cancel := range []context.CancelFunc{cancelFirst, cancelSecond} {
			select {
			case <-signals:
				cancel()
			case <-done:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(signals)
		close(done)
		cancelFirst()
		cancelSecond()
	}
}

// touch creates the file that tells others we are ready; none if path is empty.
func touch(path string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return fmt.Errorf("create ready file: %w", err)
	}
	return nil
}

// drainProgress shows how many packets are still under way, on a terminal only.
func drainProgress(k *kit.Kit) func(int) {
	if !kit.IsTerminal(k.Stderr) {
		return nil
	}
	shown := 0
	return func(inFlight int) {
		if inFlight == shown {
			return
		}
		shown = inFlight
		fmt.Fprint(k.Stderr, kit.Own("\r\x1b[K"))
		if inFlight > 0 {
			fmt.Fprintf(k.Stderr, "waiting for %s under way; Ctrl-C again does not wait ", words.Plural(inFlight, "packet"))
		}
	}
}
