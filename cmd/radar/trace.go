// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/query"
	"github.com/vnetradar/radar/pkg/record"
)

const traceLong = `Tell the story of single packets: each step with the time since the first one, how
long the packet took on links and inside nodes, where most of that time went, what
was changed on the way, and where and why it was lost.

ID is a packet's as "radar packets -o wide" and -o json show it. --last tells of the
newest packet instead, --last=N of the newest N; with --state or --node of the newest
of those. --slowest N tells of the N that took longest, of all that the ring remembers.

The wait in a port's queue is told where the port has one (tc qdisc) and the packet
waited; a link's time includes a wait that nothing saw end. -o json is the
record as "radar packets" prints it, with the story's lines as "story".`

// traceFlags are the flags of "radar trace".
type traceFlags struct {
	last        uint
	slowest     uint
	state, node []string
}

func newTraceCmd(a *app) *cobra.Command {
	f := &traceFlags{}
	cmd := &cobra.Command{
		Use:   "trace ID... | --last[=N] | --slowest N",
		Short: "Tell the story of single packets",
		Long:  traceLong,
		Example: `  radar trace 5f3a9c01-1a2b
  radar trace --last                         # the newest packet
  radar trace --last=3 --state lost          # the newest three that were lost
  radar trace --slowest 10 --node r1         # the slowest ten that passed r1
  radar packets --state lost -o json | jq -r .id | xargs radar trace`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := f.check(args)
			if err != nil {
				return err
			}
			return a.trace(args, f, s)
		},
	}
	flags := cmd.Flags()
	flags.UintVar(&f.last, "last", 0, "the newest packet, or the newest N")
	flags.Lookup("last").NoOptDefVal = "1"
	flags.UintVar(&f.slowest, "slowest", 0, "the N packets that took longest")
	flags.StringSliceVar(&f.state, "state", nil, "with --last or --slowest: delivered, lost, left, in_flight, expired or ignored")
	flags.StringSliceVar(&f.node, "node", nil, "with --last or --slowest: a node that the packet visited")
	completeWith(cmd, "state", stateNames...)
	_ = cmd.RegisterFlagCompletionFunc("node", a.completeNodes)
	return cmd
}

// check refuses what does not go together, and returns what --last selects by.
func (f *traceFlags) check(ids []string) (*selection, error) {
	spec := query.Spec{State: strings.Join(f.state, ","), Node: strings.Join(f.node, ",")}
	filter, err := query.Parse(spec)
	spec.State = ""
	anyState, _ := query.Parse(spec) // what is wrong with it, the first has said
	switch {
	case err != nil:
		return nil, usagef("--%w", err)
	case f.last > 0 && f.slowest > 0:
		return nil, usagef("--last beside --slowest: ask for one of them")
	case len(ids) == 0 && f.last+f.slowest == 0:
		return nil, usagef("no packet named: give an ID as radar packets -o wide shows it, or --last")
	case len(ids) > 0 && f.last > 0:
		return nil, usagef("%q beside --last: name packets, or ask for the newest (the newest N: --last=N)", ids[0])
	case len(ids) > 0 && f.slowest > 0:
		return nil, usagef("%q beside --slowest: name packets, or ask for the slowest", ids[0])
	case f.last+f.slowest == 0 && len(f.state)+len(f.node) > 0:
		return nil, usagef("--state and --node choose among the newest packets: use them with --last, or among the slowest: --slowest")
	}
	for _, id := range ids {
		if _, _, err := backpack.ParseID(id); err != nil {
			return nil, usagef("%w: use one of radar's own packets as radar packets -o wide shows it, such as 5f3a9c01-1a2b", err)
		}
	}
	return &selection{filter: filter, anyState: anyState}, nil
}

func (a *app) trace(ids []string, f *traceFlags, s *selection) error {
	return a.readRing(s, nil, func(reader *agent.Reader) error {
		found, err := a.findPackets(reader, ids, f, s)
		// What is found is told, also beside an ID that is not.
		records := make([]*record.Record, len(found))
		for i := range found {
			records[i] = &found[i].Record
		}
		if said := a.addSaid(reader, records); said != nil {
			a.notef("warning: without the reports of switches: %v", said)
		}
		return errors.Join(err, a.printStories(reader, found))
	})
}

