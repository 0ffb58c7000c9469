// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Buckets grow with times, without a gap, and their middles are near enough.
func TestBuckets(t *testing.T) {
	last := uint16(0)
	for _, ns := range []int64{0, 1, 63, 64, 65, 126, 127, 128, 129, 255, 256, 257, 1000, 1 << 20, 1<<40 - 1, math.MaxInt64} {
		if b := bucketOf(ns); b < last {
			t.Errorf("%d ns is in bucket %d, less in %d", ns, b, last)
		} else {
			last = b
		}
	}
	for ns := range int64(100_000) {
		if a, b := bucketOf(ns), bucketOf(ns+1); b != a && b != a+1 {
			t.Fatalf("%d and %d ns are in buckets %d and %d", ns, ns+1, a, b)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		ns := rng.Int64N(1 << (1 + rng.IntN(62)))
		if off := math.Abs(float64(middleOf(bucketOf(ns)) - ns)); off > Accuracy*float64(ns)+0.5 {
			t.Fatalf("%d ns became %d", ns, middleOf(bucketOf(ns)))
		}
	}
}

// A sparse distribution is as the other one, also of parts.
func TestSparse(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 50 {
		var dense Distribution
		var parts [3]Sparse
		spread := int64(1) << rng.IntN(62)
		for range rng.IntN(2000) {
			ns, n := rng.Int64N(spread), 1+rng.Uint64N(3)<<rng.IntN(34)
			dense.AddTimes(ns, n)
			parts[rng.IntN(3)].AddTimes(ns, n)
		}
		var all Sparse
		for i := range parts {
			all.Merge(&parts[i])
		}
		a, someA := dense.Quantiles()
		b, someB := all.Quantiles()
		if a != b || someA != someB || dense.Count() != all.Count() {
			t.Fatalf("%+v, %+v", a, b)
		}
	}
}

// Both kinds of distribution agree with a list of all times.
func TestDistributions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var dense latency
		var sparse flowLatency
		var list []int64
		buckets := 0
		spread := int64(1) << rng.IntN(40)
		for range 1 + rng.IntN(2000) {
			ns, n := rng.Int64N(spread), 1+rng.IntN(3)
			dense.add(ns, uint64(n))
			buckets += sparse.add(ns, uint64(n), true)
			for range n {
				list = append(list, ns)
			}
		}
		dense.add(-1, 1)
		sparse.add(-1, 1, true)
		slices.Sort(list)
		a, _ := dense.quantiles()
		b, _ := sparse.quantiles()
		if a != b || buckets != len(sparse.buckets) {
			t.Fatalf("%+v, %+v, %d buckets of %d", a, b, buckets, len(sparse.buckets))
		}
		if int(a.Count) != len(list) || a.MinNs != list[0] || a.MaxNs != list[len(list)-1] {
			t.Fatalf("%+v of %d times from %d to %d", a, len(list), list[0], list[len(list)-1])
		}
		for share, got := range map[float64]int64{0.5: a.P50Ns, 0.9: a.P90Ns, 0.99: a.P99Ns, 0.999: a.P999Ns} {
			want := list[int(math.Ceil(share*float64(len(list))))-1]
			if math.Abs(float64(got-want)) > Accuracy*float64(want)+0.5 {
				t.Fatalf("share %v: %d, want %d", share, got, want)
			}
		}
		var merged latency
		merged.merge(&dense)
		merged.merge(&latency{})
		merged.merge(&dense)
		if m, _ := merged.quantiles(); m.Count != 2*a.Count || m.P50Ns != a.P50Ns || m.MinNs != a.MinNs || m.MaxNs != a.MaxNs {
			t.Fatalf("merged with itself %+v, was %+v", m, a)
		}
	}
}

// Without room a flow's times go where there is a bucket already, but for the first few.
func TestNoRoom(t *testing.T) {
	var l flowLatency
	for i := range int64(minFlowBuckets) {
		if grew := l.add(1000*(i+1), 1, false); grew != 1 || l.inexact != 0 {
			t.Errorf("bucket %d: %d more, %d inexact", i, grew, l.inexact)
		}
	}
	const last = minFlowBuckets - 1
	for ns, i := range map[int64]int{1: 0, 1200: 0, 1900: 1, 15800: last, 1_000_000: last} {
		before, inexact := l.buckets[i].n, l.inexact
		if grew := l.add(ns, 2, false); grew != 0 || l.inexact != inexact+2 || l.buckets[i].n != before+2 {
			t.Errorf("%d ns: %d buckets more, %d inexact, in %+v", ns, grew, l.inexact-inexact, l.buckets)
		}
	}
	if grew := l.add(3000, 1, false); grew != 0 || l.inexact != 10 {
		t.Errorf("a time that has its bucket: %d buckets more, %d inexact", grew, l.inexact)
	}
	if grew := l.add(1_000_000, 1, true); grew != 1 || l.inexact != 10 {
		t.Errorf("with room: %d buckets more, %d inexact", grew, l.inexact)
	}
	if l.count != minFlowBuckets+12 || l.min != 1 || l.max != 1_000_000 {
		t.Errorf("%+v", l.spread)
	}
}

// A flow's memory grows with its buckets, not by doubling.
func TestBucketsGrow(t *testing.T) {
	var l flowLatency
	for i := range uint16(600) {
		if l.add(middleOf(i), 1, true) != 1 {
			t.Fatalf("bucket %d was there", i)
		}
		if n := len(l.buckets); cap(l.buckets) > n+n/3+2 {
			t.Fatalf("room for %d buckets, there are %d", cap(l.buckets), n)
		}
	}
}

// A bucket that is full gets a second one, also where there is no room for others.
func TestFullBucket(t *testing.T) {
	var l flowLatency
	l.add(1000, 1, true)
	l.buckets[0].n = math.MaxUint32 - 1
	l.count = math.MaxUint32 - 1
	for i := range 5 {
		l.add(1000, 128, i%2 == 1)
		l.add(5, 1, i%2 == 1)
	}
	sum := uint64(0)
	for _, n := range l.all {
		sum += n
	}
	if sum != l.count || sum != math.MaxUint32-1+5*129 || len(l.buckets) != 3 {
		t.Errorf("%d of %d in %+v", sum, l.count, l.buckets)
	}
}
