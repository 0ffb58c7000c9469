// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
)

const generateLong = `Send telemetry reports to a collector, to try it: at a set rate, to the one address
that is given and nowhere else. docs/int/collect.md says what the reports are.

Reports are made from a description, the flags below: a chain of nodes, and packets
that cross it. With INT-MD the last node reports, and quotes the packet with the
metadata of all; with INT-XD each node reports its own. The same flags make the same
bytes: --seed makes others.

With -r the UDP payloads of a capture file are sent as they are, at the times at which
they were captured, or at --rate.

Rates and counts are of datagrams; one has one report, or up to --group. What was sent
is said at the end, with the rate that was reached and what could not be sent. Radar
sends until --count, --duration, the end of the file, or Ctrl-C.`

const generateExample = `  radar collect generate --to 127.0.0.1:32766                          # 1000 a second
  radar collect generate --to 10.0.0.9:32766 --rate 100000 --duration 10s --flows 1000 --hops 6
  radar collect generate --to [::1]:32766 --report 1.0 --mode xd --drops 0.01 --gap-every 100
  radar collect generate --write reports.pcap --count 1000 && radar collect -r reports.pcap
  radar collect generate --to 127.0.0.1:32766 -r reports.pcap --loop --rate 5000`

// generateOptions are the flags of "radar collect generate".
type generateOptions struct {
	to, write, file string
	ports           []uint
	loop            bool
	rate            sendRate
	count           uint64
	duration        time.Duration

	description      generate.Description
	version          kit.Choice
	mode             kit.Choice
	transport, quote kit.Choice
	instructions     string
	latency, queue   valueRange
}

// instructionsAll is --instructions if it is not given.
const instructionsAll = "all"

