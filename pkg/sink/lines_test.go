// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/sink"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
)

// disk takes so many bytes, then none for a while.
type disk struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	room int
	err  error
}

func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(b), d.room)
	d.room -= n
	d.buf.Write(b[:n])
	if n < len(b) {
		return n, d.err
	}
	return n, nil
}

func (d *disk) free(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += n
}

// TestLines: all events and, at the end, all values; a full disk tears no line and loses none.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, room := range []int{1 << 30, 70_001} {
		full := room < 1<<30
		var l sinktest.Log
		d := &disk{room: room, err: syscall.ENOSPC}
		w := sinktest.NewWorld(t, sink.NewLines(d, sinktest.OddName, l.Logger())).Start(time.Hour)
		w.Feed(200)
		before := time.Now()
		if full {
			nstest.WaitFor(t, "the disk to be full", func() bool { return w.Tally("json").Retries.Load() > 0 })
			d.free(1 << 30)
		}
		w.Close()
		after := time.Now()
		got := sinktest.Plain(t, d.buf.String())
		rows := w.Rows(time.Time{})
		var last struct {
			At float64 `json:"snapshot_t_ns"`
		}
		all := strings.Split(strings.TrimSpace(d.buf.String()), "\n")
		if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
			t.Fatal(err)
		}
		// JSON's numbers are exact to a quarter of a microsecond here.
		if at := time.Unix(0, int64(last.At)); at.Before(before.Add(-time.Microsecond)) || at.After(after.Add(time.Microsecond)) {
			t.Errorf("the snapshot is of %v, want a time from %v to %v", at, before, after)
		}
		if diff := cmp.Diff(append(sinktest.WantEvents(t, w.Events), sinktest.WantValues(t, rows, last.At)...), got); diff != "" {
			t.Errorf("room for %d: %s", room, diff)
		}
		n := w.Tally("json")
		if int(n.Written.Load()) != len(w.Events)+len(rows) || n.GivenUp.Load() != 0 || (n.Retries.Load() > 0) != full {
			t.Errorf("written %d, given up %d, %d retries", n.Written.Load(), n.GivenUp.Load(), n.Retries.Load())
		}
		if said := strings.Count(l.String(), "\n"); (said == 1) != full {
			t.Errorf("said: %s", l.String())
		}
	}
}

// TestLinesEnd: where nobody reads any more, or the disk stays full, everything is counted.
func TestLinesEnd(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.EPIPE, syscall.ENOSPC} {
		var l sinktest.Log
		w := sinktest.NewWorld(t, sink.NewLines(&disk{err: err}, sinktest.OddName, l.Logger()))
		w.Fan.Grace = soon
		failed := make(chan error, 1)
		w.Fan.Failed = func(err error) { failed <- err }
		w.Start(0)
		w.Feed(10)
		if errors.Is(err, syscall.EPIPE) {
			if got := <-failed; !errors.Is(got, err) {
				t.Error(got)
			}
		}
		w.Close()
		if n := w.Tally("json"); int(n.GivenUp.Load()) != len(w.Events) || n.Written.Load() != 0 {
			t.Errorf("%v: of %d given up %d, written %d", err, len(w.Events), n.GivenUp.Load(), n.Written.Load())
		}
	}
}

// TestFullDiskSaidOnce: a disk that has room from time to time is said to be full once.
func TestFullDiskSaidOnce(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	d := &disk{err: syscall.ENOSPC}
	w := sinktest.NewWorld(t, sink.NewLines(d, sinktest.OddName, l.Logger())).Start(0)
	for range 3 {
		retries := w.Tally("json").Retries.Load()
		w.Feed(10)
		nstest.WaitFor(t, "the disk to be full", func() bool { return w.Tally("json").Retries.Load() > retries })
		d.free(1 << 20)
		w.Written("json", len(w.Events))
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
