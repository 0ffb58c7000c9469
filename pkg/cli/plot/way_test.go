// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"testing"

	"github.com/vnetradar/radar/pkg/answer/chart"
	"github.com/vnetradar/radar/pkg/record"
)

// TestArrived: dots stand where copies arrived, which need not be at the last visit; of other packets at the last one.
func TestArrived(t *testing.T) {
	at := func(ns int64) *int64 { return &ns }
	levels := map[string]float64{"h1": 0, "r1": -1, "h2": -2, "h3": -3}
	visits := []chart.Visit{
		{Node: "h1", Prev: -1, OutNs: at(0)}, {Hop: 1, Node: "r1", Prev: 0, InNs: at(10), OutNs: at(20)},
		{Hop: 2, Node: "h2", Prev: 1, InNs: at(30)}, {Hop: 3, Node: "h3", Prev: 1, InNs: at(40), Lost: true, LostNs: at(50)},
	}
	for i := range visits {
		visits[i].State = record.Delivered
	}
	for _, c := range []struct {
		outcomes [2]record.State
		want     []float64
	}{
		{[2]record.State{record.Delivered, record.Lost}, []float64{30}}, {[2]record.State{record.Left, record.Delivered}, []float64{30, 40}},
		{[2]record.State{record.Ignored, record.Lost}, nil}, {[2]record.State{}, []float64{40}},
	} {
		visits[2].Outcome, visits[3].Outcome = c.outcomes[0], c.outcomes[1]
		w := newWay(1)
		w.packet(visits, levels, func(ns int64) float64 { return float64(ns) })
		ok := len(w.ends.List) == len(c.want)
		for i := 0; ok && i < len(c.want); i++ {
			ok = w.ends.List[i].X == c.want[i]
		}
		if !ok {
			t.Errorf("%v: dots %v, want at %v", c.outcomes, w.ends.List, c.want)
		}
	}
}
