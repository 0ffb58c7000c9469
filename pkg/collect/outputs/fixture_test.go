// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/collect/outputs/outputstest"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// soon is a Fanout's grace where a test waits until it is over. Where all must be out, it is Patience.
const soon = 300 * time.Millisecond

// world is a source and a fan-out.
type world struct {
	*outputstest.Source
	t      *testing.T
	fan    *Fanout
	closed bool
}

func newWorld(t *testing.T, outputs ...Output) *world {
	t.Helper()
	w := &world{t: t, fan: &Fanout{Grace: nstest.Patience, Unwind: nstest.Patience}}
	w.Source = outputstest.New(w.fan.Event)
	for _, o := range outputs {
		w.fan.Add(o)
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
