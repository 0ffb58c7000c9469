// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// TestManyNodes: there are at most so many lanes, each node has one, and what has none is counted.
func TestManyNodes(t *testing.T) {
	var h Hops
	send := func(nodes ...int) {
		r := &record.Record{Segs: 3}
		for _, n := range nodes {
			r.Hops = append(r.Hops, record.Hop{Node: fmt.Sprint("n", n)})
		}
		h.Add(r)
	}
	for i := range 400 {
		send(3*i, 3*i+1, 3*i, 3*i+2)
	}
	send(2, 1, 0)
	send(1, 1000)
	send()
	if lanes := h.Lanes(); len(lanes) != MostLanes || len(h.Records) != 23 || h.Packets != 69 || h.Laneless != 3*379 || h.Placeless != 3 {
		t.Errorf("%d lanes, %d records of %d packets, %d and %d not", len(lanes), len(h.Records), h.Packets, h.Laneless, h.Placeless)
	}
}
