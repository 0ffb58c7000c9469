// SPDX-License-Identifier: Apache-2.0

// Package stats has the statistics of verdicts: bounds, tests, and resampling of series whose values depend on
// each other.
package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Has reports whether a value lies in the interval.
func (i Interval) Has(v float64) bool { return i.Low <= v && v <= i.High }

// Wilson is the score interval of a share: k of n, both of which may be effective numbers.
func Wilson(k, n, confidence float64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	z := Z(confidence)
	p, z2 := k/n, z*z
	middle := (p + z2/(2*n)) / (1 + z2/n)
	half := z / (1 + z2/n) * math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	return Interval{max(0, middle-half), min(1, middle+half)}
}

// Z is the bound of a standard normal value with that two-sided confidence.
func Z(confidence float64) float64 { return distuv.UnitNormal.Quantile((1 + confidence) / 2) }

// ChiSquare tests whether counts are distributed as expected, which need not have the same sum.
func ChiSquare(counts, expected []float64) (x2, p float64) {
	n, sum := 0.0, 0.0
	for i := range counts {
		n, sum = n+counts[i], sum+expected[i]
	}
	for i := range counts {
		e := expected[i] / sum * n
		x2 += (counts[i] - e) * (counts[i] - e) / e
	}
	if len(counts) < 2 {
		return 0, 1
	}
	return x2, distuv.ChiSquared{K: float64(len(counts) - 1)}.Survival(x2)
}

// TwoProportions is the two-sided p-value that k1 of n1 and k2 of n2 have the same share: Fisher's exact test for
// few, else the pooled z test.
func TwoProportions(k1, n1, k2, n2 float64) float64 {
	if n1 <= 0 || n2 <= 0 {
		return 1
	}
	pooled := (k1 + k2) / (n1 + n2)
	if min(pooled, 1-pooled)*min(n1, n2) < 5 {
		return fisher(math.Round(k1), math.Round(n1), math.Round(k2), math.Round(n2))
	}
	se := math.Sqrt(pooled * (1 - pooled) * (1/n1 + 1/n2))
	return TwoSided(math.Abs(k1/n1-k2/n2) / se)
}

// TwoSided is the two-sided p-value of a standard normal value.
func TwoSided(z float64) float64 { return 2 * distuv.UnitNormal.Survival(math.Abs(z)) }

// fisher is the probability of all tables with these margins that are no likelier than this one.
func fisher(k1, n1, k2, n2 float64) float64 {
	k := k1 + k2
	low, high := max(0, k-n2), min(k, n1)
	if high-low > 1e6 {
		return 1
	}
	whole := logChoose(n1+n2, k)
	of := func(x float64) float64 { return logChoose(n1, x) + logChoose(n2, k-x) - whole }
	seen, p := of(k1), 0.0
	for x := low; x <= high; x++ {
		if l := of(x); l <= seen+1e-7 {
			p += math.Exp(l)
		}
	}
	return min(1, p)
}

func logChoose(n, k float64) float64 {
	a, _ := math.Lgamma(n + 1)
	b, _ := math.Lgamma(k + 1)
	c, _ := math.Lgamma(n - k + 1)
	return a - b - c
}

// Holm adjusts p-values for how many there are: what is below a level then holds for all of them at that level. Those of
// more weight have as much more of the level (Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979).
func Holm(p, weights []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i]/weights[i], p[j]/weights[j]) })
	left := make([]float64, len(p)+1) // the weights from a rank on
	for rank := len(p) - 1; rank >= 0; rank-- {
		left[rank] = left[rank+1] + weights[order[rank]]
	}
	adjusted, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = max(most, min(1, p[i]*left[rank]/weights[i]))
		adjusted[i] = most
	}
	return adjusted
}

// Quantile of sorted values, by nearest rank: the smallest value that at least that share of all does not exceed.
func Quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// Sorted is a sorted copy.
func Sorted(values []float64) []float64 {
	s := slices.Clone(values)
	slices.Sort(s)
	return s
}

// Mean of values; 0 without any.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Deviation is the standard deviation of values.
func Deviation(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	m, sum := Mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}
