// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/collect/fast"
	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/join"
)

const collectLong = `Take telemetry reports of switches and hosts (INT 0.5 to 2.1, Telemetry Report 0.5,
1.0 and 2.0; docs/int.md) from UDP, with --interface from the wire, whoever they are for and
whatever the kernel thinks of their headers (BMv2's have no IP checksum, and no UDP socket
gets them), or with -r from a capture file.

Metrics are made of every report: paths and latencies of flows, latencies of nodes,
occupancy and congestion of queues, utilization of links. radar metrics shows the latest
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

const collectExample = `  radar collect                                          # UDP port 32766
  radar collect --port 32766,6000 --source 10.0.0.7=auto,latency=us --node 1=leaf1 --node 2=spine1
  radar collect --show events --threshold hop_latency=5us,queue_occupancy=50%
  radar collect --http 9432 --influx 'http://127.0.0.1:8086/?db=radar'
  radar collect --interface eth1 --port 32766,6000
  radar collect --listen 10.0.0.1 --allow 10.0.0.0/8
  radar collect --all -r reports.pcap && radar paths && radar metrics
  radar collect --config collector.yaml
  radar collect --forget`

// reportPort is the default of most programs that send reports.
const reportPort = 32766

// What --event-time takes.
const (
	byArrival = "arrival"
	byReport  = "report"
)

// mostSkew is the most that --max-skew takes.
const mostSkew = 24 * time.Hour

// saveEvery is how often readers get to see what came.
const saveEvery = 200 * time.Millisecond

// collectFlags are the flags of "radar collect".
type collectFlags struct {
	listen   string
	device   string
	hint     time.Duration
	ports    []uint
	file     string
	allow    []string
	sources  []string
	nodes    []string
	keep     count
	keepRows count
	join     time.Duration
	time     choice
	skew     time.Duration
	all      bool
	show     choice
	forget   bool
	settings string
	metricFlags
	fast fastFlags
	out  outFlags
}

func newCollectCmd(a *app) *cobra.Command {
	f := &collectFlags{keep: 64 << 20, keepRows: 64 << 20, time: choice{byArrival, "time", []string{byArrival, byReport}}, show: choice{"", "thing to show", []string{"packets", "events"}}}
	cmd := &cobra.Command{
		Use:               "collect",
		Short:             "Collect telemetry reports of P4 switches and others",
		Long:              collectLong,
		Example:           collectExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.collect(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "take reports at this address only (default: at all)")
	flags.StringVar(&f.device, "interface", "", "take reports to these ports as they are on the wire of this interface, whoever they are for, in place of sockets")
	flags.DurationVar(&f.hint, "hint-after", hintAfter, "when to say what the kernel dropped, if no report has come")
	_ = flags.MarkHidden("hint-after") // for tests
	flags.UintSliceVar(&f.ports, "port", []uint{reportPort}, "UDP ports of reports (with -r: besides those that programs use)")
	flags.StringVarP(&f.file, "read", "r", "", "read a capture file (- is standard input) and end")
	flags.StringSliceVar(&f.allow, "allow", nil, "take reports of these sources only, addresses or prefixes such as 10.0.0.0/8 (default: anybody's)")
	flags.StringSliceVar(&f.sources, "source", nil, "what a source sends, ADDRESS=PROFILE, and behind that ,latency=us (ns, ms: what hop latencies count by), ,time=us (the same of times), ,clock=shared (its nodes, and those of all sources with this, take times by one clock: then there are latencies of links and end to end); profiles: radar int decode --help, or auto")
	flags.StringSliceVar(&f.nodes, "node", nil, "what a node is called, ID=NAME")
	flags.DurationVar(&f.join, "join", 200*time.Millisecond, "how long postcards (INT-XD, INT-MX) of one packet are waited for; 0: each is a packet")
	addChoice(cmd, &f.time, "event-time", "time of events and values: when the report came, or the time in it, for which the clock that the source takes it by must agree with this machine's")
	flags.DurationVar(&f.skew, "max-skew", 10*time.Second, "with --event-time report, how far the time in a report may be from when it came; else the latter is taken, and the report counted")
	flags.Var(&f.keep, "keep", "bytes of reports that are kept, at least 64k")
	flags.Var(&f.keepRows, "keep-metrics", "bytes of values that are kept for radar metrics, at least 64k: those reported last (while they are written, twice that)")
	flags.BoolVar(&f.all, "all", false, "keep every report as a packet, also those without an event")
	addChoice(cmd, &f.show, "show", "print them as they come")
	f.metricFlags.add(cmd)
	f.fast.add(cmd)
	f.out.register(flags)
	flags.BoolVar(&f.forget, "forget", false, "remove the reports that were kept")
	flags.StringVar(&f.settings, "config", "", "YAML file with settings, named as these flags: those that are not given here")
	completeFlag(cmd, "source", completeSource)
	cmd.AddCommand(newCollectGenerateCmd(a), newCollectStatusCmd(a))
	return cmd
}

func (a *app) collect(cmd *cobra.Command, f *collectFlags) error {
	if f.forget {
		return a.forgetReports(cmd)
	}
	if f.settings != "" {
		if err := useConfig(cmd, f.settings); err != nil {
			return err
		}
	}
	info, err := f.info()
	if err != nil {
		return withCode(exitUsage, err)
	}
	allow, err := parseAllow(f.allow)
	if err != nil {
		return withCode(exitUsage, err)
	}
	translator, err := info.Translator()
	if err != nil {
		return withCode(exitUsage, fmt.Errorf("--source: %w", err))
	}
	if err := f.checkBounds(); err != nil {
		return err
	}
	if err := f.eventTime(cmd, translator); err != nil {
		return err
	}
	config, err := f.config()
	if err != nil {
		return withCode(exitUsage, err)
	}
	if err := f.checkInputs(cmd); err != nil {
		return err
	}
	if err := f.fast.check(cmd, f.file); err != nil {
		return err
	}
	stories := join.Open(a.domain)
	defer stories.Close()
	translator.Stories = stories
	run := &collecting{app: a, silence: silence{after: f.hint}, shown: shown{what: f.show.value, name: translator.NodeName}}
	// What is kept goes only when there is something to take its place.
	closeInput, err := run.open(f)
	if err != nil {
		return err
	}
	defer closeInput()
	out, err := f.out.open(a, translator.NodeName, f.show.value != "")
	if err != nil {
		return err
	}
	store, err := collect.Create(a.domain, int64(f.keep), *info)
	if err != nil {
		return err
	}
	if run.path, err = f.fast.attach(a, run.inputs, allow, &config); err != nil {
		return errors.Join(err, store.Close(), out.end(a))
	}
	defer run.closePath()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	run.begin(ctx)
	engine := metrics.New(config)
	run.collector = collect.New(translator, engine, store, run.packet())
	run.collector.Changed = run.event()
	run.collector.Warn = func(text string) { fmt.Fprintf(a.stderr, "radar: %s\n", text) }
	run.collector.Allow = allow
	run.collector.KeepRows = int64(f.keepRows)
	if run.path != nil {
		run.collector.Use(run.path)
	}
	run.startOutputs(out, engine, f.out.snapshot)
	err = errors.Join(run.take(), run.closePath())
	closeInput()
	run.collector.Together()
	err = errors.Join(err, run.collector.SaveRows(run.now()))
	last, closed := run.collector.Close()
	return errors.Join(err, run.end(), closed, out.end(a), a.printCollected(f, &last))
}

// checkBounds checks what has a least or a most.
func (f *collectFlags) checkBounds() error {
	switch {
	case f.join < 0 || f.join > time.Minute:
		return usagef("--join %v: use 0 to 1m", f.join)
	case f.keep < collect.MinKeep:
		return usagef("--keep %v: use at least 64k", &f.keep)
	case f.keepRows < collect.MinKeep:
		return usagef("--keep-metrics %v: use at least 64k", &f.keepRows)
	}
	return nil
}

// eventTime says which time events have.
func (f *collectFlags) eventTime(cmd *cobra.Command, t *collect.Translator) error {
	if f.skew <= 0 || f.skew > mostSkew {
		return usagef("--max-skew %v: use up to %v", f.skew, mostSkew)
	}
	if f.time.value == byReport {
		t.MostSkew = f.skew
	} else if isTyped(cmd, "max-skew") {
		return usagef("--max-skew is about --event-time report: give both")
	}
	return nil
}

// forgetReports removes what was kept.
func (a *app) forgetReports(cmd *cobra.Command) error {
	var other string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if cmd.LocalNonPersistentFlags().Lookup(flag.Name) != nil && flag.Name != "forget" && isTyped(cmd, flag.Name) {
			other = flag.Name
		}
	})
	if other != "" {
		return usagef("--forget and --%s: use one of them", other)
	}
	if err := collect.Remove(a.domain); err != nil && !errors.Is(err, collect.ErrNone) {
		return err
	}
	return nil
}

// nodeNameRE is what a node may be called: it stands in tables and paths.
var nodeNameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$`)

