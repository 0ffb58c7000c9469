// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// mostParts is into how many parts a series is cut at most. So many tell by how much neighbours are alike, too.
const mostParts = 48

// QuantileTest is the two-sided p-value that a quantile of two series differs by no more than least.
//
// It is Mathisen's test ("A Method of Testing the Hypothesis that Two Samples are from the Same Population", 1943): the
// higher series comes down by least, and the shares of values beyond the quantile of the lower one are compared, as far
// as they vary (see variation). One burst is then one event, however many packets it held up. Blocks of a bootstrap do
// not see that: a series has too few bursts to draw from.
func QuantileTest(a, b []float64, q, least float64) float64 {
	low, high := a, b
	difference := Quantile(Sorted(b), q) - Quantile(Sorted(a), q)
	if difference < 0 {
		low, high = b, a
	}
	if math.Abs(difference) <= least {
		return 1
	}
	lowered := slices.Clone(high)
	for i := range lowered {
		lowered[i] -= least
	}
	limit := Quantile(Sorted(low), q)
	x, y := beyond(low, limit), beyond(lowered, limit)
	if y.share() <= 0.5 {
		return x.compare(&y)
	}
	// What lies beyond a limit almost always varies little there, whatever the series does. And ranks do not see how far
	// apart both are, which tells much of series that vary slowly.
	y.vary(beyond(lowered, Quantile(Sorted(lowered), 0.5)).variation)
	return min(1, 2*min(x.compare(&y), apart(low, lowered, q)))
}

// apart is the p-value that the median of a series is no higher than a quantile of another one, by those of their parts.
func apart(low, high []float64, q float64) float64 {
	x, y := quantiles(low, q), quantiles(high, 0.5)
	if Mean(y) <= Mean(x) {
		return 1
	}
	return MeanTest(x, y, 0)
}

// leastPart is how many values of a part have a quantile.
const leastPart = 5

// quantiles are those of the parts of a series.
func quantiles(values []float64, q float64) []float64 {
	n := max(min(leastBatches, len(values)), min(mostParts, len(values)/leastPart))
	list := make([]float64, n)
	for i := range list {
		list[i] = Quantile(Sorted(values[i*len(values)/n:(i+1)*len(values)/n]), q)
	}
	return list
}

// beyond counts values beyond a limit in parts of a series.
func beyond(values []float64, limit float64) counted {
	list := make([]batch, min(mostParts, max(leastBatches, len(values)/10)))
	for i, v := range values {
		part := &list[i*len(list)/len(values)]
		if part.n++; v > limit {
			part.k++
		}
	}
	return count(list)
}

// counted is how many of many values are of a kind, and how far that varies.
type counted struct {
	batch
	variation
}

func count(list []batch) (c counted) {
	for _, one := range list {
		c.n, c.k = c.n+one.n, c.k+one.k
	}
	c.variation = variationOf(list, c.share())
	return c
}

func (b *batch) share() float64 {
	if b.n == 0 {
		return 0
	}
	return b.k / b.n
}

// compare is the two-sided p-value that two shares are the same: counts are divided by how much more they vary than
// those of independent values would (Rao and Scott, "A Simple Method for the Analysis of Clustered Binary Data", 1992).
// How far they vary is known of few parts only, so that far tails are Student's, not those of a normal value.
func (c *counted) compare(o *counted) float64 {
	v := c.variation
	v.vary(o.variation)
	p := TwoProportions(c.k/v.inflation, c.n/v.inflation, o.k/v.inflation, o.n/v.inflation)
	return max(p, v.student(p))
}

// variation is by how much more the share of a kind varies than if all values were independent, and of how many
// independent parts that is known.
type variation struct {
	inflation float64 // of the variance: 1 at least
	freedom   float64
}

// vary takes what another series says, if that varies more.
func (v *variation) vary(o variation) {
	if o.inflation > v.inflation || o.inflation == v.inflation && o.freedom < v.freedom {
		*v = o
	}
}

// student is the p-value of a normal value with one of p, if the variance was estimated.
func (v *variation) student(p float64) float64 {
	const farthest = 38 // beyond it p is 0
	z := float64(farthest)
	if p > 0 {
		z = min(z, -mathext.NormalQuantile(p/2))
	}
	return 2 * distuv.StudentsT{Sigma: 1, Nu: v.freedom}.Survival(z)
}

// variationOf is that of a share by parts, which follow each other.
func variationOf(list []batch, share float64) variation {
	v := variation{1, float64(max(2, len(list)-1))}
	if share <= 0 || share >= 1 {
		return v
	}
	residuals := make([]float64, len(list))
	for i, one := range list {
		residuals[i] = one.k - share*one.n
	}
	alike := likeness(residuals)
	v.inflation, v.freedom = max(1, dispersion(list, share)*alike), max(2, v.freedom/alike)
	return v
}

