// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// Ratios are those of rounds: a machine that is twice as slow in one changes none.
func TestHookTable(t *testing.T) {
	round := func(slow float64, each float64) sample {
		return sample{ns: [4]float64{slow * each, slow * each, slow * each, slow * each}, packets: 40, skbs: 10}
	}
	designs := []*design{{name: "nop"}, {name: "floor"}, {name: "radar", lost: func() (uint64, error) { return 0, nil }}}
	samples := [][]sample{
		{round(1, 50), round(2, 50)}, {round(1, 100), round(2, 100)}, {round(1, 150), round(2, 150)},
	}
	samples[2][1].lost = 3
	table := hookTable(designs, samples)
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `hook                   nop          floor              radar
source egress          75 (50-100)  150 (100-200)      225 (150-300)
transit ingress        75 (50-100)  150 (100-200)      225 (150-300)
transit egress         75 (50-100)  150 (100-200)      225 (150-300)
sink ingress           75 (50-100)  150 (100-200)      225 (150-300)
sum less nop           -            300 (200-400)      600 (400-800)
of the floor's         -            1.00x (1.00-1.00)  2.00x (2.00-2.00)
egress hooks alone     -            1.00x (1.00-1.00)  2.00x (2.00-2.00)
packets lost sight of  -            -                  3
2 rounds of 40 packets, 4.0 to an skb
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}
