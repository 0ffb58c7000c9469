// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"math"
	"math/bits"
	"slices"
)

// Delay sums up the delays of packets.
type Delay struct {
	Figures
	Buckets []Bucket `json:"distribution"`
}

// Figures of delays, in ns.
type Figures struct {
	MeanNs      float64 `json:"mean_ns"`
	DeviationNs float64 `json:"deviation_ns"` // standard deviation of the sample
	MinNs       int64   `json:"min_ns"`
	P50Ns       int64   `json:"p50_ns"`
	P90Ns       int64   `json:"p90_ns"`
	P99Ns       int64   `json:"p99_ns"`
	P999Ns      int64   `json:"p999_ns"`
	MaxNs       int64   `json:"max_ns"`
}

// FiguresOf are those of delays, if there are any.
func FiguresOf(d *Delay) *Figures {
	if d == nil {
		return nil
	}
	return &d.Figures
}

// Bucket is how many packets had a delay of at most so much, and of more than the bucket before.
type Bucket struct {
	MostNs  int64 `json:"le_ns"`
	Packets int   `json:"packets"`
}

// summarise returns nil for no delays. It sorts them.
func summarise(delays []int64) *Delay {
	if len(delays) == 0 {
		return nil
	}
	slices.Sort(delays)
	n := float64(len(delays))
	var sum, squares float64
	for _, d := range delays {
		sum += float64(d)
	}
	mean := sum / n
	for _, d := range delays {
		squares += (float64(d) - mean) * (float64(d) - mean)
	}
	return &Delay{Buckets: distribution(delays), Figures: Figures{
		MeanNs: mean, DeviationNs: math.Sqrt(squares / max(n-1, 1)),
		MinNs: delays[0], MaxNs: delays[len(delays)-1],
		P50Ns: percentile(delays, 50), P90Ns: percentile(delays, 90), P99Ns: percentile(delays, 99), P999Ns: percentile(delays, 99.9),
	}}
}

// percentile is the nearest rank of sorted values: the least one that p per cent of all do not
// exceed.
func percentile(sorted []int64, p float64) int64 {
	rank := int(math.Ceil(p/100*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Buckets are so wide that a power of two has perOctave of them.
const (
	perOctave   = 16
	octaveShift = 4
)

// distribution counts sorted values in buckets whose width grows with the values.
func distribution(sorted []int64) (list []Bucket) {
	for _, d := range sorted {
		most := bucketOf(d)
		if n := len(list); n > 0 && list[n-1].MostNs == most {
			list[n-1].Packets++
			continue
		}
		list = append(list, Bucket{most, 1})
	}
	return list
}

// bucketOf is the upper end of a value's bucket.
func bucketOf(d int64) int64 {
	if d < perOctave {
		return d
	}
	shift := bits.Len64(uint64(d)) - 1 - octaveShift
	return (d>>shift+1)<<shift - 1
}

// less returns the delays with ns taken off, but for the deviation, which that does not change.
func (d *Delay) less(ns int64) *Delay {
	c := *d
	c.MeanNs -= float64(ns)
	for _, v := range []*int64{&c.MinNs, &c.P50Ns, &c.P90Ns, &c.P99Ns, &c.P999Ns, &c.MaxNs} {
		*v -= ns
	}
	c.Buckets = slices.Clone(d.Buckets)
	for i := range c.Buckets {
		c.Buckets[i].MostNs -= ns
	}
	return &c
}
