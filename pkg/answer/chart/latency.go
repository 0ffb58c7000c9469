// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"github.com/vnetradar/radar/pkg/aggregate"
)

// Step is one of a cumulated distribution.
type Step struct {
	By      aggregate.By `json:"by"`
	Name    string       `json:"name"`
	Ns      int64        `json:"latency_ns"`
	Packets uint64       `json:"packets"` // that took about so long
	AtMost  float64      `json:"at_most"` // share of packets that took so long at most
	More    float64      `json:"more"`    // share that took longer
}

// Steps are the distribution of a row. Times are the middles of buckets, as percentiles of rows are: within 1 %.
func Steps(s *aggregate.Spread) (list []Step) {
	sum := uint64(0)
	for _, b := range s.Buckets {
		sum += b.Count
		ns := min(max((b.GeNs+b.LeNs)/2, s.MinNs), s.MaxNs)
		list = append(list, Step{s.By, s.Name, ns, b.Count, float64(sum) / float64(s.Count), float64(s.Count-sum) / float64(s.Count)})
	}
	return list
}

// Box is what a box plot shows of a row.
type Box struct {
	By    aggregate.By `json:"by"`
	Name  string       `json:"name"`
	Count uint64       `json:"count"`
	Min   int64        `json:"min_ns"`
	P1    int64        `json:"p1_ns"`
	P25   int64        `json:"p25_ns"`
	P50   int64        `json:"p50_ns"`
	P75   int64        `json:"p75_ns"`
	P99   int64        `json:"p99_ns"`
	Max   int64        `json:"max_ns"`
}

// BoxOf is the box of a row.
func BoxOf(s *aggregate.Spread) Box {
	b := Box{By: s.By, Name: s.Name, Count: s.Count, Min: s.MinNs, P50: s.P50Ns, P99: s.P99Ns, Max: s.MaxNs}
	steps := Steps(s)
	for share, to := range map[float64]*int64{0.01: &b.P1, 0.25: &b.P25, 0.75: &b.P75} {
		for _, step := range steps {
			if *to = step.Ns; step.AtMost >= share {
				break
			}
		}
	}
	return b
}
