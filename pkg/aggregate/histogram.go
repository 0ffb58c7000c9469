// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"iter"
	"math"
	"math/bits"
	"slices"
)

// subBits is how finely a power of two is divided: 64 buckets, each at most 1/64 of
// its least value wide. So the middle of a bucket is within 1/128 of all in it.
const subBits = 6

// Accuracy is the greatest relative error of quantiles.
const Accuracy = 1.0 / (2 << subBits)

// bucketOf is the bucket of a time of 0 ns or more; below 128 ns each ns has its own.
func bucketOf(ns int64) uint16 {
	v := uint64(ns)
	if v < 1<<subBits {
		return uint16(v)
	}
	e := bits.Len64(v) - 1 - subBits
	return uint16(e<<subBits) + uint16(v>>e)
}

// middleOf is the time that stands for all in a bucket, ns.
func middleOf(index uint16) int64 {
	if index < 2<<subBits {
		return int64(index)
	}
	e := index>>subBits - 1
	low := (int64(index)&(1<<subBits-1) + 1<<subBits) << e
	return low + (1<<e-1)/2
}

// spread is what latency and flowLatency have in common: number, least and greatest,
// exactly.
type spread struct {
	count    uint64
	min, max int64
}

// note counts n packets that took ns. False: the time is not known.
func (s *spread) note(ns int64, n uint64) bool {
	if ns < 0 || n == 0 {
		return false
	}
	if s.count == 0 {
		s.min = ns
	}
	s.count += n
	s.min = min(s.min, ns)
	s.max = max(s.max, ns)
	return true
}

// latency is the distribution of one kind of time, in ns, of many packets.
type latency struct {
	spread
	lo     int // bucket of counts[0]
	counts []uint64
}

// add counts n packets that took ns; a negative time is not known and not counted.
func (l *latency) add(ns int64, n uint64) {
	if l.note(ns, n) {
		l.put(int(bucketOf(ns)), n)
	}
}

func (l *latency) put(index int, n uint64) {
	i := index - l.lo
	if uint(i) >= uint(len(l.counts)) {
		i = l.stretch(index)
	}
	l.counts[i] += n
}

// stretch makes room for a bucket and returns its place.
func (l *latency) stretch(index int) int {
	switch {
	case len(l.counts) == 0:
		l.lo = index
		l.counts = make([]uint64, 1, 16)
	case index < l.lo:
		l.counts = slices.Insert(l.counts, 0, make([]uint64, l.lo-index)...)
		l.lo = index
	default:
		l.counts = append(l.counts, make([]uint64, index-l.lo-len(l.counts)+1)...)
	}
	return index - l.lo
}

// all are the buckets that are not empty, from the least on.
func (l *latency) all(yield func(index uint16, n uint64) bool) {
	for i, n := range l.counts {
		if n > 0 && !yield(uint16(l.lo+i), n) {
			return
		}
	}
}

// merge adds all of o.
func (l *latency) merge(o *latency) {
	if o.count == 0 {
		return
	}
	least := o.min
	if l.count > 0 {
		least = min(least, l.min)
	}
	l.count, l.min, l.max = l.count+o.count, least, max(l.max, o.max)
	for index, n := range o.all {
		l.put(int(index), n)
	}
}

func (l *latency) quantiles() (Quantiles, bool) { return l.spread.quantiles(l.all) }

// flowLatency is the distribution of the latencies of one flow. It keeps only the
// buckets that are not empty: most flows need a few dozen of the 3,700 that there
// are, and there may be many flows.
type flowLatency struct {
	spread
	hint    int32 // where the last time went
	inexact uint64
	buckets []bucket
}

// bucket counts the times of one bucket. A second one with the same index follows
// in front of one that is full.
type bucket struct {
	index uint16
	n     uint32
}

