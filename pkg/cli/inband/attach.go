// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/node/agent"
)

const attachLong = `Make ports of Linux namespaces speak INT: virtual switches, routers and hosts, without P4.

Each call gives one role to the ports and nodes that it names. Calls add up.

  source NODE/PORT    hosts are behind the port: packets that come in there and match --watch
                      get INT when they leave by a transit port
  sink NODE/PORT      hosts are behind the port: INT is taken from what leaves there, and a
                      telemetry report goes to the collector
  source,sink         both: the usual role of a port with hosts behind it
  transit NODE/PORT   another INT node is behind the port: packets with INT get this node's
                      metadata as they leave
  transit NODE        the same for all its ports that are up and have no other role
  source NODE         the node itself is the host: its own packets get INT
  sink NODE           the node itself is the host: INT is taken from packets for it (as with source)

A transit port behind which somebody is no INT node, as far as this machine shows, takes INT off
and gives none, until all are: hosts never get packets with INT.

NODE is the name of a node that is attached, by this command or by "radar attach", or what
"radar attach" takes: docker:NAME, netns:NAME, pid:N, with "name=" in front for another name.

Attach sinks first: a source without a sink elsewhere is refused, because hosts would get
packets with INT. --sink-elsewhere says that another INT node, such as a P4 switch, takes it off.

--watch, --mode, --instructions, --hops, --sample, --domain-id, --mark, --collector, --report,
--quote and --lease hold for the whole domain; a later call changes those that it names, but
for --mark. --node-id, --foreign, --congested-at, --mtu and --no-gso are those of the nodes and
ports that the call names.

A packet that would be longer than the MTU passes unmarked, and so does a train of packets in one
buffer (GSO). "radar int status" counts both. --no-gso switches segmentation and checksum
offloads off at the ports, and at the other ends of veths; "radar int detach" switches them on
again.

An agent in the background renews the lease and sends the reports. If it was killed, sources
stop when the lease ends, sinks go on, and "radar int attach" or "radar int status" starts
another one.`

const attachExample = `  radar int attach --role source,sink netns:r1/eth0 netns:r3/eth1   # hosts are behind these
  radar int attach --role transit r1 r3 netns:r2                    # and INT nodes behind all others
  radar int attach --role source,sink --mode xd netns:r1/eth0       # postcards: packets stay as they are
  radar int attach --role sink netns:h2                             # the hosts themselves
  radar int attach --role source --watch 'udp port 5001' netns:h1
  radar int attach --sample 100 --instructions node-id,hop-latency  # of what is attached
  radar int attach --role transit --no-gso --mtu 1600 r2/eth1`

// attachOptions are the flags of "radar int attach".
type attachOptions struct {
	role         string
	nodeID       uint32
	domainID     uint16
	mode         string
	instructions string
	hops         uint8
	sample       kit.Count
	watch        string
	mark         string
	collector    string
	report       string
	quote        int
	congestedAt  uint32
	mtu          int
	noGSO        bool
	foreign      string
	lease        time.Duration
	via          string
	hook         string
	elsewhere    bool
}

var roles = []cobra.Completion{"source", "sink", "source,sink", "transit"}

func newAttachCmd(k *kit.Kit) *cobra.Command {
	f := &attachOptions{}
	cmd := &cobra.Command{
		Use:               "attach --role ROLE NODE[/PORT]...",
		Short:             "Make ports speak INT: sources, transits and sinks",
		Long:              attachLong,
		Example:           attachExample,
		ValidArgsFunction: completeTargets(k),
		RunE:              func(cmd *cobra.Command, args []string) error { return attach(k, cmd, f, args) },
	}
	f.register(cmd)
	return cmd
}

