// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// slowest keeps the n records that took longest, all if n is 0. What never arrived took no time
// that is known, and comes last.
type slowest struct {
	n    int
	list []*record.Record
}

func (s *slowest) add(r *record.Record) {
	if s.list = append(s.list, r); s.n > 0 && len(s.list) >= 2*s.n+1000 {
		s.list = s.rows()
	}
}

// rows are those records, the slowest first.
func (s *slowest) rows() []*record.Record {
	took := func(r *record.Record) int64 {
		if r.LatencyNs == nil {
			return -1
		}
		return *r.LatencyNs
	}
	slices.SortStableFunc(s.list, func(x, y *record.Record) int { return cmp.Compare(took(y), took(x)) })
	if s.n > 0 && len(s.list) > s.n {
		s.list = s.list[:s.n:s.n]
	}
	return s.list
}