// add is as that of latency. It returns how many further buckets that took. Without
// room a flow that has minFlowBuckets gets none for other times: these count in the
// nearest one, and as inexact.
func (l *flowLatency) add(ns int64, n uint64, room bool) (grew int) {
	if !l.note(ns, n) {
		return 0
	}
	index := bucketOf(ns)
	i := int(l.hint)
	if i >= len(l.buckets) || l.buckets[i].index != index || l.buckets[i].n > math.MaxUint32-uint32(n) {
		i = l.find(index)
	}
	if !room && len(l.buckets) >= minFlowBuckets && (i == len(l.buckets) || l.buckets[i].index != index) {
		i = l.nearest(i, index)
		index = l.buckets[i].index
		l.inexact += n
	}
	if i == len(l.buckets) || l.buckets[i].index != index || l.buckets[i].n > math.MaxUint32-uint32(n) {
		l.insert(i, index)
		grew = 1
	}
	l.buckets[i].n += uint32(n)
	l.hint = int32(i)
	return grew
}

// insert makes bucket i. Memory grows by an eighth, and what the allocator rounds up:
// append would double it, and flows that are alike fill their buckets at about the same
// time.
func (l *flowLatency) insert(i int, index uint16) {
	if n := len(l.buckets); n == cap(l.buckets) {
		l.buckets = append(slices.Grow([]bucket(nil), n+n/8+1), l.buckets...)
	}
	l.buckets = slices.Insert(l.buckets, i, bucket{index: index})
}

// find returns the first bucket with that index or a greater one.
func (l *flowLatency) find(index uint16) int {
	low, high := 0, len(l.buckets)
	for low < high {
		mid := int(uint(low+high) / 2)
		if l.buckets[mid].index < index {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// nearest returns the bucket that is nearest to index, which belongs before bucket i.
func (l *flowLatency) nearest(i int, index uint16) int {
	if i == len(l.buckets) || i > 0 && index-l.buckets[i-1].index <= l.buckets[i].index-index {
		return l.find(l.buckets[i-1].index)
	}
	return i
}

func (l *flowLatency) all(yield func(index uint16, n uint64) bool) {
	for _, b := range l.buckets {
		if !yield(b.index, uint64(b.n)) {
			return
		}
	}
}

func (l *flowLatency) quantiles() (Quantiles, bool) {
	q, ok := l.spread.quantiles(l.all)
	q.Inexact = l.inexact
	return q, ok
}

// Quantiles describe a distribution of times in ns: number, least and greatest
// exactly, the rest within 1 %, as far as nothing is inexact.
type Quantiles struct {
	Count  uint64 `json:"count"`
	MinNs  int64  `json:"min_ns"`
	P50Ns  int64  `json:"p50_ns"`
	P90Ns  int64  `json:"p90_ns"`
	P99Ns  int64  `json:"p99_ns"`
	P999Ns int64  `json:"p99_9_ns"`
	MaxNs  int64  `json:"max_ns"`
	// Inexact is how many of Count are in the rest with the nearest time for which there
	// was room (MaxFlowBuckets), not with their own.
	Inexact uint64 `json:"inexact,omitempty"`
}

// quantiles returns false if nothing was counted. A quantile is the smallest time
// that at least that share of all does not exceed (nearest rank).
func (s *spread) quantiles(all iter.Seq2[uint16, uint64]) (Quantiles, bool) {
	q := Quantiles{Count: s.count, MinNs: s.min, MaxNs: s.max}
	if s.count == 0 {
		return q, false
	}
	shares := []float64{0.5, 0.9, 0.99, 0.999}
	times := []*int64{&q.P50Ns, &q.P90Ns, &q.P99Ns, &q.P999Ns}
	below := uint64(0)
	for index, n := range all {
		below += n
		for len(shares) > 0 && below >= uint64(math.Ceil(shares[0]*float64(s.count))) {
			*times[0] = min(max(middleOf(index), s.min), s.max)
			shares, times = shares[1:], times[1:]
		}
	}
	return q, true
}
