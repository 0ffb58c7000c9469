// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/cmd/bench/usage"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// question is a command that somebody waits for.
type question struct {
	name string
	args []string
}

// rare is the destination port of one packet in a hundred.
const rare = "4799"

var questions = []question{
	{"version (the command alone)", []string{"version"}},
	{"packets (the last 20)", []string{"packets"}},
	{"packets, 1 % kept", []string{"packets", "--last", "0", "--dport", rare}},
	{"packets, 1 % kept, as JSON", []string{"packets", "--last", "0", "--dport", rare, "-o", "json"}},
	{"latency", []string{"latency"}},
	{"loss", []string{"loss"}},
	{"flows", []string{"flows"}},
	{"paths", []string{"paths"}},
}

// queries asks about a ring that is nearly empty, full, and has been full several times;
// and follows packets as they come.
func queries(ctx context.Context, o *options) ([]result.Table, error) {
	slots, rounds := o.pick(int(program.DefaultOptions().Slots), 1<<14), o.pick(o.rounds, 1)
	c, err := newChain(1, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	mix, err := newMix(c)
	if err != nil {
		return nil, err
	}
	defer mix.close()
	r, err := newRadarCommand(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.attach(ctx, c.Network, "--slots", fmt.Sprint(slots)); err != nil {
		return nil, err
	}
	asked, err := askAll(ctx, o, r, mix, slots, rounds)
	if err != nil {
		return nil, err
	}
	followed, err := follow(ctx, o, r, mix, o.pick(5, 1))
	if err != nil {
		return nil, err
	}
	return []result.Table{asked, followed}, r.detach()
}

// askAll measures every question at several stages.
func askAll(ctx context.Context, o *options, r *radar, mix *mix, slots, rounds int) (t result.Table, err error) {
	stages := []int{slots / 16, slots, 4 * slots} // packets so far
	took := make([][][]float64, len(questions))   // by question, stage, round
	for q := range took {
		took[q] = make([][]float64, len(stages))
	}
	for s, packets := range stages {
		o.progress("  after %d packets", packets)
		if err := mix.upTo(ctx, packets); err != nil {
			return t, err
		}
		if _, err := r.settle(ctx); err != nil {
			return t, err
		}
		for range rounds {
			for q, question := range questions {
				start := time.Now()
				if _, err := r.run(ctx, question.args...); err != nil {
					return t, err
				}
				took[q][s] = append(took[q][s], time.Since(start).Seconds())
			}
		}
	}
	// A figure says nothing about a question that is not answered.
	if err := checkAnswer(ctx, r, slots); err != nil {
		return t, err
	}
	t.Columns = []string{"seconds"}
	for _, packets := range stages {
		t.Columns = append(t.Columns, fmt.Sprintf("after %d packets", packets))
	}
	t.Columns = append(t.Columns, "last/first")
	for q, question := range questions {
		var figures []*result.Figure
		for s := range stages {
			figures = append(figures, result.Of(result.Seconds, took[q][s]))
		}
		figures = append(figures, result.Of(result.Times, result.Ratios(took[q][len(stages)-1], took[q][0])))
		t.Add(question.name, figures...)
	}
	t.Note("%d rounds; a ring of %d packets, 1 %% of them of another port, 0.1 %% lost", rounds, slots)
	return t, nil
}

// checkAnswer asks how many packets there are of one in a hundred.
func checkAnswer(ctx context.Context, r *radar, slots int) error {
	out, err := r.run(ctx, "packets", "--last", "0", "--dport", rare, "-o", "json")
	if err != nil {
		return err
	}
	if got, want := bytes.Count(out, []byte("\n")), slots/100; got < want*9/10 || got > want*11/10 {
		return fmt.Errorf("radar packets --dport %s has %d packets, not about %d", rare, got, want)
	}
	return nil
}

// follow measures the share of a CPU that following takes, at 100,000 packets a second.
func follow(ctx context.Context, o *options, r *radar, mix *mix, rounds int) (t result.Table, err error) {
	const rate = 100_000
	long := 4 * time.Second
	if o.short {
		long = time.Second
	}
	s, err := r.status(ctx)
	if err != nil {
		return t, err
	}
	ways := []question{
		{"packets -f, 1 % kept", []string{"packets", "-f", "--dport", rare}},
		{"packets -f", []string{"packets", "-f"}},
	}
	shares := make([][]float64, len(ways))
	var agent, rates []float64
	for range rounds {
		for w, way := range ways {
			own, agents, sent, err := followOnce(ctx, r, mix, way.args, s.Agent.PID, rate, long)
			if err != nil {
				return t, err
			}
			// A busy machine does not send as many; what is read costs by the packet.
			scale := rate / 1000 / sent
			shares[w], agent, rates = append(shares[w], own*scale), append(agent, agents*scale), append(rates, sent)
		}
	}
	t.Columns = []string{"following", "% of a CPU for 100,000 packets a second"}
	for w, way := range ways {
		t.Add(way.name, result.Of(result.Percent, shares[w]))
	}
	t.Add("the agent", result.Of(result.Percent, agent))
	t.Note("%d rounds of %v, in which %s thousand packets a second were sent; scaled", rounds, long, result.Of(result.Kpps, rates))
	return t, nil
}

// followOnce returns what a follower and the agent took of a CPU, in percent, and the
// rate of packets meanwhile, in thousands a second.
func followOnce(ctx context.Context, r *radar, mix *mix, args []string, agent, rate int, long time.Duration) (own, agents, sent float64, err error) {
	cmd := r.command(ctx, args...) // its output goes network.Nowhere
	if err := cmd.Start(); err != nil {
		return 0, 0, 0, fmt.Errorf("start radar packets: %w", err)
	}
	defer func() { err = errors.Join(err, stop(cmd, syscall.SIGINT)) }()
	sleep(ctx, 300*time.Millisecond) // it has started
	// And has read what it reads once, such as the names of the kernel's functions.
	if _, err := mix.paced(ctx, rate, 500*time.Millisecond); err != nil {
		return 0, 0, 0, err
	}
	pids := []int{cmd.Process.Pid, agent}
	var before, after [2]time.Duration
	for i, pid := range pids {
		if before[i], err = usage.CPUTime(pid); err != nil {
			return 0, 0, 0, err
		}
	}
	start := time.Now()
	n, err := mix.paced(ctx, rate, long)
	if err != nil {
		return 0, 0, 0, err
	}
	took := time.Since(start)
	for i, pid := range pids {
		if after[i], err = usage.CPUTime(pid); err != nil {
			return 0, 0, 0, err
		}
	}
	share := func(i int) float64 { return 100 * float64(after[i]-before[i]) / float64(took) }
	return share(0), share(1), float64(n) / took.Seconds() / 1e3, nil
}

// mix is traffic in which one packet in a hundred is of another port and one in a thousand is
// lost.
type mix struct {
	usual, rare, lost *datagrams
	sent              int
}

func newMix(c *chain) (m *mix, err error) {
	m = new(mix)
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	port, err := strconv.Atoi(rare)
	if err != nil {
		return nil, err
	}
	if m.usual, err = newDatagrams(c, sink(0), nil); err != nil {
		return nil, err
	}
	if m.rare, err = newDatagramsTo(c, sink(0), port, nil); err != nil {
		return nil, err
	}
	m.lost, err = newDatagrams(c, network.Nowhere.Addr().Next(), nil)
	return m, err
}

func (m *mix) close() {
	for _, d := range []*datagrams{m.usual, m.rare, m.lost} {
		if d != nil {
			d.close()
		}
	}
}

// send sends n packets.
func (m *mix) send(n int) error {
	for range n {
		flow := m.usual
		switch {
		case m.sent%1000 == 50:
			flow = m.lost
		case m.sent%100 == 0:
			flow = m.rare
		}
		m.sent++
		if _, _, err := flow.flood(1); err != nil {
			return err
		}
		if m.sent%64 == 0 {
			m.usual.drain()
			m.rare.drain()
		}
	}
	return nil
}

// upTo sends until there were so many.
func (m *mix) upTo(ctx context.Context, packets int) error {
	for m.sent < packets {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.send(min(1<<12, packets-m.sent)); err != nil {
			return err
		}
	}
	return nil
}

// paced sends at a rate, some every millisecond, and returns how many.
func (m *mix) paced(ctx context.Context, rate int, long time.Duration) (n int, err error) {
	start := time.Now()
	for {
		elapsed := time.Since(start)
		if elapsed >= long || ctx.Err() != nil {
			return n, ctx.Err()
		}
		// One that could not run for a while does not make up for all of it in one burst.
		due := min(int(elapsed.Seconds()*float64(rate))-n, rate/100)
		if err := m.send(due); err != nil {
			return n, err
		}
		n += due
		time.Sleep(time.Millisecond)
	}
}

// drain takes what has arrived off the socket: one that is full drops packets.
func (d *datagrams) drain() {
	var buffer [payloadSize]byte
	for {
		if _, _, err := unix.Recvfrom(d.receive, buffer[:], unix.MSG_DONTWAIT); err != nil && err != unix.EINTR {
			return
		}
	}
}