// info is what the flags say, for readers too.
func (f *collectFlags) info() (*collect.Info, error) {
	var epoch [4]byte
	_, _ = rand.Read(epoch[:])
	info := &collect.Info{
		Epoch: binary.NativeEndian.Uint32(epoch[:]), PID: os.Getpid(), Since: time.Now().UTC(), Join: f.join, All: f.all,
		Profiles: make(map[string]string), Names: make(map[uint32]string),
	}
	for _, port := range f.ports {
		if port == 0 || port > 65535 {
			return nil, fmt.Errorf("--port %d: use 1 to 65535", port)
		}
		if slices.Contains(info.Ports, uint16(port)) {
			return nil, fmt.Errorf("--port %d: twice", port)
		}
		info.Ports = append(info.Ports, uint16(port))
	}
	for _, s := range joinSettings(f.sources, collect.SourceSettings...) {
		text, profile, ok := strings.Cut(s, "=")
		addr, err := netip.ParseAddr(text)
		if !ok || err != nil {
			return nil, fmt.Errorf("--source %q: use ADDRESS=PROFILE, or ADDRESS=PROFILE,latency=us", s)
		}
		if _, twice := info.Profiles[addr.String()]; twice {
			return nil, fmt.Errorf("--source %s: twice", addr)
		}
		info.Profiles[addr.String()] = profile
	}
	for _, s := range f.nodes {
		text, name, ok := strings.Cut(s, "=")
		id, err := strconv.ParseUint(text, 0, 32)
		if !ok || err != nil || !nodeNameRE.MatchString(name) {
			return nil, fmt.Errorf("--node %q: use ID=NAME, the id 0 to %d, the name of letters, digits, '_', '.', ':', '-'", s, uint32(1<<32-1))
		}
		if _, twice := info.Names[uint32(id)]; twice {
			return nil, fmt.Errorf("--node %s: twice", text)
		}
		info.Names[uint32(id)] = name
	}
	return info, nil
}

