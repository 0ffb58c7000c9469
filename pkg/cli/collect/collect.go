// SPDX-License-Identifier: Apache-2.0

// Package collect has "radar collect", the commands below it, and "radar int metrics".
package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/join"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/telemetry/xdp"
)

const long = `Take telemetry reports of switches and hosts (INT 0.5 to 2.1, Telemetry Report 0.5,
1.0 and 2.0; docs/int.md) from UDP, with --interface from the wire, whoever they are for and
whatever the kernel thinks of their headers (BMv2's have no IP checksum, and no UDP socket
gets them), or with -r from a capture file.

Metrics are made of every report: paths and latencies of flows, latencies of nodes,
occupancy and congestion of queues, utilization of links. radar int metrics shows the latest
values. A value that is new, or further than --threshold from what was reported last, is an
event; --show events prints them, --json, --http and --influx give them to others.

The newest reports with an event, and those of drops, are kept as packets; with --all all
are. radar packets, paths, latency, loss, flows and throughput then answer from them too,
beside what radar measures itself: their nodes are called int-ID, or as --node says.

Switches inside the domain (--domain) quote radar's number in each packet. What they say is
added to radar's own story of it, if --node names them as the domain's nodes.

Which variant a source sends is recognised; --source says it where that fails, and in
which unit its latencies are: BMv2 counts microseconds. radar int decode shows what is
in a report, field by field.

Where one clock is behind the times of all nodes of a source, --source ...,clock=shared
gives latencies of links (link_latency) and end to end (flow_latency); radar's own reports
(profile radar) are so by nature.

Events have the time at which their report came. With --event-time report they have the
one in the report: the source's clock must be set as this machine's (NTP, PTP), and count
from 1970. Times of 32 bits are taken for those nearest to the arrival: up to 3.2 s before
it, or 1 s behind it, if they are ns. What is further than --max-skew from the arrival is
not taken, and counted.

Radar collects until Ctrl-C; radar collect status says how it does. What was kept stays until the next collector of the
domain begins, or "radar collect --forget".`

const example = `  radar collect                                          # UDP port 32766
  radar collect --port 32766,6000 --source 10.0.0.7=auto,latency=us --node 1=leaf1 --node 2=spine1
  radar collect --show events --threshold hop_latency=5us,queue_occupancy=50%
  radar collect --http 8480 --influx 'http://127.0.0.1:8086/?db=radar'
  radar collect --interface eth1 --port 32766,6000
  radar collect --listen 10.0.0.1 --allow 10.0.0.0/8
  radar collect --all -r reports.pcap && radar paths && radar int metrics
  radar collect --config collector.yaml
  radar collect --forget`

// ReportPort is the default of most programs that send reports.
const ReportPort = 32766

// What --event-time takes.
const (
	byArrival = "arrival"
	byReport  = "report"
)

// mostSkew is the most that --max-skew takes.
const mostSkew = 24 * time.Hour

// saveEvery is how often readers get to see what came.
const saveEvery = 200 * time.Millisecond

// options are the flags of "radar collect".
type options struct {
	listen   string
	device   string
	hint     time.Duration
	ports    []uint
	file     string
	allow    []string
	sources  []string
	nodes    []string
	keep     kit.Count
	keepRows kit.Count
	join     time.Duration
	time     kit.Choice
	skew     time.Duration
	all      bool
	show     kit.Choice
	forget   bool
	record   string // directory
	settings string
	metricFlags
	fast fastFlags
	out  outFlags
}