// mostAlike bounds how much neighbours may be alike: beyond it a series is too short to say.
const mostAlike = 0.9

// likeness is by how much more a mean varies because neighbours are alike: 1 at least. It is that of a process of first
// order. The correlation of neighbours in few values is too small, by what is added here (Kendall, "Note on Bias in the
// Estimation of Autocorrelation", 1954).
func likeness(residuals []float64) float64 {
	n, squares, products := float64(len(residuals)), 0.0, 0.0
	for i, r := range residuals {
		if squares += r * r; i > 0 {
			products += r * residuals[i-1]
		}
	}
	if squares == 0 {
		return 1
	}
	r := products/squares + 1/n
	if r < 1/math.Sqrt(n) { // chance alone would do that
		return 1
	}
	r = min(mostAlike, r+4*r/n)
	return (1 + r) / (1 - r)
}

// dispersion is Pearson's: how much more counts of batches vary than if all things were independent. It is 1 at least.
func dispersion(list []batch, share float64) float64 {
	if share <= 0 || share >= 1 {
		return 1
	}
	sum := 0.0
	for _, one := range list {
		if d := one.k - share*one.n; one.n > 0 {
			sum += d * d / (one.n * share * (1 - share))
		}
	}
	return max(1, sum/float64(len(list)-1))
}

// MeanTest is the two-sided p-value that the means of two series differ by no more than least: Welch's test of the means
// of their parts, whose variance is as much greater as neighbours are alike.
func MeanTest(a, b []float64, least float64) float64 {
	varA, freeA := varianceOfMean(a)
	varB, freeB := varianceOfMean(b)
	d := differenceOf(Mean(b)-Mean(a), varA, varB, freeA, freeB)
	if !d.Varies() && math.Abs(d.value) > least { // all parts of either are alike: of all orders of the parts, two are so far apart
		n, k := float64(min(mostParts, len(a))), float64(min(mostParts, len(b)))
		return min(1, 2*math.Exp(-logChoose(n+k, k)))
	}
	return d.P(least)
}

// Difference of two means, and how far it is known.
type Difference struct{ value, variance, freedom float64 }

// differenceOf has the degrees of freedom of Welch and Satterthwaite.
func differenceOf(value, varA, varB, freeA, freeB float64) Difference {
	d := Difference{value, varA + varB, freeA + freeB}
	if d.variance > 0 {
		d.freedom = d.variance * d.variance / (varA*varA/freeA + varB*varB/freeB)
	}
	return d
}

// Welch is the difference of the means of independent values, of each two at least. Its variance is not less than least.
func Welch(a, b []float64, least float64) Difference {
	of := func(list []float64) float64 { d := Deviation(list); return d * d / float64(len(list)) }
	d := differenceOf(Mean(b)-Mean(a), of(a), of(b), float64(len(a)-1), float64(len(b)-1))
	d.variance = max(d.variance, least)
	return d
}

// Varies reports whether anything says how far the difference varies. If not, it has no p-value.
func (d *Difference) Varies() bool { return d.variance > 0 }

// P is the two-sided p-value that the difference is no more than least. It is 1 if nothing says how far that varies.
func (d *Difference) P(least float64) float64 {
	beyond := math.Abs(d.value) - least
	if beyond <= 0 || d.variance == 0 {
		return 1
	}
	return 2 * distuv.StudentsT{Sigma: 1, Nu: d.freedom}.Survival(beyond/math.Sqrt(d.variance))
}

// Bounds are the confidence interval.
func (d *Difference) Bounds(confidence float64) Interval {
	half := distuv.StudentsT{Sigma: 1, Nu: d.freedom}.Quantile((1+confidence)/2) * math.Sqrt(d.variance)
	return Interval{d.value - half, d.value + half}
}

// varianceOfMean is that of a series' mean, and the degrees of freedom of it.
func varianceOfMean(values []float64) (variance, freedom float64) {
	n := min(mostParts, len(values))
	sums, counts := make([]float64, n), make([]float64, n)
	for i, v := range values {
		part := i * n / len(values)
		sums[part], counts[part] = sums[part]+v, counts[part]+1
	}
	for i := range sums {
		sums[i] /= counts[i]
	}
	m, d := Mean(sums), Deviation(sums)
	for i := range sums {
		sums[i] -= m
	}
	alike := likeness(sums)
	return d * d / float64(n) * alike, max(1, float64(n-1)/alike)
}
