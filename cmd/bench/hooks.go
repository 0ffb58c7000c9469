// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// warmUp is how many packets pass before the measurement of a round begins.
const warmUp = 1000

// hookTest measures designs at the four hooks of a chain, by the kernel's own statistics
// of each program.
type hookTest struct {
	ipv6    bool
	open    openTraffic
	designs []maker
	packets int // in a round, 0: as the command line says
}

// inTrains is how many times as many packets there are in a round where some twenty pass
// as one skb.
const inTrains = 10

func hooksPlain(ctx context.Context, o *options) ([]result.Table, error) {
	radars := radarDesigns(append(o.builds(), o.watches...))
	t := hookTest{open: udp(nil), designs: slices.Concat([]maker{nopDesign, floorDesign}, radars, []maker{hashDesign})}
	return t.run(ctx, o)
}

func hooksSlots(ctx context.Context, o *options) ([]result.Table, error) {
	t := hookTest{open: udp(nil), designs: []maker{nopDesign, floorDesign}}
	for _, log := range []int{18, 20, 22} {
		if o.short {
			log -= 6
		}
		t.designs = append(t.designs, radarWith(fmt.Sprintf("radar 2^%d", log), func(o *program.Options) { o.Slots = 1 << log }))
	}
	return t.run(ctx, o)
}

func hooksGSO(ctx context.Context, o *options) ([]result.Table, error) {
	t := hookTest{
		open: tcp, designs: append([]maker{nopDesign, floorDesign}, radarDesigns(o.builds())...),
		packets: inTrains * o.packets,
	}
	return t.run(ctx, o)
}

func hooksDFClear(ctx context.Context, o *options) ([]result.Table, error) {
	t := hookTest{open: udp(mayFragment), designs: append([]maker{nopDesign, floorDesign}, radarDesigns(o.builds())...)}
	return t.run(ctx, o)
}

func hooksIPv6(ctx context.Context, o *options) ([]result.Table, error) {
	t := hookTest{ipv6: true, open: udp6, designs: []maker{nopDesign, floor6Design}}
	for _, build := range o.builds() {
		t.designs = append(t.designs,
			radarDesign(build.with(build.name+", label", func(o *program.Options) { o.IPv6 = program.IPv6Label })),
			radarDesign(build.with(build.name+", key", func(o *program.Options) { o.IPv6 = program.IPv6Key })))
	}
	return t.run(ctx, o)
}

func hooksCarry(ctx context.Context, o *options) ([]result.Table, error) {
	t := hookTest{open: udp(nil), designs: []maker{nopDesign, floorDesign}}
	for _, build := range o.builds() {
		t.designs = append(t.designs,
			radarDesign(build.with(build.name+", mark", func(o *program.Options) { o.Carry = program.CarryMark })),
			radarDesign(build.with(build.name+", header", func(o *program.Options) { o.Carry = program.CarryHeader })))
	}
	return t.run(ctx, o)
}

// sample is what one round found.
type sample struct {
	ns      [4]float64 // per packet, by hook
	packets uint64
	skbs    uint64 // at the source's hook
	lost    uint64 // packets that the design lost sight of
	refused uint64 // packets that its source did not take
}

// run measures the designs and makes a table of them.
func (t *hookTest) run(ctx context.Context, o *options) ([]result.Table, error) {
	designs, samples, err := t.measure(ctx, o)
	if err != nil {
		return nil, err
	}
	return []result.Table{hookTable(designs, samples)}, nil
}

