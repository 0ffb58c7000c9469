// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

const attachLong = `Attach to network namespaces and measure every packet that passes between them.

NODE is one of:
  docker:NAME           a container, by name or id
  docker:label=KEY      all containers with that label; also label=KEY=VALUE
  kathara:NAME          a machine of a Kathará lab; kathara:LAB/NAME, with the
                        lab's hash, if several labs have a machine of that name
  netns:NAME            a namespace as "ip netns" knows it; also netns:/path
  netns:host            this machine's own namespace, with its real interfaces
  pid:N                 the namespace of a process

"name=" in front of a NODE that stands for one gives it another name: web=pid:4711.
--docker, --lab and --all-netns attach many under the names that they have. What
two of these find is attached once, under the name that you gave it.

With --watch-containers, containers that start later and match a NODE or flag that
the domain was attached with join, by this command or another one, and a container
that is restarted comes back under its name. None need run yet then.

Nodes that hang on a Linux bridge (containers on docker0) are connected by it:
radar attaches to the bridge and to its members that lead elsewhere, and shows
them as ports, "found", of the node that the bridge is in: host, or its name.

Without -d radar stays in the foreground; Ctrl-C stops marking, waits for the
packets under way, detaches and prints a summary. A second Ctrl-C does not wait.
With -d it returns when everything is attached and an agent runs in the
background; "radar detach" ends it.

With --watch only packets that match are measured, each asked once, where it enters
the domain. A domain keeps its expression (docs/filters.md).

If the domain is attached already, more nodes join it. If its agent was killed,
attach (with or without nodes) takes over: traffic was not harmed, and what the
ring still holds is not lost.`

const attachExample = `  radar attach docker:web docker:db             # until Ctrl-C
  radar attach -d --docker --watch-containers   # all containers, in the background
  radar attach --lab .                          # the lab started from this folder
  radar attach netns:h1 netns:r1 netns:h2
  radar attach netns:h3                         # one more node
  radar attach -d --docker --watch 'tcp port 443 or icmp'
  radar attach --dry-run web=pid:4711 netns:r1  # topology, roles and memory only
  radar attach --role r1/eth2=edge netns:r1 netns:r2`

// attachFlags are the flags of "radar attach".
type attachFlags struct {
	options   datapath.Options
	slots     count
	keys      count
	roles     []string
	names     nameFlags
	dryRun    bool
	daemon    bool
	readyFile string
	extend    bool // the domain exists: its options hold
}

func newAttachCmd(a *app) *cobra.Command {
	f := &attachFlags{options: datapath.DefaultOptions()}
	cmd := &cobra.Command{
		Use:     "attach [NODE...]",
		Short:   "Attach to containers, labs and network namespaces, and measure",
		Long:    attachLong,
		Example: attachExample,

		ValidArgsFunction: completeSelectors,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.attach(cmd.Context(), f, args, cmd.Flags())
		},
	}
	f.register(cmd.Flags())
	f.names.register(cmd)
	completeWith(cmd, "carry", "mark", "header")
	completeWith(cmd, "hook", datapath.HookAuto, datapath.HookTCX, datapath.HookClsact)
	completeWith(cmd, "guid-bits", "auto", "paper")
	return cmd
}

func (f *attachFlags) register(flags *pflag.FlagSet) {
	o := &f.options
	f.slots, f.keys = count(o.Slots), count(o.Keys)
	flags.Var(&f.slots, "slots", "packets in flight or remembered, a power of two (1048576, 1M, 2^20)")
	flags.StringVar(&o.GUIDBits, "guid-bits", o.GUIDBits, "header bits to use: auto, a number of bits, or paper (the layout of the vNetRadar paper)")
	flags.StringVar(&o.Carry, "carry", o.Carry, "where a packet's number is kept inside a node: mark, mark=0xMASK, or header")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "a packet not seen for so long has expired")
	flags.DurationVar(&o.Lease, "lease", o.Lease, "marking stops this long after the agent's end; 0: never")
	flags.IntVar(&o.MaxHops, "max-hops", o.MaxHops, "nodes on a path, both ends included, that a record has room for; what does not fit is counted (event_full), and the record says truncated")
	flags.Var(&f.keys, "keys", "packets in flight at once whose header must not change (DF clear, fragments)")
	flags.StringVar(&o.Hook, "hook", o.Hook, "how programs are attached: auto, tcx or clsact")
	flags.StringVar(&o.Watch, "watch", "", "measure only packets that match this filter expression, in tcpdump's language (pcap-filter(7)); all others pass and are counted as not_measured_watch")
	flags.StringSliceVar(&f.roles, "role", nil, "NODE/PORT=internal or NODE/PORT=edge: role of a port, instead of the one found (repeatable)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show topology, roles and memory; change nothing")
	flags.BoolVarP(&f.daemon, "daemon", "d", false, "run in the background; return when everything is attached")
	flags.StringVar(&f.readyFile, "ready-file", "", "create this file when everything is attached")
	_ = flags.MarkHidden("ready-file")
}

