// SPDX-License-Identifier: Apache-2.0

// Package dut has "radar dut".
package dut

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
)

const long = `Measures what a device under test (a switch, a router, a network function, a virtual
machine) does to packets. Test packets are sent into it at --in and received at --out. The
kernel stamps each as it leaves the one port, and as it comes in at the other.

For each size and rate: how many packets were sent, lost, duplicated and reordered; mean,
standard deviation, percentiles and distribution of the delay. Over all sizes: a line
through the delays. Its slope is serialisation, its intercept processing.

NODE/PORT is an interface of a node: NODE is the name of an attached node, or one of
  docker:NAME  kathara:NAME  netns:NAME  netns:host  pid:N   (see "radar attach --help")

Test packets are UDP, in Ethernet frames, and are known by 16 bytes of their payload: the
device may change addresses, ports, TTL and VLAN tags. They go from --in's own address to
that of --out, by --in's routes. Ports without an address get one of the networks for
benchmarks (198.18.0.1, 198.19.0.1), and the device must be a bridge. What comes to --out
is taken out there: the node does not see it. With --round it is sent back through the
device, and stamped twice more.

SIZE is that of a frame with its FCS, as RFC 2544 counts: 1518 is an IP packet of 1500
bytes. RATE is 100pps, 1kpps, 10Mbit (of such frames, a second). The sender never catches
up. Where it did not keep a rate, that is said, and SENT/S is the rate that it had.

First a loop-back is run, of the same packets, over one link between two namespaces that
exist for this only. What it shows is radar's own error, with that of a link: LOOP. It is
only subtracted with --subtract.

--rfc2544 runs the procedures of RFC 2544 instead, with loads up to --max-rate:
  throughput     the highest rate without a loss, found by halving
  latency        the delay at that rate
  loss           the frame loss rate at 100, 90, 80 ... per cent of --max-rate
  back-to-back   the longest burst without a loss
Trials are shorter than the RFC's by default. Its own values: --duration 60s, for latency
--duration 120s --repeats 20, for back-to-back --repeats 50.

Nothing is left attached, however the command ends. (On kernels before 6.6 filters that do
nothing stay after kill -9. The next "radar dut" in that namespace removes them.) Ctrl-C
waits for the packets under way and prints what was measured until then. -o json and -o csv print all numbers, --plot draws.`

const example = `  radar dut --in netns:blue/eth0 --out netns:red/eth0
  radar dut --in h1/eth0 --out h2/eth0 --sizes 64,512,1518 --rates 100pps,1kpps,10Mbit
  radar dut --in netns:blue/eth0 --out netns:red/eth0 --round --plot delay.svg
  radar dut --in docker:web/eth0 --out docker:db/eth0 --to 10.0.2.2 -o json
  radar dut --loopback only                       # radar's own error
  radar dut --rfc2544 --in h1/eth0 --out h2/eth0 --max-rate 50kpps`

// options are the flags of "radar dut".
type options struct {
	in, out   string
	rates     []string
	sweep     dut.Sweep
	wish      wishFlags
	plot      string
	isRFC2544 bool
	rfc2544   dut.RFC2544
	maxRate   string
}

// Defaults that are shown.
const (
	defaultRate     = "1kpps"
	defaultPackets  = 1000
	defaultDuration = 2 * time.Second
	defaultWait     = time.Second
	defaultMaxRate  = "20kpps"
	defaultBurst    = 1000
)

