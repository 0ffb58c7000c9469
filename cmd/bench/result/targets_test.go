// SPDX-License-Identifier: Apache-2.0

package result

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	r := &Report{}
	if r.Compare() != nil {
		t.Error("something is compared with nothing")
	}
	rates := Table{}
	none, radar := Of(Times, []float64{1}), Of(Times, []float64{0.9, 0.94, 0.96})
	rates.Add("TCP, of none's", none, none, radar)
	hook := func(sum float64) Table {
		t := Table{}
		t.Add("of the floor's", nil, Of(Times, []float64{1}), Of(Times, []float64{sum}))
		return t
	}
	echoes := Table{}
	echoes.Add("1", Of(Times, []float64{1.05}), Of(Times, []float64{1.1}))
	echoes.Add("2", Of(Times, []float64{1.2}), Of(Times, []float64{1.15}))
	r.Benchmarks = []*Measured{{Name: "hooks", Tables: []Table{hook(1.55)}}, {Name: "gso", Tables: []Table{hook(1.55)}}, {Name: "throughput", Tables: []Table{rates}}, {Name: "exchange", Tables: []Table{{}, echoes}}}
	var out strings.Builder
	if err := r.Compare().Tables[0].Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `target                                            measured                        benchmark
per packet, of the floor's              <= 1.60x  1.55x              reached      hooks
per segment of a train, of the floor's  <= 1.50x  1.55x              not reached  gso
echo, of do-nothing programs'           <= 1.10x  1.20x              not reached  exchange, 2
echo, of none's                         <= 1.20x  1.15x              reached      exchange, 2
TCP throughput, of none's               >= 0.95x  0.94x (0.90-0.96)  not reached  throughput
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}
