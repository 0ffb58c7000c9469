// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestPercentiles: at least p per cent of all are at most the percentile, and less than that are
// below it.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 99, 100, 101, 1000, 4001} {
		values := make([]int64, n)
		for i := range values {
			values[i] = rng.Int64N(500)
		}
		slices.Sort(values)
		for _, p := range []float64{50, 90, 99, 99.9, 100} {
			got := percentile(values, p)
			most, below := 0, 0
			for _, v := range values {
				if v <= got {
					most++
				}
				if v < got {
					below++
				}
			}
			if want := p / 100 * float64(n); float64(most) < want-1e-6 || float64(below) >= want-1e-6 {
				t.Errorf("%v per cent of %d is %d: %d are at most that, %d less", p, n, got, most, below)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	if summarise(nil) != nil {
		t.Error("no delays have figures")
	}
	d := summarise([]int64{4, 2, 4, 4, 5, 5, 7, 9})
	if d.MeanNs != 5 || math.Abs(d.DeviationNs-math.Sqrt(32.0/7)) > 1e-12 || d.MinNs != 2 || d.MaxNs != 9 || d.P50Ns != 4 {
		t.Errorf("%+v", d.Figures)
	}
	if one := summarise([]int64{7}); one.DeviationNs != 0 || one.MeanNs != 7 || one.P999Ns != 7 {
		t.Errorf("one delay: %+v", one.Figures)
	}
	less := d.less(2)
	if less.MeanNs != 3 || less.DeviationNs != d.DeviationNs || less.MinNs != 0 || less.MaxNs != 7 || d.MinNs != 2 || less.Buckets[0].MostNs != 0 || d.Buckets[0].MostNs != 2 {
		t.Errorf("less 2: %+v %+v", less, d)
	}
}

// TestDistribution: buckets hold every value, in order, and are an eighth of it wide at most.
func TestDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	values := []int64{0, 1, 15, 16, 17, 31, 32, 33, math.MaxInt64 / 2}
	for range 5000 {
		values = append(values, rng.Int64N(1<<rng.IntN(40)+1))
	}
	slices.Sort(values)
	low, at := int64(-1), 0
	for _, b := range distribution(values) {
		if b.MostNs <= low {
			t.Fatalf("bucket to %d behind one to %d", b.MostNs, low)
		}
		for range b.Packets {
			if v := values[at]; v <= low || v > b.MostNs || v > 16 && float64(b.MostNs-v) > float64(v)/8 {
				t.Fatalf("%d is in the bucket from %d to %d", v, low+1, b.MostNs)
			}
			at++
		}
		low = b.MostNs
	}
	if at != len(values) {
		t.Errorf("%d of %d values are in buckets", at, len(values))
	}
}

// TestFit compares with certified values: NIST's Statistical Reference Datasets, linear regression,
// "Norris" (lower level of difficulty, 36 observations). Its deviations are those of the
// estimates; the 97.5th percentile of Student's t with 34 degrees of freedom is 2.032245.
func TestFit(t *testing.T) {
	x := []float64{0.2, 337.4, 118.2, 884.6, 10.1, 226.5, 666.3, 996.3, 448.6, 777.0, 558.2, 0.4, 0.6, 775.5, 666.9, 338.0, 447.5, 11.6,
		556.0, 228.1, 995.8, 887.6, 120.2, 0.3, 0.3, 556.8, 339.1, 887.2, 999.0, 779.0, 11.1, 118.3, 229.2, 669.1, 448.9, 0.5}
	y := []float64{0.1, 338.8, 118.1, 888.0, 9.2, 228.1, 668.5, 998.5, 449.1, 778.9, 559.2, 0.3, 0.1, 778.1, 668.8, 339.3, 448.9, 10.8,
		557.7, 228.3, 998.0, 888.8, 119.6, 0.3, 0.6, 557.6, 339.3, 888.0, 998.5, 778.9, 10.2, 117.6, 228.9, 668.4, 449.2, 0.2}
	slope, intercept, ok := fitLine(x, y)
	if !ok {
		t.Fatal("no line")
	}
	const student = 2.032245
	for _, c := range []struct {
		name             string
		got              Bounded
		value, deviation float64
	}{
		{"intercept", intercept, -0.262323073774029, 0.232818234301152},
		{"slope", slope, 1.00211681802045, 0.429796848199937e-03},
	} {
		if math.Abs(c.got.Value-c.value) > 1e-9 || math.Abs(*c.got.High-c.value-student*c.deviation) > 1e-6*c.deviation || math.Abs(c.value-*c.got.Low-student*c.deviation) > 1e-6*c.deviation {
			t.Errorf("%s: %v (%v to %v), want %v and %v", c.name, c.got.Value, *c.got.Low, *c.got.High, c.value, c.deviation)
		}
	}
	if slope, intercept, ok := fitLine([]float64{100, 200}, []float64{5, 7}); !ok || slope.Value != 0.02 || intercept.Value != 3 || slope.Low != nil || intercept.High != nil {
		t.Errorf("two sizes: %+v %+v", slope, intercept)
	}
	for _, sizes := range [][]float64{{}, {64}, {64, 64}} {
		if _, _, ok := fitLine(sizes, make([]float64, len(sizes))); ok {
			t.Errorf("sizes %v are on a line", sizes)
		}
	}
}

