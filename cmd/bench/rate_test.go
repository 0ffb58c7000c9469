// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/vnetradar/radar/cmd/bench/result"
)

// A hop is what the two hooks of the router take above those of nop, at 10^9 / 8 / 1538
// packets a second.
func TestRateRows(t *testing.T) {
	designs := []*design{{name: "nop"}, {name: "floor"}, {name: "radar"}, {name: "old"}}
	hooks := func(ns ...float64) []sample { return []sample{{ns: [4]float64(ns)}} }
	var table result.Table
	rateRows(&table, "one by one", designs, [][]sample{
		hooks(50, 60, 70, 80), hooks(90, 90, 90, 90), hooks(250, 160, 170, 180), hooks(250, 560, 570, 180),
	})
	want := "[{one by one [1.6% 1.6% 0.81% 200]} {one by one, old [1.6% 8.1% 0.81% 1000]}]"
	if got := fmt.Sprint(table.Rows); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
