// SPDX-License-Identifier: Apache-2.0

// Package record has "radar record".
package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/recorder"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

const long = `Keep the packets of the domain in files, as they end, from now on until Ctrl-C, or
until the domain is detached. Every question can be asked of them later, also on
another machine: radar packets -r DIR, paths, latency, loss, flows, throughput, trace,
radar serve -r DIR (docs/record.md). The files are Parquet (docs/records.md).

The recorder reads the ring, as every question does: it slows down no packet, and what
happens to it harms neither traffic nor the domain. Where the disk is full, or too slow,
measurement goes on, and what was not kept is counted and told in the end. Killed, it
loses the file under way at most.

EXPRESSION, in tcpdump's language (docs/filters.md), says which packets are kept.

A directory that has a recording is continued. Files are finished when they have
--rotate-size bytes, or --rotate-age after their first packet. With --keep-size and
--keep-age the oldest files are removed.

With --on nothing is kept until a condition is met: a flight recorder. Then the packets
of the time --before and --after that are kept, with an event that says what was met. The
time before comes out of the ring: it must have room for it (attach --slots). Conditions
whose times overlap make one recording longer. A condition is one of

  loss > N in TIME                  more than N packets were lost, or not seen again,
                                    in any TIME
  loss.NODE > N in TIME             the same in one node; NODE/PORT: at one port
  p99 link NODE-NODE > TIME in TIME the 99th percentile of the time on the links from
                                    one node to the other, as radar latency --by link
                                    has it, over the TIME that ends now; p50 and p90, too
  p99 NODE/PORT-NODE/PORT > TIME in TIME
                                    the same of one link
  queue NODE/PORT > TIME            a packet waited for longer than TIME in that queue
  path change                       a flow takes another path than its packet before
  assert FILE in TIME               a promise of FILE (radar assert), held against the
                                    packets that ended in any TIME, begins to be broken;
                                    one that has too few packets to be judged is not;
                                    TIME is 400ms at least

Packets count that EXPRESSION matches. A loss that nobody reports is known when the
packet has expired (attach --timeout).`

const example = `  radar record                                   # into ./radar-DOMAIN-DATE-TIME
  radar record -w run1                           # and then: radar latency -r run1
  radar record -w run1 --history                 # with what the ring still remembers
  radar record -w web --rotate-age 1h --keep-size 10G tcp port 443
  radar record -w burst --on 'loss > 10 in 1s' --before 5s --after 5s
  radar record -w broken --on 'assert lab.yaml in 2s' --before 10s
  radar record -w slow --on 'p99 link r1-r2 > 5ms in 1s' --on 'queue r1/eth1 > 20ms'`

// options are the flags of "radar record".
type options struct {
	dir           string
	history       bool
	rotateSize    kit.Bytes
	rotateAge     time.Duration
	keepSize      kit.Bytes
	keepAge       time.Duration
	on            []string
	before, after time.Duration
	readyFD       int
}

