// SPDX-License-Identifier: Apache-2.0

// Package domain has the commands that make, show and end a measurement domain: attach, detach,
// status, topo, and the agent.
package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
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

NODE,NODE names several; the kind need not stand twice: netns:h1,r1,docker:web.
"name=" in front of a NODE that stands for one gives it another name: web=pid:4711.
--docker, --lab and --all-netns attach many under the names that they have. What
two of these find is attached once, under the name that you gave it.

With --watch-containers, containers that start later and match a NODE or flag that
the domain was attached with join, by this command or another one, and a container
that is restarted comes back under its name. None need run yet then.

Nodes that hang on a Linux bridge (containers on docker0) are connected by it:
radar attaches to the bridge and to its members that lead elsewhere, and shows
them as ports, "found", of the node that the bridge is in: host, or its name.

A virtual machine, or a switch in user space, that has taps of nodes open is followed
through with --vm: it becomes a node, what goes into it by one tap is found again as it
comes out by another, and what does not come out is counted as NOT_SEEN by "radar loss".
It gets to see true headers only. Name the addresses that it owns: what is sent to them
is delivered, not missing. Without --vm its taps are edges.

Without -d radar stays in the foreground; Ctrl-C stops marking, waits for the
packets under way, detaches and prints a summary. A second Ctrl-C does not wait.
With -d it returns when everything is attached and an agent runs in the
background; "radar detach" ends it.

Inside a node a packet's number stands in bits of skb->mark that no rule of any node
uses (--carry auto). A node whose rules use all of them, or set the mark as a whole,
keeps its marks: the number stays in the header there, where rules then see rewritten
TTL, DSCP and IP ID. --carry-header names more such nodes.

With --record all packets are kept in a directory, from the first one on, until the
domain is detached; with --on those around moments at which a condition is met. radar
record does that at any other time, and has more settings.

With --watch only packets that match are measured, each asked once, where it enters
the domain. A domain keeps its expression (docs/filters.md).