// NewCmd returns "radar collect" and the commands below it.
func NewCmd(k *kit.Kit, version string) *cobra.Command {
	f := &options{keep: 64 << 20, keepRows: 64 << 20, time: kit.NewChoice(byArrival, "time", byArrival, byReport), show: kit.NewChoice("", "thing to show", "packets", "events")}
	cmd := &cobra.Command{
		Use:               "collect",
		Short:             "Collect telemetry reports of P4 switches and others",
		Long:              long,
		Example:           example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return run(k, cmd, f, version) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "take reports at this address only (default: at all)")
	flags.StringVar(&f.device, "interface", "", "take reports to these ports as they are on the wire of this interface, whoever they are for, in place of sockets")
	flags.DurationVar(&f.hint, "hint-after", hintAfter, "when to say what the kernel dropped, if no report has come")
	_ = flags.MarkHidden("hint-after") // for tests
	flags.UintSliceVar(&f.ports, "port", []uint{ReportPort}, "UDP ports of reports (with -r: besides those that programs use)")
	flags.StringVarP(&f.file, "read", "r", "", "read a capture file (- is standard input) and end")
	flags.StringSliceVar(&f.allow, "allow", nil, "take reports of these sources only, addresses or prefixes such as 10.0.0.0/8 (default: anybody's)")
	flags.StringSliceVar(&f.sources, "source", nil, "what a source sends, ADDRESS=PROFILE, and behind that ,latency=us (ns, ms: what hop latencies count by), ,time=us (the same of times), ,clock=shared (its nodes, and those of all sources with this, take times by one clock: then there are latencies of links and end to end); profiles: radar int decode --help, or auto")
	flags.StringSliceVar(&f.nodes, "node", nil, "what a node is called, ID=NAME")
	flags.DurationVar(&f.join, "join", 200*time.Millisecond, "how long postcards (INT-XD, INT-MX) of one packet are waited for; 0: each is a packet")
	f.time.Add(cmd, "event-time", "time of events and values: when the report came, or the time in it, for which the clock that the source takes it by must agree with this machine's")
	flags.DurationVar(&f.skew, "max-skew", 10*time.Second, "with --event-time report, how far the time in a report may be from when it came; else the latter is taken, and the report counted")
	flags.Var(&f.keep, "keep", "bytes of reports that are kept, at least 64k")
	flags.Var(&f.keepRows, "keep-metrics", "bytes of values that are kept for radar int metrics, at least 64k: those reported last (while they are written, twice that)")
	flags.BoolVar(&f.all, "all", false, "keep every report as a packet, also those without an event")
	f.show.Add(cmd, "show", "print them as they come")
	f.metricFlags.register(cmd)
	f.fast.register(cmd)
	f.out.register(flags)
	flags.StringVar(&f.record, "record", "", "also keep the packets of reports in a directory, in files of the form of radar record: for radar packets -r DIR and every other question")
	flags.BoolVar(&f.forget, "forget", false, "remove the reports that were kept")
	flags.StringVar(&f.settings, "config", "", "YAML file with settings, named as these flags: those that are not given here")
	_ = cmd.MarkFlagDirname("record")
	kit.CompleteFlag(cmd, "source", completeSource)
	cmd.AddCommand(newGenerateCmd(k), newStatusCmd(k))
	return cmd
}

func run(k *kit.Kit, cmd *cobra.Command, f *options, version string) error {
	if f.forget {
		return forgetReports(k, cmd)
	}
	if f.settings != "" {
		if err := kit.UseConfig(cmd, f.settings, "forget"); err != nil {
			return err
		}
	}
	s, err := f.readSettings(cmd)
	if err != nil {
		return err
	}
	stories := join.Open(k.Domain)
	defer stories.Close()
	s.translator.Stories = stories
	run := &collecting{Kit: k, silence: silence{after: f.hint}, shown: shown{what: f.show.Value, name: s.translator.NodeName}}
	// What is kept goes only when there is something to take its place.
	closeInput, err := run.openInputs(f)
	if err != nil {
		return err
	}
	defer closeInput()
	out, err := f.out.openOutputs(k, s.translator.NodeName, f.show.Value != "", version)
	if err != nil {
		return err
	}
	kept, err := store.Create(k.Domain, int64(f.keep), *s.info)
	if err != nil {
		return err
	}
	if run.path, err = f.fast.attach(k, run.inputs, s.allow, &s.metrics); err != nil {
		return errors.Join(err, kept.Close(), out.endOutputs(k))
	}
	defer run.closePath()
	ctx, stop := k.UntilInterrupt(cmd.Context())
	defer stop()
	run.beginPrinting(ctx)
	engine := metrics.New(s.metrics)
	run.makeCollector(&s, f, engine, kept)
	recorded, err := f.beginRecording(k, s.translator, stories, s.info.Epoch, version)
	if err != nil {
		return errors.Join(err, run.closePath(), kept.Close(), out.endOutputs(k))
	}
	run.startOutputs(out, engine, f.out.snapshot)
	err = errors.Join(run.takeReports(), run.closePath())
	closeInput()
	run.collector.Together()
	err = errors.Join(err, run.collector.SaveRows(run.now()))
	last, closed := run.collector.Close()
	return errors.Join(err, run.endPrinting(), closed, recorded.endRecording(k), out.endOutputs(k), printCollected(k, f, &last))
}

