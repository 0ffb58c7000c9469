// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// Every target must be about a benchmark that there is.
func TestTargetsNamed(t *testing.T) {
	for _, target := range targets {
		found := false
		for _, b := range benchmarks {
			found = found || b.name == target.bench
		}
		if !found {
			t.Errorf("%s: no benchmark %s", target.what, target.bench)
		}
	}
}

func TestCompare(t *testing.T) {
	r := &Report{}
	if r.compare() != nil {
		t.Error("something is compared with nothing")
	}
	rates := Table{}
	none, radar := figure(times, []float64{1}), figure(times, []float64{0.9, 0.94, 0.96})
	rates.add("TCP, of none's", none, none, radar)
	hook := func(sum float64) Table {
		t := Table{}
		t.add("of the floor's", nil, figure(times, []float64{1}), figure(times, []float64{sum}))
		return t
	}
	echoes := Table{}
	echoes.add("1", figure(times, []float64{1.05}), figure(times, []float64{1.1}))
	echoes.add("2", figure(times, []float64{1.2}), figure(times, []float64{1.15}))
	r.Benchmarks = []*Measured{{Name: "hooks", Tables: []Table{hook(1.55)}}, {Name: "gso", Tables: []Table{hook(1.55)}}, {Name: "throughput", Tables: []Table{rates}}, {Name: "exchange", Tables: []Table{{}, echoes}}}
	var out strings.Builder
	if err := r.compare().Tables[0].write(&out); err != nil {
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
