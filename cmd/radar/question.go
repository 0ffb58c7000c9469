// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/packet"
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

// answer is what a question is answered from.
type answer struct {
	*aggregate.Aggregates
	names packet.Names
	keep  func(*packet.Packet) bool // flows of these that are asked for; nil: all
	now   time.Time
	ring  *agent.Reader // nil: the answer is of reports alone
	asked *selection
	// timeline has the same packets by the second; nil: nobody asks for that.
	timeline *aggregate.Timeline
}

// newAnswer returns an answer without packets; offset is as for aggregate.New.
func (a *app) newAnswer(q *asked, offset int64) *answer {
	r := &answer{Aggregates: aggregate.New(offset), now: a.now(), asked: &q.selection}
	if q.seconds() {
		r.timeline = aggregate.NewTimeline(offset)
	}
	return r
}

// seconds says whether latencies are asked for second by second.
func (q *question) seconds() bool { return q.bySecond != nil && q.bySecond() }

// Add counts a packet.
func (r *answer) Add(p *packet.Packet) {
	r.Aggregates.Add(p)
	if r.timeline != nil {
		r.timeline.Add(p)
	}
}

// newQuestionCmd completes cmd with flags, and with RunE, which calls show once or
// again and again.
func newQuestionCmd(a *app, cmd *cobra.Command, q *question, show func(*answer) error) *cobra.Command {
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
		if slices.Contains(s.filter.States(), record.InFlight) {
			return usagef("--state in_flight: packets in flight are in no answer, radar packets shows them")
		}
		return a.ask(cmd.Context(), &asked{question: q, selection: s, flags: cmd.Flags(), args: args}, show)
	}
	return cmd
}

// asked is a question as it was put.
type asked struct {
	*question
	selection
	flags *pflag.FlagSet
	args  []string
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

// noteRows says what rows of a group lack; for flows see noteFlows.
func (a *app) noteRows(r *answer, by aggregate.By) {
	t := r.Totals()
	switch {
	case by == aggregate.ByPath:
		a.noteFull("paths", t.OverPaths, aggregate.MaxPaths)
	case t.OverLinks > 0:
		a.notef("%d packets passed nodes, ports or links for which there was no room: they are not in all rows", t.OverLinks)
	}
}

// noteFull says that a table was full and lacks n packets.
func (a *app) noteFull(what string, n uint64, limit int) {
	if n > 0 {
		a.notef("%d packets are of %s beyond the first %d, which are not kept apart", n, what, limit)
	}
}

func (a *app) ask(ctx context.Context, q *asked, show func(*answer) error) error {
	if q.ringOnly {
		return a.readRing(&q.selection, nil, func(reader *agent.Reader) error { return a.askOnce(sources{ring: reader}, q, show) })
	}
	return a.readSources(&q.selection, func(s sources) error {
		if q.follow {
			return a.askAgain(ctx, s, q, show)
		}
		return a.askOnce(s, q, show)
	})
}

// readRing opens the domain's ring for read, if the domain, or what reports name, has what
// is selected.
func (a *app) readRing(s *selection, reports *collect.Info, read func(*agent.Reader) error) error {
	reader, err := agent.OpenRing(a.domain)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := s.check(reader.Domain, reports); err != nil {
		return err
	}
	if err := read(reader); err != nil {
		return err
	}
	// Names are looked up only as they are shown.
	if err := reader.SymbolsErr(); err != nil {
		a.notef("warning: %v", err)
	}
	return nil
}

func (a *app) askOnce(s sources, q *asked, show func(*answer) error) error {
	if s.ring == nil {
		return a.askReports(s.reports, q, show)
	}
	reader := s.ring
	a.noteDomain()
	a.showNames(reader.Domain)
	result := a.newAnswer(q, reader.Decoder.WallOffset())
	result.names, result.ring = a.namesOf(reader.Decoder), reader
	matched := true
	sinceAttach := !q.since.After(reader.Domain.Created)
	if sinceAttach && !q.seconds() && q.until.IsZero() && q.last == 0 && (!q.filtered || q.flowsOnly && q.byFlow()) {
		note, err := reader.Collect()
		if err != nil {
			return err
		}
		if note != "" {
			a.notef("warning: %s", note)
		}
		result.Aggregates = reader.Collector.Aggregates()
		if q.filtered {
			matched = false
			result.keep = func(p *packet.Packet) bool {
				ok := q.keep(p, reader.Decoder)
				matched = matched || ok
				return ok
			}
		}
	} else {
		a.fromRing(result, reader, q)
	}
	if s.reports != nil {
		var err error
		if result.names, err = a.addReports(result, s, &q.selection, int(q.last)); err != nil {
			return err
		}
	}
	if err := show(result); err != nil {
		return err
	}
	a.noteIncomplete(result.Totals().Truncated)
	if !matched || result.Totals().Packets == 0 {
		a.noteEmpty(reader, &q.selection)
	}
	return nil
}

// askReports answers from reports alone.
func (a *app) askReports(i *collect.Info, q *asked, show func(*answer) error) error {
	result := a.newAnswer(q, 0)
	var err error
	if result.names, err = a.addReports(result, sources{reports: i}, &q.selection, int(q.last)); err != nil {
		return err
	}
	if err := show(result); err != nil {
		return err
	}
	if result.Totals().Packets == 0 {
		a.noteNoReports(i)
	}
	return nil
}

// fromRing aggregates what is asked for of the packets that the ring remembers.
func (a *app) fromRing(to *answer, reader *agent.Reader, q *asked) {
	found := 0
	o := backpack.ScanOptions{Last: int(q.last), Select: q.packets()}
	o.Match = func(p *packet.Packet, of packet.Scope) bool { return p.State != record.InFlight && q.match(p, of) }
	if !q.since.IsZero() {
		o.Since = scanSince(a.now(), q.since)
	}
	stats := backpack.ScanPackets(reader.Maps, reader.Decoder, o, func(p *packet.Packet) {
		to.Add(p)
		found++
	})
	asked := q.since
	if asked.Before(reader.Domain.Created) {
		asked = reader.Domain.Created
	}
	oldest := time.Unix(0, int64(stats.Oldest)+reader.Decoder.WallOffset())
	if stats.Forgot && oldest.After(asked) && (q.last == 0 || found < int(q.last)) {
		a.notef("the ring remembers packets from %s on; older ones are not in this answer (attach with more --slots)",
			oldest.In(a.location).Format(time.RFC3339))
	}
	if stats.Torn > 0 {
		a.notef("%d packets were overwritten while they were read", stats.Torn)
	}
}

// scanSince is a little more than the time since then: the exact one is compared
// with each record's.
func scanSince(now, since time.Time) time.Duration {
	return max(now.Sub(since)+time.Second, time.Nanosecond)
}

// askAgain answers until ctx or the domain ends.
func (a *app) askAgain(ctx context.Context, s sources, q *asked, show func(*answer) error) error {
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
		if q.selection, err = q.selectFlags.selection(q.flags, q.args, now); err != nil {
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
		if err := errors.Join(a.askOnce(s, q, show), a.out.Flush()); err != nil {
			return err
		}
		if !wait(ctx, q.interval) {
			return nil
		}
		if s.reports, err = a.loadReports(); err != nil {
			return err
		}
		if s.ring == nil && s.reports == nil {
			fmt.Fprintf(a.stderr, "radar: the reports of domain %s were removed\n", a.domain)
			return nil
		}
		if s.ring != nil && errors.Is(s.ring.Update(), domain.ErrNotAttached) {
			fmt.Fprintf(a.stderr, "radar: domain %s was detached\n", a.domain)
			return nil
		}
	}
}
