// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// oddNames are names that formats must quote, escape, or replace.
var oddNames = map[uint32]string{
	1: "leaf 1", 2: "a,b=c", 3: `say "hi"`, 4: "Gerät-Ω", 5: `back\slash`, 6: "line\nbreak", 7: "trailing\\", 8: "", 9: "{=,= }",
}

func oddName(id uint32) string {
	if name, ok := oddNames[id]; ok {
		return name
	}
	return fmt.Sprintf("int-%d", id)
}

// soon is a Fanout's grace where a test waits until it is over. Where all must be out, it is Patience.
const soon = 300 * time.Millisecond

// world is a source: an engine, what it raised, and a fan-out.
type world struct {
	t   *testing.T
	mu  sync.Mutex
	e   *metrics.Engine
	fan *Fanout

	events []metrics.Event
	closed bool
	base   int64
}

func newWorld(t *testing.T, outputs ...Output) *world {
	t.Helper()
	w := &world{t: t, e: newWorldEngine(), fan: &Fanout{grace: nstest.Patience, unwind: nstest.Patience}, base: time.Now().UnixNano()}
	for _, o := range outputs {
		w.fan.Add(o)
		if s, ok := o.(*Server); ok {
			w.e.Observe = s.Observe
		}
	}
	t.Cleanup(w.close)
	return w
}

func newWorldEngine() *metrics.Engine {
	config := metrics.DefaultConfig()
	config.Series = 0 // for more than are shown
	config.Congested = 500
	return metrics.New(config)
}

func (w *world) start(every time.Duration) *world {
	w.fan.Start(w, every)
	return w
}

func (w *world) close() {
	if !w.closed {
		w.closed = true
		w.fan.Close()
	}
}

func (w *world) Rows(time.Time) []metrics.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.e.Rows()
}

func (w *world) Info() collect.Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return collect.Info{Metrics: w.e.Counts, Counts: collect.Counts{Packets: 12, Rejected: 3, Reports: 9}, Gaps: 4, SocketDrops: 5}
}

// feed adds n reports of several flows by one way of three nodes; every value differs much from
// the one before, so that each is an event. It returns how many events they raised.
func (w *world) feed(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.events)
	for range n {
		k := uint64(w.e.Counts.Reports)
		r := metrics.Report{At: w.base + int64(k)*1000, HasFlow: true, Way: true, Flow: metrics.Flow{
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
		w.e.Add(&r, func(e *metrics.Event) {
			kept := *e
			kept.Path, kept.WasPath = slices.Clone(e.Path), slices.Clone(e.WasPath)
			w.events = append(w.events, kept)
			w.fan.Event(e)
		})
	}
	return len(w.events) - before
}

// tally is what became of what an output was given.
func (w *world) tally(name string) (n *Tally) {
	w.fan.Each(func(of string, t *Tally) {
		if of == name {
			n = t
		}
	})
	return n
}

// all waits until an output has written so many.
func (w *world) written(name string, n int) {
	w.t.Helper()
	nstest.WaitFor(w.t, fmt.Sprintf("%s to write %d", name, n), func() bool { return w.tally(name).Written.Load() >= uint64(n) })
}

// log keeps messages.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
