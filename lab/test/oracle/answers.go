// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Answers are what radar's question commands print as JSON.
type Answers struct {
	Paths      []PathAnswer               // radar paths
	Flows      []FlowAnswer               // radar flows --top 0
	Losses     []LossAnswer               // radar loss
	FlowLosses []FlowLossAnswer           // radar loss --by flow
	Latency    map[string][]LatencyAnswer // radar latency, by group
	Throughput map[string][]MeterAnswer   // radar throughput, by group
	Seconds    map[string][]SecondAnswer  // radar throughput --series, by group
}

// HopAnswer is a node of a path.
type HopAnswer struct {
	Node   string `json:"node"`
	InPort string `json:"in_port"`
	Port   string `json:"port"`
}

// PathAnswer is a path.
type PathAnswer struct {
	Hops      []HopAnswer `json:"hops"`
	Packets   int         `json:"packets"`
	Bytes     int         `json:"bytes"`
	Flows     int         `json:"flows"`
	Delivered int         `json:"delivered"`
	Left      int         `json:"left"`
	Lost      int         `json:"lost"`
	Expired   int         `json:"expired"`
	Truncated bool        `json:"truncated"`
}

// FlowName is what identifies a flow.
type FlowName struct {
	Proto     string `json:"proto"`
	Src       string `json:"src"`
	Dst       string `json:"dst"`
	Sport     *int   `json:"sport"`
	Dport     *int   `json:"dport"`
	ICMPType  *int   `json:"icmp_type"`
	ICMPID    *int   `json:"icmp_id"`
	Fragments bool   `json:"fragments"`
}

// TimesAnswer is a distribution, ns.
type TimesAnswer struct {
	Count int   `json:"count"`
	Min   int64 `json:"min_ns"`
	P50   int64 `json:"p50_ns"`
	P90   int64 `json:"p90_ns"`
	P99   int64 `json:"p99_ns"`
	Max   int64 `json:"max_ns"`
}

// FlowAnswer is a flow.
type FlowAnswer struct {
	FlowName
	Packets   int          `json:"packets"`
	Bytes     int          `json:"bytes"`
	Delivered int          `json:"delivered"`
	Left      int          `json:"left"`
	Lost      int          `json:"lost"`
	Expired   int          `json:"expired"`
	FirstNs   int64        `json:"first_ns"`
	Duration  int64        `json:"duration_ns"`
	Rate      *float64     `json:"rate_bps"`
	Latency   *TimesAnswer `json:"latency"`
	Jitter    *int64       `json:"jitter_ns"`
	Reordered int          `json:"reordered"`
	Ratio     *float64     `json:"reordered_ratio"`
	PathList  []struct {
		Path    string `json:"path"`
		Packets int    `json:"packets"`
	} `json:"path_list"`
}

// LossAnswer is a place of losses.
type LossAnswer struct {
	Node    string    `json:"node"`
	Port    string    `json:"port"`
	At      record.At `json:"at"`
	Reason  string    `json:"reason"`
	Packets int       `json:"packets"`
	Bytes   int       `json:"bytes"`
	Flows   int       `json:"flows"`
}

// FlowLossAnswer is a flow that lost packets at a place.
type FlowLossAnswer struct {
	FlowName
	LossAnswer
}

// LatencyAnswer is the times of one node, link, path or pair of nodes.
type LatencyAnswer struct {
	Name string `json:"name"`
	TimesAnswer
	Hops      []HopAnswer `json:"hops"` // of a path
	Truncated bool        `json:"truncated"`
}

// MeterAnswer is what passed somewhere.
type MeterAnswer struct {
	Name    string   `json:"name"`
	Packets int      `json:"packets"`
	Bytes   int      `json:"bytes"`
	Active  int      `json:"active_s"`
	Average *float64 `json:"average_bps"`
	Peak    *float64 `json:"peak_bps"`
	PeakS   int64    `json:"peak_s"`
}

// SecondAnswer is what passed somewhere in one second.
type SecondAnswer struct {
	Name    string `json:"name"`
	Time    int64  `json:"time_s"`
	Packets int    `json:"packets"`
	Bytes   int    `json:"bytes"`
}

// key names the flow as flowOf does.
func (f *FlowName) key() string {
	if f.Fragments {
		return flowKey(f.Src, f.Dst, f.Proto, -1, -1, -1, -1, true)
	}
	return flowKey(f.Src, f.Dst, f.Proto, orNone(f.Sport), orNone(f.Dport), orNone(f.ICMPType), orNone(f.ICMPID), false)
}

// flowOf is the flow that a packet belongs to.
func flowOf(p *Packet) string {
	if p.Frag&maskOffset != 0 {
		return flowKey(p.Src.String(), p.Dst.String(), protoName(p.Proto), -1, -1, -1, -1, true)
	}
	return flowKey(p.Src.String(), p.Dst.String(), protoName(p.Proto), p.Sport, p.Dport, p.ICMPType, p.ICMPID, false)
}

func flowKey(src, dst, proto string, sport, dport, icmpType, icmpID int, fragments bool) string {
	if fragments {
		return fmt.Sprintf("%s > %s %s, later fragments", src, dst, proto)
	}
	return fmt.Sprintf("%s:%d > %s:%d %s type %d id %d", src, sport, dst, dport, proto, icmpType, icmpID)
}

func (p *PathAnswer) key() string { return pathKey(p.Hops, p.Truncated) }

// key names what the times are of: a path by its ports.
func (l *LatencyAnswer) key() string {
	if len(l.Hops) > 0 {
		return pathKey(l.Hops, l.Truncated)
	}
	return l.Name
}

// pathKey names a path as Comparison.pathOf does.
func pathKey(hops []HopAnswer, truncated bool) string {
	var b strings.Builder
	for _, h := range hops {
		fmt.Fprintf(&b, "[%s>%s>%s]", h.InPort, h.Node, h.Port)
	}
	if truncated {
		b.WriteString("...")
	}
	return b.String()
}
