// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Fit is a line through the delays of several sizes, or through the intervals at which packets come
// where a device is slower than the sender: y = intercept + slope * size.
type Fit struct {
	Direction string  `json:"direction"`
	Rate      string  `json:"rate"`
	Of        string  `json:"of"` // what of each size: OfMin, OfMedian or OfInterval
	Sizes     int     `json:"sizes"`
	Slope     Bounded `json:"slope_ns_per_byte"`
	Intercept Bounded `json:"intercept_ns"`
	BitRate   float64 `json:"bits_per_second,omitempty"` // that the slope comes to; 0: it is not above 0
}

// Bounded is a value with its bounds of 95 per cent.
type Bounded struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"` // nil: two sizes are always on a line, so there are none
	High  *float64 `json:"high,omitempty"`
}

// What is fitted.
const (
	OfMin      = "min"
	OfMedian   = "p50"
	OfInterval = "interval"
)

// confidence is how likely the true value is within bounds.
const confidence = 0.95

// fitLine fits a line by least squares; its bounds are Student's. false: there are not two sizes.
func fitLine(sizes, delays []float64) (slope, intercept Bounded, ok bool) {
	n := float64(len(sizes))
	mean, spread := stat.Mean(sizes, nil), 0.0
	for _, s := range sizes {
		spread += (s - mean) * (s - mean)
	}
	if spread == 0 || len(sizes) < 2 {
		return slope, intercept, false
	}
	intercept.Value, slope.Value = stat.LinearRegression(sizes, delays, nil, false)
	if len(sizes) == 2 {
		return slope, intercept, true
	}
	var residuals float64
	for i, s := range sizes {
		r := delays[i] - intercept.Value - slope.Value*s
		residuals += r * r
	}
	variance := residuals / (n - 2)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 2}.Quantile(1 - (1-confidence)/2)
	slope.within(t * math.Sqrt(variance/spread))
	intercept.within(t * math.Sqrt(variance*(1/n+mean*mean/spread)))
	return slope, intercept, true
}

func (b *Bounded) within(half float64) {
	low, high := b.Value-half, b.Value+half
	b.Low, b.High = &low, &high
}
