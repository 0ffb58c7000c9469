// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/filter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, jsonFile, err := parseArgs(args, stderr)
	if err != nil {
		return 2
	}
	r, err := measure(ctx, o, func(what string) { fmt.Fprintln(stderr, what) })
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if err := write(r, jsonFile, stdout); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// parseArgs has printed what is wrong when it fails.
func parseArgs(args []string, stderr io.Writer) (o options, jsonFile string, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "a run of some seconds, for CI: figures are rough")
	packets := flags.Int("packets", 200_000, "packets in a round of one design")
	rounds := flags.Int("rounds", 7, "rounds")
	slots := flags.Uint("slots", 1<<20, "slots of the ring, entries of the hash map")
	flags.StringVar(&jsonFile, "json", "", "write the result to this `file` too")
	flags.Func("object", "measure another build of bpf/tc.bpf.c beside the one built in: `NAME=FILE.o`; may be repeated", func(arg string) error {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return fmt.Errorf("%q is not NAME=FILE.o", arg)
		}
		o.objects = append(o.objects, namedObject{name: name, load: func() (*ebpf.CollectionSpec, error) {
			return ebpf.LoadCollectionSpec(file)
		}})
		return nil
	})
	flags.Func("watch", "measure radar with this expression of attach --watch beside the one without: `NAME=EXPRESSION`; may be repeated (packets are UDP to port 4777)", func(arg string) error {
		name, text, _ := strings.Cut(arg, "=")
		e, err := filter.Compile(text)
		if err == nil {
			o.objects = append(o.objects, namedObject{name: name, load: func() (*ebpf.CollectionSpec, error) { return watching(e) }})
		}
		return err
	})
	if err := flags.Parse(args); err != nil {
		return o, "", err
	}
	o.packets, o.rounds, o.slots = *packets, *rounds, uint32(*slots)
	if *short {
		o.packets, o.rounds = 20_000, 3
	}
	if flags.NArg() > 0 || o.packets < 1 || o.rounds < 1 {
		err := fmt.Errorf("bench: takes no arguments; -packets and -rounds are at least 1")
		fmt.Fprintln(stderr, err)
		return o, "", err
	}
	return o, jsonFile, nil
}

func write(r *Report, jsonFile string, stdout io.Writer) error {
	if err := r.print(stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if jsonFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := os.WriteFile(jsonFile, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// print writes a table of medians (extremes in brackets).
func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "ns per run, median of %d rounds (lowest-highest); %d packets of %d bytes a round; kernel %s, %s\n\n",
		r.Rounds, r.Packets, payloadSize, r.Kernel, r.CPU)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "hook")
	for _, res := range r.Results {
		fmt.Fprintf(w, "\t%s", res.Design)
	}
	fmt.Fprintln(w)
	for i, name := range r.Hooks {
		fmt.Fprint(w, name)
		for _, res := range r.Results {
			f := res.Hooks[i]
			fmt.Fprintf(w, "\t%.0f (%.0f-%.0f)", f.Median, f.Min, f.Max)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "sum less nop")
	for _, res := range r.Results {
		fmt.Fprintf(w, "\t%.0f", res.Net)
	}
	fmt.Fprint(w, "\nof the floor's")
	for _, res := range r.Results {
		fmt.Fprintf(w, "\t%.2fx", res.Ratio)
	}
	fmt.Fprint(w, "\npackets lost sight of")
	for _, res := range r.Results {
		if res.Lost < 0 {
			fmt.Fprint(w, "\t-")
			continue
		}
		fmt.Fprintf(w, "\t%d", res.Lost)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// modelName finds the CPU's name in the text of /proc/cpuinfo.
func modelName(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}
