// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// options are what the command line says.
type options struct {
	packets int // in a round of one design
	rounds  int
	slots   uint32
	objects []namedObject
}

// warmUp is how many packets pass before the measurement of a round begins.
const warmUp = 1000

// Figure is a median with its extremes, in nanoseconds.
type Figure struct {
	Median float64 `json:"median_ns"`
	Min    float64 `json:"min_ns"`
	Max    float64 `json:"max_ns"`
}

// Result is what one design cost.
type Result struct {
	Design string   `json:"design"`
	Hooks  []Figure `json:"hooks"` // in the order of Report.Hooks
	// Sum over the hooks less that of the do-nothing program, from medians.
	Net float64 `json:"net_ns"`
	// Net in multiples of the floor's.
	Ratio float64 `json:"ratio_to_floor"`
	// Packets that the design lost sight of in all rounds; -1: it follows none.
	Lost int64 `json:"lost"`
}

// Report is everything that a run found.
type Report struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Kernel  string    `json:"kernel"`
	CPU     string    `json:"cpu"`
	Packets int       `json:"packets_per_round"`
	Rounds  int       `json:"rounds"`
	Slots   uint32    `json:"slots"`
	Hooks   []string  `json:"hooks"`
	Results []Result  `json:"results"`
}

// measure runs all designs round after round (A B C, A B C, ...), so that whatever
// else the machine does meets all of them.
func measure(ctx context.Context, o options, progress func(string)) (*Report, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise the limit of locked memory (run as root): %w", err)
	}
	c, err := newChain()
	if err != nil {
		return nil, err
	}
	defer c.close()
	t, err := newTraffic(c)
	if err != nil {
		return nil, err
	}
	defer t.close()
	designs, err := newDesigns(c, o.slots, o.objects)
	if err != nil {
		return nil, err
	}
	defer closeDesigns(designs)
	// Ends with the process: nothing to restore.
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, fmt.Errorf("switch run-time statistics on (needs kernel 5.8 and root): %w", err)
	}
	defer stats.Close()

	cpu, err := firstCPU()
	if err != nil {
		return nil, err
	}
	samples := make([][][4]float64, len(designs))
	for round := range o.rounds {
		for i, d := range designs {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("measure: %w", err)
			}
			progress(fmt.Sprintf("round %d of %d: %s", round+1, o.rounds, d.name))
			s, err := runRound(c, t, d, o.packets, cpu)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	return report(o, designs, samples)
}

// runRound attaches a design, sends the packets and returns ns per run at each hook.
func runRound(c *chain, t *traffic, d *design, packets int, cpu unix.CPUSet) (ns [4]float64, err error) {
	detach, err := d.attach(c)
	if err != nil {
		return ns, err
	}
	defer settle()
	defer detach()
	err = onThread(func() error {
		if err := unix.SchedSetaffinity(0, &cpu); err != nil {
			return fmt.Errorf("stay on one CPU: %w", err)
		}
		if err := t.flood(warmUp); err != nil {
			return err
		}
		before, err := d.stats()
		if err != nil {
			return err
		}
		if err := t.flood(packets); err != nil {
			return err
		}
		after, err := d.stats()
		if err != nil {
			return err
		}
		for i := range ns {
			runs := after[i].RunCount - before[i].RunCount
			if runs < uint64(packets) {
				return fmt.Errorf("%s: only %d of %d packets came to %s: is something else filtering?", d.name, runs, packets, hooks[i].name)
			}
			ns[i] = float64(after[i].Runtime-before[i].Runtime) / float64(runs)
		}
		return nil
	})
	return ns, err
}

// firstCPU is where all designs run: what they share, as caches, is the same then.
func firstCPU() (one unix.CPUSet, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return one, fmt.Errorf("ask for the CPUs: %w", err)
	}
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			return one, nil
		}
	}
	return one, errors.New("ask for the CPUs: there are none")
}

func (d *design) stats() (out [4]*ebpf.ProgramStats, err error) {
	for i, p := range d.progs {
		if out[i], err = p.Stats(); err != nil {
			return out, fmt.Errorf("read run-time statistics: %w", err)
		}
	}
	return out, nil
}

func report(o options, designs []*design, samples [][][4]float64) (*Report, error) {
	r := &Report{
		Version: 1, Time: time.Now().UTC().Truncate(time.Second), Kernel: kernel(), CPU: cpuModel(),
		Packets: o.packets, Rounds: o.rounds, Slots: o.slots,
	}
	for _, h := range hooks {
		r.Hooks = append(r.Hooks, h.name)
	}
	sums := make(map[string]float64)
	for i, d := range designs {
		res := Result{Design: d.name, Lost: -1}
		for h := range hooks {
			var all []float64
			for _, s := range samples[i] {
				all = append(all, s[h])
			}
			f := figure(all)
			res.Hooks = append(res.Hooks, f)
			sums[d.name] += f.Median
		}
		if d.lost != nil {
			n, err := d.lost()
			if err != nil {
				return nil, err
			}
			res.Lost = int64(n)
		}
		r.Results = append(r.Results, res)
	}
	for i := range r.Results {
		res := &r.Results[i]
		res.Net = sums[res.Design] - sums["nop"]
		if floor := sums["floor"] - sums["nop"]; floor > 0 {
			res.Ratio = res.Net / floor
		}
	}
	return r, nil
}

// figure returns the median and the extremes of at least one value.
func figure(v []float64) Figure {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return Figure{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Release[:])
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	return modelName(string(text))
}
