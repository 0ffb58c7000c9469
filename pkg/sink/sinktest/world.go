// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// World is a source and a fan-out, whose outputs may take as long as they need at the end.
type World struct {
	*Source
	Fan *sink.Fanout

	t      testing.TB
	closed bool
}

// NewWorld makes a world that ends with the test. Outputs that observe latencies get them.
func NewWorld(t testing.TB, list ...sink.Output) *World {
	t.Helper()
	w := &World{t: t, Fan: &sink.Fanout{Grace: nstest.Patience, Unwind: nstest.Patience}}
	w.Source = New(w.Fan.Event)
	for _, o := range list {
		w.Fan.Add(o)
		if observer, ok := o.(interface {
			Observe(m metrics.Metric, node uint32, ns uint64)
		}); ok {
			w.Engine.Observe = observer.Observe
		}
	}
	t.Cleanup(w.Close)
	return w
}

// Start starts the outputs; see sink.Fanout.
func (w *World) Start(every time.Duration) *World {
	w.Fan.Start(w, every)
	return w
}

// Close ends the outputs, once.
func (w *World) Close() {
	if !w.closed {
		w.closed = true
		w.Fan.Close()
	}
}

// Tally is what became of what an output was given.
func (w *World) Tally(name string) (n *sink.Tally) {
	w.Fan.Each(func(of string, t *sink.Tally) {
		if of == name {
			n = t
		}
	})
	return n
}

// Written waits until an output has written so many.
func (w *World) Written(name string, n int) {
	w.t.Helper()
	nstest.WaitFor(w.t, fmt.Sprintf("%s to write %d", name, n), func() bool { return w.Tally(name).Written.Load() >= uint64(n) })
}
