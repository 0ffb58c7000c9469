// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/lab/forward"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/background"
)

const forwardLong = `Joins two interfaces of this network namespace in user space, in both directions:
a network function that the kernel does not see into. It delays, loses, reorders
and slows down frames as asked, also where the kernel has no netem.

Delays are drawn for each frame from a distribution, between arrival and departure:
  constant:5ms, or 5ms        always the same
  uniform:1ms,5ms             between the two
  normal:5ms,1ms              mean and deviation; nothing below 0
  exponential:2ms             mean
  pareto:1ms,2.5              least and shape
  file:PATH                   one of the durations in the file, one a line

Frames of a direction keep their order: one with a short delay waits for the one
before it. With --reorder it overtakes.

The interfaces need no address, and should have none: what they receive also
reaches the kernel. With --tap both are made, as taps, and go with the command.
VLAN tags and offloads pass: a train of TCP segments that the kernel has not cut
yet is one frame, and is delayed or lost as one. Trains inside a tunnel do not
pass: switch tx-udp_tnl-segmentation off where they come from.

SIGUSR1 prints the counts so far; Ctrl-C prints them and ends.`

// forwardOptions are the flags of "lab forward".
type forwardOptions struct {
	cfg         forward.Config
	delay       string
	loss        string
	rate        string
	background  bool
	readyFD     int
	seedIsGiven bool
}

func newForwardCmd(k *kit.Kit) *cobra.Command {
	f := forwardOptions{delay: "0s", loss: "0", rate: "0"}
	f.cfg.Queue = forward.DefaultQueue
	cmd := &cobra.Command{
		Use:   "forward INTERFACE INTERFACE",
		Short: "Forward between two interfaces in user space, with delay and loss",
		Long:  forwardLong,
		Example: `  radar lab forward eth0 eth1 --delay 5ms
  radar lab forward eth0 eth1 --delay exponential:2ms --loss 1% --seed 7
  radar lab forward eth0 eth1 --delay uniform:1ms,5ms --reorder -d
  radar lab exec mylab f -- radar lab forward eth0 eth1 --rate 20M`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeInterfaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.cfg.A, f.cfg.B = args[0], args[1]
			f.seedIsGiven = cmd.Flags().Changed("seed")
			return runForward(k, cmd, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.delay, "delay", f.delay, "distribution of the delay of a frame")
	flags.StringVar(&f.loss, "loss", f.loss, "share of the frames that are lost: 0.01 or 1%")
	flags.StringVar(&f.rate, "rate", f.rate, "bits a second that each direction lets through, such as 20M; 0: no limit")
	flags.BoolVar(&f.cfg.Reorder, "reorder", false, "let frames with a shorter delay overtake")
	flags.IntVar(&f.cfg.Queue, "queue", f.cfg.Queue, "frames that wait in one direction, at most")
	flags.Uint64Var(&f.cfg.Seed, "seed", 0, "of the random numbers: the same frames meet the same fate (default: another one each time)")
	flags.BoolVar(&f.cfg.Tap, "tap", false, "make both interfaces, as taps")
	flags.BoolVarP(&f.background, "detach", "d", false, "go on in the background as soon as it forwards")
	flags.IntVar(&f.readyFD, background.FlagReadyFD, 0, "pipe to report to when it forwards")
	_ = flags.MarkHidden(background.FlagReadyFD)
	_ = cmd.RegisterFlagCompletionFunc("delay", completeDelay)
	return cmd
}

// config reads the flags that are not read yet.
func (f *forwardOptions) config() (cfg forward.Config, err error) {
	cfg = f.cfg
	if cfg.A == cfg.B {
		return cfg, fault.Usage.Errorf("%s twice: name two interfaces", cfg.A)
	}
	if cfg.Delay, err = forward.ParseDist(f.delay); err != nil {
		return cfg, fault.Usage.Errorf("--delay: %w", err)
	}
	number, scale := f.loss, 1.0
	if percent, ok := strings.CutSuffix(f.loss, "%"); ok {
		number, scale = percent, 100
	}
	if cfg.Loss, err = strconv.ParseFloat(number, 64); err != nil || !(cfg.Loss >= 0 && cfg.Loss <= scale) {
		return cfg, fault.Usage.Errorf("--loss %q: use a share such as 0.01 or 1%%", f.loss)
	}
	cfg.Loss /= scale
	if cfg.Rate, err = parseRate(f.rate); err != nil {
		return cfg, fault.Usage.Errorf("%w", err)
	}
	if cfg.Queue < 1 {
		return cfg, fault.Usage.Errorf("--queue %d: use 1 or more", cfg.Queue)
	}
	if !f.seedIsGiven {
		cfg.Seed = rand.Uint64()
	}
	return cfg, nil
}

// parseRate reads bits a second: 500000, 20M; K, M and G are powers of 1000.
func parseRate(s string) (int64, error) {
	factor := 1.0
	digits := s
	for suffix, v := range map[string]float64{"K": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok {
			digits, factor = rest, v
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	// What is less than one would come to 0, which is no limit.
	if v *= factor; err != nil || v != 0 && !(v >= 1 && v <= 1e15) {
		return 0, fmt.Errorf("--rate %q: use bits a second such as 500K or 20M", s)
	}
	return int64(v), nil
}

func runForward(k *kit.Kit, cmd *cobra.Command, f *forwardOptions) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if f.background && f.readyFD == 0 {
		return startForwarder()
	}
	fwd, err := forward.Open(cfg)
	if told := background.TellReady(f.readyFD, err); told != nil {
		return errors.Join(told, err)
	}
	if err != nil && f.readyFD != 0 {
		return kit.WithCode(kit.ExitCode(err), nil) // who waits for it says it
	}
	if err != nil {
		return err
	}
	defer fwd.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	fmt.Fprintf(k.Stderr, "forwarding between %s and %s: delay %v, loss %v, seed %d\n", cfg.A, cfg.B, cfg.Delay, cfg.Loss, cfg.Seed)
	done := make(chan error, 1)
	go func() { done <- fwd.Run(ctx) }()
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	defer signal.Stop(usr1)
	for {
		select {
		case <-usr1:
			if err := printForward(k, fwd.Counts()); err != nil {
				return err
			}
		case err := <-done:
			return errors.Join(err, printForward(k, fwd.Counts()))
		}
	}
}

// startForwarder runs the same command line in the background, in a session of
// its own, and returns when it forwards. What it prints goes where this process
// prints.
func startForwarder() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe to the forwarder: %w", err)
	}
	defer r.Close()
	child := exec.Command(background.SelfPath, os.Args[1:]...)
	// Not as a further argument: behind a "--" it would be no flag.
	child.Env = append(os.Environ(), kit.EnvName(background.FlagReadyFD)+"=3")
	child.Args[0] = filepath.Base(os.Args[0])
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{w}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start forwarder: %w", err)
	}
	if err := background.AwaitReady(r); err != nil {
		child.Wait() // it has said that it ends
		return err
	}
	return child.Process.Release()
}

