// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/words"
)

const detachLong = `Detach from all nodes, or from the nodes named, and leave nothing behind: no
program, map, pin, queueing discipline, process or file. The name of a virtual
machine (attach --vm) makes its taps edges again.

Marking stops first; then radar waits until the packets under way have arrived
(at most the domain's timeout), so that each leaves with its own header. Ctrl-C,
or --no-drain, skips that: packets under way then keep rewritten header bits.
When the domain ends, a summary is printed. It ends with its last node, unless
containers that start join it (--watch-containers): then it waits for them.

A recorder in the background (attach --record) ends with the domain, and finishes its
files first.

A domain that is not attached is no error. One of another radar, whose maps have
another layout (after an upgrade), is detached by the program that its agent runs,
or removed as it stands if there is no agent. One that a living agent keeps by
another state directory (RADAR_STATE_DIR) is left alone; the error names it.`

// handOverTime is how long an agent may take to write its snapshot.
const handOverTime = 5 * time.Second

// detachView is the JSON form of what "radar detach" prints.
type detachView struct {
	Domain   string       `json:"domain"`
	Detached bool         `json:"detached"` // false: nothing was attached
	Ended    bool         `json:"ended"`    // the whole domain is gone
	Nodes    int          `json:"nodes"`    // detached now
	Ports    int          `json:"ports"`
	VMs      int          `json:"vms,omitempty"` // virtual machines
	Summary  *summaryView `json:"summary,omitempty"`
	Followed []string     `json:"followed,omitempty"` // no node is left, and containers that these match join
	Warnings []string     `json:"warnings,omitempty"`
}

// NewDetachCmd returns "radar detach".
func NewDetachCmd(k *kit.Kit) *cobra.Command {
	noDrain := false
	cmd := &cobra.Command{
		Use:               "detach [NODE...]",
		Short:             "Detach from all nodes, or from some",
		Long:              detachLong,
		Example:           "  radar detach\n  radar detach h2            # the others go on\n  radar detach --no-drain",
		ValidArgsFunction: k.CompleteAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			recorder := findRecorder(k)
			err := detach(k, cmd.Context(), splitNames(args), noDrain)
			flushed := evenUnread(k.Out.Flush()) // what to do next is said last
			return errors.Join(err, flushed, awaitRecorder(k, cmd.Context(), recorder))
		},
	}
	cmd.Flags().BoolVar(&noDrain, "no-drain", false, "do not wait for packets under way")
	return cmd
}

// splitNames are the names of arguments that may be lists: "h1,h2". No name has a comma.
func splitNames(args []string) (names []string) {
	for _, arg := range args {
		names = append(names, strings.Split(arg, ",")...)
	}
	return names
}

func detach(k *kit.Kit, ctx context.Context, names []string, noDrain bool) error {
	// The first Ctrl-C ends the wait for packets in flight; the second does nothing.
	first, _, stop := interruptible(ctx)
	defer stop()
	d, err := domain.Load(k.Domain)
	switch {
	case len(names) > 0 && (errors.Is(err, domain.ErrDamaged) || errors.Is(err, domain.ErrHalfAttached)):
		return err // not all of it, because one node was named
	case errors.Is(err, domain.ErrDamaged):
		fmt.Fprintf(k.Stderr, "radar: warning: detaching without a summary: %v\n", domain.ErrDamaged)
		return detachRest(k, first)
	case errors.Is(err, domain.ErrOtherVersion):
		return detachOther(k, err, names, noDrain)
	case err != nil && !errors.Is(err, domain.ErrNotAttached):
		return err
	case d != nil && len(names) > 0 && !d.IsWhole(names):
		return detachNodes(k, first, names, nil, noDrain)
	case d != nil && len(names) > 0 && len(followed(d, names)) > 0:
		return detachNodes(k, first, names, followed(d, names), noDrain)
	case d == nil:
		return detachRest(k, first)
	}
	ag, err := takeOver(k, ctx, d)
	if errors.Is(err, domain.ErrNotAttached) {
		return detachRest(k, first)
	}
	if err != nil {
		// Without counting: what is broken must still be removable.
		fmt.Fprintf(k.Stderr, "radar: warning: detaching without a summary: %v\n", err)
		return detachRest(k, first)
	}
	defer ag.Close()
	k.ShowNames(d)
	summary, err := ag.Finish(first, agent.FinishOptions{NoDrain: noDrain, Progress: drainProgress(k)})
	view := &detachView{Domain: k.Domain, Detached: true, Ended: err == nil,
		Nodes: summary.Nodes, Ports: summary.Ports, Summary: newSummaryView(first, d, summary, "")}
	return errors.Join(err, printDetached(k, view))
}

