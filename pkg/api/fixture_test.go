// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/collect/outputs"
	"github.com/vnetradar/radar/pkg/collect/outputs/outputstest"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// world is a source and a fan-out.
type world struct {
	*outputstest.Source
	t      *testing.T
	fan    *outputs.Fanout
	closed bool
}

func newWorld(t *testing.T, list ...outputs.Output) *world {
	t.Helper()
	w := &world{t: t, fan: &outputs.Fanout{Grace: nstest.Patience, Unwind: nstest.Patience}}
	w.Source = outputstest.New(w.fan.Event)
	for _, o := range list {
		w.fan.Add(o)
		if r, ok := o.(*Reports); ok {
			w.Engine.Observe = r.Observe
		}
	}
	t.Cleanup(w.close)
	return w
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

// tally is what became of what an output was given.
func (w *world) tally(name string) (n *outputs.Tally) {
	w.fan.Each(func(of string, t *outputs.Tally) {
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
