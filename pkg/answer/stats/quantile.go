// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"
)

// mostParts is into how many parts a series is cut at most: 10 to 30 tell how far it varies, and are as long as can be
// (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", 1982).
const mostParts = 20

// QuantileTest is the two-sided p-value that a quantile of two series differs by no more than least.
//
// It is Mathisen's test ("A Method of Testing the Hypothesis that Two Samples are from the Same Population", 1943): the
// higher series comes down by least, and the shares of values beyond the quantile of the lower one are compared. Values
// beyond a high quantile come in bursts (a queue fills, a processor is away), so each series is cut into parts, and
// counts are divided by how much more the parts vary than independent values would (Rao and Scott, "A Simple Method for
// the Analysis of Clustered Binary Data", 1992). One burst is then one event, however many packets it held up. Blocks of
// a bootstrap do not see that: a series has too few bursts to draw from.
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
	f := max(x.inflation(), y.inflation())
	return TwoProportions(x.k/f, x.n/f, y.k/f, y.n/f)
}

// parts counts values beyond a limit in parts of a series.
type parts struct {
	batch
	list []batch
}

func beyond(values []float64, limit float64) (p parts) {
	n := min(mostParts, max(leastBatches, len(values)/10))
	p.list = make([]batch, n)
	for i, v := range values {
		part := &p.list[i*n/len(values)]
		part.n, p.n = part.n+1, p.n+1
		if v > limit {
			part.k, p.k = part.k+1, p.k+1
		}
	}
	return p
}

func (p *parts) inflation() float64 { return dispersion(p.list, p.k/p.n) }

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
