// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/cli"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// The commands of this folder are still to become packages of pkg/cli, as the others are. Until
// then they call the kit by the names below. This file goes with the last of them, and with it
// what pkg/cli and the kit have for it: cli.More, Kit.PacketPrinter, and the second choice
// (flows.go), decimal (paths.go), view (question.go), notef (question_notes.go) and checkFilter
// (expression.go).

func init() { cli.More = addCommands }

// addCommands adds the commands of this folder to the command line.
func addCommands(root *cobra.Command, k *kit.Kit) {
	a := appOf(k)
	k.PacketPrinter = func(k *kit.Kit) func(*record.Record) error {
		p := newPacketPrinter(k.Out, outputFormat(k.Output), k.Location)
		return func(r *record.Record) error { return p.print([]*record.Record{r}) }
	}
	for name, update := range map[string]func(){
		"domain":  func() { a.domain = k.Domain },
		"output":  func() { a.output = outputFormat(k.Output) },
		"verbose": func() { a.verbose = k.Verbose },
	} {
		flag := root.PersistentFlags().Lookup(name)
		flag.Value = mirrored{flag.Value, update}
	}
	root.AddCommand(newAttachCmd(a), newDetachCmd(a), newStatusCmd(a), newPacketsCmd(a), newTraceCmd(a), newPathsCmd(a), newLatencyCmd(a),
		newLossCmd(a), newTopoCmd(a), newFlowsCmd(a), newThroughputCmd(a), newExportCmd(a), newAgentCmd(a))
}

// mirrored is a flag of the kit that app has, too.
type mirrored struct {
	pflag.Value
	update func()
}

// Set implements pflag.Value.
func (m mirrored) Set(s string) error {
	err := m.Value.Set(s)
	m.update()
	return err
}

// app is the kit, and what answers need besides.
type app struct {
	stdout io.Writer
	out    *bufio.Writer
	stderr io.Writer

	lookupEnv func(string) (string, bool)
	now       func() time.Time
	location  *time.Location

	domain  string
	output  outputFormat
	verbose bool
	view    *view
	shown   *shownNames // what tables call nodes and ports; nil: as the domain does
}

func appOf(k *kit.Kit) *app {
	return &app{stdout: k.Stdout, out: k.Out, stderr: k.Stderr, lookupEnv: k.LookupEnv, now: k.Now, location: k.Location,
		domain: k.Domain, output: outputFormat(k.Output)}
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return appOf(kit.New(stdin, stdout, stderr))
}

func (a *app) kit() *kit.Kit {
	return &kit.Kit{Stdout: a.stdout, Out: a.out, Stderr: a.stderr, LookupEnv: a.lookupEnv, Now: a.now, Location: a.location,
		Domain: a.domain, Output: kit.Format(a.output), Verbose: a.verbose}
}

func (a *app) progressf(format string, args ...any) { a.kit().Progressf(format, args...) }
func (a *app) colored() bool                        { return a.kit().Colored() }

func (a *app) nodesExcept(named []string, found bool) []cobra.Completion {
	return a.kit().NodesExcept(named, found)
}

func (a *app) completeNodes(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.kit().CompleteNodes(cmd, args, typed)
}

func (a *app) completeAttached(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.kit().CompleteAttached(cmd, args, typed)
}

const (
	exitOK      = kit.ExitOK
	exitFailure = kit.ExitFailure
	exitUsage   = kit.ExitUsage
	exitKernel  = kit.ExitKernel
	exitLost    = kit.ExitLost

	selfPath    = kit.SelfPath
	flagReadyFD = kit.FlagReadyFD
)

var (
	withCode, exitCode                       = kit.WithCode, kit.ExitCode
	isTerminal, isTyped, nearest             = kit.IsTerminal, kit.IsTyped, kit.Nearest
	humanDuration, humanRate, trimNumber     = kit.HumanDuration, kit.HumanRate, kit.TrimNumber
	parseTime, plural, own                   = kit.ParseTime, kit.Plural, kit.Own
	completeFlag, completeWith, completeLabs = kit.CompleteFlag, kit.CompleteWith, kit.CompleteLabs
	stateNames, hasCSV                       = kit.StateNames, kit.HasCSV
	awaitReady, tellReady                    = kit.AwaitReady, kit.TellReady
	newLineHandler, printJSON                = kit.NewLineHandler, kit.PrintJSON
	_                                        = checkFilter
)

type count = kit.Count

func usagef(format string, args ...any) error { return kit.Usagef(format, args...) }

type outputFormat string

const (
	formatTable = outputFormat(kit.FormatTable)
	formatWide  = outputFormat(kit.FormatWide)
	formatJSON  = outputFormat(kit.FormatJSON)
	formatCSV   = outputFormat(kit.FormatCSV)
)

func (f outputFormat) raw() bool { return kit.Format(f).Raw() }

type graphFormat string

const (
	formatMermaid = graphFormat(kit.FormatMermaid)
	formatDOT     = graphFormat(kit.FormatDOT)
)

func (f *graphFormat) register(cmd *cobra.Command) { (*kit.GraphFormat)(f).Register(cmd) }

type style struct {
	paint func(colored bool, text string) string
}

var bold, red, yellow = style{kit.Bold.Paint}, style{kit.Red.Paint}, style{kit.Yellow.Paint}

type column struct {
	title string
	right bool
	min   int
}

type table struct {
	of   *kit.Table
	rows [][]string
}

func newTable(columns ...column) *table {
	var all []kit.Column
	for _, c := range columns {
		all = append(all, kit.Column{Title: c.title, Right: c.right, Min: c.min})
	}
	return &table{of: kit.NewTable(all...)}
}

func (t *table) add(cells ...string) {
	t.of.Add(cells...)
	t.rows = append(t.rows, cells)
}

func (t *table) flush(w io.Writer) error {
	t.rows = nil
	return t.of.Flush(w)
}

type csvWriter struct {
	of     *kit.CSVWriter
	absent []string
}

func newCSVWriter(w io.Writer) *csvWriter { return &csvWriter{of: kit.NewCSVWriter(w)} }

func (c *csvWriter) row(v any, extra ...[2]string) error {
	c.of.Absent = c.absent
	return c.of.Row(v, extra...)
}

func (c *csvWriter) flush() error { return c.of.Flush() }

func csvTitle[T any](c *csvWriter, extra ...string) error { return kit.CSVTitle[T](c.of, extra...) }

func printRows[T any](a *app, rows []T) error {
	k := a.kit()
	if a.view != nil {
		k.View = &kit.View{Time: a.view.time}
		if a.view.csv != nil {
			k.View.CSV = a.view.csv.of
		}
		defer func() { a.view.csv = &csvWriter{of: k.View.CSV} }()
	}
	return kit.PrintRows(k, rows)
}

type choice struct {
	value string
	what  string
	of    []string
}

func (c *choice) String() string   { return c.value }
func (c *choice) Type() string     { return c.what }
func (c *choice) Set(string) error { return nil }

func addChoice(cmd *cobra.Command, c *choice, name, help string) {}

func decimal(n uint64) string { return "" }

func checkFilter() {}

// view is one of the answers that follow each other with -f.
type view struct {
	time string // RFC 3339
	// from and end are the whole seconds since the last answer, one at least; Unix time.
	from, end int64
	csv       *csvWriter
	said      map[string]bool // notes, by their format
}

// round begins an answer: what was asked for last time ended with the second in which that was.
func (v *view) round(now time.Time) {
	v.from, v.end = v.end, now.Unix()
	if v.from == 0 || v.from >= v.end {
		v.from = v.end - 1
	}
}
