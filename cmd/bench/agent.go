// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/cmd/bench/usage"
)

// agents measures the share of a CPU that the agent takes: of a domain that rests, and at 100,000 packets a
// second, which nobody follows.
func agents(ctx context.Context, o *options) ([]result.Table, error) {
	const rate = 100_000
	rounds, long := o.pick(o.rounds, 1), 4*time.Second
	if o.short {
		long = time.Second
	}
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
	u := &lineup{Network: c.Network}
	defer u.close()
	builds, err := u.radars(ctx, o)
	if err != nil {
		return nil, err
	}
	idle, busy := make([][]float64, len(builds)), make([][]float64, len(builds))
	var rates []float64
	for round := range rounds {
		o.progress("  round %d of %d", round+1, rounds)
		for b, build := range builds {
			err := build.while(ctx, c.Network, func(agent int) error {
				sleep(ctx, time.Second) // it has started
				share, _, err := shareOf(agent, func() (int, error) { sleep(ctx, long); return 0, ctx.Err() })
				if err != nil {
					return err
				}
				idle[b] = append(idle[b], share)
				if _, err := mix.paced(ctx, rate, long/4); err != nil { // it has met the flows
					return err
				}
				share, sent, err := shareOf(agent, func() (int, error) { return mix.paced(ctx, rate, long) })
				// A busy machine does not send as many; what is read costs by the packet.
				busy[b], rates = append(busy[b], share*rate/sent), append(rates, sent/1e3)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", build.name, err)
			}
		}
	}
	t := result.Table{Columns: []string{"% of a CPU", "at rest", "100,000 packets a second", "of radar's"}}
	for b, build := range builds {
		name := "the agent"
		if b > 0 {
			name += " of " + build.name
		}
		t.Add(name, result.Of(result.Percent, idle[b]), result.Of(result.Percent, busy[b]), result.Of(result.Times, result.Ratios(busy[b], busy[0])))
	}
	t.Note("%d rounds of %v each, in which %s thousand packets a second were sent; scaled", rounds, long, result.Of(result.Kpps, rates))
	return []result.Table{t}, nil
}

// while runs f while a network has radar on it, with the number of the agent's process.
func (r *radar) while(ctx context.Context, n *network.Network, f func(agent int) error) error {
	if err := r.attach(ctx, n); err != nil {
		return err
	}
	s, err := r.status(ctx)
	if err == nil {
		err = f(s.Agent.PID)
	}
	return errors.Join(err, r.detach())
}

// shareOf is what a process takes of a CPU while f runs, in percent, and how many a second f did of what it counts.
func shareOf(pid int, f func() (int, error)) (share, rate float64, err error) {
	before, err := usage.RunTime(pid)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	n, err := f()
	took := time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	after, err := usage.RunTime(pid)
	return 100 * float64(after-before) / float64(took), float64(n) / took.Seconds(), err
}
