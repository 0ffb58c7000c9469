// SPDX-License-Identifier: Apache-2.0

// Package sql has "radar sql".
package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/recorder"
	"github.com/vnetradar/radar/pkg/store/query"
)

const long = `Ask a recording, or what the domain's ring remembers, in SQL (DuckDB's). The tables are

  packets   packets, each once
  hops      nodes that packets visited: a row for each packet and hop
  losses    where copies of packets were lost, or dropped after delivery
  flows     flows, and what became of their packets
  paths     paths that packets took
  reports   what nodes said by INT
  events    what happened beside packets

with the columns that docs/sql.md describes; times are in nanoseconds, moments in UTC.
Names that SQL has for itself are quoted: "at", "left". within(src, '10.0.0.0/8') says
whether an address is in a prefix.

Statements come from -c, from FILE.sql, or from standard input. On a terminal there is a
prompt: a statement ends with ";", .help says what else there is, Ctrl-C ends a query.
Some functions do not heed that: the command says so, and another Ctrl-C ends it.

A query can read nothing but these tables: no file, no network, no setting. A table or
view that it makes is gone when the command ends. Without --read the packets that have
ended by now are asked for, as a recording that is removed at once.

-o parquet writes the answer to one SELECT to standard output.`

const example = `  radar sql -r run1                              # a prompt
  radar sql -r run1 -c 'SELECT node, quantile_cont(queue_ns, 0.99) FROM hops GROUP BY node'
  radar sql -r run1 -o csv report.sql >report.csv
  radar sql -r run1 -o parquet -c "SELECT * FROM packets WHERE dst = '10.0.2.2'" >web.parquet
  echo 'SELECT count(*) FROM packets' | radar sql -o json`

// formatParquet is one of this command alone.
const formatParquet = "parquet"

// format is the value of --output.
type format string

func (f *format) String() string { return string(*f) }

// Type names the value in help texts.
func (f *format) Type() string { return "format" }

// Set checks and sets the format.
func (f *format) Set(s string) error {
	var common kit.Format
	if s != formatParquet && common.Set(s) != nil {
		return fmt.Errorf("unknown format %q: use table, wide, json, csv or parquet", s)
	}
	*f = format(s)
	return nil
}

// options are the flags.
type options struct {
	kit.ReadFlag
	command  string
	output   format
	limit    kit.Count
	memory   kit.Bytes
	threads  int
	temp     string
	tempSize kit.Bytes
	version  string
	// keep makes a recording of what the ring remembers, in a directory.
	keep func(ctx context.Context, domain, dir, version string) ([]answer.Note, error)
}

// NewCmd returns "radar sql".
func NewCmd(k *kit.Kit, version string) *cobra.Command {
	f := &options{output: format(kit.FormatTable), limit: 1000, tempSize: 16 << 30, version: version, keep: recorder.KeepOnce}
	cmd := &cobra.Command{
		Use:     "sql [FILE.sql]",
		Short:   "Ask in SQL",
		Long:    long,
		Example: example,
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(k, cmd, args) },
	}
	flags := cmd.Flags()
	f.ReadFlag.Add(cmd)
	flags.StringVarP(&f.command, "command", "c", "", "the statements")
	flags.VarP(&f.output, "output", "o", "output format: table, wide, json, csv or parquet")
	flags.Var(&f.limit, "limit", "rows of a table at most; 0: all. Other formats have all rows")
	flags.Var(&f.memory, "memory", "what a query may take; default: half of what is free")
	flags.IntVar(&f.threads, "threads", 0, "threads of a query; default: as many as there are CPUs")
	flags.StringVar(&f.temp, "temp", "", "a directory for what does not fit into memory; without it such a query fails")
	flags.Var(&f.tempSize, "temp-size", "bytes there at most")
	_ = cmd.MarkFlagDirname("temp")
	_ = cmd.MarkFlagFilename("read", "parquet")
	kit.CompleteWith(cmd, "output", "table", "wide", "json", "csv", formatParquet)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"sql"}, cobra.ShellCompDirectiveFilterFileExt
	}
	return cmd
}

