// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/words"
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

// traceOptions are the flags of "radar trace".
type traceOptions struct {
	last        uint
	slowest     uint
	state, node []string
	kit.ReadFlag
}

// NewTraceCmd returns "radar trace".
func NewTraceCmd(k *kit.Kit) *cobra.Command {
	f := &traceOptions{}
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
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.check(args)
			if err != nil {
				return err
			}
			if err := f.Open(k); err != nil {
				return err
			}
			return trace(k, context.WithoutCancel(cmd.Context()), args, f, s)
		},
	}
	f.Add(cmd)
	flags := cmd.Flags()
	flags.UintVar(&f.last, "last", 0, "the newest packet, or the newest N")
	flags.Lookup("last").NoOptDefVal = "1"
	flags.UintVar(&f.slowest, "slowest", 0, "the N packets that took longest")
	flags.StringSliceVar(&f.state, "state", nil, "with --last or --slowest: delivered, lost, left, in_flight, expired or ignored")
	flags.StringSliceVar(&f.node, "node", nil, "with --last or --slowest: a node that the packet visited")
	kit.CompleteWith(cmd, "state", kit.StateNames...)
	_ = cmd.RegisterFlagCompletionFunc("node", k.CompleteNodes)
	return cmd
}

// check refuses what does not go together, and returns what --last selects by.
func (f *traceOptions) check(ids []string) (*answer.Selection, error) {
	s, err := answer.Select(filter.Spec{State: strings.Join(f.state, ","), Node: strings.Join(f.node, ",")})
	switch {
	case err != nil:
		return nil, fault.Usage.Errorf("--%w", err)
	case f.last > 0 && f.slowest > 0:
		return nil, fault.Usage.Errorf("--last beside --slowest: ask for one of them")
	case len(ids) == 0 && f.last+f.slowest == 0:
		return nil, fault.Usage.Errorf("no packet named: give an ID as radar packets -o wide shows it, or --last")
	case len(ids) > 0 && f.last > 0:
		return nil, fault.Usage.Errorf("%q beside --last: name packets, or ask for the newest (the newest N: --last=N)", ids[0])
	case len(ids) > 0 && f.slowest > 0:
		return nil, fault.Usage.Errorf("%q beside --slowest: name packets, or ask for the slowest", ids[0])
	case f.last+f.slowest == 0 && len(f.state)+len(f.node) > 0:
		return nil, fault.Usage.Errorf("--state and --node choose among the newest packets: use them with --last, or among the slowest: --slowest")
	}
	for _, id := range ids {
		if _, _, err := backpack.ParseID(id); err != nil {
			return nil, fault.Usage.Errorf("%w: use one of radar's own packets as radar packets -o wide shows it, such as 5f3a9c01-1a2b", err)
		}
	}
	s.Last = int(f.last)
	return s, nil
}

func trace(k *kit.Kit, ctx context.Context, ids []string, f *traceOptions, s *answer.Selection) error {
	return k.ReadSingles(s, func(of answer.Singles) error {
		found, err := findPackets(k, ctx, of, ids, f, s)
		// What is found is told, also beside an ID that is not.
		if ring, is := of.(*answer.Ring); is {
			addReported(k, ring, found)
		}
		return errors.Join(err, printStories(k, ctx, of, found))
	})
}

// addReported adds what switches have reported of packets.
func addReported(k *kit.Kit, ring *answer.Ring, found []*backpack.Found) {
	records := make([]*record.Record, len(found))
	for i := range found {
		records[i] = &found[i].Record
	}
	if damaged := ring.AddReported(records); damaged != nil {
		k.Note([]answer.Note{note.ReportsDamaged{Err: damaged}})
	}
}

