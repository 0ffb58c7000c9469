// SPDX-License-Identifier: Apache-2.0

// Package lab has "radar lab".
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/lab"
)

const long = `Runs network scenarios in plain network namespaces, without containers.

A scenario is built in or a folder in Kathará's format: lab.conf says which
machine has which interface on which link, and MACHINE.startup is a shell script
that configures the machine. A machine is a network namespace: it shares the
file system and the processes of this host, so run only labs that you trust.`

// NewCmd returns "radar lab" and the commands below it.
func NewCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run network scenarios in namespaces",
		Long:  long,
		Example: `  radar lab up chain --set N=5           # h1 - r1 - ... - r5 - h2
  radar lab list chain                   # its machines and links
  radar lab graph chain                  # the same as a drawing
  radar lab exec chain h1 -- ping -c 3 10.0.6.2
  radar lab down chain`,
	}
	cmd.AddCommand(newUpCmd(k), newDownCmd(k), newListCmd(k), newExecCmd(k), newExportCmd(k), newGraphCmd(k), newForwardCmd(k), newP4Cmd())
	return cmd
}

// upOptions are the flags of "lab up".
type upOptions struct {
	name           string
	set            []string
	keepGoing      bool
	startupTimeout time.Duration
}

func newUpCmd(k *kit.Kit) *cobra.Command {
	o := upOptions{startupTimeout: lab.DefaultScriptTimeout}
	cmd := &cobra.Command{
		Use:   "up [SCENARIO|DIR]",
		Short: "Start a lab",
		Long: `Starts a built-in scenario or the lab folder DIR (default: the current one), waits
for its startup scripts and prints how to attach radar to it. On failure, and on
Ctrl-C, everything made so far is removed.

A startup script ends at its first command that fails, which is an error. With
--keep-going scripts go on, as under Kathará; one that ends with an error is a
warning.

` + builtinHelp(),
		Example: `  radar lab up chain
  radar lab up chain --set N=10 --name long
  radar lab up ./mylab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUp(k, cmd, argOrHere(args), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "name of the lab (default LAB_NAME in lab.conf, or the folder's name)")
	flags.StringSliceVar(&o.set, "set", nil, "set a parameter of the scenario, as NAME=VALUE")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "go on after commands that fail in startup scripts")
	flags.DurationVar(&o.startupTimeout, "startup-timeout", o.startupTimeout, "how long the startup scripts may take")
	return cmd
}

// builtinHelp lists the built-in scenarios and their parameters.
func builtinHelp() string {
	var b strings.Builder
	b.WriteString("Built-in scenarios:\n")
	for _, name := range scenarios.Names() {
		s, err := scenarios.Open(name)
		if err != nil {
			continue
		}
		if t, err := s.Topology(nil); err == nil {
			fmt.Fprintf(&b, "  %-12s %s\n", name, t.Description)
		}
		for _, p := range s.Params {
			fmt.Fprintf(&b, "  %12s   %s: %s, %s\n", "", p.Name, p.Help, p.Range())
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func runUp(k *kit.Kit, cmd *cobra.Command, arg string, o upOptions) error {
	if o.startupTimeout <= 0 {
		return fault.Usage.Errorf("--startup-timeout %v: use a positive duration", o.startupTimeout)
	}
	if o.name != "" {
		if err := lab.CheckName(o.name); err != nil {
			return fault.Usage.Errorf("%w", err)
		}
	}
	topology, err := loadTopology(arg, o.set)
	if err != nil {
		return err
	}
	if err := needRoot(cmd); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	start := time.Now()
	l, err := lab.Up(ctx, topology, lab.Options{
		Name:          o.name,
		KeepGoing:     o.keepGoing,
		ScriptTimeout: o.startupTimeout,
		Warn:          func(text string) { fmt.Fprintf(k.Stderr, "radar: warning: %s\n", text) },
	})
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("start lab: interrupted, what was made is removed: %w", err)
	}
	if err != nil {
		return fmt.Errorf("start lab: %w", err)
	}
	return printUp(k, l, time.Since(start))
}

func newDownCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "down [NAME|DIR]",
		Short: "Stop a lab and remove it",
		Long: `Ends all processes in the lab's namespaces and removes the lab, named by its name
or by the folder it was started from (default: the current one). If no such lab
runs, that is an error, which names those that do.`,
		Example: `  radar lab down chain
  radar lab down ./mylab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: kit.CompleteLabs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot(cmd); err != nil {
				return err
			}
			l, err := lab.Find(argOrHere(args))
			if err != nil {
				return err
			}
			if err := l.Down(); err != nil {
				return err
			}
			return printDown(k, l.Name)
		},
	}
}

func newListCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME|DIR]",
		Short: "List the labs that run, or the machines and links of one",
		Example: `  radar lab list
  radar lab list chain
  radar lab list -o json | jq -r .name`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: kit.CompleteLabs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				labs, err := lab.List()
				if err != nil {
					return err
				}
				return printLabs(k, labs)
			}
			l, err := lab.Find(args[0])
			if err != nil {
				return err
			}
			return printLab(k, l)
		},
	}
}

func newExecCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NAME|DIR MACHINE [--] COMMAND [ARG...]",
		Short: "Run a command in a machine of a lab",
		Long: `Runs a command in the network namespace of a machine. Terminal, signals and exit
code are the command's own; the exit code is 127 if there is no such command, and 126
if it cannot be run. A machine has the programs of this host.`,
		Example: `  radar lab exec chain h1 -- ping -c 3 10.0.4.2
  radar lab exec chain r2 sh`,
		Args:              cobra.MinimumNArgs(3),
		ValidArgsFunction: completeMachines,
		RunE: func(cmd *cobra.Command, args []string) error {
			machine, argv := args[1], args[2:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				return fault.Usage.Errorf("no command to run in %s", machine)
			}
			if err := needRoot(cmd); err != nil {
				return err
			}
			l, err := lab.Find(args[0])
			if err != nil {
				return err
			}
			return execError(l.Exec(machine, argv))
		},
	}
	// Flags behind the lab's name are the command's.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// execError gives the failure to run a command the exit code that a shell gives it.
func execError(err error) error {
	failed, ok := errors.AsType[*exec.Error](err)
	if !ok {
		return err
	}
	// A number alone is what the kernel said of a file that is there.
	_, refused := failed.Err.(syscall.Errno)
	if errors.Is(failed.Err, exec.ErrNotFound) || !refused && errors.Is(failed.Err, fs.ErrNotExist) {
		return kit.WithCode(kit.ExitNoCommand, fmt.Errorf("%w (a machine has the programs of this host)", err))
	}
	return kit.WithCode(kit.ExitCannotRun, err)
}

func newExportCmd(k *kit.Kit) *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "export SCENARIO DIR",
		Short: "Write a scenario as a plain Kathará folder",
		Long: `Writes a scenario, with its parameters filled in, as a folder that Kathará and
"radar lab up" run. Files that exist are not replaced.`,
		Example:           `  radar lab export chain --set N=5 ./chain5`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeScenarios,
		RunE: func(_ *cobra.Command, args []string) error {
			scenario, err := openScenario(args[0])
			if err != nil {
				return err
			}
			values, err := parseSet(set)
			if err != nil {
				return err
			}
			err = scenario.Export(args[1], values)
			if _, ok := errors.AsType[*lab.ParamError](err); ok {
				return fault.Usage.Errorf("%w", err)
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&set, "set", nil, "set a parameter of the scenario, as NAME=VALUE")
	return cmd
}

// needRoot refuses users who cannot make or enter network namespaces.
func needRoot(cmd *cobra.Command) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return kit.WithCode(kit.ExitKernel, fmt.Errorf("%s makes or enters network namespaces: %s", cmd.CommandPath(), kernel.MissingRights()))
}

// argOrHere is the first argument, or the current folder.
func argOrHere(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// loadTopology opens a scenario and fills its parameters in.
func loadTopology(arg string, set []string) (*lab.Topology, error) {
	scenario, err := openScenario(arg)
	if err != nil {
		return nil, err
	}
	values, err := parseSet(set)
	if err != nil {
		return nil, err
	}
	topology, err := scenario.Topology(values)
	if _, ok := errors.AsType[*lab.ParamError](err); ok {
		return nil, fault.Usage.Errorf("%w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read lab %s: %w", scenario.Source, err)
	}
	return topology, nil
}

// openScenario opens a built-in scenario or a folder. A folder that is called
// like a scenario is named as ./FOLDER.
func openScenario(arg string) (*lab.Scenario, error) {
	if slices.Contains(scenarios.Names(), arg) {
		return scenarios.Open(arg)
	}
	if st, err := os.Stat(arg); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("%s is neither a folder nor a built-in scenario (%s)", arg, strings.Join(scenarios.Names(), ", "))
	}
	return lab.OpenDir(arg)
}

// parseSet reads NAME=VALUE. The flag has cut at commas: what has no '=' belongs
// to the value before it.
func parseSet(set []string) (map[string]string, error) {
	values := make(map[string]string, len(set))
	last := ""
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok && last != "" {
			values[last] += "," + s
			continue
		}
		if last = name; !ok || name == "" {
			return nil, fault.Usage.Errorf("--set %q: use NAME=VALUE", s)
		}
		values[name] = value
	}
	return values, nil
}
