// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"fmt"
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// Accuracy is the relative error of quantiles.
const Accuracy = 0.01

// buckets maps times to the buckets of all sketches.
var buckets = func() mapping.IndexMapping {
	m, err := mapping.NewCubicallyInterpolatedMapping(Accuracy)
	if err != nil {
		panic(err) // only for an accuracy outside of (0, 1)
	}
	return m
}()

// newStore makes a sketch's buckets: stamps have 40 bits of ns, so there are less
// than 1,500 of them, about 11 KiB.
func newStore() store.Store { return store.NewDenseStore() }

// latency is the distribution of one kind of time, in ns. Number, least and
// greatest are exact.
type latency struct {
	count    uint64
	min, max int64
	sketch   *ddsketch.DDSketch
}

func newLatency() *latency {
	return &latency{min: math.MaxInt64, sketch: ddsketch.NewDDSketchFromStoreProvider(buckets, newStore)}
}

// add counts n packets that took ns; a negative time is not known and not counted.
func (l *latency) add(ns int64, n uint64) {
	if ns < 0 || n == 0 {
		return
	}
	// Fails for values beyond 2^1000 and negative weights only.
	if l.sketch.AddWithCount(float64(ns), float64(n)) != nil {
		return
	}
	l.count += n
	l.min = min(l.min, ns)
	l.max = max(l.max, ns)
}

// Quantiles describe a distribution of times in ns: number, least and greatest
// exactly, the rest within 1 %.
type Quantiles struct {
	Count  uint64 `json:"count"`
	MinNs  int64  `json:"min_ns"`
	P50Ns  int64  `json:"p50_ns"`
	P90Ns  int64  `json:"p90_ns"`
	P99Ns  int64  `json:"p99_ns"`
	P999Ns int64  `json:"p99_9_ns"`
	MaxNs  int64  `json:"max_ns"`
}

// quantiles returns false if nothing was counted.
func (l *latency) quantiles() (Quantiles, bool) {
	if l.count == 0 {
		return Quantiles{}, false
	}
	return Quantiles{
		Count: l.count, MinNs: l.min, MaxNs: l.max,
		P50Ns: l.quantile(0.5), P90Ns: l.quantile(0.9), P99Ns: l.quantile(0.99), P999Ns: l.quantile(0.999),
	}, true
}

// quantile returns the smallest time that at least the share q of all does not
// exceed (nearest rank). The sketch takes q*(count-1) for the rank, from 0, and
// rounds down: asked so, p99 of ten times would be the ninth.
func (l *latency) quantile(q float64) int64 {
	rank := math.Ceil(q * float64(l.count)) // from 1
	if rank >= float64(l.count) {
		return l.max
	}
	v, err := l.sketch.GetValueAtQuantile((rank - 0.5) / float64(l.count-1))
	if err != nil {
		return l.max // only for an empty sketch, or q beyond 1
	}
	return min(max(int64(math.Round(v)), l.min), l.max)
}

// latencyState is a latency as the snapshot has it.
type latencyState struct {
	Count    uint64
	Min, Max int64
	Sketch   []byte
}

func (l *latency) state() latencyState {
	s := latencyState{Count: l.count, Min: l.min, Max: l.max}
	l.sketch.Encode(&s.Sketch, true)
	return s
}

func (s *latencyState) latency() (*latency, error) {
	sketch, err := ddsketch.DecodeDDSketch(s.Sketch, newStore, buckets)
	if err != nil {
		return nil, fmt.Errorf("read sketch: %w", err)
	}
	return &latency{count: s.Count, min: s.Min, max: s.Max, sketch: sketch}, nil
}
