// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/ask"
	"github.com/vnetradar/radar/pkg/cli/capture"
	"github.com/vnetradar/radar/pkg/cli/check"
	"github.com/vnetradar/radar/pkg/cli/collect"
	"github.com/vnetradar/radar/pkg/cli/domain"
	"github.com/vnetradar/radar/pkg/cli/dut"
	"github.com/vnetradar/radar/pkg/cli/export"
	"github.com/vnetradar/radar/pkg/cli/inband"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/cli/lab"
	"github.com/vnetradar/radar/pkg/cli/plot"
	"github.com/vnetradar/radar/pkg/cli/record"
	"github.com/vnetradar/radar/pkg/cli/serve"
	"github.com/vnetradar/radar/pkg/cli/sql"
	"github.com/vnetradar/radar/pkg/cli/verdict"
	"github.com/vnetradar/radar/pkg/fault"
)

const rootLong = `radar measures every packet of a virtual network: which path it took, where it
waited, and where and why it was lost. It attaches to the network namespaces of
one host (containers, "ip netns", VMs' taps), needs no change to them, and adds
no byte to any packet.

Every flag can also be set by an environment variable: --max-hops is
RADAR_MAX_HOPS. A flag on the command line wins. Lists are separated by commas.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the kernel lacks a feature or
the user a capability (see "radar check"), 4 the kernel refused the programs,
5 packets were lost ("radar loss --fail-if-lost"), 6 something held a flow ("radar
explain --exit-code").`

const rootExample = `  radar check                                  # can this machine do it?
  radar attach -d docker:web docker:db         # measure two containers
  radar attach -d netns:h1 netns:r1 netns:h2   # or three namespaces
  radar packets -f                             # packets as they end
  radar latency --by link                      # where time is spent
  radar loss                                   # where packets are lost, and why
  radar flows --sort rate                      # who talks to whom
  radar detach                                 # leave nothing behind`

// newRootCmd returns the whole command tree.
func newRootCmd(k *kit.Kit) *cobra.Command {
	root := &cobra.Command{
		Use:               "radar",
		Short:             "Per-packet measurement of virtual networks",
		Long:              rootLong,
		Example:           rootExample,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetIn(k.Stdin)
	root.SetOut(k.Stdout)
	root.SetErr(k.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&k.Domain, "domain", k.Domain, "name of the measurement domain")
	flags.VarP(&k.Output, "output", "o", "output format: table, wide, json, or csv where there are rows")
	flags.BoolVarP(&k.Verbose, "verbose", "v", false, "say more in errors (the whole verifier log)")
	_ = root.RegisterFlagCompletionFunc("domain", kit.CompleteDomains)
	kit.CompleteWith(root, "output", string(kit.FormatTable), string(kit.FormatWide), string(kit.FormatJSON), string(kit.FormatCSV))
	v := buildVersion()
	addCommands(root, k, v.Version)
	root.Version = v.Version
	root.SetVersionTemplate(v.text() + "\n")
	root.InitDefaultCompletionCmd("completion")
	root.SetHelpCommand(newHelpCmd())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return k.Prepare(cmd) }
	makeStrict(root)
	return root
}

// groups are the commands below the root, as help shows them: what each kind is for.
func groups(k *kit.Kit, version string) []group {
	inBand := inband.NewCmd(k)
	inBand.AddCommand(collect.NewMetricsCmd(k))
	return []group{
		{"Look: measure a network, and see what there is", []*cobra.Command{
			check.NewCmd(k), domain.NewAttachCmd(k), domain.NewDetachCmd(k), domain.NewStatusCmd(k), domain.NewTopoCmd(k), serve.NewCmd(k, version)}},
		{"Ask: which way packets went, where they waited, where and why they were lost", []*cobra.Command{
			ask.NewPacketsCmd(k), ask.NewTraceCmd(k), ask.NewPathsCmd(k), ask.NewLatencyCmd(k), ask.NewLossCmd(k), ask.NewFlowsCmd(k),
			ask.NewThroughputCmd(k), verdict.NewExplainCmd(k), sql.NewCmd(k, version), plot.NewCmd(k)}},
		{`Keep: packets for later and for other programs (which way: "radar help keeping")`, []*cobra.Command{
			record.NewCmd(k, version), capture.NewCmd(k), capture.NewWiresharkCmd(k), export.NewCmd(k, version)}},
		{"Test: hold a network, a run or a device against what it should be", []*cobra.Command{
			verdict.NewAssertCmd(k), verdict.NewDiffCmd(k), verdict.NewFidelityCmd(k), dut.NewCmd(k)}},
		{"INT: telemetry inside packets, of P4 switches and of Linux ports", []*cobra.Command{inBand, collect.NewCmd(k, version)}},
		{"Labs: networks to try it on", []*cobra.Command{lab.NewCmd(k)}},
	}
}

// group is commands of one kind.
type group struct {
	title    string
	commands []*cobra.Command
}

// addCommands adds those below the root, in groups.
func addCommands(root *cobra.Command, k *kit.Kit, version string) {
	for _, g := range groups(k, version) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(domain.NewAgentCmd(k), capture.NewExtcapCmd(k), newKeepingTopic(), newVersionCmd(k), newDocsCmd())
}

// newKeepingTopic is the text of "radar help keeping".
func newKeepingTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "keeping",
		Short: "Which way of keeping packets is for what",
		Long: `Which way of keeping packets is for what:

  WAY            KEEPS                                 HOW LONG                  COSTS
  the ring       the newest packets, with path,        until newer ones come,    memory, set at attach (--slots),
                 times and losses                      or detach                 and some time of each packet
  radar record   the same, of all packets or around    until files are removed   a process that reads the ring,
                 what happens (--on), as Parquet       (--keep-size, --keep-age) and disk
  radar capture  the header of each packet at every    as long as you keep the   a process that reads the ring, more
                 port, for Wireshark (pcapng); some    file; it grows            disk; payload takes time of packets
                 payload if asked for (--snaplen)                                at its ports
  radar export   what others keep: traces (OTLP),      as they do                a process that reads the ring, and
                 flows (IPFIX), INT reports                                      what it sends
  radar collect  what switches report (INT), beside    the newest (--keep), or   a process, its memory and some disk
                 the ring or without a domain          into databases

All questions can be asked of the ring and, with -r, of a recording. Before it is known what will go
wrong: radar attach --record DIR --on CONDITION keeps the seconds around it. docs/record.md has more.`,
	}
}

// newHelpCmd replaces cobra's own, which takes an unknown command for success.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return fault.Usage.Errorf("no help for unknown command %q", strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// makeStrict turns every way of calling a command of the tree wrongly into a
// usage error, which cobra does for some of them only.
func makeStrict(cmd *cobra.Command) {
	groups := cmd.HasSubCommands() && !cmd.Runnable()
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// A flag of the command that was meant is none of the group's.
		if unknown := unknownCommand(cmd, cmd.Flags().Args()); groups && unknown != nil {
			err = unknown
		}
		return fault.Usage.Errorf("%w", kit.FlagError(cmd, err))
	})
	if groups {
		cmd.Args = unknownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fault.Usage.Errorf("%w", err)
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		makeStrict(child)
	}
}

// unknownCommand refuses the arguments of a command that only groups others.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	text, all := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath()), ": there are "
	if near := append(cmd.SuggestionsFor(args[0]), fault.Nearest(args[0], names)); near[0] != "" {
		text, all = text+fmt.Sprintf(", did you mean %q?", near[0]), " There are "
	}
	if cmd.HasParent() { // those of the root are too many for a line
		text += all + strings.Join(names, ", ")
	}
	return errors.New(text)
}