func (f *options) run(k *kit.Kit, cmd *cobra.Command, args []string) error {
	if !query.Available() {
		return query.ErrNotBuilt
	}
	if k.Output = kit.Format(f.output); f.output == formatParquet {
		k.Output = kit.FormatJSON
	}
	s, err := f.statements(k, cmd, args)
	if err != nil {
		return err
	}
	debug.SetGCPercent(400) // columns of row groups come and go
	ends := newEnding(func() {
		fmt.Fprintln(k.Stderr, "radar: what the query does heeds no signal for now: another one (Ctrl-C, kill) ends the command at once")
	})
	ctx, stop := untilEnded(cmd.Context(), ends, s == nil)
	defer stop()
	recorded, err := f.open(k, ctx, ends)
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	defer recorded.Dir.Close()
	o := query.Options{Memory: uint64(f.memory), Threads: f.threads, MaxTemp: uint64(f.tempSize)}
	if o.Memory == 0 {
		if o.Memory, err = queryMemory("/"); err != nil {
			return err
		}
	}
	var out *os.File
	if f.output == formatParquet {
		if out, err = ends.unnamed(); err != nil {
			return fmt.Errorf("make a file for the answer: %w", err)
		}
		defer out.Close()
		o.Out = fmt.Sprintf("/proc/self/fd/%d", out.Fd())
	}
	if f.temp != "" {
		var remove func()
		if o.Temp, remove, err = ends.directory(f.temp); err != nil {
			return fmt.Errorf("--temp: %w", err)
		}
		defer remove()
	}
	db, err := query.Open(ctx, recorded.Recording, o)
	if err != nil {
		return err
	}
	defer db.Close()
	a := &asker{Kit: k, f: f, db: db, recorded: recorded, out: out, ends: ends}
	if s == nil {
		return a.prompt(ctx)
	}
	return a.all(ctx, s)
}

// errInterrupted says that a signal has ended a command.
var errInterrupted = errors.New("interrupted")

// untilEnded ends ctx when a signal is to end the command, so that its files are removed. nohup stays what it is. Ctrl-C
// does not end a prompt. A second signal ends the command at once, whatever it does.
func untilEnded(ctx context.Context, ends *ending, prompt bool) (_ context.Context, stopped func()) {
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	unheard := make(chan os.Signal, 1)
	if prompt {
		signal.Notify(unheard, os.Interrupt)
	} else {
		signals = append(signals, os.Interrupt)
	}
	release := ends.atSecond(signals...)
	ctx, stop := signal.NotifyContext(ctx, signals...)
	return ctx, func() {
		stop()
		release()
		signal.Stop(unheard)
	}
}

// source is a text of statements.
type source struct {
	name string // of its file; "": it has none
	list []query.Statement
}

// statements are those to answer; nil: there is a prompt.
func (f *options) statements(k *kit.Kit, cmd *cobra.Command, args []string) (*source, error) {
	if f.threads < 0 || f.threads > 1024 {
		return nil, fault.Usage.Errorf("--threads %d: use 1 to 1024", f.threads)
	}
	s := &source{}
	text := f.command
	switch {
	case kit.IsTyped(cmd, "command") && len(args) > 0:
		return nil, fault.Usage.Errorf("-c and %s: use one of them", args[0])
	case kit.IsTyped(cmd, "command"):
	case len(args) > 0:
		b, err := readBounded(args[0])
		if err != nil {
			return nil, err
		}
		s.name, text = args[0], string(b)
	case kit.IsTerminal(k.Stdin):
		if f.output == formatParquet {
			return nil, fault.Usage.Errorf("-o parquet: say by -c what is to be written")
		}
		return nil, nil
	default:
		b, err := io.ReadAll(io.LimitReader(k.Stdin, mostText+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		if len(b) > mostText {
			return nil, fault.Usage.Errorf("standard input has more than %d bytes", mostText)
		}
		text = string(b)
	}
	s.list = query.SplitAll(text)
	switch {
	case len(s.list) == 0:
		return nil, fault.Usage.Errorf("there is no statement")
	case f.output == formatParquet && len(s.list) > 1:
		return nil, fault.Usage.Errorf("-o parquet: there are %d statements, use one", len(s.list))
	case f.output == formatParquet && kit.IsTerminal(k.Stdout):
		return nil, fault.Usage.Errorf("-o parquet: standard output is a terminal, use > FILE")
	}
	return s, nil
}

// mostText bounds a text of statements.
const mostText = 1 << 20

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, " \t\n") {
		return nil, fault.Usage.Errorf("%q is no file: a statement comes behind -c", path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, mostText+1))
	if err == nil && len(b) > mostText {
		err = fault.Usage.Errorf("%s has more than %d bytes", path, mostText)
	}
	return b, err
}

