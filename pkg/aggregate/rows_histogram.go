// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"iter"
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
)

// Histogram is the distribution of the times of one node, queue, link or pair of nodes.
type Histogram struct {
	Name    string
	Count   uint64
	SumNs   float64 // of the middles of buckets: within Accuracy
	Buckets []HistogramBucket
}

// HistogramBucket counts times from GeNs to LeNs. Empty ones are left out.
type HistogramBucket struct {
	GeNs  int64  `json:"ge"`
	LeNs  int64  `json:"le"`
	Count uint64 `json:"count"`
}

// Histograms are the distributions of Latency, of groups other than paths and flows; those with most packets first.
func (a *Aggregates) Histograms(by By, names packet.Names) (list []Histogram) {
	for name, l := range a.latencies(by, names) {
		if l.count > 0 {
			list = append(list, histogramOf(name, l.count, l.all))
		}
	}
	slices.SortFunc(list, func(x, y Histogram) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Name, y.Name))
	})
	if by == ByEndToEnd && a.all.count > 0 {
		list = slices.Insert(list, 0, histogramOf(All, a.all.count, a.all.all))
	}
	return list
}

// Spread is a row of Latency with its whole distribution.
type Spread struct {
	LatencyRow
	Buckets []HistogramBucket
}

// Spreads are the rows of Latency, in its order, and only the first top of them (0: all). keep is as in Flows. more is how
// many others there are.
func (a *Aggregates) Spreads(by By, names packet.Names, keep func(*packet.Packet) bool, top int) (list []Spread, more int) {
	add := func(row LatencyRow, all iter.Seq2[uint16, uint64]) {
		if top > 0 && len(list) == top {
			more++
			return
		}
		list = append(list, Spread{row, histogramOf("", row.Count, all).Buckets})
	}
	if by == ByFlow {
		for _, f := range a.timedFlows(names, keep) {
			for _, row := range LatencyOfFlows([]FlowRow{f.FlowRow}) {
				add(row, f.of.times.all)
			}
		}
		return list, more
	}
	for _, row := range a.timed(by, names) {
		add(row.LatencyRow, row.times.all)
	}
	return list, more
}

func histogramOf(name string, count uint64, all iter.Seq2[uint16, uint64]) Histogram {
	h := Histogram{Name: name, Count: count}
	for index, n := range all {
		least, most := boundsOf(index)
		h.Buckets = append(h.Buckets, HistogramBucket{least, most, n})
		h.SumNs += float64(middleOf(index)) * float64(n)
	}
	return h
}

// boundsOf are the least and the greatest time in a bucket, ns.
func boundsOf(index uint16) (least, most int64) {
	if index < 2<<subBits {
		return int64(index), int64(index)
	}
	e := index>>subBits - 1
	least = (int64(index)&(1<<subBits-1) + 1<<subBits) << e
	return least, least + 1<<e - 1
}