// printForward prints the counts, in frames.
func printForward(k *kit.Kit, counts []forward.Counts) error {
	w := k.Stdout
	if k.Output == kit.FormatJSON {
		for _, c := range counts {
			if err := kit.PrintJSON(w, c); err != nil {
				return err
			}
		}
		return nil
	}
	columns := []kit.Column{{Title: "FROM"}, {Title: "TO"}}
	for _, title := range []string{"IN", "OUT", "LOST", "QUEUE FULL", "REFUSED", "QUEUED", "OVERRUN", "SKIPPED"} {
		columns = append(columns, kit.Column{Title: title, Right: true})
	}
	t := kit.NewTable(columns...)
	for _, c := range counts {
		cells := []string{c.From, c.To}
		for _, n := range []uint64{c.In, c.Out, c.Lost, c.Full, c.Refused, c.Queued, c.Overrun, c.Skipped} {
			cells = append(cells, strconv.FormatUint(n, 10))
		}
		t.Add(cells...)
	}
	return t.Flush(w)
}

func completeDelay(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return []string{"constant:", "uniform:", "normal:", "exponential:", "pareto:", "file:"}, cobra.ShellCompDirectiveNoSpace
}

// completeInterfaces lists the interfaces of this namespace, which /sys may not
// show.
func completeInterfaces(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	file, err := os.Open("/proc/net/dev")
	if err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer file.Close()
	return interfaceNames(file), cobra.ShellCompDirectiveNoFileComp
}

func interfaceNames(procNetDev io.Reader) []string {
	var names []string
	for lines := bufio.NewScanner(procNetDev); lines.Scan(); {
		name, _, ok := strings.Cut(lines.Text(), ":")
		if name = strings.TrimSpace(name); ok && name != "lo" {
			names = append(names, name)
		}
	}
	return names
}