func (a *app) findPackets(r *agent.Reader, ids []string, f *traceFlags, s *selection) ([]*backpack.Found, error) {
	var found []*backpack.Found
	if len(ids) == 0 {
		slow := slowest{n: int(f.slowest)} // all that are asked for by --last, which are few
		_, err := backpack.ScanFunc(r.Maps, r.Decoder, backpack.ScanOptions{Last: int(f.last), Select: backpack.Select{States: s.filter.States(), Match: s.filter.Match}},
			func(rec *record.Record) error {
				slow.add(rec)
				return nil
			})
		if err != nil {
			return nil, fmt.Errorf("read the ring: %w", err)
		}
		records := slow.list
		if f.slowest > 0 {
			records = slow.rows()
		}
		if len(records) == 0 {
			a.noteDomain()
			a.noteEmpty(r, s)
			return nil, fmt.Errorf("no such packet: %s", a.remembered(r))
		}
		for i := range records {
			found = append(found, &backpack.Found{Record: *records[i]})
		}
		return found, nil
	}
	var errs []error
	for _, id := range ids {
		f, err := backpack.Find(r.Maps, r.Decoder, id, clock.Monotonic())
		if err != nil {
			errs = append(errs, a.explainID(r, err))
			continue
		}
		found = append(found, f)
	}
	return found, errors.Join(errs...)
}

// explainID adds to an error of Find what its user can do.
func (a *app) explainID(r *agent.Reader, err error) error {
	switch {
	case errors.Is(err, backpack.ErrOverwritten):
		return fmt.Errorf("%w: %s; to remember more, attach with more --slots than %d", err, a.remembered(r), r.Domain.Options.Slots)
	case errors.Is(err, backpack.ErrForeign):
		return fmt.Errorf("%w: IDs of domain %q as it is attached now begin with %08x", err, r.Domain.Name, r.Domain.Epoch)
	}
	return err
}

// remembered says how far back the ring goes.
func (a *app) remembered(r *agent.Reader) string {
	e := backpack.Remembered(r.Maps, r.Decoder)
	if e.Packets == 0 {
		return "the ring is empty: nothing was measured yet"
	}
	return fmt.Sprintf("the ring remembers %s, from %s on", plural(e.Packets, "packet"), e.Oldest.In(a.location).Format("2006-01-02 15:04:05.000000"))
}

func (a *app) printStories(r *agent.Reader, found []*backpack.Found) error {
	a.showNames(r.Domain)
	t := &teller{domain: r.Domain, location: a.location, now: a.now(), shown: a.shown}
	outers, err := findOuters(r, found)
	if err != nil {
		return err
	}
	for i, f := range found {
		s := t.tell(&f.Record, f.Segment)
		s.goInto(&f.Record, outers[f.Record.ID], a.shown)
		if a.output == formatJSON {
			if err := printStoryJSON(a.out, &f.Record, s); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := s.print(a.out, a.colored()); err != nil {
			return err
		}
	}
	return nil
}

// print writes the story for a person.
func (s *story) print(w io.Writer, colored bool) error {
	var b strings.Builder
	for i, line := range s.lines(colored) {
		if i > 0 && i == 1+len(s.head) {
			b.WriteByte('\n')
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are the title, the head, the steps and the end.
func (s *story) lines(colored bool) []string {
	titleStyle := bold
	if s.bad {
		titleStyle = red
	}
	lines := append([]string{titleStyle.paint(colored, s.title)}, s.head...)
	atWidth, nodeWidth := 0, 0
	for _, st := range s.steps {
		atWidth, nodeWidth = max(atWidth, len([]rune(st.at))), max(nodeWidth, len([]rune(st.node)))
	}
	for _, st := range s.steps {
		what := st.what
		switch {
		case st.bad:
			what = red.paint(colored, what)
		case st.slowest:
			what = yellow.paint(colored, what)
		}
		lines = append(lines, fmt.Sprintf("  %*s  %-*s  %s", atWidth, st.at, nodeWidth, st.node, what))
	}
	return append(lines, s.end...)
}

// printStoryJSON prints the record as "radar packets" does, with the story at its end.
func printStoryJSON(w io.Writer, r *record.Record, s *story) error {
	var object, lines bytes.Buffer
	if err := errors.Join(printJSON(&object, r.JSON()), printJSON(&lines, s.lines(false))); err != nil {
		return err
	}
	record := bytes.TrimSuffix(bytes.TrimSpace(object.Bytes()), []byte("}"))
	joined := fmt.Sprintf("%s,\"story\":%s}", record, bytes.TrimSpace(lines.Bytes()))
	return printJSON(w, json.RawMessage(joined))
}
