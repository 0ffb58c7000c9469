// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/cli/wire"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
)

// defaultLast is how many packets are shown if nothing says how many.
const defaultLast = 20

const packetsLong = `Show packets: which way each went, how long it took, where it was lost and why.

The ring remembers the last packets (attach --slots); this shows the newest of
them, oldest first.

` + kit.SelectionHelp + `

With -f packets are shown as they end, from now on, until Ctrl-C.

--sort latency shows those that took longest first, of all that the ring remembers.

-w FILE writes them as a capture for Wireshark: a frame for each port at which a packet
was seen, with the header that it had there. "-" is standard output, as in
"radar packets -f -w - | wireshark -k -i -" (docs/wireshark.md). With -f, --snaplen N adds the
first N bytes of payload at the ports of --payload-at, or of --at.

-o json prints one object a line, described in docs/data-model.md; -o wide adds
header fields and the time at each hop: in brackets inside a node, on an arrow
between two nodes. -o csv has a row for each packet; with --long one for each of its
hops.`

const packetsExample = `  radar packets                                  # the last 20
  radar packets h1 h2                            # between two nodes
  radar packets --state lost --since 5m
  radar packets --src 10.0.1.0/24 --proto tcp --dport 80,443 -o wide
  radar packets -f --node r1 -c 100
  radar packets -f udp port 53 and not host 10.0.0.1
  radar packets --dst h2 --sort latency --top 10
  radar packets --state lost --last 0 -w lost.pcapng
  radar packets --last 0 --long -o csv > hops.csv
  radar packets --last 0 -o json | jq -r .latency_ns`

// packetOptions are the flags of "radar packets".
type packetOptions struct {
	kit.SelectFlags
	follow  bool
	count   kit.Count
	sort    kit.Choice
	top     kit.Count
	long    bool
	write   string // a capture; "": print
	at      []string
	payload wire.PayloadFlags
}

// Orders of packets.
const (
	byTime    = "time"
	byLatency = "latency"
)

// NewPacketsCmd returns "radar packets".
func NewPacketsCmd(k *kit.Kit) *cobra.Command {
	f := &packetOptions{SelectFlags: kit.SelectFlags{Last: defaultLast}, sort: kit.NewChoice(byTime, "order", byTime, byLatency), top: defaultLast}
	cmd := &cobra.Command{
		Use:         "packets " + kit.EndsUse,
		Short:       "Show packets with path, times and losses",
		Long:        packetsLong,
		Example:     packetsExample,
		Annotations: kit.HasCSV,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, k.Output); err != nil {
				return err
			}
			if err := f.checkWrite(cmd); err != nil {
				return err
			}
			q, err := f.query(cmd.Flags(), args, k.Now())
			if err != nil {
				return err
			}
			return packets(k, cmd.Context(), q)
		},
	}
	f.Add(k, cmd, "show the newest N; 0: all (with --since the default is all, with -f none)")
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "show packets as they end, until Ctrl-C")
	flags.VarP(&f.count, "count", "c", "end after N packets; 0: no limit")
	f.sort.Add(cmd, "sort", "order, the oldest or the slowest first")
	flags.Var(&f.top, "top", "with --sort latency, show the first N; 0: all")
	flags.BoolVar(&f.long, "long", false, "with -o csv, a row for each hop")
	flags.StringVarP(&f.write, "write", "w", "", "write a capture (pcapng) to FILE, - is standard output")
	wire.AddAt(k, cmd, &f.at)
	f.payload.Add(k, cmd)
	return cmd
}

// check refuses flags that do not go together.
func (f *packetOptions) check(cmd *cobra.Command, output kit.Format) error {
	if kit.IsTyped(cmd, "snaplen") && f.Given() {
		return fault.Usage.Errorf("--snaplen: recordings have no payload")
	}
	if err := f.RefuseFollow(f.follow); err != nil {
		return err
	}
	switch {
	case f.sort.Value != byTime && f.follow:
		return fault.Usage.Errorf("--sort %s: packets that are shown as they end (-f) come in that order", f.sort.Value)
	case kit.IsTyped(cmd, "top") && f.sort.Value == byTime:
		return fault.Usage.Errorf("--top: only with --sort latency; the newest N: --last N")
	case f.long && output != kit.FormatCSV:
		return fault.Usage.Errorf("--long: only with -o csv; other formats show all hops")
	}
	return nil
}

