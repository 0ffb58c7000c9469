// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/compare"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/words"
)

const diffLong = `Say what differs between two runs of a network, or two groups of runs, the most important
first: paths, latencies of nodes, links, queues and flows, losses, flows that came or
went, rates.

A RUN is a recording (a directory, or a .parquet file of one), a file of records as
"radar packets --last 0 -o json" prints them (- is standard input), or the name of a
domain that is attached now. What is there as a file is no domain.

Flows are matched by addresses, protocol and the server's port, the lower of both: the
client's port is another one in each run. Packets of one flow are not independent, nor
are those that wait in one queue: bounds of times and rates are resampled in blocks
(bootstrap), late and lost packets that come in bursts count as fewer. All comparisons
together find a difference between equal runs with the chance of --alpha (Holm).

A large difference of losses that may be chance, such as a few bursts, is no difference: a
line below the others says "not proven", and what would tell.

What two runs cannot tell is how much runs differ from each other. So a difference
counts only beyond --least-time, --least-loss and --least-part: choose what matters to
you. Two groups can: repeat each run, and write -- between them, as in
"radar diff a1 a2 a3 -- b1 b2 b3". Then a value of each run counts, not its packets, and
what differs between the groups must do so by more than runs of one do (Welch's t test).
Groups have 2 runs at least; 3 to 5 each tell much more. docs/verdicts.md describes the
tests.`

// diffOptions are the flags of "radar diff".
type diffOptions struct {
	kit.SelectFlags
	compare.Options
	leastTime time.Duration
	exitCode  bool
}

