// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/cmd/bench/usage"
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
	others, err := usage.Programs()
	if err != nil {
		return nil, err
	}
	u, err := newLineup(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer u.close()
	var kinds [len(cpuKinds)][][][]float64 // by rate, neighbour, round
	for kind := range kinds {
		kinds[kind] = make([][][]float64, len(cpuRates))
		for r := range cpuRates {
			kinds[kind][r] = make([][]float64, len(u.list))
		}
	}
	err = u.inTurn(ctx, o, rounds, []int{2}, func(k, _ int) error {
		for r, mbit := range cpuRates {
			figures, err := cpuOf(ctx, u.Network, mbit, long)
			if err != nil {
				return err
			}
			for kind, x := range figures {
				kinds[kind][r][k] = append(kinds[kind][r][k], x)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var tables []result.Table
	for kind := range kinds {
		tables = append(tables, cpuTable(u, kind, kinds[kind]))
	}
	costs, err := programCosts(ctx, o, u, others)
	costs.Note("%d rounds of %v; all cores summed", rounds, long)
	return append(tables, costs), err
}

// cpuKinds are what is measured at each rate.
var cpuKinds = [...]struct{ title, unit string }{
	{"the whole machine, % of one core", result.Percent}, {"of that in softirqs", result.Percent}, {"TCP, Mbit/s", result.Mbits},
}

// cpuOf sends TCP at a rate and returns a figure of each kind.
func cpuOf(ctx context.Context, n *network.Network, mbit int, long time.Duration) (figures [len(cpuKinds)]float64, err error) {
	before, err := usage.ReadCPU()
	if err != nil {
		return figures, err
	}
	bits, _, err := sendTCP(ctx, n, float64(mbit)*1e6, long)
	if err != nil {
		return figures, err
	}
	after, err := usage.ReadCPU()
	return [...]float64{after.Busy(before), after.Softirq(before), bits / 1e6}, err
}

// cpuTable has the figures of one kind, by rate, neighbour and round.
func cpuTable(u *lineup, kind int, figures [][][]float64) result.Table {
	t := result.Table{Title: cpuKinds[kind].title, Columns: []string{"TCP at"}}
	for _, nb := range u.list {
		t.Columns = append(t.Columns, nb.name)
	}
	for r, mbit := range cpuRates {
		name := fmt.Sprintf("%d Mbit/s", mbit)
		if mbit == 0 {
			name = "what it can"
		}
		var row []*result.Figure
		for k := range u.list {
			row = append(row, result.Of(cpuKinds[kind].unit, figures[r][k]))
		}
		t.Add(name, row...)
	}
	return t
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
		err := with(ctx, nb, u.Network, 2, func() error {
			statistics, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
			if err != nil {
				return fmt.Errorf("enable statistics of programs: %w", err)
			}
			defer statistics.Close()
			before, err := usage.Programs()
			if err != nil {
				return err
			}
			_, segments, err := sendTCP(ctx, u.Network, 1e9, long)
			if err != nil {
				return err
			}
			after, err := usage.Programs()
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
