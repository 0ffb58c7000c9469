// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1e-3, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The values wanted are those of scipy 1.18: binomtest().proportion_ci(method="wilson"), chisquare(),
// fisher_exact().
func TestKnown(t *testing.T) {
	for _, c := range []struct{ k, n, confidence, low, high float64 }{
		{3, 50, 0.95, 0.020614970348973957, 0.1621709168883817},
		{0, 100, 0.99, 0, 0.06222068771582297},
		{500, 10000, 0.99, 0.04467841789478544, 0.05591832686532841},
	} {
		i := Wilson(c.k, c.n, c.confidence)
		near(t, "Wilson low", i.Low, c.low)
		near(t, "Wilson high", i.High, c.high)
	}
	for _, c := range []struct {
		counts, expected []float64
		x2, p            float64
	}{
		{[]float64{48, 52, 61, 39}, []float64{1, 1, 1, 1}, 5, 0.1717971442967335},
		{[]float64{30, 70}, []float64{1, 3}, 4.0 / 3, 0.24821307898992026},
	} {
		x2, p := ChiSquare(c.counts, c.expected)
		near(t, "chi-square", x2, c.x2)
		near(t, "its p", p, c.p)
	}
	near(t, "Fisher", TwoProportions(1, 20, 6, 20), 0.09147609147609148)
	near(t, "Fisher of none", TwoProportions(0, 100, 5, 100), 0.059383210468586585)
	near(t, "z of two shares", TwoProportions(100, 2000, 150, 2000), 0.0010908351761252982)
	near(t, "z", Z(0.99), 2.5758293035489004)
}

// The adjusted values are those of R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
func TestHolm(t *testing.T) {
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "Holm", Holm([]float64{0.01, 0.04, 0.03, 0.005}, []float64{1, 1, 1, 1})[i], want)
	}
	// By hand: 0.02 * 4/2, then 0.015 * 2/1, which is no less than the one before it.
	for i, want := range []float64{0.04, 0.04, 0.9} {
		near(t, "Holm by weights", Holm([]float64{0.02, 0.015, 0.9}, []float64{2, 1, 1})[i], want)
	}
}

// A series whose values depend on each other has wider bounds than one of as many that do not, and bounds that
// hold: a mean of a known series lies within them as often as they say.
func TestBlocks(t *testing.T) {
	rng := Rand(7)
	series := func(n int, memory float64) []float64 {
		list, v := make([]float64, n), rng.NormFloat64()/math.Sqrt(1-memory*memory)
		for i := range list {
			v = memory*v + rng.NormFloat64()
			list[i] = v
		}
		return list
	}
	if long, short := BlockLength(series(4000, 0.9)), BlockLength(series(4000, 0)); long < 25 || short > 16 {
		t.Errorf("blocks of %d where values depend on 20 others, %d where on none", long, short)
	}
	missed := 0
	const tries = 200
	for range tries {
		if !BootstrapMean(series(1000, 0.8), 0.95, 200, rng).Has(0) {
			missed++
		}
	}
	if missed > tries/6 { // 5 % are right; blocks of a finite series are a little too hopeful
		t.Errorf("the mean lies outside of its bounds in %d of %d", missed, tries)
	}
}

// Quantiles of what is drawn vary around those of the series as sampling theory says: the median of n normal
// values has a standard deviation of sqrt(pi/2n).
func TestBootstrap(t *testing.T) {
	rng := Rand(3)
	list := make([]float64, 2000)
	for i := range list {
		list[i] = rng.NormFloat64()
	}
	medians := Bootstrap(list, 0.5, 400, rng)
	if got, want := Deviation(medians), math.Sqrt(math.Pi/2/2000); got < want*0.7 || got > want*1.4 {
		t.Errorf("the median varies by %v, want %v", got, want)
	}
	if n := len(Bootstrap([]float64{1, 2, 3}, 0.5, 5, rng)); n != 5 {
		t.Errorf("%d rounds of a short series", n)
	}
}

// Losses that come in bursts tell less.
func TestBatches(t *testing.T) {
	var single, bursts Batches
	rng := Rand(5)
	for i := range 100000 {
		single.Add(rng.Float64() < 0.02, 1)
		bursts.Add(i%5000 < 100, 1) // the same share
	}
	if f := single.Inflation(); f > 1.5 {
		t.Errorf("independent losses: inflation %v", f)
	}
	if f := bursts.Inflation(); f < 20 {
		t.Errorf("bursts of 100: inflation %v", f)
	}
	narrow, wide := single.Wilson(0.99), bursts.Wilson(0.99)
	if !narrow.Has(0.02) || !wide.Has(0.02) || wide.High-wide.Low < 4*(narrow.High-narrow.Low) {
		t.Errorf("bounds %v of single losses, %v of bursts", narrow, wide)
	}
	if bursts.N != 100000 || len(bursts.list) >= mostBatches {
		t.Errorf("%v counted in %d batches", bursts.N, len(bursts.list))
	}
}

