// SPDX-License-Identifier: Apache-2.0

// Package sinktest has what tests of outputs share: a source of events and values, names that
// formats must quote, and a log.
package sinktest

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// OddNames are names that formats must quote, escape, or replace.
var OddNames = map[uint32]string{
	1: "leaf 1", 2: "a,b=c", 3: `say "hi"`, 4: "Gerät-Ω", 5: `back\slash`, 6: "line\nbreak", 7: "trailing\\", 8: "", 9: "{=,= }",
}

// OddName is that of a node: of OddNames, or int-ID.
func OddName(id uint32) string {
	if name, ok := OddNames[id]; ok {
		return name
	}
	return fmt.Sprintf("int-%d", id)
}

// Source is an engine, and the events that its reports have raised. It is an outputs.Source.
type Source struct {
	Events []metrics.Event      // all that were raised
	Emit   func(*metrics.Event) // is called for each
	Engine *metrics.Engine

	mu   sync.Mutex
	base int64
}

// New makes a source without values. Congested queues are those of more than 500.
func New(emit func(*metrics.Event)) *Source {
	config := metrics.DefaultConfig()
	config.Series = 0 // for more than are shown
	config.Congested = 500
	return &Source{Emit: emit, Engine: metrics.New(config), base: time.Now().UnixNano()}
}

// Rows implements outputs.Source.
func (s *Source) Rows(time.Time) []metrics.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Engine.Rows()
}

// Info implements outputs.Source.
func (s *Source) Info() collect.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return collect.Info{Metrics: s.Engine.Counts, Counts: collect.Counts{Packets: 12, Rejected: 3, Reports: 9}, Gaps: 4, SocketDrops: 5}
}

// Add adds a report of the test's own, whose events are not kept.
func (s *Source) Add(r *metrics.Report, raised func(*metrics.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Engine.Add(r, raised)
}

// Feed adds n reports of several flows by one path of three nodes; every value differs much from
// the one before, so that each is an event. It returns how many events they raised.
func (s *Source) Feed(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.Events)
	for range n {
		k := uint64(s.Engine.Counts.Reports)
		r := metrics.Report{At: s.base + int64(k)*1000, HasFlow: true, WholePath: true, Flow: metrics.Flow{
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("2001:db8::2"), Proto: 6, HasPorts: k%7 > 0,
			SrcPort: uint16(1000 + k%7), DstPort: 80,
		}}
		if !r.Flow.HasPorts {
			r.Flow.Proto, r.Flow.SrcPort, r.Flow.DstPort = 1, 0, 0
		}
		for hop := range uint64(3) {
			h := metrics.Hop{
				Has:  metrics.HasNode | metrics.HasPort | metrics.HasQueue | metrics.HasLatency | metrics.HasOccupancy | metrics.HasUtilization,
				Node: uint32(1 + (k+hop)%12), Port: uint32(hop), Queue: 3, LatencyNs: 1000 << (k % 20), Occupancy: 100 << (k % 5), Utilization: 1 << (k % 16),
			}
			if hop > 0 && k%3 == 0 {
				h.Has |= metrics.HasLink
				h.LinkNs = 500 << (k % 13)
			}
			if k%11 == 0 {
				h.Has &^= metrics.HasPort
			}
			r.Hops = append(r.Hops, h)
		}
		s.Engine.Add(&r, func(e *metrics.Event) {
			kept := *e
			kept.Path, kept.WasPath = slices.Clone(e.Path), slices.Clone(e.WasPath)
			s.Events = append(s.Events, kept)
			s.Emit(e)
		})
	}
	return len(s.Events) - before
}

// Log keeps messages.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String is all of them.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