func newGenerateCmd(k *kit.Kit) *cobra.Command {
	f := &generateOptions{
		rate:      1000,
		version:   kit.NewChoice("2.0", "version", "2.0", "1.0"),
		mode:      kit.NewChoice("md", "mode", "md", "xd"),
		transport: kit.NewChoice("udp", "transport", "udp", "tcp", "mixed"),
		quote:     kit.NewChoice("ethernet", "layer", "ethernet", "ip"),
		latency:   valueRange{generate.Range{Min: 1000, Max: 100_000}, "ns"},
		queue:     valueRange{generate.Range{Min: 0, Max: 1000}, ""},
	}
	cmd := &cobra.Command{
		Use:               "generate {--to HOST:PORT | --write FILE} [-r FILE]",
		Short:             "Send telemetry reports to a collector, to try it",
		Long:              generateLong,
		Example:           generateExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runGenerate(k, cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "collector that gets the reports, HOST:PORT")
	flags.StringVar(&f.write, "write", "", "write a capture file instead (- is standard output)")
	flags.Var(&f.rate, "rate", "datagrams a second; 0: as fast as possible (with -r: as they were captured)")
	flags.Uint64Var(&f.count, "count", 0, "datagrams to send (0: no limit)")
	flags.DurationVar(&f.duration, "duration", 0, "how long to send (0: no limit)")
	flags.StringVarP(&f.file, "read", "r", "", "send what a capture file has (- is standard input)")
	flags.UintSliceVar(&f.ports, "port", []uint{ReportPort}, "with -r: UDP ports of reports")
	flags.BoolVar(&f.loop, "loop", false, "with -r: begin again at the end")
	f.describe(cmd)
	kit.CompleteFlag(cmd, "to", cobra.NoFileCompletions)
	return cmd
}

// describe adds the flags of a description.
func (f *generateOptions) describe(cmd *cobra.Command) {
	flags, d := cmd.Flags(), &f.description
	f.version.Add(cmd, "report", "version of reports, and of the INT that belongs to it (2.0: INT 2.1)")
	f.mode.Add(cmd, "mode", "INT-MD (in the quoted packet) or INT-XD (a report of each node)")
	flags.StringVar(&f.instructions, "instructions", instructionsAll, "instruction bitmap, as 0xff81")
	flags.IntVar(&d.Flows, "flows", 10, "flows that packets belong to, in turn")
	flags.IntVar(&d.Hops, "hops", 3, "nodes that packets cross")
	flags.Uint32Var(&d.FirstNode, "first-node", 1, "id of the first node; others follow")
	flags.Uint8Var(&d.HwID, "hw-id", 0, "hw_id of reports")
	flags.IntVar(&d.Group, "group", 1, "reports in a datagram (version 2.0)")
	flags.BoolVar(&d.IPv6, "ipv6", false, "packets of IPv6")
	f.transport.Add(cmd, "transport", "what packets carry")
	f.quote.Add(cmd, "quote", "what quoted packets begin with")
	flags.Uint16Var(&d.VLAN, "vlan", 0, "VLAN tag of quoted packets (0: none)")
	flags.IntVar(&d.Payload, "payload", 32, "bytes that packets carry behind all headers")
	flags.Uint8Var(&d.DSCP, "dscp", 0x17, "DSCP that marks packets with INT")
	flags.Var(&f.latency, "latency", "hop latencies, MIN-MAX in ns, at random")
	flags.Var(&f.queue, "queue", "queue occupancies, MIN-MAX")
	flags.Uint32Var(&d.QueueStep, "queue-step", 10, "by what occupancies grow from packet to packet, until they begin again")
	flags.BoolVar(&d.Constant, "constant", false, "the same values in all packets, the least")
	flags.Float64Var(&d.Drops, "drops", 0, "share of packets that are dropped, 0 to 1")
	flags.IntVar(&d.GapEvery, "gap-every", 0, "leave out a sequence number after so many datagrams of a node (0: never)")
	flags.Uint32Var(&d.FirstSequence, "first-sequence", 0, "first sequence number of each node")
	flags.Uint64Var(&d.Seed, "seed", 1, "of latencies and drops")
}

// startOfTime is when the first packet of every description comes: made bytes look at no clock.
var startOfTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fastest is the time between datagrams that are not paced, where one is written down.
const fastest = time.Microsecond

// maker makes the Maker that the flags describe.
func (f *generateOptions) maker() (*generate.Maker, error) {
	d := f.description
	d.Start, d.Latency, d.Queue = startOfTime, f.latency.Range, f.queue.Range
	d.QuoteIP = f.quote.Value == "ip"
	if f.version.Value == "1.0" {
		d.Version = generate.V10
	}
	switch f.transport.Value {
	case "tcp":
		d.Transport = generate.TCP
	case "mixed":
		d.Transport = generate.Mixed
	}
	d.Interval = f.rate.due(1) / time.Duration(max(1, d.Group))
	if f.mode.Value == "xd" {
		d.Mode = generate.XD
		d.Interval *= time.Duration(d.Hops)
	}
	d.Instructions = d.Version.Instructions()
	if f.instructions != instructionsAll {
		bits, err := strconv.ParseUint(f.instructions, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("--instructions %q: use 16 bits, as 0x%04x, or all", f.instructions, d.Instructions)
		}
		d.Instructions = uint16(bits)
	}
	m, err := generate.New(d)
	if err != nil {
		return nil, fmt.Errorf("reports as described: %w", err)
	}
	return m, nil
}

func runGenerate(k *kit.Kit, cmd *cobra.Command, f *generateOptions) error {
	if err := f.check(cmd); err != nil {
		return fault.Usage.Errorf("%w", err)
	}
	g := &generating{Kit: k, count: f.count, duration: f.duration, paced: f.rate > 0}
	if f.file != "" {
		replay, err := openReplay(k, f, cmd.Flags().Changed("rate"))
		if err != nil {
			return err
		}
		defer replay.close()
		g.next, g.replay = replay.next, replay
		g.paced = g.paced || !replay.paced
	} else {
		maker, err := f.maker()
		if err != nil {
			return fault.Usage.Errorf("%w", err)
		}
		g.next = func(n uint64) (generate.Datagram, time.Duration, error) {
			d, err := maker.Next()
			return d, f.rate.due(n), err
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	var err error
	if f.write != "" {
		err = g.write(ctx, f.write)
	} else {
		err = g.send(ctx, f.to)
	}
	if err != nil && g.sent+g.failed == 0 {
		return err
	}
	return errors.Join(err, g.print())
}

// replayFlags are those that go with -r; the others describe what is made.
var replayFlags = []string{"to", "write", "read", "port", "loop", "rate", "count", "duration", "help"}

// check says what flags do not go together.
func (f *generateOptions) check(cmd *cobra.Command) error {
	if (f.to == "") == (f.write == "") {
		return errors.New("where to: use --to HOST:PORT or --write FILE")
	}
	if f.duration < 0 {
		return fmt.Errorf("--duration %v: use a time that is not negative", f.duration)
	}
	if f.file == "" {
		for _, flag := range []string{"port", "loop"} {
			if kit.IsTyped(cmd, flag) {
				return fmt.Errorf("--%s is for a capture file: use it with -r FILE", flag)
			}
		}
	} else {
		var other error
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if !slices.Contains(replayFlags, flag.Name) && kit.IsTyped(cmd, flag.Name) {
				other = fmt.Errorf("--%s and -r FILE: use one of them", flag.Name)
			}
		})
		if other != nil {
			return other
		}
		for _, port := range f.ports {
			if port == 0 || port > math.MaxUint16 {
				return fmt.Errorf("--port %d: use 1 to 65535", port)
			}
		}
		if f.loop && f.file == "-" {
			return errors.New("--loop and -r -: standard input cannot be read again")
		}
	}
	if f.write != "" && f.count == 0 && f.duration == 0 && (f.file == "" || f.loop) {
		return errors.New("--write FILE has no end: use --count or --duration")
	}
	return nil
}

// resolve returns the address of a collector.
func resolve(to string) (*net.UDPAddr, error) {
	host, port, err := net.SplitHostPort(to)
	if err != nil || host == "" || port == "" || port == "0" {
		return nil, fault.Usage.Errorf("--to %q: use HOST:PORT, as 10.0.0.9:%d or [::1]:%d", to, ReportPort, ReportPort)
	}
	addr, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		return nil, fmt.Errorf("--to %s: %w", to, err)
	}
	return addr, nil
}

