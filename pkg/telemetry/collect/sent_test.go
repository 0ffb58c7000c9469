// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Reports as programs send them, payloads of UDP.
const (
	// Three hops, Report Length 0 (P4-INT, P4INT_Mininet).
	sentP4INT = "204002040000000313000020000000000000000000000a00030200000a0003020800455c00b5000100003e1163d90a0001010a000302f44001bb00a1233f1024000020000b07ff000000" +
		"000000000000000300040001000005020000000000000000fb1749b500000000fb174eb70000000400000001000000000000000200010002000004450000000000000000fb2b792100000000fb2b7d66" +
		"00000001000000020000000000000001000100020000049a0000000000000000fb37421c00000000fb3746b6000000010000000200000000"
	// Domain 0x5453 as the text has it.
	sentTS = "20400008000000031418002000000000000000004500005800010000401166920a0000010a0000029c40138800440000180900062000010480005453800000000000000e0000000d0000000c0000000b" +
		"02aabbccddee000080e801bb00000001000000005018200000000000"
	// Two hops with latencies, E is set.
	sentE = "2040000200000003141100200000000000000000455c003c00010000401166520a0000010a0000029c401f90002800001007000024000200a00000000000000000000002000000c80000000100000064"
	// The quote ends behind the first of three hops.
	sentCut = "2040000300000003140f00200000000000000000455c0044000100004011664a0a0000010a0000029c401f90003000001009000020000206a000000000000000000000030000012c"
)

// sentAs is a payload with bytes at an offset changed.
func sentAs(t testing.TB, text string, at int, v ...byte) []byte {
	t.Helper()
	b := unhex(t, text)
	copy(b[at:], v)
	return b
}

// heard is what a collector would have of a payload: ways of its records, and the events.
func heard(t testing.TB, payload []byte) (records []record.Record, events []string) {
	t.Helper()
	tr := Translator{Ports: []uint16{32766}}
	engine := metrics.New(metrics.DefaultConfig())
	var r metrics.Report
	tr.Emit = func(p *Reported) { records = append(records, *p.Record()) }
	p := Packet{noon, reportPacket(t, payload)}
	m := tr.Decode(p)
	if m == nil {
		return nil, nil
	}
	tr.Observe(m, func(o *Observed) {
		tr.measured(o, &r, p.At)
		engine.Add(&r, func(e *metrics.Event) { events = append(events, e.Metric.String()) })
	})
	tr.Packets(m, p.At, 0)
	return records, events
}

func nodesOf(r *record.Record) string {
	var nodes []string
	for i := range r.Hops {
		nodes = append(nodes, r.Hops[i].Node)
	}
	return strings.Join(nodes, " ")
}

// TestSent: reports as they are really sent are one packet each, with its way and its latency.
func TestSent(t *testing.T) {
	for _, c := range []struct {
		name, payload, nodes, ports string
		latency                     int64
	}{
		{"P4-INT", sentP4INT, "int-1 int-2 int-3", "62528 > 443", 1178e3 + 1093e3 + 1282e3},
		{"domain 0x5453", sentTS, "int-11 int-12 int-13 int-14", "33000 > 443", 0},
	} {
		records, events := heard(t, unhex(t, c.payload))
		if len(records) != 1 {
			t.Errorf("%s: %d records", c.name, len(records))
			continue
		}
		r := &records[0]
		latency := int64(0)
		if r.LatencyNs != nil {
			latency = *r.LatencyNs
		}
		if ports := fmt.Sprint(*r.Sport, " > ", *r.Dport); nodesOf(r) != c.nodes || ports != c.ports || latency != c.latency || r.Truncated {
			t.Errorf("%s: %s, %s, %d ns, truncated %v, want %+v", c.name, nodesOf(r), ports, latency, r.Truncated, c)
		}
		if !slices.Contains(events, "flow_path") || slices.Contains(events, "flow_latency") != (latency > 0) {
			t.Errorf("%s: events %v", c.name, events)
		}
	}
}

// TestPartial: a stack that is not whole is no path: the record says so, and has no latency; neither
// path nor latency of the flow is an event. What its nodes say of themselves counts.
func TestPartial(t *testing.T) {
	whole := sentAs(t, sentE, 52, 0x20)
	const (
		flags, fragment, udpLength, header = 11, 26, 44, 52
	)
	for _, c := range []struct {
		name    string
		payload []byte
		nodes   string
		partial bool
	}{
		{"whole", whole, "int-1 int-2", false},
		{"E", unhex(t, sentE), "int-1 int-2", true},
		{"M", sentAs(t, sentE, header, 0x22), "int-1 int-2", true},
		{"I", sentAs(t, fmt.Sprintf("%x", whole), flags, 0x30), "int-1 int-2", true},
		{"cut in the stack", unhex(t, sentCut), "int-3", true},
		{"UDP length not grown", sentAs(t, fmt.Sprintf("%x", whole), udpLength, 0, 0x20), "int-2", true},
		{"the first fragment", sentAs(t, fmt.Sprintf("%x", whole), fragment, 0x20), "int-1 int-2", true},
	} {
		records, events := heard(t, c.payload)
		if len(records) != 1 {
			t.Errorf("%s: %d records", c.name, len(records))
			continue
		}
		r := &records[0]
		if nodesOf(r) != c.nodes || r.Truncated != c.partial || (r.LatencyNs == nil) != c.partial {
			t.Errorf("%s: %s, truncated %v, latency %v; want %+v", c.name, nodesOf(r), r.Truncated, r.LatencyNs, c)
		}
		if slices.Contains(events, "flow_path") == c.partial || slices.Contains(events, "flow_latency") == c.partial || !slices.Contains(events, "hop_latency") {
			t.Errorf("%s: events %v", c.name, events)
		}
		if !c.partial {
			continue
		}
		b := newTemplateBench(t, metrics.DefaultConfig())
		b.hear(reportPacket(t, whole))
		if _, _, tmpl := b.hear(reportPacket(t, whole)); tmpl == nil || tmpl.Fits(c.payload, b.band) {
			t.Errorf("%s: it fits the template of what is whole: %v", c.name, tmpl)
		}
	}
	if bytes.Equal(whole, unhex(t, sentE)) {
		t.Error("E is not where it is looked for")
	}
}
