// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/origin"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/filter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the command line says.
type options struct {
	short   bool
	full    bool // as long and as often as the paper's figures: hours
	packets int  // in a round of one design at the hooks
	rounds  int
	slots   uint32
	objects []namedObject // other builds, measured beside radar
	watches []namedObject // radar with expressions, the same
	radar   string        // the command; "": it is built
	others  []namedRadar  // other commands, measured beside it

	only     *regexp.Regexp
	list     bool
	jsonFile string
	from     string // print what is there, measure nothing
	record   string // make what is there the recorded run; measure nothing
	pages    bool   // make the pages of the recorded run anew; measure nothing
	recorded bool   // the recorded run is to be of these programs; measure nothing

	progress func(format string, args ...any)
}

// pick is n, or few in a short run.
func (o *options) pick(n, few int) int {
	if o.short {
		return few
	}
	return n
}

// longer is n, or what the paper's figures have.
func (o *options) longer(n, paper int) int {
	if o.full {
		return paper
	}
	return n
}

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	chosen := choose(o.only)
	switch {
	case o.from != "":
		err = reprint(o, stdout)
	case o.record != "":
		err = result.Record(".", o.record)
	case o.pages:
		err = result.WritePages(".")
	case o.recorded:
		err = result.CheckRecorded(".", measured...)
	case len(chosen) == 0:
		err = fmt.Errorf("no benchmark has a name that matches %q; -list shows them", o.only)
	case o.list:
		for _, b := range chosen {
			fmt.Fprintf(stdout, "%-13s %s\n", b.name, b.about)
		}
	default:
		err = measureAll(ctx, o, chosen, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// parseArgs has printed what is wrong when it fails.
func parseArgs(args []string, stderr io.Writer) (*options, error) {
	o := &options{only: regexp.MustCompile("")}
	o.progress = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.short, "short", false, "every benchmark once and briefly, for CI: figures are rough")
	flags.BoolVar(&o.full, "full", false, "runs of goodput, exchange and cpu as long as the paper's: hours, with as many -rounds")
	flags.BoolVar(&o.list, "list", false, "list the benchmarks and measure nothing")
	flags.Func("run", "only benchmarks whose names match this `regexp`", func(arg string) (err error) {
		o.only, err = regexp.Compile(arg)
		return err
	})
	flags.IntVar(&o.packets, "packets", 200_000, "packets in a round of one design at the hooks")
	flags.IntVar(&o.rounds, "rounds", 7, "rounds")
	slots := flags.Uint("slots", 1<<20, "slots of the ring, entries of the hash map")
	flags.StringVar(&o.jsonFile, "json", "", "write the result to this `file` too; what it has of other benchmarks, of the same commit, stays")
	flags.StringVar(&o.from, "from", "", "print what this `file`, written by -json, says and measure nothing")
	flags.StringVar(&o.record, "record", "", "make what this `file`, written by -json, says the recorded figures, and the pages anew; measure nothing. In the tree's root")
	flags.BoolVar(&o.pages, "pages", false, "make the pages of the recorded figures anew; measure nothing")
	flags.BoolVar(&o.recorded, "recorded", false, "fail if the recorded figures are of other programs than these, and measure nothing")
	flags.StringVar(&o.radar, "radar", "", "the radar command to measure, a `file`; without it one is built")
	objectFlags(flags, o)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.slots = uint32(*slots)
	if o.short {
		// A small ring: to make a large one takes longer than to measure it.
		o.packets, o.rounds, o.slots = 10_000, 2, 1<<17
	}
	if flags.NArg() > 0 || o.packets < 1 || o.rounds < 1 {
		err := fmt.Errorf("bench: takes no arguments; -packets and -rounds are at least 1")
		fmt.Fprintln(stderr, err)
		return nil, err
	}
	return o, nil
}

// objectFlags are of what is measured beside radar.
func objectFlags(flags *flag.FlagSet, o *options) {
	flags.Func("beside", "measure another radar command beside the one of -radar: `NAME=FILE`; may be repeated (in agent, exchange, throughput)", func(arg string) error {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return fmt.Errorf("%q is not NAME=FILE", arg)
		}
		o.others = append(o.others, namedRadar{name: name, radar: &radar{bin: file}})
		return nil
	})
	flags.Func("object", "measure another build of bpf/backpack/tc.bpf.c beside the one built in, of the same layout: `NAME=FILE.o`; may be repeated (not in slots, curve-*, headers, attach, queries)", func(arg string) error {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return fmt.Errorf("%q is not NAME=FILE.o", arg)
		}
		o.objects = append(o.objects, namedObject{name: name, file: file, load: func() (*ebpf.CollectionSpec, error) {
			return ebpf.LoadCollectionSpec(file)
		}})
		return nil
	})
	flags.Func("watch", "measure radar with this expression of attach --watch beside the one without: `NAME=EXPRESSION`; may be repeated (in hooks, whose packets are UDP to port 4777)", func(arg string) error {
		name, text, _ := strings.Cut(arg, "=")
		e, err := filter.Compile(text)
		if err == nil {
			o.watches = append(o.watches, namedObject{name: name, load: func() (*ebpf.CollectionSpec, error) { return watching(e) }})
		}
		return err
	})
}

