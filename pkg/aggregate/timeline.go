// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"maps"
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
)

// maxTimelinePaths bounds the paths of all seconds of a Timeline together.
const maxTimelinePaths = 4 * MaxPaths

// Timeline keeps latencies apart by the second in which packets set out, of the newest Seconds
// seconds. Percentiles of seconds need the distribution of each, of which an agent would write
// megabytes every second: a Timeline is for who asks, and is filled from the ring.
type Timeline struct {
	offset  int64 // from stamps to Unix ns
	seconds map[int64]*Aggregates
	paths   int // of all seconds
	from    int64
}

// NewTimeline returns an empty one; offset is as for New.
func NewTimeline(offset int64) *Timeline {
	return &Timeline{offset: offset, seconds: make(map[int64]*Aggregates)}
}

// Add counts a packet whose end is final.
func (t *Timeline) Add(p *packet.Packet) {
	at := int64(clockOf(p, t.offset).first.second)
	if at < t.from {
		return
	}
	a := t.seconds[at]
	if a == nil {
		a = New(t.offset)
		t.seconds[at] = a
	}
	was := len(a.paths)
	plain := *p
	plain.HasTuple = false // flows are not kept by second
	a.Add(&plain)
	t.paths += len(a.paths) - was
	for len(t.seconds) > 1 && (len(t.seconds) > Seconds || t.paths > maxTimelinePaths) {
		t.forget()
	}
}

// forget forgets the oldest second, and from then on all before the next.
func (t *Timeline) forget() {
	oldest := slices.Min(slices.Collect(maps.Keys(t.seconds)))
	t.paths -= len(t.seconds[oldest].paths)
	delete(t.seconds, oldest)
	t.from = oldest + 1
}

// From is the first second that is kept, Unix time; 0: nothing was forgotten.
func (t *Timeline) From() int64 { return t.from }

// LatencySecond is the latencies of packets that set out in one second.
type LatencySecond struct {
	At int64 // Unix time, s
	LatencyRow
}

// Latency returns the rows of all seconds, in order of time.
func (t *Timeline) Latency(by By, names packet.Names) []LatencySecond {
	var rows []LatencySecond
	for _, at := range slices.Sorted(maps.Keys(t.seconds)) {
		for _, row := range t.seconds[at].Latency(by, names) {
			rows = append(rows, LatencySecond{at, row})
		}
	}
	return rows
}
