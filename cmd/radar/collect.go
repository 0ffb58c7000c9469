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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/record"
)

const collectLong = `Take telemetry reports of switches and hosts (INT 0.5 to 2.1, Telemetry Report 0.5,
1.0 and 2.0; docs/int.md) from UDP, or with -r from a capture file, and keep the
newest of them. radar packets, paths, latency, loss, flows and throughput then answer
from them too, beside what radar measures itself: their nodes are called int-ID, or
as --node says.

Which variant a source sends is recognised; --source says it where that fails. radar
int decode shows what is in a report, field by field.

Radar collects until Ctrl-C. What was kept stays until the next collector of the
domain begins, or "radar collect --forget".`

const collectExample = `  radar collect                                          # UDP port 32766
  radar collect --port 32766,6000 --source 10.0.0.7=geant --node 1=leaf1 --node 2=spine1
  radar collect --show -o json | jq .hops
  radar collect -r reports.pcap && radar paths
  radar collect --forget`

// reportPort is the default of most programs that send reports.
const reportPort = 32766

// saveEvery is how often readers get to see what came.
const saveEvery = 200 * time.Millisecond

// collectFlags are the flags of "radar collect".
type collectFlags struct {
	listen  string
	ports   []uint
	file    string
	sources []string
	nodes   []string
	keep    count
	join    time.Duration
	show    bool
	forget  bool
}

func newCollectCmd(a *app) *cobra.Command {
	f := &collectFlags{keep: 64 << 20}
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
	flags.UintSliceVar(&f.ports, "port", []uint{reportPort}, "UDP ports of reports")
	flags.StringVarP(&f.file, "read", "r", "", "read a capture file (- is standard input) and end")
	flags.StringSliceVar(&f.sources, "source", nil, "what a source sends, ADDRESS=PROFILE (profiles: radar int decode --help)")
	flags.StringSliceVar(&f.nodes, "node", nil, "what a node is called, ID=NAME")
	flags.DurationVar(&f.join, "join", 50*time.Millisecond, "how long postcards (INT-XD) of one packet are waited for; 0: each is a packet")
	flags.Var(&f.keep, "keep", "bytes of reports that are kept, at least 64k")
	flags.BoolVar(&f.show, "show", false, "print each packet, as radar packets does")
	flags.BoolVar(&f.forget, "forget", false, "remove the reports that were kept")
	completeFlag(cmd, "source", completeSource)
	return cmd
}

func (a *app) collect(cmd *cobra.Command, f *collectFlags) error {
	if f.forget {
		err := collect.Remove(a.domain)
		if errors.Is(err, collect.ErrNone) {
			return nil
		}
		return err
	}
	info, err := f.info()
	if err != nil {
		return withCode(exitUsage, err)
	}
	translator, err := info.Translator()
	if err != nil {
		return withCode(exitUsage, fmt.Errorf("--source: %w", err))
	}
	if f.join < 0 || f.join > time.Minute {
		return usagef("--join %v: use 0 to 1m", f.join)
	}
	if f.keep < collect.MinKeep {
		return usagef("--keep %v: use at least 64k", &f.keep)
	}
	if f.file != "" {
		for _, name := range []string{"listen", "port"} {
			if isTyped(cmd, name) {
				return usagef("--%s and -r FILE: use one of them", name)
			}
		}
	}
	sockets, err := f.open()
	if err != nil {
		return err
	}
	defer closeAll(sockets)
	store, err := collect.Create(a.domain, int64(f.keep), *info)
	if err != nil {
		return err
	}
	run := &collecting{app: a, store: store, sockets: sockets}
	run.collector = collect.New(translator, store, run.shower(f))
	if f.file != "" {
		err = run.read(f.file)
	} else {
		err = run.receive(cmd.Context())
	}
	last, saved := run.collector.End()
	return errors.Join(err, saved, store.Close(), a.printCollected(&last), run.failed)
}

