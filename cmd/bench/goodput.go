// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/vnetradar/radar/cmd/bench/network"
	"github.com/vnetradar/radar/cmd/bench/result"
)

// above is how much more is sent than the links take.
const above = 1.3

// frames are what is sent, and over which links. Frames are as an interface sees them: the paper's "64 bytes" are taken
// with the four of the checksum behind the frame, which it does not see; its 1514 have none.
//
// Small packets go over slower links: at 100 Mbit/s they would be 195,000 a second, which two CPUs do not forward ten
// times over, with nothing attached. What telemetry takes of a link is a ratio of bytes, whatever the rate.
var frames = []struct {
	name     string
	bytes    int
	linkMbit int
}{{"64 B", 60, 10}, {"1514 B", 1514, 100}}

// goodput measures what is left of a link's rate: UDP at 1.3 times the rate of all links, each a token bucket, through
// ever longer parts of one chain. An MTU of 1500 stays for all but in-band telemetry.
func goodput(ctx context.Context, o *options) ([]result.Table, error) {
	distances := []int{1, 4, 7, 10}
	switch {
	case o.full:
		distances = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	case o.short:
		distances = []int{1, 10}
	}
	rounds := o.pick((o.rounds+3)/4, 1)
	long := time.Duration(o.longer(2, 10)) * time.Second
	if o.short {
		long = 200 * time.Millisecond
	}
	u, err := newLineup(ctx, o, maxRouters, "--max-hops", fmt.Sprint(maxRouters+2))
	if err != nil {
		return nil, err
	}
	defer u.close()
	u.list = slices.DeleteFunc(append(u.list, inBand()), func(nb neighbour) bool { return nb.name == "nop" })
	ends := make([]int, len(distances))
	for i, routers := range distances {
		ends[i] = routers + 1
	}
	rates := make([][][][]float64, len(frames)) // by frame, distance, neighbour, round
	for f := range rates {
		rates[f] = make([][][]float64, len(distances))
		for i := range rates[f] {
			rates[f][i] = make([][]float64, len(u.list))
		}
	}
	err = u.inTurn(ctx, o, rounds, ends, func(k, i int) error {
		for f, frame := range frames {
			if err := limitLinks(ctx, u.Network, frame.linkMbit); err != nil {
				return err
			}
			payload := frame.bytes - ethernetIPv4UDP
			perSecond := above * float64(frame.linkMbit) * 1e6 / 8 / float64(frame.bytes)
			got, err := sendUDP(ctx, u.Network, ends[i], payload, perSecond, long)
			if err != nil {
				return fmt.Errorf("%d routers: %w", distances[i], err)
			}
			rates[f][i][k] = append(rates[f][i][k], got*8/1e6)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []result.Table{goodputTable(u, distances, rates, rounds, long)}, nil
}

// ethernetIPv4UDP are the bytes of headers in front of the payload.
const ethernetIPv4UDP = 14 + 20 + 8

func goodputTable(u *lineup, distances []int, rates [][][][]float64, rounds int, long time.Duration) result.Table {
	t := result.Table{Columns: []string{"goodput, Mbit/s"}}
	for _, nb := range u.list {
		t.Columns = append(t.Columns, nb.name)
	}
	for f, frame := range frames {
		for i, routers := range distances {
			var figures []*result.Figure
			for k := range u.list {
				figures = append(figures, result.Of(result.Mbits, rates[f][i][k]))
			}
			t.Add(fmt.Sprintf("%s, %d", frame.name, routers), figures...)
		}
	}
	t.Note("rows: bytes of a frame, routers. %d rounds of %v; UDP at %.1f times the rate of the links, which is %d and %d Mbit/s.",
		rounds, long, above, frames[0].linkMbit, frames[1].linkMbit)
	t.Notes = append(t.Notes, u.notes...)
	return t
}

// limitLinks makes each link towards the line's end one of so many Mbit/s.
func limitLinks(ctx context.Context, n *network.Network, mbit int) error {
	for i := 0; i < len(n.Ports); i += 2 { // the other ones are the links' far ends
		p := n.Ports[i]
		tc := exec.CommandContext(ctx, "tc", "qdisc", "replace", "dev", p.Name, "root", "tbf", "rate", fmt.Sprintf("%dmbit", mbit), "burst", "4kb", "latency", "20ms")
		var said []byte
		err := n.In(p.Node, func() (err error) {
			said, err = tc.CombinedOutput()
			return err
		})
		if err != nil {
			return fmt.Errorf("limit %s: %w: %s", p.Name, err, said)
		}
	}
	return nil
}