// NewCmd returns "radar dut".
func NewCmd(k *kit.Kit) *cobra.Command {
	f := &options{rates: []string{defaultRate}}
	cmd := &cobra.Command{
		Use:         "dut --in NODE/PORT --out NODE/PORT",
		Short:       "Measure a device under test between two ports",
		Long:        long,
		Example:     example,
		Args:        cobra.NoArgs,
		Annotations: kit.HasCSV,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(k, cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.in, "in", "", "port at which test packets are sent into the device: NODE/PORT")
	flags.StringVar(&f.out, "out", "", "port at which they come out: NODE/PORT")
	flags.IntSliceVar(&f.sweep.Sizes, "sizes", nil, "bytes of frames (default 64,128,256,512,1024,1280,1518, as far as they fit)")
	flags.StringSliceVar(&f.rates, "rates", f.rates, "rates at which packets are sent")
	flags.IntVar(&f.sweep.Packets, "count", defaultPackets, "packets of each size and rate, at most")
	flags.DurationVar(&f.sweep.Duration, "duration", defaultDuration, "how long each size and rate is sent, at most; of --rfc2544, a trial")
	flags.DurationVar(&f.sweep.Wait, "wait", defaultWait, "how long to wait for packets under way, after the last one that came")
	flags.BoolVar(&f.sweep.Round, "round", false, "send packets back through the device, and measure both directions")
	flags.BoolVar(&f.sweep.Subtract, "subtract", false, "subtract the median delay of the loop-back from all delays")
	flags.StringVar(&f.plot, "plot", "", "draw delays over size, and their distribution: FILE.svg, FILE.pdf or FILE.png")
	f.wish.register(cmd)
	f.registerRFC2544(cmd)
	hooks := kit.NewChoice(loader.HookAuto, "hook", loader.HookAuto, hook.ByTCX, hook.ByClsact)
	hooks.Add(cmd, "hook", "how programs are attached")
	_ = cmd.Flags().MarkHidden("hook") // for tests (docs/kernels.md)
	loopback := kit.NewChoice(dut.LoopbackFirst, "when", dut.Loopbacks()...)
	loopback.Add(cmd, "loopback", "when the loop-back is run")
	cmd.PreRun = func(*cobra.Command, []string) { f.sweep.Hook, f.sweep.Loopback = hooks.Value, loopback.Value }
	for _, name := range []string{"in", "out"} {
		kit.CompleteFlag(cmd, name, completePort(k))
	}
	kit.CompleteWith(cmd, "rates", "100pps", "1kpps", "10kpps", "10Mbit", "100Mbit")
	return cmd
}

func (f *options) registerRFC2544(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.isRFC2544, "rfc2544", false, "run the procedures of RFC 2544")
	flags.StringSliceVar(&f.rfc2544.Tests, "tests", dut.Tests(), "procedures of --rfc2544")
	flags.StringVar(&f.maxRate, "max-rate", defaultMaxRate, "highest rate of --rfc2544")
	flags.Float64Var(&f.rfc2544.Precision, "precision", 0.01, "of the throughput, as a share of --max-rate")
	flags.IntVar(&f.rfc2544.Repeats, "repeats", 3, "how often latency and back-to-back are repeated")
	flags.IntVar(&f.rfc2544.MaxBurst, "max-burst", defaultBurst, "longest burst of back-to-back, packets")
	kit.CompleteWith(cmd, "tests", dut.Tests()...)
	kit.CompleteWith(cmd, "max-rate", "10kpps", "100kpps", "10Mbit", "100Mbit")
}

// run measures, and prints what was measured, also if that was interrupted.
func run(k *kit.Kit, cmd *cobra.Command, f *options) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends the process at once
	if err := system.CheckKernel(); err != nil {
		return err
	}
	f.sweep.Progress = k.Progressf
	device, closePorts, err := f.device(ctx, k)
	if err != nil {
		return err
	}
	defer closePorts()
	if f.isRFC2544 {
		f.rfc2544.Options = f.sweep.Options
		report, err := f.rfc2544.Run(ctx, device)
		return finish(k, report, err, printRFC2544)
	}
	report, err := f.sweep.Run(ctx, device)
	return finish(k, report, err, func(k *kit.Kit, r *dut.Report) error {
		if f.plot == "" {
			return printReport(k, r)
		}
		return errors.Join(printReport(k, r), plotReport(r, f.plot))
	})
}

// finish prints a report, if there is one.
func finish[T any](k *kit.Kit, report *T, err error, print func(*kit.Kit, *T) error) error {
	interrupted := errors.Is(err, context.Canceled)
	if report == nil || err != nil && !interrupted {
		if interrupted {
			return errors.New("interrupted before anything was measured")
		}
		return err
	}
	if err := print(k, report); err != nil {
		return err
	}
	if interrupted {
		return errors.New("interrupted: this is what was measured until then")
	}
	return nil
}

// check reads what flags have as text, and refuses what makes no sense together.
func (f *options) check(cmd *cobra.Command) (err error) {
	only := f.sweep.Loopback == dut.LoopbackOnly
	switch {
	case only && (kit.IsTyped(cmd, "in") || kit.IsTyped(cmd, "out")):
		return fault.Usage.Errorf("--loopback only has no device: leave --in and --out out, or use --loopback first")
	case !only && (f.in == "" || f.out == ""):
		return fault.Usage.Errorf("name the two ports at which the device hangs: --in NODE/PORT --out NODE/PORT")
	case f.isRFC2544 && only:
		return fault.Usage.Errorf("--rfc2544 measures a device: leave --loopback only out")
	case f.isRFC2544 && (f.plot != "" || kit.IsTyped(cmd, "rates") || kit.IsTyped(cmd, "count") || f.sweep.Subtract):
		return fault.Usage.Errorf("--rates, --count, --subtract and --plot are not for --rfc2544: its rates are those up to --max-rate")
	}
	if err := checkPlot(f.plot); err != nil {
		return err
	}
	if f.rfc2544.MaxRate, err = dut.ParseRate(f.maxRate); err != nil {
		return fault.Usage.Errorf("--max-rate: %w", err)
	}
	for _, text := range f.rates {
		rate, err := dut.ParseRate(text)
		if err != nil {
			return fault.Usage.Errorf("--rates: %w", err)
		}
		f.sweep.Rates = append(f.sweep.Rates, rate)
	}
	for _, name := range f.rfc2544.Tests {
		if !slices.Contains(dut.Tests(), name) {
			return fault.Usage.Errorf("--tests: no procedure is called %q: use %s", name, strings.Join(dut.Tests(), ", "))
		}
	}
	return f.wish.read()
}
