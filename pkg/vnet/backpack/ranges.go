// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"cmp"
	"slices"
)

func (r Range) has(pos uint64) bool { return r.From <= pos && pos < r.To }

// merge sorts ranges and joins those that touch or overlap, in place.
func merge(r []Range) []Range {
	slices.SortFunc(r, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	out := r[:0]
	for _, x := range r {
		if n := len(out); n > 0 && x.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, x.To)
			continue
		}
		out = append(out, x)
	}
	return out
}

// clip appends to dst the parts of the ranges within r.
func clip(ranges []Range, r Range, dst []Range) []Range {
	for _, x := range ranges {
		if x = (Range{max(x.From, r.From), min(x.To, r.To)}); x.From < x.To {
			dst = append(dst, x)
		}
	}
	return dst
}
