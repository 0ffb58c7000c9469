// SPDX-License-Identifier: Apache-2.0

// Package metrics keeps the metrics that telemetry reports give (Hyun et al., "Towards
// knowledge-defined networking using in-band network telemetry" and INTCollector, Table 2):
// the latest value of each, and events where one has changed. docs/design/0011-metrics.md says
// what counts as a change. It knows no wire format and does no I/O.
package metrics

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Metric is one of the seven.
type Metric uint8

// The metrics.
const (
	FlowPath Metric = iota
	FlowLatency
	HopLatency
	QueueOccupancy
	QueueCongestion
	LinkUtilization
	LinkLatency

	NumMetrics
)

var names = [NumMetrics]string{"flow_path", "flow_latency", "hop_latency", "queue_occupancy", "queue_congestion", "link_utilization", "link_latency"}

// String returns the metric's name in JSON and docs.
func (m Metric) String() string {
	if m >= NumMetrics {
		return "unknown"
	}
	return names[m]
}

// ByName returns the metric of a name.
func ByName(name string) (Metric, error) {
	for i, n := range names {
		if n == name {
			return Metric(i), nil
		}
	}
	return 0, fmt.Errorf("no metric %q: use %s", name, strings.Join(names[:], ", "))
}

// Names returns all names.
func Names() []string { return names[:] }

// OfFlow reports whether the metric's key has a flow.
func (m Metric) OfFlow() bool { return m <= HopLatency }

// HasThreshold reports whether a change of the metric must exceed a threshold to be an event. Each
// change of the others is one.
func (m Metric) HasThreshold() bool { return m != FlowPath && m != QueueCongestion }

// Nanoseconds reports whether values are ns.
func (m Metric) Nanoseconds() bool { return m == FlowLatency || m == HopLatency || m == LinkLatency }

// Flow is what packets of a flow have in common. Ports are 0 where HasPorts is false.
type Flow struct {
	Src, Dst         netip.Addr
	Proto            uint8
	HasPorts         bool
	SrcPort, DstPort uint16
}

// NoPort is the port of a queue or link of which it is not known.
const NoPort = 1<<32 - 1

// Key names one value. What a metric's key does not have is 0.
type Key struct {
	Metric Metric
	Flow   Flow
	Node   uint32
	Port   uint32 // egress, NoPort: not known; of queues and links
	Queue  uint32
	To     uint32 // node at the other end, of a link's latency
}

// Hop is what a report says of one node. Values that Has does not name are 0.
type Hop struct {
	Has             Has
	Flag            bool // the report says that the packet was in a congested queue (Q)
	Node            uint32
	Port            uint32 // egress
	Queue           uint32
	CongestionQueue uint32
	LatencyNs       uint64
	Occupancy       uint64 // as sent
	Utilization     uint64 // as sent
	Congestion      uint64 // as sent; 0: none
	LinkNs          uint64 // from where the packet left the hop before this one to where it came here
}

// Has is a set of what a report says of a hop.
type Has uint16

// What there may be of a hop.
const (
	HasNode Has = 1 << iota
	HasPort
	HasQueue
	HasLatency
	HasOccupancy
	HasUtilization
	HasCongestion // INT 0.5 has a field for it, of CongestionQueue
	HasFlag       // the report's Q bit is about this node
	HasLink       // one clock is behind the times of this hop and the one before
)

// Report is one telemetry report.
type Report struct {
	At      int64 // when it came, Unix ns
	SeenAt  int64 // when its packet was at the node that reports, by the report; 0: At counts
	HasFlow bool  // it is about a packet
	Flow    Flow
	Hops    []Hop // oldest first
	// Unordered: in which order the packet came to Hops is not known: there is no path, but a latency.
	Unordered bool
	WholePath bool // Hops are the packet's whole path: no postcard, no drop report

	// ThroughNs is the time from the first node to the last, where one clock is behind both.
	HasThrough bool
	ThroughNs  uint64
}

// when is the time of the values.
func (r *Report) when() int64 { return cmp.Or(r.SeenAt, r.At) }

// Threshold is how much a value must change to make an event: by more than Absolute, and by more than
// that share of the last reported value.
type Threshold struct {
	Absolute uint64
	Permille uint32
}

// exceeded reports whether a value is too far from the last reported one.
func (t Threshold) exceeded(value, reported uint64) bool {
	return max(value, reported)-min(value, reported) > t.most(reported)
}

// most is how far a value may be from the last reported one without an event.
func (t Threshold) most(reported uint64) uint64 {
	share := uint64(0)
	if t.Permille > 0 {
		high, low := bits.Mul64(reported, uint64(t.Permille))
		if share = math.MaxUint64; high < 1000 {
			share, _ = bits.Div64(high, low, 1000)
		}
	}
	return max(share, t.Absolute)
}

// ParseThreshold reads "10%", "500", and of latencies "5us"; "10%,100us" is a share, but no less than
// so much. A share has at most one digit behind the point.
func ParseThreshold(m Metric, s string) (Threshold, error) {
	bad := func(why string) (Threshold, error) {
		return Threshold{}, fmt.Errorf("threshold %q of %v: %s", s, m, why)
	}
	if !m.HasThreshold() {
		return bad("every change of it is an event")
	}
	if share, least, ok := strings.Cut(s, ","); ok {
		t, err := ParseThreshold(m, share)
		if err != nil {
			return t, err
		}
		floor, err := ParseThreshold(m, least)
		if err != nil {
			return Threshold{}, err
		}
		if t.Permille == 0 || floor.Permille > 0 {
			return bad("use a share and a least value, such as 10%,100us")
		}
		t.Absolute = floor.Absolute
		return t, nil
	}
	if share, ok := strings.CutSuffix(s, "%"); ok {
		whole, tenth, _ := strings.Cut(share, ".")
		n, err := strconv.ParseUint(whole+(tenth + "0")[:1], 10, 32)
		if err != nil || len(tenth) > 1 || n == 0 || n > 1e6 {
			return bad("use 0.1% to 100000%")
		}
		return Threshold{Permille: uint32(n)}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 48); err == nil && (n == 0 || !m.Nanoseconds()) {
		return Threshold{Absolute: n}, nil
	}
	if !m.Nanoseconds() {
		return bad("use a number (0: every change) or a share such as 10%")
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 24*time.Hour {
		return bad("use a time such as 5us (0: every change) or a share such as 10%")
	}
	return Threshold{Absolute: uint64(d)}, nil
}
