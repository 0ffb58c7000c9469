// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
)

// attachMany measures radar attach and radar detach of a network with many ports, by either
// way to attach programs.
func attachMany(ctx context.Context, o *options) ([]result.Table, error) {
	nodes, rounds := o.pick(200, 20), o.pick(5, 1)
	n, err := newMesh(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	r, err := newRadarCommand(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	hooks := []string{"tcx", "clsact"}
	on, off := make([][]float64, len(hooks)), make([][]float64, len(hooks))
	for round := range rounds {
		o.progress("  round %d of %d", round+1, rounds)
		for i, hook := range hooks {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			start := time.Now()
			if err := r.attach(ctx, n, "--hook", hook); err != nil {
				return nil, err
			}
			on[i] = append(on[i], time.Since(start).Seconds())
			start = time.Now()
			if _, err := r.run(ctx, "detach"); err != nil {
				return nil, err
			}
			off[i] = append(off[i], time.Since(start).Seconds())
		}
	}
	t := result.Table{Columns: []string{"seconds", "attach", "detach"}}
	for i, hook := range hooks {
		t.Add(hook, result.Of(result.Seconds, on[i]), result.Of(result.Seconds, off[i]))
	}
	t.Note("%d ports in %d nodes, %d rounds", len(n.Ports), nodes, rounds)
	return []result.Table{t}, nil
}

// newMesh links each node with the next, with one some way on, and every other node with
// a third: five ports to a node.
func newMesh(ctx context.Context, nodes int) (_ *network.Network, err error) {
	n, err := network.New(nodes, false)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	links := 0
	for i := range nodes {
		for _, far := range []int{1, 7, 3 * (1 - i%2)} {
			if far == 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var ends [2]network.End
			for e, node := range []int{i, (i + far) % nodes} {
				addr := netip.AddrFrom4([4]byte{10, byte(links / 256), byte(links), byte(1 + e)})
				ends[e] = network.End{Node: node, Name: fmt.Sprintf("%s%d", [2]string{"to", "from"}[e], far), Addr: []netip.Prefix{netip.PrefixFrom(addr, 24)}}
			}
			if _, err := n.Connect(ends[0], ends[1]); err != nil {
				return nil, err
			}
			links++
		}
	}
	return n, nil
}
