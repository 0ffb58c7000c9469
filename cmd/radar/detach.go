// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/nodes"
)

const detachLong = `Detach from all nodes, or from the nodes named, and leave nothing behind: no
program, map, pin, queueing discipline, process or file. The name of a virtual
machine (attach --vm) makes its taps edges again.

Marking stops first; then radar waits until the packets under way have arrived
(at most the domain's timeout), so that each leaves with its own header. Ctrl-C,
or --no-drain, skips that: packets under way then keep rewritten header bits.
When the domain ends, a summary is printed. It ends with its last node, unless
containers that start join it (--watch-containers): then it waits for them.

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

func newDetachCmd(a *app) *cobra.Command {
	noDrain := false
	cmd := &cobra.Command{
		Use:               "detach [NODE...]",
		Short:             "Detach from all nodes, or from some",
		Long:              detachLong,
		Example:           "  radar detach\n  radar detach h2            # the others go on\n  radar detach --no-drain",
		ValidArgsFunction: a.completeAttached,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.detach(cmd.Context(), args, noDrain)
		},
	}
	cmd.Flags().BoolVar(&noDrain, "no-drain", false, "do not wait for packets under way")
	return cmd
}

func (a *app) detach(ctx context.Context, names []string, noDrain bool) error {
	// The first Ctrl-C ends the wait for packets under way, the second nothing.
	hurry, _, stop := interruptible(ctx)
	defer stop()
	d, err := domain.Load(a.domain)
	switch {
	case len(names) > 0 && (errors.Is(err, domain.ErrDamaged) || errors.Is(err, domain.ErrHalfAttached)):
		return err // not all of it, because one node was named
	case errors.Is(err, domain.ErrDamaged):
		fmt.Fprintf(a.stderr, "radar: warning: detaching without a summary: %v\n", domain.ErrDamaged)
		return a.detachRest(hurry)
	case errors.Is(err, domain.ErrOtherVersion):
		return a.detachOther(err, names, noDrain)
	case err != nil && !errors.Is(err, domain.ErrNotAttached):
		return err
	case d != nil && len(names) > 0 && !d.IsWhole(names):
		return a.detachNodes(hurry, names, nil, noDrain)
	case d != nil && len(names) > 0 && len(followed(d, names)) > 0:
		return a.detachNodes(hurry, names, followed(d, names), noDrain)
	case d == nil:
		return a.detachRest(hurry)
	}
	ag, err := a.takeOver(ctx, d)
	if errors.Is(err, domain.ErrNotAttached) {
		return a.detachRest(hurry)
	}
	if err != nil {
		// Without counting: what is broken must still be removable.
		fmt.Fprintf(a.stderr, "radar: warning: detaching without a summary: %v\n", err)
		return a.detachRest(hurry)
	}
	defer ag.Close()
	a.showNames(d)
	summary, err := ag.Finish(hurry, agent.FinishOptions{NoDrain: noDrain, Progress: a.drainProgress()})
	view := &detachView{Domain: a.domain, Detached: true, Ended: err == nil,
		Nodes: summary.Nodes, Ports: summary.Ports, Summary: newSummaryView(summary, "")}
	return errors.Join(err, a.printDetached(view))
}

// takeOver ends the domain's agent, if it has one, and takes its place. Where
// another process is detaching already it waits for that one's end.
func (a *app) takeOver(ctx context.Context, d *domain.Domain) (*agent.Agent, error) {
	log := slog.New(newLineHandler(a.stderr))
	patience := time.Now().Add(d.Options.Timeout + handOverTime)
	for {
		running, err := agent.Find(a.domain)
		if err != nil {
			return nil, err
		}
		if running.PID != 0 {
			if err := running.Stop(ctx, handOverTime); err != nil {
				return nil, err
			}
		}
		ag, err := agent.Open(a.domain, log)
		if !errors.Is(err, agent.ErrRunning) || time.Now().After(patience) {
			return ag, err
		}
		if !wait(ctx, followEvery) {
			return nil, ctx.Err()
		}
	}
}

// detachNodes takes nodes out of a domain that goes on, with others or waiting for
// the containers that followed match.
func (a *app) detachNodes(ctx context.Context, names, followed []string, noDrain bool) error {
	result, err := datapath.Detach(ctx, datapath.DetachRequest{
		Domain: a.domain, Nodes: names, Keep: len(followed) > 0, NoDrain: noDrain, Progress: a.drainProgress(),
	})
	if err != nil {
		return err
	}
	return a.printDetached(&detachView{Domain: a.domain, Detached: true, Ended: result.Ended,
		Nodes: result.Nodes, Ports: result.Ports, VMs: result.VMs, Followed: followed, Warnings: rendered(result.Warnings)})
}

// followed returns what containers must match to join the domain when the named nodes
// are detached; none if nobody would join.
func followed(d *domain.Domain, names []string) []string {
	if !d.WatchContainers {
		return nil
	}
	return nodes.OfContainers(datapath.SelectorsWithout(d, names))
}

// detachRest removes whatever is left of a domain that cannot be read any more.
func (a *app) detachRest(ctx context.Context) error {
	result, err := datapath.Detach(ctx, datapath.DetachRequest{Domain: a.domain, NoDrain: true})
	if errors.Is(err, domain.ErrNotAttached) {
		return a.printDetached(&detachView{Domain: a.domain})
	}
	if err != nil {
		return err
	}
	return a.printDetached(&detachView{Domain: a.domain, Detached: true, Ended: result.Ended,
		Nodes: result.Nodes, Ports: result.Ports, Warnings: rendered(result.Warnings)})
}

// what says what was detached.
func (v *detachView) what() string {
	var parts []string
	if v.Nodes > 0 || v.VMs == 0 {
		parts = append(parts, plural(v.Nodes, "node")+" with "+plural(v.Ports, "port"))
	}
	if v.VMs > 0 {
		parts = append(parts, plural(v.VMs, "virtual machine"))
	}
	return strings.Join(parts, " and ")
}

func (a *app) printDetached(v *detachView) error {
	if a.output == formatJSON {
		return printJSON(a.out, v)
	}
	for _, text := range v.Warnings {
		fmt.Fprintf(a.stderr, "radar: warning: %s\n", text)
	}
	switch {
	case !v.Detached:
		_, err := fmt.Fprintf(a.out, "domain %s is not attached: nothing to do\n", v.Domain)
		return err
	case !v.Ended && len(v.Followed) > 0:
		_, err := fmt.Fprintf(a.out, "domain %s: %s detached; no node is left, it waits for containers that match %s (end it with: radar detach%s)\n",
			v.Domain, v.what(), strings.Join(v.Followed, " "), domainFlag(v.Domain))
		return err
	case !v.Ended && v.Summary == nil:
		_, err := fmt.Fprintf(a.out, "domain %s: %s detached, the others go on\n", v.Domain, v.what())
		return err
	}
	if _, err := fmt.Fprintf(a.out, "domain %s detached: %s, %s\n",
		v.Domain, plural(v.Nodes, "node"), plural(v.Ports, "port")); err != nil {
		return err
	}
	if v.Summary == nil {
		return nil
	}
	return a.printSummaryTable(v.Summary)
}