func findPackets(k *kit.Kit, ctx context.Context, r answer.Singles, ids []string, f *traceOptions, s *answer.Selection) ([]*backpack.Found, error) {
	var found []*backpack.Found
	if len(ids) == 0 {
		records, err := r.Chosen(ctx, s, int(f.slowest))
		if err != nil {
			return nil, err
		}
		if len(records) == 0 {
			k.Note(r.Lacks())
			k.Note(r.WhyEmpty(ctx, s))
			return nil, fmt.Errorf("no such packet: %s", remembered(k, r))
		}
		for i := range records {
			found = append(found, &backpack.Found{Record: *records[i]})
		}
		return found, nil
	}
	found, err := r.Find(ids...)
	return found, explainIDs(k, r, err)
}

// explainIDs adds to the errors of Find what its user can do.
func explainIDs(k *kit.Kit, of answer.Singles, err error) error {
	all, several := err.(interface{ Unwrap() []error })
	if !several {
		return err
	}
	if r, is := of.(*answer.Recorded); is {
		k.Note(r.Missing())
	}
	var errs []error
	for _, err := range all.Unwrap() {
		errs = append(errs, explainID(k, of, err))
	}
	return errors.Join(errs...)
}

// explainID adds to an error of Find what its user can do.
func explainID(k *kit.Kit, of answer.Singles, err error) error {
	r, is := of.(*answer.Ring)
	switch {
	case !is:
		return fmt.Errorf("%w: %s", err, remembered(k, of))
	case errors.Is(err, backpack.ErrOverwritten):
		return fmt.Errorf("%w: %s; to remember more, attach with more --slots than %d", err, remembered(k, r), r.Domain.Options.Slots)
	case errors.Is(err, backpack.ErrForeign):
		return fmt.Errorf("%w: IDs of domain %q as it is attached now begin with %08x", err, r.Domain.Name, r.Domain.Epoch)
	}
	return err
}

// remembered says how far back the ring, or the recording, goes.
func remembered(k *kit.Kit, of answer.Singles) string {
	if r, is := of.(*answer.Recorded); is {
		return k.Sentences().Covers(r.Covers())
	}
	e := of.(*answer.Ring).Remembered()
	if e.Packets == 0 {
		return "the ring is empty: nothing was measured yet"
	}
	return fmt.Sprintf("the ring remembers %s, from %s on", words.Plural(e.Packets, "packet"), e.Oldest.In(k.Location).Format("2006-01-02 15:04:05.000000"))
}

func printStories(k *kit.Kit, ctx context.Context, r answer.Singles, found []*backpack.Found) error {
	if d := r.Of(); d != nil {
		k.ShowNames(d)
	}
	stories, notes, err := r.Stories(ctx, found, k.Now())
	if err != nil {
		return err
	}
	k.Note(notes)
	t := &wording.Teller{Sentences: k.Sentences(), Shown: k.Shown}
	for i, told := range stories {
		s := t.Tell(told)
		if k.Output == kit.FormatJSON {
			if err := printStoryJSON(k.Out, told.Record, s); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(k.Out)
		}
		if err := printStory(k.Out, s, k.Colored()); err != nil {
			return err
		}
	}
	return nil
}

// printStory writes the story for a person.
func printStory(w io.Writer, s *wording.Told, colored bool) error {
	paint := func(style kit.Style) wording.Paint {
		return func(text string) string { return style.Paint(colored, text) }
	}
	var b strings.Builder
	lines, head := s.Lines(paint(kit.Bold), paint(kit.Red), paint(kit.Yellow))
	for i, line := range lines {
		if i > 0 && i == head {
			b.WriteByte('\n')
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printStoryJSON prints the record as "radar packets" does, with the story at its end.
func printStoryJSON(w io.Writer, r *record.Record, s *wording.Told) error {
	told, _ := s.Lines(nil, nil, nil)
	var object, lines bytes.Buffer
	if err := errors.Join(kit.PrintJSON(&object, r.JSON()), kit.PrintJSON(&lines, told)); err != nil {
		return err
	}
	record := bytes.TrimSuffix(bytes.TrimSpace(object.Bytes()), []byte("}"))
	joined := fmt.Sprintf("%s,\"story\":%s}", record, bytes.TrimSpace(lines.Bytes()))
	return kit.PrintJSON(w, json.RawMessage(joined))
}
