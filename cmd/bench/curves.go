// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// point of a curve: radar in some state, or traffic of some kind.
type point struct {
	name string
	nop  int // design that this point's cost is counted from
	at   int // design
	flow traffic
	n    int // packets in a round
}

// curvePackets are those of a round: a curve has many points.
func curvePackets(o *options) int { return max(o.packets/2, 1) }

// measureCurve measures points round after round: their cost less that of the do-nothing
// program, and its ratio to the first point's.
func measureCurve(ctx context.Context, o *options, st *stand, what string, points []point) (result.Table, error) {
	t := result.Table{Columns: []string{what, "sum less nop, ns", "of the first", "source egress, ns", "of the first", "not measured"}}
	nops, own := make([][]sample, len(points)), make([][]sample, len(points))
	for round := range o.rounds {
		o.progress("  round %d of %d", round+1, o.rounds)
		for i, p := range points {
			if err := ctx.Err(); err != nil {
				return t, err
			}
			for _, one := range []struct {
				design int
				to     *[]sample
			}{{p.nop, &nops[i]}, {p.at, &own[i]}} {
				s, err := st.meter.round(st.designs[one.design], p.flow, p.n)
				if err != nil {
					return t, err
				}
				*one.to = append(*one.to, s)
			}
		}
	}
	source := func(h hook) bool { return h == hooks[0] }
	net := func(i int, wanted func(hook) bool) []float64 {
		return result.Less(sums(own[i], wanted), sums(nops[i], wanted))
	}
	for i, p := range points {
		var lost []float64
		for _, s := range own[i] {
			lost = append(lost, 100*float64(s.refused)/float64(s.packets))
		}
		t.Add(p.name,
			result.Of(result.Ns, net(i, allHooks)), result.Of(result.Times, result.Ratios(net(i, allHooks), net(0, allHooks))),
			result.Of(result.Ns, net(i, source)), result.Of(result.Times, result.Ratios(net(i, source), net(0, source))),
			result.Of(result.Percent, lost))
	}
	return t, nil
}

// curveSlots has rings in which more and more slots are those of packets that never
// arrive, between others that do.
func curveSlots(ctx context.Context, o *options) ([]result.Table, error) {
	slots := uint32(o.pick(1<<18, 1<<14))
	levels := []int{0, 25, 50, 75, 90, 95, 99, 100}
	if o.short {
		levels = []int{0, 100}
	}
	c, err := newChain(1, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	arrives, err := newDatagrams(c, sink(0), nil)
	if err != nil {
		return nil, err
	}
	defer arrives.close()
	stays, err := newDatagrams(c, network.Nowhere.Addr().Next(), nil)
	if err != nil {
		return nil, err
	}
	defer stays.close()
	makers := []maker{nopDesign}
	for _, level := range levels {
		makers = append(makers, radarWith(fmt.Sprintf("radar %d %%", level), func(o *program.Options) {
			// The longest there is: packets under way stay that. And the slots that are
			// left come round faster than by default they may.
			o.Timeout, o.MinAge = 15*time.Minute, 100*time.Microsecond
		}))
	}
	s, err := newStand(c, slots, makers)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var points []point
	for i, level := range levels {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o.progress("  ring of 2^%d, %d %% in flight", log2(slots), level)
		if err := s.meter.occupy(s.designs[1+i], arrives, stays, int(slots), level); err != nil {
			return nil, err
		}
		points = append(points, point{fmt.Sprintf("%d %%", level), 0, 1 + i, arrives, curvePackets(o)})
	}
	t, err := measureCurve(ctx, o, s, "ring in flight", points)
	t.Note("%d packets a round; a ring of 2^%d whose slots in flight are spread evenly, none of which expires meanwhile", curvePackets(o), log2(slots))
	t.Note("A source looks at 64 slots at most; a packet for which it finds none passes as it is, and is counted.")
	return []result.Table{t}, err
}

func log2(n uint32) (log int) {
	for ; n > 1; n /= 2 {
		log++
	}
	return log
}

// occupy goes once round the ring, and leaves percent of its packets in flight.
func (m *meter) occupy(d *design, arrives, stays *datagrams, slots, percent int) error {
	detach, err := d.attach(m.chain)
	if err != nil {
		return err
	}
	defer settle()
	defer detach()
	return m.pinned(func() error {
		for i := range slots {
			flow := arrives
			if isSpread(i, percent) {
				flow = stays
			}
			if _, _, err := flow.flood(1); err != nil {
				return err
			}
		}
		return nil
	})
}

// isSpread picks percent of all numbers, evenly.
func isSpread(i, percent int) bool { return (i+1)*percent/100 > i*percent/100 }

// curveFlows sends packets of more and more flows in turn.
func curveFlows(ctx context.Context, o *options) ([]result.Table, error) {
	counts := []int{1, 100, 10_000, 1_000_000}
	c, err := newChain(1, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := newStand(c, o.slots, []maker{nopDesign, radarDesign(builtIn())})
	if err != nil {
		return nil, err
	}
	defer s.close()
	var points []point
	for _, n := range counts {
		flow, err := newManyFlows(c, n)
		if err != nil {
			return nil, err
		}
		defer flow.close()
		points = append(points, point{fmt.Sprint(n), 0, 1, flow, curvePackets(o)})
	}
	t, err := measureCurve(ctx, o, s, "flows", points)
	t.Note("each packet of another flow than the one before; %d packets a round, the next round goes on", curvePackets(o))
	return []result.Table{t}, err
}

// curvePorts sends packets through more and more lanes in turn, all of whose ports are
// attached.
func curvePorts(ctx context.Context, o *options) ([]result.Table, error) {
	lanes := []int{1, 10, 100, 250}
	if o.short {
		lanes = []int{1, 10}
	}
	most := lanes[len(lanes)-1]
	o.progress("  %d links", 2*most)
	c, err := newChain(most, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	makers := []maker{}
	for _, n := range lanes {
		makers = append(makers, nopOn(n), radarDesign(namedObject{name: fmt.Sprintf("radar, %d lanes", n), load: builtIn().load, lanes: n}))
	}
	s, err := newStand(c, o.slots, makers)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var points []point
	for i, n := range lanes {
		flow, err := newLanes(c, n)
		if err != nil {
			return nil, err
		}
		defer flow.close()
		points = append(points, point{fmt.Sprint(n * len(hooks)), 2 * i, 2*i + 1, flow, curvePackets(o)})
	}
	t, err := measureCurve(ctx, o, s, "ports", points)
	t.Note("%d packets a round, each through four other ports than the one before; %d nodes at most", curvePackets(o), len(c.Nodes))
	return []result.Table{t}, err
}

func nopOn(lanes int) maker {
	return func(c *chain, slots uint32) (*design, error) {
		d, err := nopDesign(c, slots)
		if err == nil {
			d.lanes = lanes
		}
		return d, err
	}
}