// info is what the flags say, for readers too.
func (f *collectFlags) info() (*collect.Info, error) {
	var epoch [4]byte
	_, _ = rand.Read(epoch[:])
	info := &collect.Info{Epoch: binary.NativeEndian.Uint32(epoch[:]), PID: os.Getpid(), Since: time.Now().UTC(), Join: f.join}
	for _, s := range f.sources {
		addr, profile, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--source %q: use ADDRESS=PROFILE", s)
		}
		if info.Profiles == nil {
			info.Profiles = make(map[string]string)
		}
		info.Profiles[addr] = profile
	}
	for _, s := range f.nodes {
		text, name, ok := strings.Cut(s, "=")
		id, err := strconv.ParseUint(text, 0, 32)
		if !ok || err != nil || name == "" {
			return nil, fmt.Errorf("--node %q: use ID=NAME, the id 0 to %d", s, uint32(1<<32-1))
		}
		if info.Names == nil {
			info.Names = make(map[uint32]string)
		}
		info.Names[uint32(id)] = name
	}
	return info, nil
}

// open opens a socket for each port, none if a file is read.
func (f *collectFlags) open() ([]*collect.Socket, error) {
	if f.file != "" {
		return nil, nil
	}
	var addr netip.Addr
	if f.listen != "" {
		var err error
		if addr, err = netip.ParseAddr(f.listen); err != nil {
			return nil, usagef("--listen %q: no IP address of this machine", f.listen)
		}
	}
	var sockets []*collect.Socket
	for _, port := range f.ports {
		if port == 0 || port > 65535 {
			closeAll(sockets)
			return nil, usagef("--port %d: use 1 to 65535", port)
		}
		s, err := collect.Listen(addr, uint16(port))
		if err != nil {
			closeAll(sockets)
			return nil, err
		}
		sockets = append(sockets, s)
	}
	return sockets, nil
}

func closeAll(sockets []*collect.Socket) {
	for _, s := range sockets {
		s.Close()
	}
}

// collecting is a collector at work.
type collecting struct {
	*app
	store     *collect.Store
	sockets   []*collect.Socket
	collector *collect.Collector
	failed    error // of printing
}

// shower prints each record, if that is asked for.
func (c *collecting) shower(f *collectFlags) func(*record.Record) {
	if !f.show {
		return nil
	}
	printer := newPacketPrinter(c.out, c.output, c.location)
	return func(r *record.Record) {
		if c.failed == nil {
			c.failed = errors.Join(printer.print([]*record.Record{r}), c.out.Flush())
		}
	}
}

func (c *collecting) read(path string) error {
	in := c.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read capture: %w", err)
		}
		defer file.Close()
		in = file
	}
	if err := c.collector.Read(in); err != nil {
		return fmt.Errorf("read capture %s: %w", path, err)
	}
	return nil
}

// receive takes what comes until Ctrl-C.
func (c *collecting) receive(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	for _, s := range c.sockets {
		fmt.Fprintf(c.stderr, "radar: collecting at %v\n", s.Addr())
		wait.Go(func() {
			if err := c.collector.Receive(s); err != nil {
				cancel(err)
			}
		})
	}
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if _, err := c.collector.Save(); err != nil {
				cancel(err)
			}
		}
	}
	closeAll(c.sockets)
	wait.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// printCollected says what became of everything that came.
func (a *app) printCollected(i *collect.Info) error {
	if a.output == formatJSON {
		return printJSON(a.out, i)
	}
	n := &i.Counts
	fmt.Fprintf(a.stderr, "radar: %s, %d of them no report; %s of %s, %d of no packet\n",
		plural(int(n.Packets), "datagram"), n.Rejected, plural(int(n.Reports), "report"), plural(int(n.Records), "packet"), n.NoPacket)
	if n.Doubts > 0 {
		fmt.Fprintf(a.stderr, "radar: %s with something odd (radar int decode -r shows what)\n", plural(int(n.Doubts), "datagram"))
	}
	if n.Alone > 0 {
		fmt.Fprintf(a.stderr, "radar: of %s one node alone has reported\n", plural(int(n.Alone), "packet"))
	}
	if i.Gaps > 0 {
		fmt.Fprintf(a.stderr, "radar: %s that sources have numbered did not come\n", plural(int(i.Gaps), "report"))
	}
	if i.Fell > 0 {
		fmt.Fprintf(a.stderr, "radar: %d datagrams found the socket full\n", i.Fell)
	}
	return nil
}

// completeSource completes the profile behind ADDRESS=.
func completeSource(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	addr, _, ok := strings.Cut(typed, "=")
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return profileCompletions(addr + "="), cobra.ShellCompDirectiveNoFileComp
}
