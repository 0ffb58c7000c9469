// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/result"
)

// cpuRates are what TCP sends, Mbit/s; 0 is what it can.
var cpuRates = []int{100, 500, 1000, 2000, 0}

// machineCPU measures the CPU of the whole machine while TCP goes through one router, as the paper does. On a shared
// machine that is mostly noise: so beside it stand the throughput that is left, and ns by the kernel's statistics of
// programs. In-band telemetry is not among the neighbours: it cannot put words into each segment of a train.
func machineCPU(ctx context.Context, o *options) ([]result.Table, error) {
	rounds := o.pick((o.rounds+3)/4, 1)
	long := time.Duration(o.longer(3, 60)) * time.Second
	if o.short {
		long = 200 * time.Millisecond
	}
	others, err := programTimes()
	if err != nil {
		return nil, err
	}
	u, err := newLineup(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer u.close()
	kinds := make([][][][]float64, 3) // busy, in softirqs, Mbit/s: by rate, neighbour, round
	for kind := range kinds {
		kinds[kind] = make([][][]float64, len(cpuRates))
		for r := range cpuRates {
			kinds[kind][r] = make([][]float64, len(u.list))
		}
	}
	err = u.inTurn(ctx, o, rounds, []int{2}, func(k, _ int) error {
		for r, mbit := range cpuRates {
			before, err := readCPU()
			if err != nil {
				return err
			}
			bits, _, err := sendTCP(ctx, u.network, float64(mbit)*1e6, long)
			if err != nil {
				return err
			}
			after, err := readCPU()
			if err != nil {
				return err
			}
			for kind, x := range []float64{after.share(before, after.busy-before.busy), after.share(before, after.softirq-before.softirq), bits / 1e6} {
				kinds[kind][r][k] = append(kinds[kind][r][k], x)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var tables []result.Table
	for kind, title := range []string{"the whole machine, % of one core", "of that in softirqs", "TCP, Mbit/s"} {
		t := result.Table{Title: title, Columns: []string{"TCP at"}}
		for _, nb := range u.list {
			t.Columns = append(t.Columns, nb.name)
		}
		unit := result.Percent
		if kind == 2 {
			unit = result.Mbits
		}
		for r, mbit := range cpuRates {
			name := fmt.Sprintf("%d Mbit/s", mbit)
			if mbit == 0 {
				name = "what it can"
			}
			var figures []*result.Figure
			for k := range u.list {
				figures = append(figures, result.Of(unit, kinds[kind][r][k]))
			}
			t.Add(name, figures...)
		}
		tables = append(tables, t)
	}
	costs, err := programCosts(ctx, o, u, others)
	costs.Note("%d rounds of %v; all cores summed", rounds, long)
	return append(tables, costs), err
}

// programCosts are the ns that programs take of TCP at 1 Gbit/s, by the kernel's statistics. Others are programs that
// were there before this benchmark began.
func programCosts(ctx context.Context, o *options, u *lineup, others map[ebpf.ProgramID]*ebpf.ProgramStats) (t result.Table, err error) {
	t = result.Table{Title: "by the kernel's statistics of programs", Columns: []string{"", "ns a run", "ns a segment, all hooks"}}
	long := 2 * time.Second
	if o.short {
		long = 200 * time.Millisecond
	}
	for _, nb := range u.list[1:3] { // nop, radar
		err := with(ctx, nb, u.network, 2, func() error {
			statistics, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
			if err != nil {
				return fmt.Errorf("enable statistics of programs: %w", err)
			}
			defer statistics.Close()
			before, err := programTimes()
			if err != nil {
				return err
			}
			_, segments, err := sendTCP(ctx, u.network, 1e9, long)
			if err != nil {
				return err
			}
			after, err := programTimes()
			var runs, took float64
			for id, p := range after {
				if was := before[id]; was != nil && others[id] == nil {
					runs, took = runs+float64(p.RunCount-was.RunCount), took+float64(p.Runtime-was.Runtime)
				}
			}
			t.Add(nb.name, result.Of(result.Ns, []float64{took / max(runs, 1)}), result.Of(result.Ns, []float64{took / max(float64(segments), 1)}))
			return err
		})
		if err != nil {
			return t, err
		}
	}
	t.Note("Statistics themselves cost some 45 ns a run; a run handles a train of up to 45 segments.")
	return t, nil
}

// programTimes are the statistics of all programs that are loaded.
func programTimes() (map[ebpf.ProgramID]*ebpf.ProgramStats, error) {
	all := make(map[ebpf.ProgramID]*ebpf.ProgramStats)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list programs: %w", err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it has gone
		}
		s, err := p.Stats()
		p.Close()
		if err != nil {
			return nil, fmt.Errorf("statistics of a program: %w", err)
		}
		all[id] = s
	}
}

// cpuTimes are those of all cores since the machine started, s.
type cpuTimes struct {
	at            time.Time
	busy, softirq float64
}

// share is seconds since before, in percent of one core.
func (c cpuTimes) share(before cpuTimes, seconds float64) float64 {
	return 100 * seconds / c.at.Sub(before.at).Seconds()
}

func readCPU() (cpuTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}, err
	}
	return parseCPU(string(text))
}

// parseCPU reads the line of all cores in /proc/stat.
func parseCPU(text string) (c cpuTimes, err error) {
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	fields := strings.Fields(text)
	if len(fields) <= steal || fields[0] != "cpu" {
		return c, fmt.Errorf("no times of all cores in %.40q", text)
	}
	c.at = time.Now()
	for _, i := range []int{user, nice, system, irq, softirq, steal} {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return c, fmt.Errorf("read CPU times: %w", err)
		}
		c.busy += n / userHz
		if i == softirq {
			c.softirq = n / userHz
		}
	}
	return c, nil
}