func (f *attachOptions) register(cmd *cobra.Command) {
	d, flags := node.DefaultOptions(), cmd.Flags()
	e := d.Entries[0]
	f.sample = kit.Count(e.Sample)
	flags.StringVar(&f.role, "role", "", "what the ports and nodes are: source, sink, source,sink or transit")
	flags.Uint32Var(&f.nodeID, "node-id", 0, "the node's id in INT (default: the smallest that is free)")
	flags.Uint16Var(&f.domainID, "domain-id", 0, "domain specific id that sources write (INT 2.1)")
	flags.StringVar(&f.mode, "mode", e.Mode.String(), "md and md1.0 (metadata in the packet, INT 2.1 and 1.0), mx (instructions in the packet, each node reports) or xd (nothing in the packet, each node reports)")
	flags.StringVar(&f.instructions, "instructions", node.InstructionText(e.Instructions), "metadata to ask for: names of "+strings.Join(node.InstructionNames(), ", ")+", or a bitmap such as 0xfc00")
	flags.Uint8Var(&f.hops, "hops", e.Hops, "nodes that may add metadata, the source among them (md)")
	flags.Var(&f.sample, "sample", "one packet in N; with xd by a hash, so that all nodes choose the same")
	flags.StringVar(&f.watch, "watch", "", "give INT only to packets that match this filter expression, in tcpdump's language (default: all TCP and UDP)")
	flags.StringVar(&f.mark, "mark", d.Mark.String(), "what marks packets that bear INT: dscp=VALUE/MASK, or port=N of UDP")
	flags.StringVar(&f.collector, "collector", "127.0.0.1:32766", "HOST:PORT that telemetry reports go to")
	flags.StringVar(&f.report, "report", d.Report, "version of telemetry reports: 2.0 or 1.0")
	flags.IntVar(&f.quote, "quote", d.Quote, "bytes of a packet behind its headers that a report quotes")
	flags.Uint32Var(&f.congestedAt, "congested-at", 0, "report packets that find so many others in the ports' queues; 0: none")
	flags.IntVar(&f.mtu, "mtu", 0, "longest IP packet that may leave the ports, in bytes (default: the interface's MTU)")
	flags.BoolVar(&f.noGSO, "no-gso", false, "switch segmentation and checksum offloads off at the ports, so that there are no trains of packets")
	flags.StringVar(&f.foreign, "foreign", "pass", "what becomes of packets that come with INT from outside: pass (under a cover, so that no node adds to it) or drop")
	flags.DurationVar(&f.lease, "lease", d.Lease, "sources stop this long after the agent's end; 0: never")
	flags.StringVar(&f.via, "via", "", "NODE that reports are sent from (default: the namespace of this command)")
	flags.StringVar(&f.hook, "hook", loader.HookAuto, "how programs are attached: auto, tcx or clsact")
	_ = flags.MarkHidden("hook") // for tests (docs/kernels.md)
	flags.BoolVar(&f.elsewhere, "sink-elsewhere", false, "INT nodes that are not of this domain take INT off")
	kit.CompleteWith(cmd, "role", roles...)
	kit.CompleteWith(cmd, "mode", node.Modes[:4]...)
	kit.CompleteWith(cmd, "report", node.Report20, node.Report10)
	kit.CompleteWith(cmd, "foreign", "pass", "drop")
	kit.CompleteWith(cmd, "mark", "dscp=0x17/0x3f", "port=5000")
	kit.CompleteWith(cmd, "hook", loader.HookAuto, hook.ByTCX, hook.ByClsact)
	kit.CompleteFlag(cmd, "instructions", completeInstructions)
}