// attach is the command: plan only, or attach and then be the agent, start one,
// or leave the work to the one that runs.
func (a *app) attach(ctx context.Context, f *attachFlags, args []string, flags *pflag.FlagSet) error {
	existing, missing := domain.Load(a.domain)
	if missing != nil && !errors.Is(missing, domain.ErrNotAttached) {
		return missing
	}
	if existing != nil {
		if err := f.matchDomain(existing, flags); err != nil {
			return err
		}
	}
	req, err := f.request(a.domain)
	if err != nil {
		return err
	}
	found, err := f.names.find(ctx, a.domain, existing, args, flags)
	if err != nil {
		return err
	}
	found.ask(&req)
	if existing == nil && len(req.Nodes) == 0 && (!f.names.waits(found) || errors.Is(missing, domain.ErrHalfAttached)) {
		if errors.Is(missing, domain.ErrHalfAttached) {
			return missing
		}
		return a.nothingNamed(ctx, found)
	}
	if f.dryRun {
		return a.attachPlan(ctx, req, found.notes)
	}
	running, err := agent.Find(a.domain)
	if err != nil {
		return err
	}
	if req.Empty() && running.PID != 0 {
		return fmt.Errorf("domain %q is attached and its agent (process %d) runs: name nodes to add, or detach it first with: radar detach%s", a.domain, running.PID, domainFlag(a.domain))
	}
	return a.attachAndRun(ctx, f, req, found.notes, running)
}

// request turns flags into what datapath is asked for, except the nodes.
func (f *attachFlags) request(name string) (datapath.AttachRequest, error) {
	req := datapath.AttachRequest{Domain: name, Options: &f.options}
	f.options.Slots, f.options.Keys = uint32(f.slots), uint32(f.keys)
	if _, err := f.options.Layout(); err != nil {
		return req, err
	}
	if f.options.Watch != "" {
		if err := compileWatch(&f.options); err != nil {
			return req, err
		}
	}
	if f.extend {
		req.Options = nil
	}
	for _, arg := range f.roles {
		role, err := topo.ParseRole(arg)
		if err != nil {
			return req, err
		}
		req.Roles = append(req.Roles, role)
	}
	return req, nil
}

// matchDomain takes the options that were not given from the domain that is
// attached, and refuses those that were given and differ.
func (f *attachFlags) matchDomain(d *domain.Domain, flags *pflag.FlagSet) error {
	f.extend = true
	have, o := d.Options, &f.options
	given := flags.Changed
	if !given("slots") {
		f.slots = count(have.Slots)
	}
	if !given("guid-bits") {
		o.GUIDBits = have.GUIDBits
	}
	if !given("carry") {
		o.Carry = carryText(have.Carry, have.MarkMask)
	}
	if !given("timeout") {
		o.Timeout = have.Timeout
	}
	if !given("keys") {
		f.keys = count(have.Keys)
	}
	o.Slots, o.Keys, o.MinAge = uint32(f.slots), uint32(f.keys), have.MinAge
	same := func(flag string, is, want any) error {
		if !given(flag) || is == want {
			return nil
		}
		return usagef("domain %q is attached with --%s %v, not %v: leave the flag out, or detach first", d.Name, flag, is, want)
	}
	hook := o.Hook
	if hook == datapath.HookAuto {
		hook = have.Hook
	}
	if err := cmp.Or(
		same("slots", have.Slots, o.Slots),
		same("guid-bits", have.GUIDBits, o.GUIDBits),
		same("timeout", have.Timeout, o.Timeout),
		same("lease", have.Lease, o.Lease),
		same("keys", have.Keys, o.Keys),
		same("hook", have.Hook, hook),
		sameWatch(d, strings.TrimSpace(o.Watch), given("watch")),
	); err != nil {
		return err
	}
	layout, err := o.Layout()
	if err != nil {
		return err
	}
	return cmp.Or(
		same("carry", carryText(have.Carry, have.MarkMask), carryText(o.Carry, layout.MarkMask)),
		same("max-hops", slotText(have.SlotBytes), slotText(layout.SlotBytes)),
	)
}

// sameWatch refuses a filter expression that is not the domain's.
func sameWatch(d *domain.Domain, want string, given bool) error {
	text := func(expr string) string {
		if expr == "" {
			return "without --watch"
		}
		return "with --watch " + strconv.Quote(expr)
	}
	if !given || d.Options.Watch == want {
		return nil
	}
	return usagef("domain %q is attached %s, not %s: leave the flag out, or detach first", d.Name, text(d.Options.Watch), text(want))
}

// carryText is --carry with the mask written out.
func carryText(carry string, mask uint32) string {
	if mask == 0 {
		return carry
	}
	return fmt.Sprintf("mark=0x%08x", mask)
}

// slotText says what --max-hops comes to.
func slotText(bytes uint32) string { return fmt.Sprintf("(slots of %d bytes)", bytes) }