// NewCmd returns "radar record".
func NewCmd(k *kit.Kit, version string) *cobra.Command {
	f := &options{rotateSize: 64 << 20, rotateAge: 10 * time.Second, before: 5 * time.Second, after: 5 * time.Second}
	cmd := &cobra.Command{
		Use:               "record " + kit.EndsUse,
		Short:             "Keep packets in files, all or around what happens",
		Long:              long,
		Example:           example,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			o, err := f.recorder(k, args, version)
			if err != nil {
				return err
			}
			if f.readyFD != 0 {
				return inBackground(k, cmd.Context(), f.readyFD, o)
			}
			return foreground(k, cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.dir, "write", "w", "", "directory to keep them in (default: radar-DOMAIN-DATE-TIME here)")
	flags.BoolVar(&f.history, "history", false, "also keep what the ring still remembers")
	flags.Var(&f.rotateSize, "rotate-size", "finish a file when it has so many bytes")
	flags.DurationVar(&f.rotateAge, "rotate-age", f.rotateAge, "finish a file so long after its first packet: from then on it can be read")
	flags.Var(&f.keepSize, "keep-size", "remove the oldest files beyond so many bytes; 0: none")
	flags.DurationVar(&f.keepAge, "keep-age", 0, "remove files whose packets are older; 0: none")
	flags.StringArrayVar(&f.on, "on", nil, "keep packets only around moments at which this CONDITION is met (repeatable)")
	flags.DurationVar(&f.before, "before", f.before, "with --on, how much of the time before")
	flags.DurationVar(&f.after, "after", f.after, "with --on, how much of the time after")
	flags.IntVar(&f.readyFD, background.FlagReadyFD, 0, "pipe to tell when it works")
	_ = flags.MarkHidden(background.FlagReadyFD)
	_ = cmd.MarkFlagDirname("write")
	return cmd
}

// longest is the most that --before and --after take.
const longest = time.Hour

// check refuses flags that make no sense.
func (f *options) check(cmd *cobra.Command) error {
	for _, name := range []string{"before", "after"} {
		if kit.IsTyped(cmd, name) && len(f.on) == 0 {
			return fault.Usage.Errorf("--%s: only with --on", name)
		}
	}
	switch {
	case f.rotateSize < 64<<10:
		return fault.Usage.Errorf("--rotate-size %v: use at least 64K", &f.rotateSize)
	case f.rotateAge < time.Second:
		return fault.Usage.Errorf("--rotate-age %v: use at least 1s", f.rotateAge)
	case f.keepAge < 0:
		return fault.Usage.Errorf("--keep-age %v: use a time, or 0", f.keepAge)
	case f.before < 0 || f.before > longest || f.after < 0 || f.after > longest:
		return fault.Usage.Errorf("--before %v, --after %v: use 0 to %v", f.before, f.after, longest)
	case f.history && len(f.on) > 0:
		return fault.Usage.Errorf("--history with --on: the time before is in any case kept")
	}
	return nil
}

// recorder is what a recorder is asked for.
func (f *options) recorder(k *kit.Kit, args []string, version string) (recorder.Options, error) {
	o := recorder.Options{
		Domain: k.Domain, Dir: f.dir, History: f.history, Radar: version,
		Segments: segments.Options{MaxBytes: int64(f.rotateSize), MaxAge: f.rotateAge, KeepBytes: int64(f.keepSize), KeepAge: f.keepAge, Once: len(f.on) == 0},
	}
	if o.Dir == "" {
		o.Dir = fmt.Sprintf("radar-%s-%s", k.Domain, k.Now().In(k.Location).Format("20060102-150405"))
	}
	var err error
	if o.Selection, err = k.Arguments(args); err != nil {
		return o, err
	}
	if len(f.on) == 0 {
		return o, nil
	}
	o.Flight = &recorder.Flight{Before: f.before, After: f.after}
	d, err := domain.Load(k.Domain)
	if err != nil {
		return o, err
	}
	for _, text := range f.on {
		c, err := recorder.ParseCondition(text, d)
		if err != nil {
			return o, fault.Usage.Errorf("--on %w", err)
		}
		o.Flight.On = append(o.Flight.On, c)
	}
	return o, nil
}

// foreground records until Ctrl-C.
func foreground(k *kit.Kit, ctx context.Context, o recorder.Options) error {
	o.Say = func(text string) { fmt.Fprintf(k.Stderr, "radar: %s\n", text) }
	ctx, stop := k.UntilInterrupt(ctx)
	defer stop()
	ctx, release := untilHangup(ctx)
	defer release()
	r, err := recorder.New(o)
	if err != nil {
		return err
	}
	what := "keeping packets of domain " + k.Domain + " in " + o.Dir
	if o.Flight != nil {
		var all []string
		for _, c := range o.Flight.On {
			all = append(all, c.Text)
		}
		what = "waiting for: " + strings.Join(all, "; ")
	}
	fmt.Fprintf(k.Stderr, "radar: %s; Ctrl-C ends it\n", what)
	return end(k, r, &o, r.Run(ctx))
}

// untilHangup ends ctx when the terminal goes. The kernel and the shell both say so: the second one does not end us
// before the files are finished, and neither does it that nobody reads what we say. nohup stays what it is.
func untilHangup(ctx context.Context) (_ context.Context, release func()) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	stop := func() {}
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	return ctx, func() {
		stop()
		signal.Stop(unread)
	}
}

// end finishes a recording, and says what became of the packets.
func end(k *kit.Kit, r *recorder.Recorder, o *recorder.Options, err error) error {
	if errors.Is(err, system.ErrNotAttached) {
		fmt.Fprintf(k.Stderr, "radar: domain %s was detached\n", k.Domain)
		err = nil
	}
	result, closed := r.Close()
	if k.Output == kit.FormatJSON {
		return errors.Join(err, closed, kit.PrintJSON(k.Out, result))
	}
	printResult(k, &result, o)
	return errors.Join(err, closed)
}

func printResult(k *kit.Kit, result *recorder.Result, o *recorder.Options) {
	switch {
	case o.Flight != nil && result.Triggers == 0:
		fmt.Fprintf(k.Stderr, "radar: no condition was met, nothing was kept\n")
	default:
		fmt.Fprintf(k.Stderr, "radar: %s kept; %s has %s, %s\n", packets(result.Kept), o.Dir,
			words.Plural(result.Files, "file"), sizeText(result.Bytes))
	}
	for _, cause := range answer.SortedKeys(result.NotKept) {
		fmt.Fprintf(k.Stderr, "radar: %s not kept: %s\n", packets(result.NotKept[cause]), cause)
	}
	if result.LastError != "" {
		fmt.Fprintf(k.Stderr, "radar: the last error: %s\n", result.LastError)
	}
}

// sizeText is "12.3 MiB", or "845 bytes".
func sizeText(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return words.Plural(int(bytes), "byte")
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// packets is "1 packet", "12,345 packets".
func packets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return words.Decimal(n) + " packets"
}

// inBackground records until the domain ends.
func inBackground(k *kit.Kit, ctx context.Context, readyFD int, o recorder.Options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return k.InBackground(readyFD, func(b *kit.Background) error {
		o.Say = func(text string) { b.Log.Info(text) }
		claim, err := recorder.NewClaim(o.Domain, o.Dir)
		if err != nil {
			return err
		}
		defer claim.Release()
		o.Changed = func(s recorder.Status) {
			if err := claim.SetStatus(s); err != nil {
				b.Log.Warn("tell what was not kept", "error", err)
			}
		}
		r, err := recorder.New(o)
		if err != nil {
			return err
		}
		b.Ready()
		b.Log.Info("recorder started", "domain", o.Domain, "dir", filepath.Clean(o.Dir), "pid", os.Getpid())
		return end(k, r, &o, r.Run(ctx))
	})
}