If the domain is attached already, more nodes join it. If its agent was killed,
"radar attach -d" (with or without nodes) starts another one: traffic was not
harmed, and what the ring still holds is not lost. Without -d this process takes
over, and detaches when it ends.`

const attachExample = `  radar attach docker:web docker:db             # until Ctrl-C
  radar attach -d --docker --watch-containers   # all containers, in the background
  radar attach --lab .                          # the lab started from this folder
  radar attach netns:h1 netns:r1 netns:h2
  radar attach netns:h3                         # one more node
  radar attach -d --lab . --record run1         # and later: radar latency -r run1
  radar attach -d --docker --watch 'tcp port 443 or icmp'
  radar attach --dry-run web=pid:4711 netns:r1  # topology, roles and memory only
  radar attach --vm r=host1/tap0,host1/tap1,10.0.1.1,10.0.2.1 netns:h1 netns:host1 netns:h2
  radar attach --role r1/eth2=edge netns:r1 netns:r2
  radar attach --carry-header r2 netns:r1 netns:r2 netns:r3`

// attachOptions are the flags of "radar attach".
type attachOptions struct {
	options     program.Options
	slots       kit.Count
	keys        kit.Count
	roles       []string
	carryHeader []string
	vms         []string
	names       nameFlags
	dryRun      bool
	daemon      bool
	record      string // directory
	on          []string
	readyFile   string
	extend      bool // the domain exists: its options hold
}

// NewAttachCmd returns "radar attach".
func NewAttachCmd(k *kit.Kit) *cobra.Command {
	f := &attachOptions{options: program.DefaultOptions()}
	cmd := &cobra.Command{
		Use:     "attach [NODE...]",
		Short:   "Attach to containers, labs and network namespaces, and measure",
		Long:    attachLong,
		Example: attachExample,

		ValidArgsFunction: completeSelectors,
		RunE: func(cmd *cobra.Command, args []string) error {
			return attach(k, cmd.Context(), f, args, cmd.Flags())
		},
	}
	f.register(cmd.Flags())
	f.names.register(cmd)
	kit.CompleteWith(cmd, "carry", program.CarryAuto, program.CarryMark, program.CarryHeader)
	completeHere(k, cmd, f)
	kit.CompleteWith(cmd, "hook", program.HookAuto, program.HookTCX, program.HookClsact)
	kit.CompleteWith(cmd, "guid-bits", "auto", "paper")
	_ = cmd.MarkFlagDirname("record")
	kit.CompleteWith(cmd, "ipv6", program.IPv6Auto, program.IPv6Label, program.IPv6Key, program.IPv6Off)
	return cmd
}

func (f *attachOptions) register(flags *pflag.FlagSet) {
	o := &f.options
	f.slots, f.keys = kit.Count(o.Slots), kit.Count(o.Keys)
	flags.Var(&f.slots, "slots", "packets in flight or remembered, a power of two (1048576, 1M, 2^20); without it 1M, or fewer where the ring would take more than a tenth of the machine's memory")
	flags.Lookup("slots").DefValue = "" // it depends on the machine
	flags.StringVar(&o.GUIDBits, "guid-bits", o.GUIDBits, "header bits to use: auto, a number of bits, or paper (the layout of the vNetRadar paper)")
	flags.StringVar(&o.Carry, "carry", o.Carry, "where a packet's number is kept inside a node: auto (bits of skb->mark that no rule uses; the header in nodes whose rules leave none), mark or mark=0xMASK (these bits in all nodes), or header")
	flags.StringSliceVar(&f.carryHeader, "carry-header", nil, "NODE[,NODE...]: nodes that keep it in the header whatever their rules (repeatable)")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "a packet not seen for so long has expired")
	flags.DurationVar(&o.Lease, "lease", o.Lease, "marking stops this long after the agent's end; 0: never")
	flags.IntVar(&o.MaxHops, "max-hops", o.MaxHops, "nodes on a path, both ends included, that a record has room for (docs/limits.md); 0: as many as the longest path between two nodes has, at least 10")
	flags.Var(&f.keys, "keys", "packets in flight at once whose header must not change (DF clear, fragments, IPv6 by key)")
	flags.StringVar(&o.Hook, "hook", o.Hook, "how programs are attached: auto, tcx or clsact")
	flags.StringVar(&o.IPv6, "ipv6", o.IPv6, "how IPv6 packets carry their number: label (in hop limit and flow label), key (found by key, no bit changed), off (not measured), or auto (label unless a queue, RPS or routing hashes on the label; loaded when a node has IPv6)")
	flags.StringVar(&o.Watch, "watch", "", "measure only packets that match this filter expression, in tcpdump's language (pcap-filter(7)); all others pass and are counted as not_measured_watch")
	flags.StringSliceVar(&f.roles, "role", nil, "NODE/PORT=internal or NODE/PORT=edge: role of a port, instead of the one found (repeatable)")
	flags.StringArrayVar(&f.vms, "vm", nil, "NAME=NODE/PORT,...[,ADDRESS,...]: a virtual machine behind ports of nodes, with the addresses that it owns (repeatable)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show topology, roles and memory; change nothing")
	flags.BoolVarP(&f.daemon, "daemon", "d", false, "run in the background; return when everything is attached")
	flags.StringVar(&f.record, "record", "", "keep all packets in a directory, by a process in the background that ends with the domain (radar record)")
	flags.StringArrayVar(&f.on, "on", nil, "with --record, keep packets only around moments at which this CONDITION is met (repeatable; radar record)")
	flags.StringVar(&f.readyFile, "ready-file", "", "create this file when everything is attached")
	for _, name := range []string{"ready-file", "hook", "guid-bits"} { // for tests, and to compare with other layouts and hooks (docs/kernels.md)
		_ = flags.MarkHidden(name)
	}
}

// attach is the command: plan only, or attach and then be the agent, start one,
// or leave the work to the one that runs.
func attach(k *kit.Kit, ctx context.Context, f *attachOptions, args []string, flags *pflag.FlagSet) error {
	existing, missing := domain.Load(k.Domain)
	if missing != nil && !errors.Is(missing, domain.ErrNotAttached) {
		return missing
	}
	if existing != nil {
		if err := f.matchDomain(existing, flags); err != nil {
			return err
		}
	}
	req, err := f.request(k.Domain)
	if err != nil {
		return err
	}
	found, err := f.names.find(ctx, k.Domain, existing, args, flags)
	if err != nil {
		return err
	}
	found.ask(&req)
	if existing == nil && len(req.Nodes) == 0 && (!f.names.waits(found) || errors.Is(missing, domain.ErrHalfAttached)) {
		if errors.Is(missing, domain.ErrHalfAttached) {
			return missing
		}
		return nothingNamed(k, ctx, found)
	}
	if f.dryRun {
		return attachPlan(k, ctx, req, found.notes)
	}
	running, err := agent.Find(k.Domain)
	if err != nil {
		return err
	}
	if req.Empty() && running.PID != 0 && f.record == "" {
		return fmt.Errorf("domain %q is attached and its agent (process %d) runs: name nodes to add, or detach it first with: radar detach%s", k.Domain, running.PID, kit.DomainFlag(k.Domain))
	}
	return attachAndRun(k, ctx, f, req, found.notes, running)
}

// request turns flags into what datapath is asked for, except the nodes.
func (f *attachOptions) request(name string) (datapath.AttachRequest, error) {
	req := datapath.AttachRequest{Domain: name, Options: &f.options, CarryHeader: f.carryHeader}
	if len(f.on) > 0 && f.record == "" {
		return req, fault.Usage.Errorf("--on: only with --record")
	}
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
	for _, arg := range f.vms {
		vm, err := topo.ParseVM(arg)
		if err != nil {
			return req, err
		}
		req.VMs = append(req.VMs, vm)
	}
	return req, nil
}

// matchDomain takes the options that were not given from the domain that is
// attached, and refuses those that were given and differ.
func (f *attachOptions) matchDomain(d *domain.Domain, flags *pflag.FlagSet) error {
	f.extend = true
	have, o := d.Options, &f.options
	given := flags.Changed
	f.takeOptions(&have, given)
	same := func(flag string, is, want any) error {
		if !given(flag) || is == want {
			return nil
		}
		return fault.Usage.Errorf("domain %q is attached with --%s %v, not %v: leave the flag out, or detach first", d.Name, flag, is, want)
	}
	hook := o.Hook
	if hook == program.HookAuto {
		hook = have.Hook
	}
	ipv6 := o.IPv6
	if ipv6 == program.IPv6Auto {
		ipv6 = have.IPv6
	}
	if err := cmp.Or(
		same("slots", have.Slots, o.Slots),
		same("guid-bits", have.GUIDBits, o.GUIDBits),
		same("timeout", have.Timeout, o.Timeout),
		same("lease", have.Lease, o.Lease),
		same("keys", have.Keys, o.Keys),
		same("hook", have.Hook, hook),
		same("ipv6", have.IPv6, ipv6),
		sameWatch(d, strings.TrimSpace(o.Watch), given("watch")),
	); err != nil {
		return err
	}
	layout, err := o.Layout()
	if err != nil {
		return err
	}
	slots := layout.SlotBytes
	if o.MaxHops == 0 { // of the domain's choice
		slots = have.SlotBytes
	}
	return cmp.Or(
		same("carry", carryText(have.Carry, have.MarkMask), carryText(o.Carry, layout.MarkMask)),
		same("max-hops", slotText(have.SlotBytes), slotText(slots)),
	)
}

// takeOptions takes those that were not given.
func (f *attachOptions) takeOptions(have *domain.Options, given func(flag string) bool) {
	o := &f.options
	if !given("slots") {
		f.slots = kit.Count(have.Slots)
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
	if !given("ipv6") {
		o.IPv6 = have.IPv6
	}
	if !given("keys") {
		f.keys = kit.Count(have.Keys)
	}
	o.Slots, o.Keys, o.MinAge = uint32(f.slots), uint32(f.keys), have.MinAge
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
	return fault.Usage.Errorf("domain %q is attached %s, not %s: leave the flag out, or detach first", d.Name, text(d.Options.Watch), text(want))
}

// carryText is --carry as a domain keeps it, with the mask that was given written out.
func carryText(carry string, mask uint32) string {
	if carry == program.CarryAuto {
		return carry
	}
	return status.CarriedIn(mask)
}

// slotText says what --max-hops comes to.
func slotText(bytes uint32) string { return fmt.Sprintf("(slots of %d bytes)", bytes) }