// measure measures all designs round after round (A B C, A B C, ...), so that whatever
// else the machine does meets all of them. The designs that it returns are closed.
func (t *hookTest) measure(ctx context.Context, o *options) ([]*design, [][]sample, error) {
	c, err := newChain(1, t.ipv6)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	flow, err := t.open(c)
	if err != nil {
		return nil, nil, err
	}
	defer flow.close()
	st, err := newStand(c, o.slots, t.designs)
	if err != nil {
		return nil, nil, err
	}
	defer st.close()
	packets := t.packets
	if packets == 0 {
		packets = o.packets
	}
	samples := make([][]sample, len(st.designs))
	for round := range o.rounds {
		o.progress("  round %d of %d", round+1, o.rounds)
		for i, d := range st.designs {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			s, err := st.meter.round(d, flow, packets)
			if err != nil {
				return nil, nil, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	return st.designs, samples, nil
}

// stand is what designs are measured with.
type stand struct {
	designs []*design
	meter   *meter
}

func newStand(c *chain, slots uint32, makers []maker) (*stand, error) {
	designs, err := makeAll(c, slots, makers)
	if err != nil {
		return nil, err
	}
	m, err := newMeter(c)
	if err != nil {
		closeDesigns(designs)
		return nil, err
	}
	return &stand{designs, m}, nil
}

func (s *stand) close() {
	s.meter.close()
	closeDesigns(s.designs)
}

// meter reads the kernel's statistics of programs.
type meter struct {
	chain *chain
	stats interface{ Close() error }
	cpu   unix.CPUSet
}

// newMeter switches the statistics on: they end with the process at the latest.
func newMeter(c *chain) (*meter, error) {
	cpu, err := firstCPU()
	if err != nil {
		return nil, err
	}
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, fmt.Errorf("switch run-time statistics on (needs kernel 5.8): %w", err)
	}
	return &meter{chain: c, stats: stats, cpu: cpu}, nil
}

func (m *meter) close() { m.stats.Close() }

// round attaches a design, sends the packets and returns what each hook took.
func (m *meter) round(d *design, flow traffic, packets int) (s sample, err error) {
	detach, err := d.attach(m.chain)
	if err != nil {
		return s, err
	}
	defer settle()
	defer detach()
	err = m.pinned(func() error {
		if _, _, err := flow.flood(warmUp); err != nil {
			return err
		}
		s, err = m.measure(d, flow, packets)
		return err
	})
	return s, err
}

// pinned runs f where all designs run: what they share, as caches, is the same then.
func (m *meter) pinned(f func() error) error {
	return network.OnThread(func() error {
		if err := unix.SchedSetaffinity(0, &m.cpu); err != nil {
			return fmt.Errorf("stay on one CPU: %w", err)
		}
		return f()
	})
}

func (m *meter) measure(d *design, flow traffic, packets int) (s sample, err error) {
	lost, refused, err := d.losses()
	if err != nil {
		return s, err
	}
	before, err := d.stats()
	if err != nil {
		return s, err
	}
	passed, skbs, err := flow.flood(packets)
	if err != nil {
		return s, err
	}
	after, err := d.stats()
	if err != nil {
		return s, err
	}
	for i := range hooks {
		runs := after[i].runs - before[i].runs
		if runs < skbs {
			return s, fmt.Errorf("%s: only %d of %d skbs came to %s: is something else filtering?", d.name, runs, skbs, hooks[i].name)
		}
		// More runs than packets are other traffic, and fewer are trains.
		s.ns[i] = float64(after[i].took-before[i].took) / float64(max(runs, passed))
		if i == 0 {
			s.skbs = runs
		}
	}
	s.packets = passed
	lostNow, refusedNow, err := d.losses()
	s.lost, s.refused = lostNow-lost, refusedNow-refused
	return s, err
}

// losses are what it has lost sight of, and what it has not taken, so far.
func (d *design) losses() (lost, refused uint64, err error) {
	if d.lost != nil {
		lost, err = d.lost()
	}
	if d.refused != nil && err == nil {
		refused, err = d.refused()
	}
	return lost, refused, err
}

// runStats of all programs of a hook.
type runStats struct{ runs, took uint64 }

func (d *design) stats() (out [4]runStats, err error) {
	for i, progs := range d.progs {
		for _, p := range progs {
			s, err := p.Stats()
			if err != nil {
				return out, fmt.Errorf("read run-time statistics: %w", err)
			}
			out[i].runs += s.RunCount
			out[i].took += uint64(s.Runtime)
		}
	}
	return out, nil
}

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

// sums of the rounds over the hooks that are wanted.
func sums(samples []sample, wanted func(hook) bool) []float64 {
	out := make([]float64, len(samples))
	for r, s := range samples {
		for i, h := range hooks {
			if wanted(h) {
				out[r] += s.ns[i]
			}
		}
	}
	return out
}

func allHooks(hook) bool { return true }

// perHook has a column for each design, a row for each hook, and one for their sum less
// that of the first design, the do-nothing program.
func perHook(designs []*design, samples [][]sample) result.Table {
	t := result.Table{Columns: []string{"hook"}}
	for _, d := range designs {
		t.Columns = append(t.Columns, d.name)
	}
	for _, one := range hooks {
		var cells []*result.Figure
		for i := range designs {
			cells = append(cells, result.Of(result.Ns, sums(samples[i], func(h hook) bool { return h == one })))
		}
		t.Add(one.name, cells...)
	}
	cells := []*result.Figure{nil} // of nop itself there is nothing left
	for i := range designs[1:] {
		cells = append(cells, result.Of(result.Ns, lessNop(samples, 1+i, allHooks)))
	}
	t.Add("sum less nop", cells...)
	return t
}

// lessNop is what a design takes at hooks above the first, the do-nothing program.
func lessNop(samples [][]sample, design int, wanted func(hook) bool) []float64 {
	return result.Less(sums(samples[design], wanted), sums(samples[0], wanted))
}

// hookTable compares with the second design, the floor.
func hookTable(designs []*design, samples [][]sample) result.Table {
	t := perHook(designs, samples)
	egress := func(h hook) bool { return !h.ingress }
	for _, row := range []struct {
		name   string
		wanted func(hook) bool
	}{{"of the floor's", allHooks}, {"egress hooks alone", egress}} {
		cells := []*result.Figure{nil}
		for i := range designs[1:] {
			cells = append(cells, result.Of(result.Times, result.Ratios(lessNop(samples, 1+i, row.wanted), lessNop(samples, 1, row.wanted))))
		}
		t.Add(row.name, cells...)
	}

	lost := result.Row{Name: "packets lost sight of"}
	for i, d := range designs {
		text := "-"
		if d.lost != nil {
			var n uint64
			for _, s := range samples[i] {
				n += s.lost
			}
			text = fmt.Sprint(n)
		}
		lost.Cells = append(lost.Cells, result.Cell{Text: text})
	}
	t.Rows = append(t.Rows, lost)
	t.Note("%d rounds of %s", len(samples[0]), trains(samples))
	return t
}

// trains says how many packets there were in a round, and in an skb where that is not one.
func trains(samples [][]sample) string {
	var packets, skbs uint64
	rounds := 0
	for _, d := range samples {
		for _, s := range d {
			packets += s.packets
			skbs += s.skbs
			rounds++
		}
	}
	text := fmt.Sprintf("%d packets", packets/uint64(rounds))
	if per := float64(packets) / float64(skbs); per >= 1.5 {
		text += fmt.Sprintf(", %.1f to an skb", per)
	}
	return strings.TrimSpace(text)
}