// open opens the recording, or makes one of what there is of the domain. That one has no name any more when this
// returns: whatever ends the process, nothing is left.
func (f *options) open(k *kit.Kit, ctx context.Context, ends *ending) (*answer.Recorded, error) {
	if f.Given() {
		r, err := f.Recording(k)
		if err == nil && r.Covers().First.IsZero() { // a count of nothing is a row
			k.Note(r.Missing())
		} else if err == nil {
			k.Note(r.Unended())
		}
		return r, err
	}
	dir, remove, err := ends.directory("")
	if err != nil {
		return nil, fmt.Errorf("make a directory for what the ring remembers: %w", err)
	}
	defer remove()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt) // there is no prompt yet
	defer stop()
	notes, err := f.keep(ctx, k.Domain, dir, f.version)
	k.Note(notes)
	if err != nil {
		return nil, err
	}
	recorded, err := answer.ReadRecorded(dir)
	if err != nil {
		return nil, err
	}
	if err := recorded.Dir.HoldEvents(ctx); err != nil {
		recorded.Dir.Close()
		return nil, err
	}
	return recorded, nil
}

// asker answers statements.
type asker struct {
	*kit.Kit
	f        *options
	db       query.DB
	recorded *answer.Recorded
	out      *os.File // of Parquet
	ends     *ending
	said     int // damages
}

// all answers statements one after the other, until one fails.
func (a *asker) all(ctx context.Context, s *source) error {
	for i, st := range s.list {
		if i > 0 && !a.Output.Raw() {
			fmt.Fprintln(a.Out)
		}
		err := a.answer(ctx, st.Text)
		a.tellDamage()
		if err == nil {
			continue
		}
		if errors.Is(err, context.Canceled) {
			return errInterrupted
		}
		if s.name != "" || len(s.list) > 1 {
			return fmt.Errorf("%sline %d: %w", prefix(s.name), st.Line, err)
		}
		return err
	}
	return nil
}

func prefix(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

// answer answers one statement.
func (a *asker) answer(ctx context.Context, text string) error {
	if a.f.output == formatParquet {
		if err := a.db.Parquet(ctx, text); err != nil {
			return err
		}
		if _, err := a.out.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(kit.Plainest(a.Stdout).(io.Writer), a.out)
		return err
	}
	limit := 0
	if !a.Output.Raw() && a.f.limit > 0 {
		limit = int(a.f.limit) + 1
	}
	rows, err := a.db.Query(ctx, text, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	n, err := a.print(rows)
	if err != nil {
		return err
	}
	if n == 0 && rows.Selects() {
		a.whyEmpty()
	}
	runtime.KeepAlive(a.recorded)
	return a.Out.Flush()
}

// whyEmpty says what there is of packets.
func (a *asker) whyEmpty() {
	if first, _ := a.recorded.Span(); first.IsZero() {
		a.Notef("no row: there is no packet")
		return
	}
	a.Note(a.recorded.Missing())
	if a.f.Given() {
		a.Note([]answer.Note{a.recorded.Covers()})
		return
	}
	a.Notef("no row matches")
}

// tellDamage names what could not be read, each once.
func (a *asker) tellDamage() {
	list := a.recorded.Dir.Damage()
	a.Note(answer.DamageNotes(list[a.said:]))
	a.said = len(list)
}
