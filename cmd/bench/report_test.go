// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		rounds []float64
		want   *Figure
	}{
		{[]float64{5, 1, 9}, &Figure{ns, 5, 1, 9, []float64{5, 1, 9}}},
		{[]float64{4, 2, 1, 9}, &Figure{ns, 3, 1, 9, []float64{4, 2, 1, 9}}},
		{[]float64{math.NaN(), 2, math.Inf(1)}, &Figure{ns, 2, 2, 2, []float64{2}}},
		{[]float64{math.NaN()}, nil},
		{nil, nil},
	} {
		if got := figure(ns, c.rounds); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v", c.rounds, got)
		}
	}
}

func TestFigureText(t *testing.T) {
	for want, f := range map[string]*Figure{
		"12 (11-14)":        figure(ns, []float64{12.3, 11, 13.6}),
		"1.06x (1.00-1.10)": figure(times, []float64{1.1, 1, 1.06}),
		"3.20 (3.10-3.30)":  figure(us, []float64{3.1, 3.3}),
		"12.5%":             figure(percent, []float64{12.5}),
		"0.04% (0.03-1.20)": figure(percent, []float64{0.031, 0.04, 1.2}),
		"-":                 nil,
	} {
		if got := f.String(); got != want {
			t.Errorf("%+v: %q, not %q", f, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := ratios([]float64{3, 4, 5}, []float64{2, 0, -1})
	if got[0] != 1.5 || !math.IsNaN(got[1]) || !math.IsNaN(got[2]) {
		t.Error(got)
	}
	if got := less([]float64{3, 4}, []float64{1, 6}); !reflect.DeepEqual(got, []float64{2, -2}) {
		t.Error(got)
	}
}

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
	if err := table.write(&out); err != nil {
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

func TestMerge(t *testing.T) {
	report := func(commit string, names ...string) *Report {
		r := &Report{Commit: commit, Kernel: "6.18"}
		for _, name := range names {
			r.Benchmarks = append(r.Benchmarks, &Measured{Name: name, Load: commit})
		}
		return r
	}
	old := report("a", "hooks", "exchange", "targets")
	for _, c := range []struct {
		r    *Report
		want string
	}{
		{report("a", "gso", "exchange"), "hooks gso exchange"},
		{report("b", "gso"), "gso"},
		{report("a-dirty", "gso"), "gso"},
	} {
		c.r.merge(old)
		var names []string
		for _, m := range c.r.Benchmarks {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s, not %s", c.r.Commit, got, c.want)
		}
	}
	newer := report("a", "exchange")
	mine := newer.Benchmarks[0]
	newer.merge(old)
	if newer.Benchmarks[1] != mine {
		t.Error("what was measured again is the old one's")
	}
}

func TestTimes(t *testing.T) {
	r := Report{Benchmarks: []*Measured{{Name: "hooks", Seconds: 20.6}, {Name: "curve-slots", Seconds: 110}, {Name: "targets"}}}
	want := `hooks            21 s
curve-slots     110 s
all             131 s; BENCH=regexp (-run) chooses`
	if got := r.times(); got != want {
		t.Errorf("got:\n%s", got)
	}
}
