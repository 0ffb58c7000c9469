// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Series keeps values in their order, in bounded memory: when it is full, every second value goes, and from then
// on it takes only every second one that it took before.
type Series struct {
	Most   int // values kept
	Values []float64

	of        []uint32 // the connection of each value
	n, stride int      // values added; every so many are kept
}

// Add takes a value of no known connection.
func (s *Series) Add(v float64) { s.AddOf(v, 0) }

// AddOf takes a value of a connection, which has a number; 0: it is not known.
func (s *Series) AddOf(v float64, connection uint32) {
	s.n, s.stride = s.n+1, max(s.stride, 1)
	if s.n%s.stride == 0 && len(s.Values) >= s.Most {
		half, of := s.Values[:0], s.of[:0]
		for i := 1; i < len(s.Values); i += 2 {
			half, of = append(half, s.Values[i]), append(of, s.of[i])
		}
		s.Values, s.of, s.stride = half, of, s.stride*2
	}
	if s.n%s.stride == 0 {
		s.Values, s.of = append(s.Values, v), append(s.of, connection)
	}
}

// BlockLength is how long blocks of a series must be so that resampling keeps how its values depend on each
// other: twice the integrated autocorrelation time of their ranks, at least the cube root of their number, and
// an eighth of it at most.
func BlockLength(values []float64) int {
	n := len(values)
	if n < 8 {
		return 1
	}
	length := max(math.Cbrt(float64(n)), 2*autocorrelationTime(ranks(values)))
	return min(n/8, int(math.Ceil(length)))
}

// ranks stand for values: autocorrelation of them does not depend on a few that are far from all others.
func ranks(values []float64) []float64 {
	order := orderOf(values)
	r := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for ; i < j; i++ {
			r[order[i]] = float64(j)
		}
	}
	return r
}

func orderOf(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	return order
}

// autocorrelationTime is 1 + 2 (r1 + r2 + ...), up to the first that is hardly one.
func autocorrelationTime(values []float64) float64 {
	n, m := len(values), Mean(values)
	variance := 0.0
	for _, v := range values {
		variance += (v - m) * (v - m)
	}
	if variance == 0 {
		return 1
	}
	time := 1.0
	for lag := 1; lag < n/8; lag++ {
		sum := 0.0
		for i := lag; i < n; i++ {
			sum += (values[i] - m) * (values[i-lag] - m)
		}
		r := sum / variance
		if r < 0.05 {
			break
		}
		time += 2 * r
	}
	return time
}

// Rand is the source of chance of verdicts: the same question has the same answer.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7261646172)) }

// Bootstrap resamples a series in circular blocks (Politis and Romano, 1992) and returns, for each of rounds, the
// quantile of what it drew. Blocks are as long as values beyond the quantile depend on each other: those of a 99th
// percentile come in bursts of which most values know nothing.
func Bootstrap(values []float64, quantile float64, rounds int, rng *rand.Rand) []float64 {
	order := orderOf(values)
	n, length := len(values), BlockLength(isBeyond(values, quantile, order))
	drawn := make([]int32, n+1)
	list := make([]float64, rounds)
	for round := range list {
		clear(drawn)
		for left := n; left > 0; left -= length {
			from, size := rng.IntN(n), min(length, left)
			drawn[from]++
			if end := from + size; end <= n {
				drawn[end]--
			} else {
				drawn[0]++
				drawn[end-n]--
			}
		}
		for i := 1; i < n; i++ {
			drawn[i] += drawn[i-1]
		}
		list[round] = weighted(values, quantile, order, drawn)
	}
	return list
}

// isBeyond is 1 for values above a quantile, which is by nearest rank, and 0 for others.
func isBeyond(values []float64, quantile float64, order []int) []float64 {
	limit := values[order[max(0, int(math.Ceil(quantile*float64(len(values))))-1)]]
	list := make([]float64, len(values))
	for i, v := range values {
		if v > limit {
			list[i] = 1
		}
	}
	return list
}

// weighted is a quantile of values each of which was drawn so often.
func weighted(values []float64, quantile float64, order []int, drawn []int32) float64 {
	rank, sum := max(1, int(math.Ceil(quantile*float64(len(values))))), 0
	for _, i := range order {
		if sum += int(drawn[i]); sum >= rank {
			return values[i]
		}
	}
	return values[order[len(order)-1]]
}

// BootstrapMean is the interval of a series' mean, resampled in blocks.
func BootstrapMean(values []float64, confidence float64, rounds int, rng *rand.Rand) Interval {
	return bootstrapOf(values, confidence, rounds, rng, Mean)
}

// BootstrapDeviation is that of its standard deviation.
func BootstrapDeviation(values []float64, confidence float64, rounds int, rng *rand.Rand) Interval {
	return bootstrapOf(values, confidence, rounds, rng, Deviation)
}