// joinSettings puts back together what a list has cut at a comma: entries that begin with one of the
// words belong to the one before.
func joinSettings(list []string, words ...string) (joined []string) {
	begins := func(s string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(s, word) })
	}
	for _, s := range list {
		if n := len(joined); n > 0 && begins(s) {
			joined[n-1] += "," + s
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// mostAllowed is how many prefixes --allow takes: each datagram is held against all of them.
const mostAllowed = 256

// parseAllow reads --allow.
func parseAllow(list []string) (allow []netip.Prefix, err error) {
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			addr, err := netip.ParseAddr(s)
			if err != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("--allow %q: use an address, or a prefix such as 10.0.0.0/8", s)
			}
			addr = addr.Unmap()
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		switch {
		case p.Addr().Is4In6():
			return nil, fmt.Errorf("--allow %s: write the prefix as IPv4 does", s)
		case p != p.Masked():
			return nil, fmt.Errorf("--allow %s: bits behind the prefix are set: did you mean %v, or %v?", s, p.Masked(), p.Addr())
		case slices.Contains(allow, p):
			return nil, fmt.Errorf("--allow %s: twice", s)
		}
		allow = append(allow, p)
	}
	if len(allow) > mostAllowed {
		return nil, fmt.Errorf("--allow: %d prefixes: use at most %d", len(allow), mostAllowed)
	}
	return allow, nil
}

// collecting is a collector at work.
type collecting struct {
	*app
	shown
	capture   *collect.Capture // or
	inputs    []collect.Input
	silence   silence
	collector *collect.Collector
	rowsDue   time.Time
	path      *fast.Path // nil: none is asked for

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// now is the time by which metrics grow old: of a file that of its packets.
func (c *collecting) now() time.Time {
	if c.capture != nil {
		return time.Time{}
	}
	return c.app.now()
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

// take takes what comes, until Ctrl-C, the end of the file, or an error.
func (c *collecting) take() error {
	var wait sync.WaitGroup
	inputs := make(chan error, 1)
	if c.capture != nil {
		go func() { inputs <- c.collector.Read(c.capture) }() // nobody can interrupt it at a terminal
	}
	c.silence.begin(c)
	for _, in := range c.inputs {
		fmt.Fprintf(c.stderr, "radar: collecting at %v\n", in)
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
			c.silence.look(c.app, now, &info)
			if err := c.saveRows(); err != nil {
				c.cancel(err)
			}
		case <-c.ctx.Done():
			c.finish()
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
