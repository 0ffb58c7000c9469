// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// questionHelp is part of the help of every command that asks the aggregates.
const questionHelp = `Without filters the answer covers everything since attach, and so do rows of flows
that addresses, protocol and ports choose. With --since, --last or other filters it
covers what the ring still remembers (attach --slots); if that is less than what was
asked for, standard error says from when. Packets in flight are in no answer.

` + selectionHelp + `

With -f the answer is given again every --interval, until Ctrl-C.`

// question is a command that asks the aggregates.
type question struct {
	selectFlags
	follow   bool
	interval time.Duration
	// byFlow says that what is asked for is rows of flows: filters that ask for
	// nothing but flows then choose among all since attach.
	byFlow func() bool
	// ringOnly leaves out what telemetry reports say.
	ringOnly bool
	// bySecond says that latencies are asked for second by second, which only the ring has.
	bySecond func() bool
	// checkFlags refuses values of the command's own flags; nil: all will do.
	checkFlags func() error
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
func newQuestionCmd(a *app, cmd *cobra.Command, q *question, show func(*answer.Counts) error) *cobra.Command {
	cmd.Annotations = hasCSV
	cmd.Long += "\n\n" + questionHelp
	q.add(a, cmd, "only the newest N packets; 0: all")
	flags := cmd.Flags()
	flags.BoolVarP(&q.follow, "follow", "f", false, "show it again and again, until Ctrl-C")
	flags.DurationVar(&q.interval, "interval", time.Second, "how often, with -f")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.interval < 50*time.Millisecond {
			return usagef("--interval %v: use at least 50ms", q.interval)
		}
		if q.checkFlags != nil {
			if err := q.checkFlags(); err != nil {
				return err
			}
		}
		s, err := q.selection(cmd.Flags(), args, a.now())
		if err != nil {
			return err
		}
		if s.Wants(record.InFlight) {
			return usagef("--state in_flight: packets in flight are in no answer, radar packets shows them")
		}
		return a.ask(cmd.Context(), &asked{question: q, selected: s, flags: cmd.Flags(), args: args}, show)
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

func (a *app) ask(ctx context.Context, q *asked, show func(*answer.Counts) error) error {
	if q.ringOnly {
		return a.readRing(q.selected, func(ring *answer.Ring) error { return a.askOnce(ctx, answer.Only(ring), q, show) })
	}
	return a.readSources(q.selected, func(s *answer.Sources) error {
		if q.follow {
			return a.askAgain(ctx, s, q, show)
		}
		return a.askOnce(ctx, s, q, show)
	})
}

// readRing opens the domain's ring for read, if the domain has what is selected.
func (a *app) readRing(s *answer.Selection, read func(*answer.Ring) error) error {
	ring, err := answer.OpenRing(a.domain)
	if err != nil {
		return err
	}
	defer ring.Close()
	if err := ring.Check(s); err != nil {
		return refusedNode("node", err)
	}
	if err := read(ring); err != nil {
		return err
	}
	a.note(ring.Late())
	return nil
}

// readSources opens what there is of the domain for read.
func (a *app) readSources(s *answer.Selection, read func(*answer.Sources) error) error {
	all, notes, err := answer.Open(a.domain, s)
	if err != nil {
		return refusedNode("node", err)
	}
	defer all.Close()
	a.note(notes)
	if err := read(all); err != nil {
		return err
	}
	a.note(all.Late())
	return nil
}

// askOnce gives one answer, which is finished also if ctx ends meanwhile.
func (a *app) askOnce(ctx context.Context, s *answer.Sources, q *asked, show func(*answer.Counts) error) error {
	if d := s.Domain(); d != nil {
		a.showNames(d)
	}
	counts, notes, err := s.Ask(context.WithoutCancel(ctx), q.asks(q.selected, a.now()))
	a.note(notes)
	if err != nil {
		return err
	}
	counts.Names = a.namesOf(counts.Names)
	if err := show(counts); err != nil {
		return err
	}
	a.note(counts.Remarks())
	return nil
}

// askAgain answers until ctx or the domain ends.
func (a *app) askAgain(ctx context.Context, s *answer.Sources, q *asked, show func(*answer.Counts) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a.view = &view{said: make(map[string]bool)}
	tables := !a.output.raw()
	redraw := tables && isTerminal(a.stdout)
	for first := true; ; first = false {
		now := a.now()
		a.view.time = record.TimeString(now.UnixNano())
		a.view.round(now)
		var err error
		if q.selected, err = q.selection(q.flags, q.args, now); err != nil {
			return err
		}
		switch {
		case redraw:
			fmt.Fprint(a.out, own("\x1b[H\x1b[2J")) // home, clear
		case tables && !first:
			fmt.Fprintln(a.out)
		}
		if tables {
			fmt.Fprintln(a.out, now.In(a.location).Format("15:04:05"))
		}
		if err := errors.Join(a.askOnce(ctx, s, q, show), a.out.Flush()); err != nil {
			return err
		}
		if !wait(ctx, q.interval) {
			return nil
		}
		switch err := s.Update(); {
		case errors.Is(err, answer.ErrReportsRemoved):
			fmt.Fprintf(a.stderr, "radar: the reports of domain %s were removed\n", a.domain)
			return nil
		case errors.Is(err, domain.ErrNotAttached):
			fmt.Fprintf(a.stderr, "radar: domain %s was detached\n", a.domain)
			return nil
		case err != nil:
			return err
		}
	}
}