func bootstrapOf(values []float64, confidence float64, rounds int, rng *rand.Rand, of func([]float64) float64) Interval {
	if len(values) == 0 {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	found, sample, length := make([]float64, rounds), make([]float64, len(values)), BlockLength(values)
	for round := range found {
		draw(sample, values, length, rng)
		found[round] = of(sample)
	}
	return Percentiles(found, confidence)
}

// draw resamples a series in circular blocks of that length.
func draw(sample, values []float64, length int, rng *rand.Rand) {
	for at := 0; at < len(sample); {
		from := rng.IntN(len(values))
		for i := 0; i < length && at < len(sample); i++ {
			sample[at] = values[(from+i)%len(values)]
			at++
		}
	}
}

// DrawnMeans are means of a series that was resampled in blocks so often.
func DrawnMeans(values []float64, rounds int, rng *rand.Rand) []float64 {
	found, sample, length := make([]float64, rounds), make([]float64, len(values)), BlockLength(values)
	for round := range found {
		draw(sample, values, length, rng)
		found[round] = Mean(sample)
	}
	return found
}

// Percentiles are the bounds between which that share of values lies.
func Percentiles(values []float64, confidence float64) Interval {
	s := Sorted(values)
	return Interval{Quantile(s, (1-confidence)/2), Quantile(s, (1+confidence)/2)}
}

// Batches count how many of many things are of a kind, in order, and by batches: things that come in bursts tell
// less than as many that are independent.
type Batches struct {
	N, K float64

	size   float64
	list   []batch
	inLast batch
}

// batch are n things, k of them of the kind. Firsts are those that were the first ones of a connection.
type batch struct{ n, k, firsts float64 }

const (
	firstBatch   = 5
	mostBatches  = 200
	leastBatches = 8  // that tell how far shares vary
	wideBatch    = 50 // so large they are at least, if there are enough: bursts are to lie within one
)

// Add counts n.
func (b *Batches) Add(is bool, n uint64) {
	for left := float64(n); left > 0; {
		b.size = max(b.size, firstBatch)
		some := min(left, b.size-b.inLast.n)
		left, b.N, b.inLast.n = left-some, b.N+some, b.inLast.n+some
		if is {
			b.K, b.inLast.k = b.K+some, b.inLast.k+some
		}
		if b.inLast.n == b.size {
			b.list, b.inLast = append(b.list, b.inLast), batch{}
		}
		if len(b.list) == mostBatches {
			b.list, b.size = halved(b.list), b.size*2
		}
	}
}

// halved are the batches of half as many that are twice as large. The list is overwritten.
func halved(list []batch) []batch {
	half := list[:0]
	for i := 0; i+1 < len(list); i += 2 {
		half = append(half, batch{list[i].n + list[i+1].n, list[i].k + list[i+1].k, list[i].firsts + list[i+1].firsts})
	}
	return half
}

// Known reports whether there are batches enough to tell how far the share varies.
func (b *Batches) Known() bool { return len(b.list) >= leastBatches }

// Bursts is in how many bursts things of the kind came: batches that follow each other are one. 0: they vary as
// independent ones do.
func (b *Batches) Bursts() (bursts int) {
	if b.K == 0 || b.Inflation() == 1 {
		return 0
	}
	within := false
	for _, one := range append(slices.Clone(b.list), b.inLast) {
		if one.k > 0 && !within {
			bursts++
		}
		within = one.k > 0
	}
	return bursts
}

// Inflation is by how much the variance is greater than if all were independent: 1 at least.
func (b *Batches) Inflation() float64 { return b.counted().inflation }

// counted are all things, and how far their share varies: Pearson's dispersion over batches, and how much neighbours are
// alike. Of few things batches are smaller.
func (b *Batches) counted() counted {
	c := counted{batch{n: b.N, k: b.K}, variation{1, 2}}
	if !b.Known() {
		return c
	}
	list := slices.Clone(b.list)
	for size := b.size; len(list)/2 >= mostParts || size < wideBatch && len(list)/2 >= leastBatches; size *= 2 {
		list = halved(list)
	}
	c.variation = variationOf(list, c.share())
	return c
}

// Wilson is the interval of the share, as wide as bursts make it.
func (b *Batches) Wilson(confidence float64) Interval {
	f := b.Inflation()
	return Wilson(b.K/f, b.N/f, confidence)
}

// Compare is the p-value that two have the same share, as far as bursts allow.
func (b *Batches) Compare(o *Batches) float64 {
	x, y := b.counted(), o.counted()
	return x.compare(&y)
}

// CompareSome is the p-value that k of n and ok of on have the same share, if these vary as all of which they are a part.
// Of few things it is not known how they vary: they are taken as independent.
func (b *Batches) CompareSome(k, n float64, o *Batches, ok, on float64) float64 {
	x, y := b.counted(), o.counted()
	x.batch, y.batch = batch{n: n, k: k}, batch{n: on, k: ok}
	if !b.Known() || !o.Known() {
		return TwoProportions(k, n, ok, on)
	}
	return x.compare(&y)
}

// BootstrapRatio is the interval of the sum of one series by that of another, resampled together in blocks.
func BootstrapRatio(x, y []float64, confidence float64, rounds int, rng *rand.Rand) Interval {
	n := len(x)
	// What is late in one place is early in the next: blocks are long, so that such errors are none of the sum's.
	blocks := max(min(n, 10), min(n/25, 200))
	sumsX, sumsY := make([]float64, blocks), make([]float64, blocks)
	for i := range x {
		sumsX[i*blocks/n] += x[i]
		sumsY[i*blocks/n] += y[i]
	}
	found := make([]float64, 0, rounds)
	for range rounds {
		a, b := 0.0, 0.0
		for range blocks {
			i := rng.IntN(blocks)
			a, b = a+sumsX[i], b+sumsY[i]
		}
		if b > 0 {
			found = append(found, a/b)
		}
	}
	if len(found) == 0 {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	return Percentiles(found, confidence)
}
