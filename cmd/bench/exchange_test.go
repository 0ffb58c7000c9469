// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/cmd/bench/result"
)

func TestExchangeTables(t *testing.T) {
	list := []neighbour{{name: "none"}, {name: "nop"}, {name: "radar"}, {name: "tcpdump"}}
	// One distance, two rounds, of which the machine is half as fast in one.
	took, ratio := exchangeTables(list, []int{3}, [][][]float64{{{10, 20}, {11, 22}, {12, 24}, {15, 30}}})
	var out strings.Builder
	for _, table := range []result.Table{took, ratio} {
		if err := table.Write(&out); err != nil {
			t.Fatal(err)
		}
	}
	want := `routers  none, us             nop, us              radar, us            tcpdump, us
3        15.00 (10.00-20.00)  16.50 (11.00-22.00)  18.00 (12.00-24.00)  22.50 (15.00-30.00)
routers  radar/nop          radar/none         nop/none           tcpdump/none
3        1.09x (1.09-1.09)  1.20x (1.20-1.20)  1.10x (1.10-1.10)  1.50x (1.50-1.50)
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}