// Many at once count as the same one by one.
func TestBatchesAtOnce(t *testing.T) {
	var one, many Batches
	rng := Rand(6)
	for range 3000 {
		n, is := uint64(rng.IntN(200)), rng.Float64() < 0.1
		many.Add(is, n)
		for range n {
			one.Add(is, 1)
		}
	}
	if one.N != many.N || one.K != many.K || !slices.Equal(one.list, many.list) {
		t.Errorf("%v of %v in %d batches, one by one %v of %v in %d", many.K, many.N, len(many.list), one.K, one.N, len(one.list))
	}
	many.Add(true, 1<<40)
	if many.N != one.N+1<<40 || len(many.list) >= mostBatches {
		t.Errorf("%v counted in %d batches", many.N, len(many.list))
	}
}

func TestSeries(t *testing.T) {
	s := Series{Most: 100}
	for i := range 10000 {
		s.Add(float64(i))
	}
	if n := len(s.Values); n < 50 || n > 100 || !slices.IsSorted(s.Values) || s.Values[n-1] < 9800 {
		t.Errorf("%d values up to %v", n, s.Values[n-1])
	}
	for i := 2; i < len(s.Values); i++ { // as many are left out between any two
		if s.Values[i]-s.Values[i-1] != s.Values[1]-s.Values[0] {
			t.Fatalf("values %v", s.Values)
		}
	}
}

func TestQuantile(t *testing.T) {
	list := Sorted([]float64{5, 1, 4, 2, 3})
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.99: 5, 1: 5} {
		near(t, "quantile", Quantile(list, q), want)
	}
}

