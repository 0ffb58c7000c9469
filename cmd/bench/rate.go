// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/vnetradar/radar/cmd/bench/result"
)

const (
	// onWire is what a packet of a 1500-byte MTU takes on Ethernet: with preamble (8 bytes),
	// header (14), checksum (4) and the gap to the next one (12).
	onWire = 8 + 14 + 1500 + 4 + 12
	// perGigabit is how many of them a second are 1 Gbit/s.
	perGigabit = 1e9 / 8 / onWire
)

// rate measures full-size TCP whose segments pass one by one, and as trains, and says what
// radar takes of a core at 1 Gbit/s of that. Of segments one by one it says where, too: of
// trains gso does.
func rate(ctx context.Context, o *options) ([]result.Table, error) {
	t := result.Table{Columns: []string{"segments pass", "source", "a hop", "sink", "a hop, ns a packet"}}
	var perHook []result.Table
	for _, kind := range []struct {
		name    string
		open    openTraffic
		packets int
	}{{"one by one", tcpSingly, o.packets}, {"as trains", tcp, inTrains * o.packets}} {
		o.progress("  %s", kind.name)
		test := hookTest{open: kind.open, packets: kind.packets, designs: append([]maker{nopDesign, floorDesign}, radarDesigns(o.builds())...)}
		designs, samples, err := test.measure(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("segments %s: %w", kind.name, err)
		}
		rateRows(&t, kind.name, designs, samples)
		t.Note("%s: %d rounds of %s", kind.name, o.rounds, trains(samples))
		perHook = append(perHook, hookTable(designs, samples))
	}
	perHook[0].Title = "ns per packet at each hook, segments one by one"
	t.Note("radar's programs less do-nothing programs. A hop: the ingress and the egress hook of a node that forwards.")
	t.Note("1 Gbit/s are %.0f packets a second of %d bytes: MTU 1500, on Ethernet, with preamble and gap.", float64(perGigabit), onWire)
	t.Note("Packets that carry data; the receiver's acknowledgements come on top.")
	return []result.Table{t, perHook[0]}, nil
}

// rateRows are what the designs behind the do-nothing program and the floor take above the
// first of these.
func rateRows(t *result.Table, name string, designs []*design, samples [][]sample) {
	for i := 2; i < len(designs); i++ {
		at := func(node int) []float64 {
			return lessNop(samples, i, func(h hook) bool { return h.node == node })
		}
		row := name
		if i > 2 { // another build
			row += ", " + designs[i].name
		}
		t.Add(row, result.Of(result.Percent, ofCore(at(h1))), result.Of(result.Percent, ofCore(at(r1))), result.Of(result.Percent, ofCore(at(h2))), result.Of(result.Ns, at(r1)))
	}
}

// ofCore is what ns per packet are of a core at 1 Gbit/s, in per cent.
func ofCore(perPacket []float64) []float64 {
	out := make([]float64, len(perPacket))
	for i, ns := range perPacket {
		out[i] = 100 * ns / 1e9 * perGigabit
	}
	return out
}
