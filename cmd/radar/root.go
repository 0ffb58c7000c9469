// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/domain"
)

// app carries what all commands share.
type app struct {
	stdin  io.Reader
	stdout io.Writer     // unbuffered: help, long-running commands
	out    *bufio.Writer // data; flushed when the command ends
	stderr io.Writer

	lookupEnv func(string) (string, bool)
	now       func() time.Time
	location  *time.Location // of the times in tables; JSON has UTC

	domain  string
	output  outputFormat
	verbose bool
	view    *view       // of a command that prints again and again
	shown   *shownNames // what tables call nodes and ports; nil: as the domain does
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	shown := &visible{w: stdout}
	return &app{
		stdin:     stdin,
		stdout:    shown,
		out:       bufio.NewWriter(shown),
		stderr:    &visible{w: stderr, messages: true},
		lookupEnv: os.LookupEnv,
		now:       time.Now,
		location:  time.Local,
		domain:    domain.DefaultName,
		output:    formatTable,
	}
}

const rootLong = `radar measures every packet of a virtual network: which way it went, where it
waited, and where and why it was lost. It attaches to the network namespaces of
one host (containers, "ip netns", VMs' taps), needs no change to them, and adds
no byte to any packet.

Every flag can also be set by an environment variable: --guid-bits is
RADAR_GUID_BITS. A flag on the command line wins. Lists are separated by commas.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the kernel lacks a feature or
the user a capability (see "radar check"), 4 the kernel refused the programs,
5 packets were lost ("radar loss --fail-if-lost").`

const rootExample = `  radar check                                  # can this machine do it?
  radar attach -d docker:web docker:db         # measure two containers
  radar attach -d netns:h1 netns:r1 netns:h2   # or three namespaces
  radar packets -f                             # packets as they end
  radar latency --by link                      # where time is spent
  radar loss                                   # where packets are lost, and why
  radar flows --sort rate                      # who talks to whom
  radar detach                                 # leave nothing behind`

// newRootCmd returns the whole command tree.
func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:               "radar",
		Short:             "Per-packet measurement of virtual networks",
		Long:              rootLong,
		Example:           rootExample,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.domain, "domain", a.domain, "name of the measurement domain")
	flags.VarP(&a.output, "output", "o", "output format: table, wide, json, or csv where there are rows")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say more in errors (the whole verifier log)")
	_ = root.RegisterFlagCompletionFunc("domain", completeDomains)
	completeWith(root, "output", string(formatTable), string(formatWide), string(formatJSON), string(formatCSV))
	root.AddCommand(
		newCheckCmd(a),
		newAttachCmd(a),
		newDetachCmd(a),
		newStatusCmd(a),
		newPacketsCmd(a),
		newTraceCmd(a),
		newPathsCmd(a),
		newLatencyCmd(a),
		newLossCmd(a),
		newTopoCmd(a),
		newFlowsCmd(a),
		newThroughputCmd(a),
		newCollectCmd(a),
		newMetricsCmd(a),
		newExportCmd(a),
		newIntCmd(a),
		newLabCmd(),
		newVersionCmd(a),
		newDocsCmd(),
		newAgentCmd(a),
	)
	root.Version = version
	root.SetVersionTemplate(buildVersion().text() + "\n")
	root.InitDefaultCompletionCmd("completion")
	root.SetHelpCommand(newHelpCmd())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := bindEnv(cmd, a.lookupEnv); err != nil {
			return err
		}
		if err := checkStateDir(a.lookupEnv); err != nil {
			return err
		}
		if err := domain.CheckName(a.domain); err != nil {
			return withCode(exitUsage, err)
		}
		if f := cmd.Flags().Lookup("output"); outputFormat(f.Value.String()).raw() { // some commands have their own
			a.out.Reset(a.forPrograms())
		}
		return checkFormat(cmd, a.output)
	}
	makeStrict(root)
	return root
}

// newHelpCmd replaces cobra's own, which takes an unknown command for success.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("no help for unknown command %q", strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// makeStrict turns every way of calling a command of the tree wrongly into a
// usage error, which cobra does for some of them only.
func makeStrict(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withCode(exitUsage, nearFlag(cmd, err))
	})
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = unknownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return withCode(exitUsage, err)
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
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q for %q, did you mean %q?", args[0], cmd.CommandPath(), near[0])
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

// isTerminal says whether f is a terminal; progress goes nowhere else.
func isTerminal(f any) bool {
	file, ok := plainest(f).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// progressf writes a line to standard error if that is a terminal.
func (a *app) progressf(format string, args ...any) {
	if isTerminal(a.stderr) {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}