// Shares of values beyond a quantile are compared as shares of independent ones, unless they come in bursts.
func TestQuantileTest(t *testing.T) {
	series := func(n int, late func(i int) bool) []float64 {
		list := make([]float64, n)
		for i := range list {
			if list[i] = float64(i%7) / 100; late(i) {
				list[i] = 10
			}
		}
		return list
	}
	few := series(2000, func(i int) bool { return i%200 == 100 })    // 10
	many := series(2000, func(i int) bool { return i%40 == 20 })     // 50
	burst := series(2000, func(i int) bool { return i/50 == 20 })    // 50 at once
	bursts := series(2000, func(i int) bool { return i%400 >= 390 }) // 5 times 10
	never := series(2000, func(int) bool { return false })
	if p, known := QuantileTest(few, many, 0.99, 1), TwoProportions(10, 2000, 50, 2000); p < known || p > 1e-5 {
		t.Errorf("evenly: %v, %v if the variance were known", p, known)
	}
	near(t, "the other way round", QuantileTest(many, few, 0.99, 1), QuantileTest(few, many, 0.99, 1))
	near(t, "medians that are the same", QuantileTest(few, many, 0.5, 0), 1)
	near(t, "less than what counts", QuantileTest(few, many, 0.99, 10), 1)
	for name, late := range map[string][]float64{"one burst": burst, "five bursts": bursts} {
		if p := QuantileTest(never, late, 0.99, 1); p < 0.01 {
			t.Errorf("%s, of which the other run has none: p %v", name, p)
		}
	}
	shifted := make([]float64, len(never))
	for i := range never {
		shifted[i] = never[i] + 5
	}
	for _, q := range []float64{0.5, 0.99} {
		if p := QuantileTest(never, shifted, q, 1); p > 1e-9 {
			t.Errorf("all are later by 5, of which 1 counts: p %v of quantile %v", p, q)
		}
		if p := QuantileTest([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, []float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, q, 1); p > 1e-2 {
			t.Errorf("9 and 11 values, all other ones: p %v", p)
		}
	}
}

// dependent is a series of n values of a process of first order, of positive values with a long tail.
func dependent(rng *rand.Rand, n int, memory float64) []float64 {
	list, v := make([]float64, n), rng.NormFloat64()/math.Sqrt(1-memory*memory)
	for i := range list {
		v = memory*v + rng.NormFloat64()
		list[i] = math.Exp(v * math.Sqrt(1-memory*memory))
	}
	return list
}

// bursty are n values of which now and then so many in a row are late.
func bursty(rng *rand.Rand, n, every, length int) []float64 {
	list, left, late := make([]float64, n), 0, 0.0
	for i := range list {
		if left == 0 && rng.IntN(every) == 0 {
			left, late = 1+int(float64(length)*rng.ExpFloat64()), 10*rng.ExpFloat64()
		}
		list[i] = rng.ExpFloat64()
		if left > 0 {
			left--
			list[i] += late
		}
	}
	return list
}

// Equal processes differ no more often than chance says, however long their values depend on each other; and where many
// are compared, at a level that is as small as that takes.
func TestEqualProcesses(t *testing.T) {
	const pairs = 400
	rng := Rand(11)
	for _, c := range []struct {
		name string
		make func(n int) []float64
	}{
		{"independent", func(n int) []float64 { return dependent(rng, n, 0) }},
		{"memory of 60", func(n int) []float64 { return dependent(rng, n, 0.97) }},
		{"memory of 200", func(n int) []float64 { return dependent(rng, n, 0.99) }},
		{"bursts of 20", func(n int) []float64 { return bursty(rng, n, 200, 20) }},
		{"bursts of 200", func(n int) []float64 { return bursty(rng, n, 2000, 200) }},
	} {
		alarms, rare := make(map[string]int), make(map[string]int)
		for range pairs {
			a, b := c.make(1200), c.make(1200)
			for what, p := range map[string]float64{"p50": QuantileTest(a, b, 0.5, 0), "p99": QuantileTest(a, b, 0.99, 0), "mean": MeanTest(a, b, 0)} {
				if p < 0.01 {
					alarms[what]++
				}
				if p < 0.0005 {
					rare[what]++
				}
			}
		}
		for _, what := range []string{"p50", "p99", "mean"} {
			if alarms[what] > 10 || rare[what] > 2 { // 4 and 0.2 are right; more are a matter of 0.3 %
				t.Errorf("%s, %s: %d of %d equal pairs differ where one in a hundred may, %d where one in two thousand may", c.name, what, alarms[what], pairs, rare[what])
			}
		}
	}
}

// What differs is told, also where values depend on each other.
func TestUnequalProcesses(t *testing.T) {
	const pairs = 100
	rng := Rand(12)
	times := func(list []float64, f float64) []float64 {
		for i := range list {
			list[i] *= f
		}
		return list
	}
	for _, c := range []struct {
		name  string
		a, b  func() []float64
		share float64 // quantile
		least int     // of the pairs
	}{
		{"independent, a third more", func() []float64 { return dependent(rng, 4000, 0) }, func() []float64 { return times(dependent(rng, 4000, 0), 1.3) }, 0.5, 95},
		{"memory of 60, ten times as much", func() []float64 { return dependent(rng, 4000, 0.97) }, func() []float64 { return times(dependent(rng, 4000, 0.97), 10) }, 0.5, 90},
		{"the same, its tail", func() []float64 { return dependent(rng, 4000, 0.97) }, func() []float64 { return times(dependent(rng, 4000, 0.97), 10) }, 0.99, 85},
		{"bursts that only one has", func() []float64 { return dependent(rng, 8000, 0) }, func() []float64 { return bursty(rng, 8000, 250, 20) }, 0.5, 80},
	} {
		told := 0
		for range pairs {
			if QuantileTest(c.a(), c.b(), c.share, 0) < 0.0005 {
				told++
			}
		}
		if told < c.least {
			t.Errorf("%s: told in %d of %d", c.name, told, pairs)
		}
	}
}

// Equal runs whose connections are hit in bursts have as many events as chance says: bursts of many connections at once,
// and swarms of bursts, are fewer events.
func TestEqualEvents(t *testing.T) {
	const pairs = 400
	rng := Rand(13)
	run := func(every, length, phase int) *Batches {
		b, hit, left, on := &Batches{}, make(map[int]bool), 0, true
		for i := range 12000 {
			connection := i/200*4 + rng.IntN(4) // four at a time, of 200 packets
			if phase > 0 && rng.IntN(phase) == 0 {
				on = !on
			}
			if on && left == 0 && rng.IntN(every) == 0 {
				left = 1 + int(float64(length)*rng.ExpFloat64())
			}
			switch is := left > 0; {
			case is && !hit[connection]:
				hit[connection] = true
				b.AddFirst(1)
			default:
				b.Add(is, 1)
			}
			left = max(0, left-1)
		}
		return b
	}
	const tooLong = "busy for 1500" // an eighth of the run: neither test knows that, and events must not make it far worse
	for _, c := range []struct {
		name                 string
		every, length, phase int
	}{
		{"single losses", 1000, 0, 0}, {"bursts of 20", 1500, 20, 0}, {"bursts of 300", 3000, 300, 0},
		{"busy for 400", 100, 10, 400}, {"busy for 700", 150, 10, 700}, {"rare", 5000, 30, 0}, {tooLong, 200, 10, 1500},
	} {
		alarms, rare := 0, 0
		for range pairs {
			p := run(c.every, c.length, c.phase).CompareBursts(run(c.every, c.length, c.phase))
			if p < 0.01 {
				alarms++
			}
			if p < 0.0005 {
				rare++
			}
		}
		mostAlarms, mostRare := 10, 2 // as in TestEqualProcesses
		if c.name == tooLong {
			mostAlarms, mostRare = 22, 7
		}
		if alarms > mostAlarms || rare > mostRare {
			t.Errorf("%s: %d of %d equal pairs differ where one in a hundred may, %d where one in two thousand may", c.name, alarms, pairs, rare)
		}
	}
}
