// SPDX-License-Identifier: Apache-2.0

// Package ask has the commands that answer: packets, trace, paths, latency, loss, flows and
// throughput.
package ask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/system"
)

// questionHelp is part of the help of every command that asks the aggregates.
const questionHelp = `Without filters the answer covers everything since attach, and so do rows of flows
that addresses, protocol and ports choose. With --since, --last or other filters it
covers what the ring still remembers (attach --slots); if that is less than what was
asked for, standard error says from when. Packets in flight are in no answer.

` + kit.SelectionHelp + `

With -f the answer is given again every --interval, until Ctrl-C.`

// question is a command that asks the aggregates.
type question struct {
	kit.SelectFlags
	follow   bool
	interval time.Duration
	// byFlow says that what is asked for is rows of flows: filters that ask for
	// nothing but flows then choose among all since attach.
	byFlow func() bool
	// bySecond says that latencies are asked for second by second, which only the ring has.
	bySecond func() bool
	// checkFlags refuses values of the command's own flags; nil: all will do.
	checkFlags func() error
	// tellsLeft says that packets which left the domain have a note: how to follow them.
	tellsLeft bool
}

// asks is what is asked, of what is selected.
func (q *question) asks(s *answer.Selection, now time.Time) *answer.Question {
	return &answer.Question{
		Selection: s, Now: now,
		ByFlow: q.byFlow != nil && q.byFlow(), BySecond: q.bySecond != nil && q.bySecond(),
	}
}

// newQuestionCmd completes cmd with flags, and with RunE, which calls show once or
// again and again.
func newQuestionCmd(k *kit.Kit, cmd *cobra.Command, q *question, show func(*answer.Counts) error) *cobra.Command {
	cmd.Annotations = kit.HasCSV
	cmd.Long += "\n\n" + questionHelp
	q.Add(k, cmd, "only the newest N packets; 0: all")
	flags := cmd.Flags()
	flags.BoolVarP(&q.follow, "follow", "f", false, "show it again and again, until Ctrl-C")
	flags.DurationVar(&q.interval, "interval", time.Second, "how often, with -f")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.interval < 50*time.Millisecond {
			return fault.Usage.Errorf("--interval %v: use at least 50ms", q.interval)
		}
		if err := q.RefuseFollow(q.follow); err != nil {
			return err
		}
		if q.checkFlags != nil {
			if err := q.checkFlags(); err != nil {
				return err
			}
		}
		s, err := q.Selection(cmd.Flags(), args, k.Now())
		if err != nil {
			return err
		}
		if s.Wants(record.InFlight) {
			return fault.Usage.Errorf("--state in_flight: packets in flight are in no answer, radar packets shows them")
		}
		return ask(k, cmd.Context(), &asked{question: q, selected: s, flags: cmd.Flags(), args: args}, show)
	}
	return cmd
}

// asked is a question as it was put.
type asked struct {
	*question
	selected *answer.Selection
	flags    *pflag.FlagSet
	args     []string
}

func ask(k *kit.Kit, ctx context.Context, q *asked, show func(*answer.Counts) error) error {
	return k.ReadSources(q.selected, func(s *answer.Sources) error {
		if q.tellsLeft {
			show = withLeft(k, s, show)
		}
		if q.follow {
			return askAgain(k, ctx, s, q, show)
		}
		return k.AskOnce(ctx, s, q.asks(q.selected, k.Now()), show)
	})
}

// askAgain answers until ctx or the domain ends.
func askAgain(k *kit.Kit, ctx context.Context, s *answer.Sources, q *asked, show func(*answer.Counts) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.View = &kit.View{Said: make(map[string]bool)}
	tables := !k.Output.Raw()
	redraw := tables && kit.IsTerminal(k.Stdout)
	for first := true; ; first = false {
		now := k.Now()
		k.View.Time = record.TimeString(now.UnixNano())
		k.View.Round(now)
		var err error
		if q.selected, err = q.Selection(q.flags, q.args, now); err != nil {
			return err
		}
		switch {
		case redraw:
			if kit.IsTerminal(k.Stderr) {
				clear(k.View.Said) // the screen's notes go with its rows
			}
			fmt.Fprint(k.Out, kit.Own("\x1b[H\x1b[2J")) // home, clear
		case tables && !first:
			fmt.Fprintln(k.Out)
		}
		if tables {
			fmt.Fprintln(k.Out, now.In(k.Location).Format("15:04:05"))
		}
		if err := errors.Join(k.AskOnce(ctx, s, q.asks(q.selected, k.Now()), show), k.Out.Flush()); err != nil {
			return err
		}
		if !kit.Wait(ctx, q.interval) {
			return nil
		}
		switch err := s.Update(); {
		case errors.Is(err, answer.ErrReportsRemoved):
			fmt.Fprintf(k.Stderr, "radar: the reports of domain %s were removed\n", k.Domain)
			return nil
		case errors.Is(err, system.ErrNotAttached):
			fmt.Fprintf(k.Stderr, "radar: domain %s was detached\n", k.Domain)
			return nil
		case err != nil:
			return err
		}
	}
}