// completeInstructions completes the last of the names with commas between them.
func completeInstructions(_ *cobra.Command, _ []string, word string) (choices []cobra.Completion, _ cobra.ShellCompDirective) {
	before := word[:strings.LastIndexByte(word, ',')+1]
	for _, name := range node.InstructionNames() {
		if !slices.Contains(strings.Split(before, ","), name) {
			choices = append(choices, before+name)
		}
	}
	return choices, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func attach(k *kit.Kit, cmd *cobra.Command, f *attachOptions, args []string) error {
	ctx := cmd.Context()
	req, err := f.request(k, cmd, args)
	if err != nil {
		return err
	}
	view := &attachView{Domain: k.Domain}
	if len(req.Targets) > 0 || req.Options != nil || req.Via != nil {
		result, err := node.Attach(ctx, req)
		if err != nil {
			return err
		}
		view.New, view.Warnings = result.New, kit.Rendered(result.Warnings)
	}
	started, err := agent.Ensure(k.Domain)
	if err != nil {
		if view.New { // without an agent the lease ends in a moment: leave nothing behind
			_, undo := node.Detach(context.WithoutCancel(ctx), node.DetachRequest{Domain: k.Domain})
			return fmt.Errorf("%w%s", err, undone(undo))
		}
		return err
	}
	d, err := node.Load(k.Domain)
	if err != nil {
		return err
	}
	if sender, err := d.Dial(); err != nil {
		view.Warnings = append(view.Warnings, fmt.Sprintf("no report can be sent now: %v", err))
	} else {
		sender.Close()
	}
	view.Agent = &started
	view.describe(d)
	return printAttached(k, view)
}

func undone(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (and taking off what was attached: %v)", err)
}

// request is what the command line asks for.
func (f *attachOptions) request(k *kit.Kit, cmd *cobra.Command, args []string) (req node.Request, err error) {
	req = node.Request{Domain: k.Domain, Hook: f.hook}
	if req.Roles, err = parseRole(f.role); err != nil {
		return req, err
	}
	_, missing := node.Load(k.Domain)
	switch {
	case len(args) > 0 && req.Roles == 0:
		return req, fault.Usage.Errorf("what are they? --role source, sink, source,sink or transit")
	case len(args) == 0 && req.Roles != 0, len(args) == 0 && missing != nil:
		return req, fault.Usage.Errorf("no node named: name nodes or ports (r1/eth0, docker:NAME, netns:NAME/PORT)")
	case f.foreign != "pass" && f.foreign != "drop":
		return req, fault.Usage.Errorf("--foreign %q: use pass or drop", f.foreign)
	case f.mtu != 0 && f.mtu < 68:
		return req, fault.Usage.Errorf("--mtu %d: use 68 or more", f.mtu)
	case f.hook != loader.HookAuto && f.hook != hook.ByTCX && f.hook != hook.ByClsact:
		return req, fault.Usage.Errorf("--hook %q: use auto, tcx or clsact", f.hook)
	}
	given := cmd.Flags().Changed
	if err := f.settings(&req.Settings, given); err != nil {
		return req, err
	}
	r := newResolver(k, cmd.Context())
	if req.Targets, err = r.targets(args); err != nil {
		return req, err
	}
	if f.via != "" {
		places, err := r.nodes(f.via)
		if err != nil {
			return req, err
		}
		if len(places) != 1 {
			return req, fault.Usage.Errorf("--via %s: that is %d nodes, reports are sent from one", f.via, len(places))
		}
		req.Via = &places[0]
	}
	change, err := f.options(cmd.Context(), given, missing != nil)
	if err != nil {
		return req, err
	}
	req.Options = change
	return req, nil
}

func parseRole(text string) (r node.Flags, err error) {
	if text == "" {
		return 0, nil
	}
	for _, word := range strings.Split(text, ",") {
		flag := map[string]node.Flags{"source": node.Source, "sink": node.Sink, "transit": node.Inside}[strings.TrimSpace(word)]
		if flag == 0 {
			return 0, fault.Usage.Errorf("--role %q: use source, sink, source,sink or transit", text)
		}
		r |= flag
	}
	if r&node.Inside != 0 && r != node.Inside {
		return 0, fault.Usage.Errorf("--role %q: behind a port is another INT node (transit), or a host (source, sink)", text)
	}
	return r, nil
}

// settings are those of the named nodes and ports.
func (f *attachOptions) settings(s *node.Settings, given func(string) bool) error {
	if given("node-id") {
		if f.nodeID == 0 || f.nodeID == 0xffffffff {
			return fault.Usage.Errorf("--node-id %d: use 1 to 4294967294", f.nodeID)
		}
		s.ID = &f.nodeID
	}
	if given("foreign") {
		drop := f.foreign == "drop"
		s.DropForeign = &drop
	}
	if given("congested-at") {
		s.CongestedAt = &f.congestedAt
	}
	if given("mtu") {
		s.MTU = &f.mtu
	}
	if given("no-gso") {
		s.NoGSO = &f.noGSO
	}
	return nil
}

// domainFlags are those that hold for the whole domain.
var domainFlags = []string{"domain-id", "mode", "instructions", "hops", "sample", "watch", "mark", "collector", "report", "quote", "lease", "sink-elsewhere"}

// options returns what changes those of the domain; nil: nothing does.
func (f *attachOptions) options(ctx context.Context, given func(string) bool, isNew bool) (func(*node.Options) error, error) {
	if !isNew && !slices.ContainsFunc(domainFlags, given) {
		return nil, nil
	}
	var changes []func(*node.Options)
	change := func(flag string, do func(*node.Options)) {
		if given(flag) {
			changes = append(changes, do)
		}
	}
	if err := f.entry(change); err != nil {
		return nil, err
	}
	mark, err := node.ParseMark(f.mark)
	if err != nil {
		return nil, err
	}
	change("mark", func(o *node.Options) { o.Mark = mark })
	if isNew || given("collector") {
		to, err := kit.ResolveCollector(ctx, f.collector)
		if err != nil {
			return nil, err
		}
		changes = append(changes, func(o *node.Options) { o.Collector, o.Address = f.collector, to })
	}
	change("report", func(o *node.Options) { o.Report = f.report })
	change("quote", func(o *node.Options) { o.Quote = f.quote })
	change("lease", func(o *node.Options) { o.Lease = f.lease })
	change("sink-elsewhere", func(o *node.Options) { o.SinkElsewhere = f.elsewhere })
	return func(o *node.Options) error {
		if len(o.Entries) != 1 && slices.ContainsFunc(domainFlags[:6], given) {
			return fault.Usage.Errorf("the watchlist has %d entries: --watch and others change one", len(o.Entries))
		}
		for _, do := range changes {
			do(o)
		}
		return nil
	}, nil
}

// entry changes the one of the watchlist.
func (f *attachOptions) entry(change func(flag string, do func(*node.Options))) error {
	mode, err := node.ParseMode(f.mode)
	if err != nil {
		return err
	}
	bitmap, err := node.ParseInstructions(f.instructions)
	if err != nil {
		return err
	}
	if f.sample == 0 || f.sample > 1<<31 {
		return fault.Usage.Errorf("--sample %v: use 1 to 2147483648", &f.sample)
	}
	var program []bpf.RawInstruction
	text := strings.TrimSpace(f.watch)
	if text != "" {
		e, err := filter.Compile(text)
		if err != nil {
			return fault.Usage.Errorf("--watch: %w", err)
		}
		if mode != node.None && !e.MatchesTCPOrUDP() {
			return fault.Usage.Errorf("--watch %q: INT is put into TCP and UDP, and no packet of these matches: use an expression such as 'udp port 5001' (radar attach --watch %q measures all of IP, ping too)", text, text)
		}
		text, program = e.String(), e.Instructions()
	}
	change("mode", func(o *node.Options) { o.Entries[0].Mode = mode })
	change("instructions", func(o *node.Options) { o.Entries[0].Instructions = bitmap })
	change("hops", func(o *node.Options) { o.Entries[0].Hops = f.hops })
	change("sample", func(o *node.Options) { o.Entries[0].Sample = uint32(f.sample) })
	change("domain-id", func(o *node.Options) { o.Entries[0].Domain = f.domainID })
	change("watch", func(o *node.Options) { o.Entries[0].Expr, o.Entries[0].Program = text, program })
	return nil
}