// NewDiffCmd returns "radar diff".
func NewDiffCmd(k *kit.Kit) *cobra.Command {
	f := &diffOptions{Options: compare.DefaultOptions}
	cmd := &cobra.Command{
		Use:   "diff RUN1 RUN2 | diff RUN... -- RUN...",
		Short: "Say what differs between two runs, or groups of runs",
		Long:  diffLong,
		Example: `  radar packets --last 0 -o json > before.json    # later: the same again
  radar diff before.json after.json
  radar diff before.json default --least-time 1ms
  radar diff --exit-code monday tuesday || echo something changed
  radar diff old-1 old-2 old-3 -- new-1 new-2 new-3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, after, err := groupsOf(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("read") {
				return fault.Usage.Errorf("--read: name recordings as RUN")
			}
			if err := f.check(); err != nil {
				return err
			}
			s, err := f.Selection(cmd.Flags(), nil, k.Now())
			if err != nil {
				return err
			}
			return diff(k, cmd.Context(), f, s, before, after)
		},
	}
	f.Add(k, cmd, "only the newest N packets of each run; 0: all")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, _ := kit.CompleteDomains(cmd, args, text)
		return names, cobra.ShellCompDirectiveDefault
	}
	flags := cmd.Flags()
	flags.Float64Var(&f.Alpha, "alpha", f.Alpha, "chance that equal runs differ in anything")
	flags.DurationVar(&f.leastTime, "least-time", time.Duration(f.LeastTime), "times that differ by less do not count")
	flags.Float64Var(&f.LeastLoss, "least-loss", f.LeastLoss, "shares of lost packets that differ by less do not count")
	flags.Float64Var(&f.LeastPart, "least-part", f.LeastPart, "times and rates that differ by a smaller part of the first run's do not count")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with exit code 1 if the runs differ")
	return cmd
}

func (f *diffOptions) check() error {
	switch f.LeastTime = int64(f.leastTime); {
	case !(f.Alpha > 0 && f.Alpha < 1):
		return fault.Usage.Errorf("--alpha %v: use a probability, such as 0.01", f.Alpha)
	case f.LeastTime < 0:
		return fault.Usage.Errorf("--least-time %v: use 0 or more", f.leastTime)
	case !(f.LeastLoss >= 0 && f.LeastLoss < 1):
		return fault.Usage.Errorf("--least-loss %v: use a share, such as 0.001", f.LeastLoss)
	case !(f.LeastPart >= 0 && f.LeastPart < 100):
		return fault.Usage.Errorf("--least-part %v: use a share, such as 0.1", f.LeastPart)
	}
	return nil
}

// groupsOf are the runs before and after "--", which two runs need not have between them.
func groupsOf(args []string, dash int) (before, after []string, err error) {
	switch {
	case dash > 0 && dash < len(args):
		before, after = args[:dash], args[dash:]
		if min(len(before), len(after)) < compare.LeastRuns && len(args) != 2 {
			return nil, nil, fault.Usage.Errorf("a group of one run: write %d at least before and after --", compare.LeastRuns)
		}
	case len(args) == 2:
		before, after = args[:1], args[1:]
	case len(args) > 2:
		return nil, nil, fault.Usage.Errorf("%s: use RUN1 and RUN2, or write -- between two groups of runs", words.Plural(len(args), "argument"))
	default:
		return nil, nil, fault.Usage.Errorf("%s: use RUN1 and RUN2", words.Plural(len(args), "argument"))
	}
	sorted := slices.Sorted(slices.Values(args))
	for i := 1; i < len(sorted); i++ {
		switch same := sorted[i] == sorted[i-1]; {
		case same && sorted[i] == "-":
			return nil, nil, fault.Usage.Errorf("standard input is one run only")
		case same && len(args) > 2:
			return nil, nil, fault.Usage.Errorf("run %s is there twice: groups are of runs that were made anew", sorted[i])
		}
	}
	return before, after, nil
}

func diff(k *kit.Kit, ctx context.Context, f *diffOptions, s *answer.Selection, before, after []string) error {
	read := func(name string) (*compare.Run, error) {
		run := compare.NewRun(name)
		if err := readRun(k, ctx, s, run); err != nil {
			return nil, fmt.Errorf("run %s: %w", name, err)
		}
		if run.Packets() == 0 {
			return nil, fmt.Errorf("run %s: there is no packet that has ended", name)
		}
		if run.Over > 0 {
			k.Notef("run %s: %d packets are of flows for which there was no room: no flow of them is compared", name, run.Over)
		}
		return run, nil
	}
	var report *compare.Report
	if len(before)+len(after) == 2 {
		a, err := read(before[0])
		if err != nil {
			return err
		}
		b, err := read(after[0])
		if err != nil {
			return err
		}
		report = compare.Compare(a, b, f.Options)
	} else {
		var groups [2][]*compare.Repetition
		for i, names := range [][]string{before, after} {
			for _, name := range names {
				run, err := read(name)
				if err != nil {
					return err
				}
				groups[i] = append(groups[i], run.Repetition())
			}
		}
		report = compare.CompareGroups(groups[0], groups[1], f.Options)
	}
	if err := printDiff(k, report); err != nil {
		return err
	}
	if f.exitCode && report.Different {
		return kit.WithCode(kit.ExitFailure, nil)
	}
	return nil
}

// readRun adds the packets of a run, whatever its name stands for.
func readRun(k *kit.Kit, ctx context.Context, s *answer.Selection, run *compare.Run) error {
	info, err := os.Stat(run.Name)
	switch {
	case run.Name == "-":
		return readRecords(k.Stdin, s, run)
	case err == nil && (info.IsDir() || strings.HasSuffix(run.Name, ".parquet")):
		return readSources(k, ctx, s, run, func() (*answer.Sources, []answer.Note, error) { return answer.OpenRecorded(run.Name, s) })
	case err == nil:
		file, err := os.Open(run.Name)
		if err != nil {
			return err
		}
		defer file.Close()
		return readRecords(file, s, run)
	case !errors.Is(err, os.ErrNotExist):
		return err
	case statedir.CheckDomain(run.Name) != nil:
		return fault.Usage.Errorf("there is no such recording or file, and no domain can have that name")
	}
	err = readSources(k, ctx, s, run, func() (*answer.Sources, []answer.Note, error) { return answer.Open(run.Name, s) })
	if system.IsAbsent(err) && run.Packets() == 0 {
		return errors.New("there is no such recording or file, and no domain of that name is attached")
	}
	return err
}

func readSources(k *kit.Kit, ctx context.Context, s *answer.Selection, run *compare.Run, open func() (*answer.Sources, []answer.Note, error)) error {
	all, notes, err := open()
	if err != nil {
		return err
	}
	defer all.Close()
	k.Note(notes)
	k.Note(all.Lacks())
	notes, err = all.Records(ctx, s, func(r *record.Record) error {
		run.Add(r)
		return nil
	})
	k.Note(notes)
	return err
}

// longestLine is how long a record can be: 255 hops have room.
const longestLine = 1 << 20

// mostSegs is how many packets a record can stand for: the kernel counts segments of a train in 16 bits.
const mostSegs = 1<<16 - 1

// readRecords reads records as "radar packets -o json" prints them, one a line.
func readRecords(in io.Reader, s *answer.Selection, run *compare.Run) error {
	if !s.IsAll() {
		return fault.Usage.Errorf("a file of records has the packets that were chosen when it was written: flags that select are for domains and recordings")
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var r record.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("line %d is no record: %w", n, err)
		}
		if r.V != record.Version || r.ID == "" {
			return fmt.Errorf("line %d is no record of version %d (radar packets --last 0 -o json prints them)", n, record.Version)
		}
		if r.Segs < 1 || r.Segs > mostSegs {
			return fmt.Errorf("line %d: segs %d: a record stands for 1 to %d packets", n, r.Segs, mostSegs)
		}
		run.Add(&r)
	}
	return lines.Err()
}

// printDiff prints a report.
func printDiff(k *kit.Kit, r *compare.Report) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, r)
	}
	for _, one := range []struct {
		word string
		run  compare.Summary
	}{{"before", r.Before}, {"after ", r.After}} {
		name := one.run.Name
		if one.run.Runs > 0 {
			name = fmt.Sprintf("%s (%s)", words.Plural(one.run.Runs, "run"), name)
		}
		fmt.Fprintf(k.Out, "%s  %s: %s, %s, %s\n", one.word, name, words.Plural(int(one.run.Packets), "packet"),
			words.Plural(one.run.Flows, "flow"), words.Duration(float64(one.run.DurationNs)))
	}
	tested := fmt.Sprintf("%s, chance of a false alarm %g", words.Plural(r.Comparisons, "comparison"), r.Alpha)
	if r.Untested > 0 {
		tested += fmt.Sprintf("; too few packets for %d more", r.Untested)
	}
	if !r.Different {
		fmt.Fprintf(k.Out, "\nno difference beyond noise (%s)\n", tested)
		printUnproven(k, r)
		return nil
	}
	fmt.Fprintf(k.Out, "\n%s beyond noise (%s), the most important first:\n\n", words.Plural(len(r.Changes), "difference"), tested)
	t := kit.NewTable(kit.Column{Title: "KIND"}, kit.Column{Title: "P", Right: true}, kit.Column{Title: "WHAT CHANGED"})
	for i := range r.Changes {
		c := &r.Changes[i]
		text := c.Text
		if c.Low != nil && k.Output == kit.FormatWide {
			text += fmt.Sprintf(" [%s]", boundsText(c))
		}
		t.Add(c.Kind, probability(c.P), text)
	}
	err := t.Flush(k.Out)
	printUnproven(k, r)
	return err
}

// mostUnproven is how many differences are printed that were not proven: JSON has all.
const mostUnproven = 3

// printUnproven says which large differences may be chance, and what would tell: nobody is to take them for none.
func printUnproven(k *kit.Kit, r *compare.Report) {
	for i, u := range r.Unproven {
		if i == 0 {
			fmt.Fprintln(k.Out)
		}
		if i == mostUnproven {
			fmt.Fprintf(k.Out, "not proven: %d more (-o json)\n", len(r.Unproven)-i)
			break
		}
		fmt.Fprintf(k.Out, "not proven: %s\n", unprovenText(r, &u))
	}
	if len(r.Unproven) == 0 {
		return
	}
	advice := "more runs would tell: radar diff A1 A2 A3 -- B1 B2 B3"
	if r.Before.Runs > 0 {
		advice = "more runs in each group would tell"
	}
	fmt.Fprintln(k.Out, advice)
}

// unprovenText is a difference that was not proven, in words.
func unprovenText(r *compare.Report, u *compare.Unproven) string {
	text := u.Text
	if u.Bursts > 0 {
		text += ", in " + words.Plural(u.Bursts, "burst")
	}
	if u.PAlone == nil {
		return text + " (too few packets to test)"
	}
	p := probability(u.P)
	text += fmt.Sprintf(" (P %s among %s", p, words.Plural(r.Comparisons, "comparison"))
	if alone := probability(u.PAlone); alone != p {
		text += fmt.Sprintf(", %s by itself", alone)
	}
	return text + fmt.Sprintf("; alpha %g)", r.Alpha)
}

// boundsText are the bounds of a difference.
func boundsText(c *compare.Change) string {
	switch c.Kind {
	case "loss", "path":
		return fmt.Sprintf("%+.3g to %+.3g %%", *c.Low*100, *c.High*100)
	case "rate":
		return fmt.Sprintf("%+.3g to %+.3g bit/s", *c.Low, *c.High)
	}
	return fmt.Sprintf("%+.3g to %+.3g ms", *c.Low/1e6, *c.High/1e6)
}

// probability is a p-value: below what the tests can tell apart it is so small. What needs no test has none.
func probability(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < 1e-6:
		return "<1e-6"
	}
	return fmt.Sprintf("%.2g", *p)
}
