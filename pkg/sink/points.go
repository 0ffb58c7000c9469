// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// flowGroups is how many groups the tag flow_group tells flows by.
const flowGroups = 1 << 10

// points writes events and rows in line protocol (InfluxDB, "Line protocol reference"): the metric
// is the measurement; node, port and queue are tags; what names a flow are fields, but for its
// group, which keeps flows apart that have a point at the same time. docs/design/0012-outputs.md
// says why.
type points struct {
	namer metrics.Namer
	enc   lineprotocol.Encoder
	n     uint64
}

func newPoints(n metrics.Namer) *points {
	p := &points{namer: n}
	p.enc.SetPrecision(lineprotocol.Nanosecond)
	p.enc.SetLax(true) // names are clean, tags in order
	return p
}

// reset begins a batch, in memory of its own: net/http may still read the last one, if the server
// has answered before it was through.
func (p *points) reset() {
	p.enc.SetBuffer(make([]byte, 0, len(p.enc.Bytes())))
	p.n = 0
}

func (p *points) event(e *metrics.Event) {
	p.begin(&e.Key)
	if e.Metric == metrics.FlowPath {
		p.path("path", e.Path)
		p.path("was_path", e.WasPath)
	} else {
		p.number("value", e.Value)
		if !e.New {
			p.number("was", e.Was)
		}
	}
	p.end(e.At)
}

func (p *points) row(r *metrics.Row) {
	p.begin(&r.Key)
	if r.Metric == metrics.FlowPath {
		p.path("path", r.Path)
	} else {
		p.number("value", r.Value)
	}
	p.number("reports", r.Reports)
	p.end(r.At)
}

// begin begins a point with its key. Tags go by their names' order.
func (p *points) begin(k *metrics.Key) {
	p.enc.StartLine(k.Metric.String())
	if k.Metric.OfFlow() {
		p.enc.AddTag("flow_group", strconv.Itoa(flowGroup(&k.Flow)))
	}
	if k.Metric >= metrics.HopLatency {
		p.enc.AddTag("node", tag(p.namer(k.Node)))
		p.enc.AddTag("node_id", strconv.FormatUint(uint64(k.Node), 10))
	}
	if k.Metric >= metrics.QueueOccupancy && k.Port != metrics.NoPort {
		p.enc.AddTag("port", strconv.FormatUint(uint64(k.Port), 10))
	}
	if k.Metric == metrics.QueueOccupancy || k.Metric == metrics.QueueCongestion {
		p.enc.AddTag("queue", strconv.FormatUint(uint64(k.Queue), 10))
	}
	if k.Metric == metrics.LinkLatency {
		p.enc.AddTag("to_node", tag(p.namer(k.To)))
		p.enc.AddTag("to_node_id", strconv.FormatUint(uint64(k.To), 10))
	}
	if k.Metric.OfFlow() {
		j := p.namer.Key(k)
		p.text("src", j.Src)
		p.text("dst", j.Dst)
		p.text("proto", j.Proto)
		if k.Flow.HasPorts {
			p.number("sport", uint64(k.Flow.SrcPort))
			p.number("dport", uint64(k.Flow.DstPort))
		}
	}
}

func (p *points) end(at int64) {
	p.enc.EndLine(time.Unix(0, at))
	p.n++
}

// number is an integer: 64 bits with a sign, which no real value exceeds.
func (p *points) number(name string, n uint64) {
	p.enc.AddField(name, lineprotocol.IntValue(int64(min(n, math.MaxInt64))))
}

func (p *points) text(name, s string) {
	if v, ok := lineprotocol.StringValue(s); ok {
		p.enc.AddField(name, v)
	}
}

// path is absent where there is none.
func (p *points) path(name string, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(clean(p.namer(id)))
	}
	p.text(name, b.String())
}

// tag is a value of a tag, which cannot be empty.
func tag(s string) string {
	if s == "" {
		return "_"
	}
	return clean(s)
}

// clean replaces what line protocol has no way to write in a tag, by a question mark: control
// characters, and the backslash, which servers read in different ways before others.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\\' || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// flowGroup is the same in every process.
func flowGroup(f *metrics.Flow) int {
	h := fnv.New32a()
	src, dst := f.Src.As16(), f.Dst.As16()
	h.Write(src[:])
	h.Write(dst[:])
	ports := binary.BigEndian.AppendUint16([]byte{f.Proto}, f.SrcPort)
	h.Write(binary.BigEndian.AppendUint16(ports, f.DstPort))
	return int(h.Sum32() % flowGroups)
}