// takeOver ends the domain's agent, if it has one, and takes its place. Where
// another process is detaching already it waits for that one's end.
func takeOver(k *kit.Kit, ctx context.Context, d *domain.Domain) (*agent.Agent, error) {
	log := slog.New(kit.NewLineHandler(k.Stderr))
	patience := time.Now().Add(d.Options.Timeout + handOverTime)
	for {
		running, err := agent.Find(k.Domain)
		if err != nil {
			return nil, err
		}
		if running.PID != 0 {
			if err := running.Stop(ctx, handOverTime); err != nil {
				return nil, err
			}
		}
		ag, err := agent.Open(k.Domain, log)
		if !errors.Is(err, resident.ErrRunning) || time.Now().After(patience) {
			return ag, err
		}
		if !kit.Wait(ctx, kit.FollowEvery) {
			return nil, ctx.Err()
		}
	}
}

// detachNodes takes nodes out of a domain that goes on, with others or waiting for
// the containers that followed match.
func detachNodes(k *kit.Kit, ctx context.Context, names, followed []string, noDrain bool) error {
	result, err := datapath.Detach(ctx, datapath.DetachRequest{
		Domain: k.Domain, Nodes: names, Keep: len(followed) > 0, NoDrain: noDrain, Progress: drainProgress(k),
	})
	if err != nil {
		return err
	}
	return printDetached(k, &detachView{Domain: k.Domain, Detached: true, Ended: result.Ended,
		Nodes: result.Nodes, Ports: result.Ports, VMs: result.VMs, Followed: followed, Warnings: kit.Rendered(result.Warnings)})
}

// followed returns what containers must match to join the domain when the named nodes
// are detached; none if nobody would join.
func followed(d *domain.Domain, names []string) []string {
	if !d.WatchContainers {
		return nil
	}
	return selector.OfContainers(merge.SelectorsWithout(d, names))
}

// detachRest removes whatever is left of a domain that cannot be read any more.
func detachRest(k *kit.Kit, ctx context.Context) error {
	result, err := datapath.Detach(ctx, datapath.DetachRequest{Domain: k.Domain, NoDrain: true})
	if errors.Is(err, domain.ErrNotAttached) {
		return printDetached(k, &detachView{Domain: k.Domain})
	}
	if err != nil {
		return err
	}
	return printDetached(k, &detachView{Domain: k.Domain, Detached: true, Ended: result.Ended,
		Nodes: result.Nodes, Ports: result.Ports, Warnings: kit.Rendered(result.Warnings)})
}

// what says what was detached.
func (v *detachView) what() string {
	var parts []string
	if v.Nodes > 0 || v.VMs == 0 {
		parts = append(parts, words.Plural(v.Nodes, "node")+" with "+words.Plural(v.Ports, "port"))
	}
	if v.VMs > 0 {
		parts = append(parts, words.Plural(v.VMs, "virtual machine"))
	}
	return strings.Join(parts, " and ")
}

func printDetached(k *kit.Kit, v *detachView) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	for _, text := range v.Warnings {
		fmt.Fprintf(k.Stderr, "radar: warning: %s\n", text)
	}
	switch {
	case !v.Detached:
		_, err := fmt.Fprintf(k.Out, "domain %s is not attached: nothing to do\n", v.Domain)
		return err
	case !v.Ended && len(v.Followed) > 0:
		_, err := fmt.Fprintf(k.Out, "domain %s: %s detached; no node is left, it waits for containers that match %s (end it with: radar detach%s)\n",
			v.Domain, v.what(), strings.Join(v.Followed, " "), kit.DomainFlag(v.Domain))
		return err
	case !v.Ended && v.Summary == nil:
		_, err := fmt.Fprintf(k.Out, "domain %s: %s detached, the others go on\n", v.Domain, v.what())
		return err
	}
	if _, err := fmt.Fprintf(k.Out, "domain %s detached: %s, %s\n",
		v.Domain, words.Plural(v.Nodes, "node"), words.Plural(v.Ports, "port")); err != nil {
		return err
	}
	if v.Summary == nil {
		return nil
	}
	return printSummaryTable(k, v.Summary)
}