// checkWrite refuses flags that a capture does not have, and those of one without it.
func (f *packetOptions) checkWrite(cmd *cobra.Command) error {
	switch {
	case f.write == "" && kit.IsTyped(cmd, "at"):
		return fault.Usage.Errorf("--at: only with -w; packets that visited a node: --node")
	case f.write == "" && (kit.IsTyped(cmd, "snaplen") || kit.IsTyped(cmd, "payload-at")):
		return fault.Usage.Errorf("--snaplen, --payload-at: only with -f -w: payload goes into a capture")
	case f.write == "":
		return nil
	case !f.follow && (kit.IsTyped(cmd, "snaplen") || kit.IsTyped(cmd, "payload-at")):
		return fault.Usage.Errorf("--snaplen, --payload-at: only with -f: the ring has no payload of packets that have passed")
	case kit.IsTyped(cmd, "output"):
		return fault.Usage.Errorf("-o says how packets are printed, -w writes them as a capture: use one of them")
	case f.follow && kit.IsTyped(cmd, "last"):
		return fault.Usage.Errorf("--last: a capture that follows (-f -w) begins now, or with --since")
	}
	return nil
}

// packetQuery is what "radar packets" shows.
type packetQuery struct {
	*answer.Selection
	history bool // show packets that have ended already
	follow  bool
	count   int // end after so many; 0: no limit
	slowest int // show so many, the slowest first; 0: all, -1: by time
	long    bool
	write   string // a capture; "": print
	at      wire.Ports
	payload *wire.PayloadQuery
}

func (f *packetOptions) query(flags *pflag.FlagSet, args []string, now time.Time) (packetQuery, error) {
	s, err := f.Selection(flags, args, now)
	if err != nil {
		return packetQuery{}, err
	}
	q := packetQuery{Selection: s, follow: f.follow, count: int(f.count), slowest: -1, long: f.long, write: f.write, at: f.at}
	if q.payload, err = f.payload.Query(f.at); err != nil {
		return q, err
	}
	if f.sort.Value == byLatency {
		q.slowest = int(f.top)
	}
	givenLast, givenSince := flags.Changed("last"), flags.Changed("since")
	if (givenSince || flags.Changed("until") || q.slowest >= 0) && !givenLast {
		q.Last = 0
	}
	q.history = !f.follow || givenLast || givenSince
	if !f.follow && q.count > 0 && (q.Last == 0 || q.count < q.Last) {
		q.Last = q.count
	}
	return q, nil
}

// printChunk is how many rows decide on the width of a table's columns.
const printChunk = 1000

// packetPrinter prints packets as they are asked for.
func packetPrinter(k *kit.Kit, q packetQuery) *kit.PacketPrinter {
	p := kit.NewPacketPrinter(k.Out, k.Output, k.Location)
	p.Long, p.Shown = q.long, k.Shown
	return p
}

// packetList shows packets that there are.
func packetList(k *kit.Kit, ctx context.Context, s *answer.Sources, q packetQuery) error {
	if d := s.Domain(); d != nil {
		k.ShowNames(d)
	}
	printer := packetPrinter(k, q)
	slow := answer.Slowest{N: q.slowest}
	gone := make(left)
	notes, err := s.Records(ctx, q.Selection, func(r *record.Record) error {
		gone.addRecord(r)
		if q.slowest >= 0 {
			slow.Add(r)
			return nil
		}
		if err := printer.Add(r); err != nil || printer.Len() < printChunk || !s.Streams() {
			return err
		}
		return printer.Flush()
	})
	if err != nil {
		k.Note(notes)
		return err
	}
	if q.slowest >= 0 {
		for _, r := range slow.Records() {
			if err := printer.Add(r); err != nil {
				return err
			}
		}
	}
	if printer.Len() > 0 || k.Output.Raw() { // else notes say why there is none
		if err := printer.Flush(); err != nil {
			return err
		}
	}
	k.Note(notes)
	if s.Ring() != nil {
		gone.note(k, ctx, s.Domain())
	}
	return nil
}
