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
	none, radar := figure(times, []float64{1}), figure(times, []float64{0.9, 0.96, 0.98})
	rates.add("TCP, of none's", none, none, radar)
	echoes := Table{}
	echoes.add("1", figure(times, []float64{1.05}), figure(times, []float64{1.1}))
	echoes.add("2", figure(times, []float64{1.2}), figure(times, []float64{1.15}))
	r.Benchmarks = []*Measured{{Name: "throughput", Tables: []Table{rates}}, {Name: "exchange", Tables: []Table{{}, echoes}}}
	var out strings.Builder
	if err := r.compare().Tables[0].write(&out); err != nil {
		t.Fatal(err)
	}
	want := `target                                   measured                        benchmark
echo, of do-nothing programs'  <= 1.10x  1.20x              not reached  exchange, 2
echo, of none's                <= 1.20x  1.15x              reached      exchange, 2
TCP throughput, of none's      >= 0.97x  0.96x (0.90-0.98)  not reached  throughput
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}
