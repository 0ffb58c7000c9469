// SPDX-License-Identifier: Apache-2.0

package result

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
		{[]float64{5, 1, 9}, &Figure{Ns, 5, 1, 9, []float64{5, 1, 9}}},
		{[]float64{4, 2, 1, 9}, &Figure{Ns, 3, 1, 9, []float64{4, 2, 1, 9}}},
		{[]float64{math.NaN(), 2, math.Inf(1)}, &Figure{Ns, 2, 2, 2, []float64{2}}},
		{[]float64{math.NaN()}, nil},
		{nil, nil},
	} {
		if got := Of(Ns, c.rounds); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v", c.rounds, got)
		}
	}
}

func TestFigureText(t *testing.T) {
	for want, f := range map[string]*Figure{
		"12 (11-14)":        Of(Ns, []float64{12.3, 11, 13.6}),
		"1.06x (1.00-1.10)": Of(Times, []float64{1.1, 1, 1.06}),
		"3.20 (3.10-3.30)":  Of(Us, []float64{3.1, 3.3}),
		"12.5%":             Of(Percent, []float64{12.5}),
		"0.04% (0.03-1.20)": Of(Percent, []float64{0.031, 0.04, 1.2}),
		"-":                 nil,
	} {
		if got := f.String(); got != want {
			t.Errorf("%+v: %q, not %q", f, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{3, 4, 5}, []float64{2, 0, -1})
	if got[0] != 1.5 || !math.IsNaN(got[1]) || !math.IsNaN(got[2]) {
		t.Error(got)
	}
	if got := Less([]float64{3, 4}, []float64{1, 6}); !reflect.DeepEqual(got, []float64{2, -2}) {
		t.Error(got)
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
		c.r.Merge(old, []string{"hooks", "gso", "exchange"})
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
	newer.Merge(old, []string{"hooks", "gso", "exchange"})
	if newer.Benchmarks[1] != mine {
		t.Error("what was measured again is the old one's")
	}
}

func TestTimes(t *testing.T) {
	r := Report{Benchmarks: []*Measured{{Name: "hooks", Seconds: 20.6}, {Name: "curve-slots", Seconds: 110}, {Name: "targets"}}}
	want := `hooks            21 s
curve-slots     110 s
all             131 s; BENCH=regexp (-run) chooses`
	if got := r.Times(); got != want {
		t.Errorf("got:\n%s", got)
	}
}
