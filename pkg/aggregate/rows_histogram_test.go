// SPDX-License-Identifier: Apache-2.0

package aggregate

import "testing"

// TestBounds: each time is within the bounds of its bucket, and buckets leave none out.
func TestBounds(t *testing.T) {
	t.Parallel()
	next := int64(0)
	for index := range bucketOf(1 << 40) {
		least, most := boundsOf(index)
		if least != next || bucketOf(least) != index || bucketOf(most) != index || middleOf(index) < least || middleOf(index) > most {
			t.Fatalf("bucket %d is from %d to %d, its middle %d, the one before ended before %d", index, least, most, middleOf(index), next)
		}
		next = most + 1
	}
}

// TestHistogram: a histogram has what was counted.
func TestHistogram(t *testing.T) {
	t.Parallel()
	var l latency
	want, sum := uint64(0), 0.0
	for ns := int64(100); ns < 1e9; ns = ns*5/4 + 1 {
		l.add(ns, 3)
		want += 3
		sum += 3 * float64(ns)
	}
	h := histogramOf("x", l.count, l.all)
	got := uint64(0)
	for i, b := range h.Buckets {
		got += b.Count
		if i > 0 && b.GeNs <= h.Buckets[i-1].LeNs {
			t.Errorf("bucket %d overlaps the one before", i)
		}
	}
	if got != want || h.Count != want || h.SumNs < sum*(1-Accuracy) || h.SumNs > sum*(1+Accuracy) {
		t.Errorf("%d in buckets, count %d, sum %g; want %d, %g", got, h.Count, h.SumNs, want, sum)
	}
}