// measureAll runs the benchmarks one after the other and prints what each found. One that
// fails does not keep the others from being measured.
func measureAll(ctx context.Context, o *options, chosen []*benchmark, stdout io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it attaches BPF programs in network namespaces")
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return fmt.Errorf("raise the limit of locked memory: %w", err)
	}
	r, err := result.New(o.short, measured...)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, r.Header())
	fmt.Fprintln(stdout, "Medians of interleaved rounds (lowest-highest); ratios are made round by round.")
	var failed []error
	for _, b := range chosen {
		m, err := measureOne(ctx, o, b)
		failed = append(failed, err)
		if ctx.Err() != nil { // not measured: what an earlier run has found stays
			failed = append(failed, ctx.Err())
			break
		}
		r.Benchmarks = append(r.Benchmarks, m)
		fmt.Fprintln(stdout)
		if err := m.Write(stdout); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if old, err := result.Read(o.jsonFile); err == nil {
		r.Merge(old, names())
	}
	if m := r.Compare(); m != nil {
		fmt.Fprintln(stdout)
		if err := m.Write(stdout); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	o.progress("%s", r.Times())
	if o.jsonFile != "" {
		failed = append(failed, r.Save(o.jsonFile))
	}
	return errors.Join(failed...)
}

func measureOne(ctx context.Context, o *options, b *benchmark) (m *result.Measured, err error) {
	m = &result.Measured{Name: b.name, About: b.about, Load: origin.LoadAverage()}
	start := time.Now()
	o.progress("%s ...", b.name)
	if m.Tables, err = b.run(ctx, o); err != nil {
		m.Error = err.Error()
		err = fmt.Errorf("%s: %w", b.name, err)
	}
	m.Seconds = time.Since(start).Seconds()
	return m, err
}

// reprint prints what an earlier run has found.
func reprint(o *options, stdout io.Writer) error {
	r, err := result.Read(o.from)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, r.Header())
	r.Compare() // targets may be others by now
	found := false
	for _, m := range r.Benchmarks {
		if !o.only.MatchString(m.Name) {
			continue
		}
		if m.Error != "" {
			return fmt.Errorf("%s failed in the run that wrote %s: %s", m.Name, o.from, m.Error)
		}
		found = true
		fmt.Fprintln(stdout)
		if err := m.Write(stdout); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if !found {
		return fmt.Errorf("%s has no benchmark that matches %q", o.from, o.only)
	}
	return nil
}

// measured are the objects that figures depend on: all of bpf/backpack, and the programs
// that it is compared with.
var measured = []origin.Object{bpfobj.LoadTc, bpfobj.LoadTrace, bpfobj.LoadDeliver, bpfobj.LoadChange, LoadBench}

// builtIn is radar as it is.
func builtIn() namedObject { return namedObject{name: "radar", load: bpfobj.LoadTc} }

// builds are radar as it is, and the other builds that the command line names.
func (o *options) builds() []namedObject {
	return append([]namedObject{builtIn()}, o.objects...)
}
