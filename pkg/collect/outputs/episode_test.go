// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/collect/outputs/outputstest"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// TestEpisode: failures that follow each other are said once, and again after a calm.
func TestEpisode(t *testing.T) {
	t.Parallel()
	var e episode
	now := time.Unix(1_000_000, 0)
	said := 0
	for range 1000 {
		now = now.Add(calmTime)
		if e.news(now, "full") {
			said++
		}
	}
	for i := range 1000 {
		if e.news(now, fmt.Sprint("words ", i)) {
			said++
		}
	}
	if said != mostWords {
		t.Errorf("said %d times", said)
	}
	if now = now.Add(calmTime + 1); !e.news(now, "full") || e.news(now, "full") {
		t.Error("after a calm it is news, once")
	}
}

// TestFullDiskSaidOnce: a disk that has room from time to time is said to be full once.
func TestFullDiskSaidOnce(t *testing.T) {
	t.Parallel()
	var l outputstest.Log
	d := &disk{err: syscall.ENOSPC}
	w := newWorld(t, NewLines(d, outputstest.OddName, l.Logger())).start(0)
	for range 3 {
		retries := w.tally("json").Retries.Load()
		w.Feed(10)
		nstest.WaitFor(t, "the disk to be full", func() bool { return w.tally("json").Retries.Load() > retries })
		d.free(1 << 20)
		w.written("json", len(w.Events))
		d.free(-d.left())
	}
	if n := strings.Count(l.String(), "cannot be written"); n != 1 {
		t.Errorf("said %d times: %s", n, l.String())
	}
}

// left is how much room there is.
func (d *disk) left() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.room
}