// makeCollector makes the collector.
func (c *collecting) makeCollector(s *settings, f *options, engine *metrics.Engine, kept *store.Store) {
	c.collector = collect.New(s.translator, engine, kept, c.packet())
	c.collector.Changed = c.event()
	c.collector.Warn = func(text string) { fmt.Fprintf(c.Stderr, "radar: %s\n", text) }
	c.collector.Allow = s.allow
	c.collector.KeepRows = int64(f.keepRows)
	if c.path != nil {
		c.collector.Use(c.path)
	}
}

// forgetReports removes what was kept.
func forgetReports(k *kit.Kit, cmd *cobra.Command) error {
	var other string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if cmd.LocalNonPersistentFlags().Lookup(flag.Name) != nil && flag.Name != "forget" && kit.IsTyped(cmd, flag.Name) {
			other = flag.Name
		}
	})
	if other != "" {
		return fault.Usage.Errorf("--forget and --%s: use one of them", other)
	}
	if err := store.Remove(k.Domain); err != nil && !errors.Is(err, store.ErrNone) {
		return err
	}
	return nil
}

// collecting is a collector at work.
type collecting struct {
	*kit.Kit
	shown
	capture   *collect.Capture // or
	inputs    []collect.Input
	silence   silence
	collector *collect.Collector
	rowsDue   time.Time
	path      *xdp.Path // nil: none is asked for

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// now is the time by which metrics grow old: of a file that of its packets.
func (c *collecting) now() time.Time {
	if c.capture != nil {
		return time.Time{}
	}
	return c.Kit.Now()
}

// saveRows lets readers see the metrics, once a second, but for at most a part in twenty of the
// time if there are very many.
func (c *collecting) saveRows() error {
	begin := time.Now()
	if begin.Before(c.rowsDue) {
		return nil
	}
	err := c.collector.SaveRows(c.now())
	end := time.Now()
	c.rowsDue = end.Add(max(time.Second, 20*end.Sub(begin)))
	return err
}

// takeReports takes what comes, until Ctrl-C, the end of the file, or an error.
func (c *collecting) takeReports() error {
	var wait sync.WaitGroup
	inputs := make(chan error, 1)
	if c.capture != nil {
		go func() { inputs <- c.collector.Read(c.capture) }() // nobody can interrupt it at a terminal
	}
	c.silence.noteDrops(c)
	for _, in := range c.inputs {
		fmt.Fprintf(c.Stderr, "radar: collecting at %v\n", in)
		wait.Go(func() {
			if err := c.collector.Receive(in); err != nil {
				c.cancel(err)
			}
		})
	}
	if c.path != nil {
		wait.Go(func() {
			if err := c.path.Receive(c.collector); err != nil {
				c.cancel(err)
			}
		})
	}
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-inputs:
			if err != nil {
				return fmt.Errorf("read capture: %w", err)
			}
			return nil
		case now := <-tick.C:
			if c.capture == nil {
				c.collector.Until(now)
			}
			info, err := c.collector.Save()
			if err != nil {
				c.cancel(err)
			}
			c.silence.sayWhenDue(c.Kit, now, &info)
			if err := c.saveRows(); err != nil {
				c.cancel(err)
			}
		case <-c.ctx.Done():
			c.finishInputs()
			stopped := c.stopPath()
			wait.Wait()
			if stopped != nil {
				return stopped
			}
			if err := context.Cause(c.ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}