// sendRate is a flag's datagrams a second; 0: as fast as possible.
type sendRate float64

func (r *sendRate) String() string { return strconv.FormatFloat(float64(*r), 'f', -1, 64) }

// Type names the value in help texts.
func (r *sendRate) Type() string { return "rate" }

// Set parses the value.
func (r *sendRate) Set(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "/s"), 64)
	if err != nil || !(v >= 0 && v <= 1e7) || v > 0 && v < 1e-3 {
		return fmt.Errorf("%q is no rate: use datagrams a second, 0.001 to 10000000, or 0", s)
	}
	*r = sendRate(v)
	return nil
}

// due is when datagram n is sent, from the beginning.
func (r sendRate) due(n uint64) time.Duration {
	if r == 0 {
		return time.Duration(n) * fastest
	}
	return time.Duration(float64(n) / float64(r) * 1e9)
}

// valueRange is a flag of MIN-MAX, or of one value.
type valueRange struct {
	generate.Range
	unit string
}

func (v *valueRange) String() string { return fmt.Sprintf("%d-%d%s", v.Min, v.Max, v.unit) }

// Type names the value in help texts.
func (v *valueRange) Type() string { return "range" }

// Set parses the value.
func (v *valueRange) Set(s string) error {
	low, high, both := strings.Cut(strings.TrimSuffix(s, v.unit), "-")
	if !both {
		high = low
	}
	a, err1 := strconv.ParseUint(low, 10, 32)
	b, err2 := strconv.ParseUint(high, 10, 32)
	if err1 != nil || err2 != nil || a > b {
		return fmt.Errorf("%q is no range: use MIN-MAX, as 10-1000", s)
	}
	v.Min, v.Max = uint32(a), uint32(b)
	return nil
}