// stampsOf makes stamps of packets that were sent one a microsecond, and came after so many ns; 0:
// they did not.
func stampsOf(took ...uint64) []bpfobj.DutStamps {
	list := make([]bpfobj.DutStamps, len(took))
	for i, ns := range took {
		list[i].AtNs[pointSent], list[i].Seen[pointSent] = uint64(i+1)*1000, 1
		if ns > 0 {
			list[i].AtNs[pointReceived], list[i].Seen[pointReceived] = uint64(i+1)*1000+ns, 1
		}
	}
	return list
}

func TestOutcome(t *testing.T) {
	stamps := stampsOf(100, 5000, 200, 0, 300, 100)
	stamps[2].Seen[pointReceived] = 3
	stamps = append(stamps, bpfobj.DutStamps{}) // was not sent
	o := newOutcome(Trial{}, stamps, false)
	s := o.Streams[0]
	if o.Sent != 6 || o.SentPPS != 1e6 || s.Received != 5 || s.Lost() != 1 || s.Duplicated != 2 || len(o.Streams) != 1 {
		t.Errorf("%+v", o)
	}
	// Packet 1 comes last, behind 2, 4 and 5: it alone is late (RFC 4737).
	if s.Reordered != 1 {
		t.Errorf("%d are reordered", s.Reordered)
	}
	if got := summarise(s.Delays); got.MinNs != 100 || got.MaxNs != 5000 || got.P50Ns != 200 {
		t.Errorf("%+v", got)
	}
	if o := newOutcome(Trial{}, nil, true); len(o.Streams) != 3 || o.Streams[0].Sent != 0 || o.SentPPS != 0 {
		t.Errorf("nothing: %+v", o)
	}
}

func TestRoundTrip(t *testing.T) {
	stamps := stampsOf(100, 200, 300)
	for i := range 2 { // the third does not come back
		p := &stamps[i]
		p.AtNs[pointReturned], p.Seen[pointReturned] = p.AtNs[pointReceived]+7000, 1
		p.AtNs[pointBack], p.Seen[pointBack] = p.AtNs[pointReturned]+50, 1
	}
	o := newOutcome(Trial{}, stamps, true)
	for i, want := range []struct {
		direction      string
		sent, received int
		delays         []int64
	}{{Forward, 3, 3, []int64{100, 200, 300}}, {Reverse, 2, 2, []int64{50, 50}}, {Round, 3, 2, []int64{150, 250}}} {
		s := o.Streams[i]
		if s.Direction != want.direction || s.Sent != want.sent || s.Received != want.received || !slices.Equal(s.Delays, want.delays) {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}

// TestInterval: a device with a queue lets packets out at its own pace, which is fitted. One that loses
// packets at random has no queue, whatever comes of the rate.
func TestInterval(t *testing.T) {
	slowed := func(size int, interval uint64) Row {
		var took []uint64
		for i := range uint64(100) {
			took = append(took, 50+i*(interval-1000))
		}
		o := newOutcome(Trial{Size: size}, stampsOf(took...), false)
		return rowsOf(o, RateOf(1e6))[0]
	}
	rows := []Row{slowed(100, 2000), slowed(200, 3000), slowed(300, 4000)}
	fits := fit(rows)
	if len(fits) != 3 || fits[2].Of != OfInterval || math.Abs(fits[2].Slope.Value-10) > 1e-9 || math.Abs(fits[2].Intercept.Value-1000) > 1e-6 || math.Abs(fits[2].BitRate-8e8) > 1 {
		t.Errorf("%+v", fits)
	}
	if fits[0].Of != OfMin || fits[0].Slope.Value != 0 || fits[0].Intercept.Value != 50 || fits[0].BitRate != 0 {
		t.Errorf("least delays: %+v", fits[0])
	}
	var took []uint64
	for i := range uint64(100) {
		took = append(took, 50*(i%3)) // each third one is lost
	}
	lossy := rowsOf(newOutcome(Trial{Size: 100}, stampsOf(took...), false), RateOf(1e6))[0]
	if lossy.Lost != 34 || lossy.isSlowed() {
		t.Errorf("%+v", lossy)
	}
}

// TestSubtract: the loop-back of the same size and rate is what is subtracted; twice, of both
// directions.
func TestSubtract(t *testing.T) {
	row := func(direction string, size int, ns int64) Row {
		return Row{Counts: Counts{Direction: direction, Size: size, Rate: "1kpps"}, Delay: summarise([]int64{ns})}
	}
	for _, subtract := range []bool{false, true} {
		r := &Report{
			Loopback: []Row{row(Forward, 64, 10), row(Forward, 128, 20)},
			Rows:     []Row{row(Forward, 64, 100), row(Forward, 128, 100), row(Round, 128, 100), row(Forward, 256, 100)},
		}
		r.join(subtract)
		for i, want := range []int64{10, 20, 40, 0} {
			if !subtract {
				want = 0
			}
			got := &r.Rows[i]
			if got.SubtractedNs != want || got.Delay.MinNs != 100-want || (got.Loopback == nil) != (i == 3) {
				t.Errorf("subtract %v, row %d: %+v, %+v", subtract, i, got, got.Delay.Figures)
			}
		}
	}
}
