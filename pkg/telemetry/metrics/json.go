// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// EventCounts are how many events each metric has raised; in JSON by name.
type EventCounts [NumMetrics]uint64

// Sum is how many there are of all metrics.
func (c *EventCounts) Sum() (n uint64) {
	for _, of := range c {
		n += of
	}
	return n
}

// MarshalJSON makes an object of the counts by their metrics' names.
func (c EventCounts) MarshalJSON() ([]byte, error) {
	byName := make(map[string]uint64, NumMetrics)
	for m, n := range c {
		byName[names[m]] = n
	}
	return json.Marshal(byName)
}

// UnmarshalJSON reads what MarshalJSON writes; names that it does not know are passed over.
func (c *EventCounts) UnmarshalJSON(b []byte) error {
	var byName map[string]uint64
	if err := json.Unmarshal(b, &byName); err != nil {
		return fmt.Errorf("counts of events: %w", err)
	}
	for m, name := range names {
		c[m] = byName[name]
	}
	return nil
}

// KeyJSON is a key in JSON and CSV; a contract (docs/int/collect.md).
type KeyJSON struct {
	Metric string  `json:"metric"`
	Src    string  `json:"src,omitempty"`
	Dst    string  `json:"dst,omitempty"`
	Proto  string  `json:"proto,omitempty"`
	Sport  *uint16 `json:"sport,omitempty"`
	Dport  *uint16 `json:"dport,omitempty"`
	Node   string  `json:"node,omitempty"`
	NodeID *uint32 `json:"node_id,omitempty"`
	Port   *uint32 `json:"port,omitempty"` // egress
	Queue  *uint32 `json:"queue,omitempty"`

	ToNode   string  `json:"to_node,omitempty"` // at the other end of the link
	ToNodeID *uint32 `json:"to_node_id,omitempty"`
}

// EventJSON is an event in JSON, one object a line. A path has no Value and Was, a new key nothing
// of what was.
type EventJSON struct {
	Time string `json:"time"` // RFC 3339, UTC, when the report came
	TNs  int64  `json:"t_ns"` // the same as Unix ns
	KeyJSON
	New     bool     `json:"new,omitempty"`
	Value   *uint64  `json:"value,omitempty"`
	Was     *uint64  `json:"was,omitempty"`
	Path    []string `json:"path,omitempty"`
	WasPath []string `json:"was_path,omitempty"`
}

// RowJSON is a row in JSON and CSV.
type RowJSON struct {
	KeyJSON
	Value       *uint64  `json:"value,omitempty"`
	Reported    *uint64  `json:"reported,omitempty"` // of the last event
	Path        []string `json:"path,omitempty"`
	Reports     uint64   `json:"reports"`
	TNs         int64    `json:"t_ns"`          // of the latest report, Unix ns
	ReportedTNs int64    `json:"reported_t_ns"` // of the last event
}

// Namer says how the node of an id is called.
type Namer func(id uint32) string

func (n Namer) path(ids []uint32) (list []string) {
	for _, id := range ids {
		list = append(list, n(id))
	}
	return list
}

// Key returns k as JSON has it.
func (n Namer) Key(k *Key) KeyJSON {
	j := KeyJSON{Metric: k.Metric.String()}
	if k.Metric.OfFlow() {
		j.Src, j.Dst, j.Proto = k.Flow.Src.String(), k.Flow.Dst.String(), record.ProtoName(k.Flow.Proto)
		if k.Flow.HasPorts {
			src, dst := k.Flow.SrcPort, k.Flow.DstPort
			j.Sport, j.Dport = &src, &dst
		}
	}
	if k.Metric >= HopLatency {
		id := k.Node
		j.Node, j.NodeID = n(id), &id
	}
	if k.Metric >= QueueOccupancy && k.Port != NoPort {
		port := k.Port
		j.Port = &port
	}
	if k.Metric == QueueOccupancy || k.Metric == QueueCongestion {
		queue := k.Queue
		j.Queue = &queue
	}
	if k.Metric == LinkLatency {
		to := k.To
		j.ToNode, j.ToNodeID = n(to), &to
	}
	return j
}

// Event returns e as JSON has it.
func (n Namer) Event(e *Event) EventJSON {
	j := EventJSON{Time: record.TimeString(e.At), TNs: e.At, KeyJSON: n.Key(&e.Key), New: e.New}
	if e.Metric == FlowPath {
		j.Path, j.WasPath = n.path(e.Path), n.path(e.WasPath)
		return j
	}
	value, was := e.Value, e.Was
	j.Value = &value
	if !e.New {
		j.Was = &was
	}
	return j
}

// Row returns r as JSON has it.
func (n Namer) Row(r *Row) RowJSON {
	j := RowJSON{KeyJSON: n.Key(&r.Key), Reports: r.Reports, TNs: r.At, ReportedTNs: r.ReportedAt}
	if r.Metric == FlowPath {
		j.Path = n.path(r.Path)
		return j
	}
	value, reported := r.Value, r.Reported
	j.Value, j.Reported = &value, &reported
	return j
}

// Of says what the metric is of: a flow, a node, a port, a queue.
func (k *KeyJSON) Of() string {
	var parts []string
	if k.Src != "" {
		src, dst := k.Src, k.Dst
		if k.Sport != nil && k.Dport != nil {
			src, dst = endpoint(src, *k.Sport), endpoint(dst, *k.Dport)
		}
		parts = append(parts, src+" > "+dst+" "+k.Proto)
	}
	if k.Node != "" {
		place := k.Node
		if k.Port != nil {
			place += fmt.Sprintf("/%d", *k.Port)
		}
		if k.Queue != nil {
			place += fmt.Sprintf(" queue %d", *k.Queue)
		}
		if k.ToNode != "" {
			place += " > " + k.ToNode
		}
		parts = append(parts, place)
	}
	return strings.Join(parts, " at ")
}

func endpoint(addr string, port uint16) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	return netip.AddrPortFrom(ip, port).String()
}
