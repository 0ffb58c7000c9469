// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"math"
	"slices"
)

// Units of figures.
const (
	Ns      = "ns"
	Us      = "us"
	Seconds = "s"
	Times   = "x"
	Gbits   = "Gbit/s"
	Mbits   = "Mbit/s"
	Kpps    = "kpps"
	Percent = "%"
)

// Figure is what rounds gave: the median with its extremes, and each of them.
type Figure struct {
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Rounds []float64 `json:"rounds,omitempty"`
}

// Of sums rounds up. What is no number, as a ratio to nothing, is left out; if none
// is left there is no figure.
func Of(unit string, rounds []float64) *Figure {
	v := slices.DeleteFunc(slices.Clone(rounds), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if len(v) == 0 {
		return nil
	}
	f := &Figure{Unit: unit, Rounds: slices.Clone(v)}
	slices.Sort(v)
	f.Median, f.Min, f.Max = middle(v), v[0], v[len(v)-1]
	return f
}

// middle is the median of at least one value, in order.
func middle(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }

// Median of at least one value; it puts them in order.
func Median(v []float64) float64 {
	slices.Sort(v)
	return middle(v)
}

// Ratios divides round by round: what else the machine did meets both. A base of
// nothing or less, which noise can make of a difference, gives no ratio.
func Ratios(of, base []float64) []float64 {
	out := make([]float64, min(len(of), len(base)))
	for i := range out {
		out[i] = math.NaN()
		if base[i] > 0 {
			out[i] = of[i] / base[i]
		}
	}
	return out
}

// Less subtracts round by round.
func Less(of, base []float64) []float64 {
	out := make([]float64, min(len(of), len(base)))
	for i := range out {
		out[i] = of[i] - base[i]
	}
	return out
}

// String is the median, and the extremes in brackets.
func (f *Figure) String() string {
	if f == nil {
		return "-"
	}
	digits, suffix := 2, ""
	switch f.Unit {
	case Ns, Kpps:
		digits = 0
	case Times:
		suffix = "x"
	case Percent:
		digits, suffix = 1, "%"
		if f.Median < 1 {
			digits = 2
		}
	}
	number := func(x float64) string { return fmt.Sprintf("%.*f", digits, x) }
	text := number(f.Median) + suffix
	if len(f.Rounds) != 1 { // of an old run only the extremes are known
		text += fmt.Sprintf(" (%s-%s)", number(f.Min), number(f.Max))
	}
	return text
}
