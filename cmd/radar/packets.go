// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/record"
)

// defaultLast is how many packets are shown if nothing says how many.
const defaultLast = 20

const packetsLong = `Show packets: which way each went, how long it took, where it was lost and why.

The ring remembers the last packets (attach --slots); this shows the newest of
them, oldest first.

` + selectionHelp + `

With -f packets are shown as they end, from now on, until Ctrl-C.

-o json prints one object a line, described in docs/data-model.md; -o wide adds
header fields and the time at each hop: in brackets inside a node, on an arrow
between two nodes.`

const packetsExample = `  radar packets                                  # the last 20
  radar packets --state lost --since 5m
  radar packets --src 10.0.1.0/24 --proto tcp --dport 80,443 -o wide
  radar packets -f --node r1 -c 100
  radar packets -f udp port 53 and not host 10.0.0.1
  radar packets --last 0 -o json | jq -r .latency_ns`

// packetFlags are the flags of "radar packets".
type packetFlags struct {
	selectFlags
	follow bool
	count  count
}

func newPacketsCmd(a *app) *cobra.Command {
	f := &packetFlags{selectFlags: selectFlags{last: defaultLast}}
	cmd := &cobra.Command{
		Use:         "packets [EXPRESSION]",
		Short:       "Show packets with path, times and losses",
		Long:        packetsLong,
		Example:     packetsExample,
		Annotations: hasCSV,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := f.query(cmd.Flags(), args, a.now())
			if err != nil {
				return err
			}
			return a.packets(cmd.Context(), q)
		},
	}
	f.add(a, cmd, "show the newest N; 0: all (with --since the default is all, with -f none)")
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "show packets as they end, until Ctrl-C")
	flags.VarP(&f.count, "count", "c", "end after N packets; 0: no limit")
	return cmd
}

// packetQuery is what "radar packets" shows.
type packetQuery struct {
	selection
	history bool // show packets that have ended already
	last    int  // the newest so many of them; 0: all
	follow  bool
	count   int // end after so many; 0: no limit
}

func (f *packetFlags) query(flags *pflag.FlagSet, args []string, now time.Time) (packetQuery, error) {
	s, err := f.selection(flags, args, now)
	if err != nil {
		return packetQuery{}, err
	}
	q := packetQuery{selection: s, follow: f.follow, count: int(f.count), last: int(f.last)}
	givenLast, givenSince := flags.Changed("last"), flags.Changed("since")
	if givenSince && !givenLast {
		q.last = 0
	}
	q.history = !f.follow || givenLast || givenSince
	if !f.follow && q.count > 0 && (q.last == 0 || q.count < q.last) {
		q.last = q.count
	}
	return q, nil
}

// printChunk is how many rows decide on the width of a table's columns.
const printChunk = 1000

// scan is what the ring is asked for.
func (q *packetQuery) scan(now time.Time) backpack.ScanOptions {
	o := backpack.ScanOptions{Last: q.last, Select: q.packets()}
	if !q.since.IsZero() {
		o.Since = scanSince(now, q.since)
	}
	return o
}

// packetList shows what the ring remembers.
func (a *app) packetList(reader *agent.Reader, q packetQuery) error {
	printer := newPacketPrinter(a.out, a.output, a.location)
	var rows []*record.Record
	found, incomplete := false, uint64(0)
	stats, err := backpack.ScanFunc(reader.Maps, reader.Decoder, q.scan(a.now()), func(r *record.Record) error {
		found = true
		if r.Truncated {
			incomplete += uint64(r.Segs)
		}
		if rows = append(rows, r); len(rows) < printChunk {
			return nil
		}
		full := rows
		rows = rows[:0]
		return printer.print(full)
	})
	if err != nil {
		return fmt.Errorf("read the ring: %w", err)
	}
	if err := errors.Join(printer.print(rows), a.out.Flush()); err != nil {
		return err
	}
	a.noteIncomplete(incomplete)
	if !found {
		a.noteEmpty(reader, &q.selection)
	}
	if stats.Torn > 0 {
		fmt.Fprintf(a.stderr, "radar: %d packets were overwritten while they were read\n", stats.Torn)
	}
	return nil
}
