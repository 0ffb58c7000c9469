// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/topo/nstest"
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

// plain are JSON lines as maps, as text.
func plain(t *testing.T, text string) (list []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		list = append(list, fmt.Sprint(m))
	}
	return list
}

func wantValues(t *testing.T, rows []metrics.Row, at any) (list []string) {
	t.Helper()
	for i := range rows {
		b, err := json.Marshal(metrics.Namer(oddName).Row(&rows[i]))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		m["kind"], m["snapshot_t_ns"] = "value", at
		list = append(list, fmt.Sprint(m))
	}
	return list
}

// TestLines: all events and, at the end, all values; a full disk tears no line and loses none.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, room := range []int{1 << 30, 70_001} {
		full := room < 1<<30
		var l log
		d := &disk{room: room, err: syscall.ENOSPC}
		w := newWorld(t, NewLines(d, oddName, l.logger())).start(time.Hour)
		w.feed(200)
		before := time.Now()
		if full {
			nstest.WaitFor(t, "the disk to be full", func() bool { return w.tally("json").Retries.Load() > 0 })
			d.free(1 << 30)
		}
		w.close()
		after := time.Now()
		got := plain(t, d.buf.String())
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
		if diff := cmp.Diff(append(wantData(t, w.events), wantValues(t, rows, last.At)...), got); diff != "" {
			t.Errorf("room for %d: %s", room, diff)
		}
		n := w.tally("json")
		if int(n.Written.Load()) != len(w.events)+len(rows) || n.GivenUp.Load() != 0 || (n.Retries.Load() > 0) != full {
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
		var l log
		w := newWorld(t, NewLines(&disk{err: err}, oddName, l.logger()))
		w.fan.grace = soon
		failed := make(chan error, 1)
		w.fan.Failed = func(err error) { failed <- err }
		w.start(0)
		w.feed(10)
		if errors.Is(err, syscall.EPIPE) {
			if got := <-failed; !errors.Is(got, err) {
				t.Error(got)
			}
		}
		w.close()
		if n := w.tally("json"); int(n.GivenUp.Load()) != len(w.events) || n.Written.Load() != 0 {
			t.Errorf("%v: of %d given up %d, written %d", err, len(w.events), n.GivenUp.Load(), n.Written.Load())
		}
	}
}

// TestValues: /values has the rows as they are, those that are asked for.
func TestValues(t *testing.T) {
	t.Parallel()
	var l log
	s, address := newServer(t, &l)
	w := newWorld(t, s).start(0)
	w.feed(20)
	_, text := servers.Get(t, address+"/values")
	rows := w.Rows(time.Time{})
	s.mu.Lock()
	taken := float64(s.taken.UnixNano())
	s.mu.Unlock()
	if diff := cmp.Diff(wantValues(t, rows, taken), plain(t, text)); diff != "" {
		t.Error(diff)
	}
	_, text = servers.Get(t, address+"/values?metric=link_utilization,flow_path")
	n := 0
	for _, r := range rows {
		if r.Metric == metrics.LinkUtilization || r.Metric == metrics.FlowPath {
			n++
		}
	}
	if got := strings.Count(text, "\n"); got != n || strings.Contains(text, "queue") {
		t.Errorf("%d of %d: %s", got, n, text)
	}
	if code, _ := servers.Get(t, address+"/values?metric=x"); code != 400 {
		t.Errorf("code %d", code)
	}
	if code, text := servers.Get(t, address+"/"); code != 200 || !strings.Contains(text, "/events") {
		t.Errorf("code %d, %s", code, text)
	}
	if code, _ := servers.Get(t, address+"/other"); code != 404 {
		t.Errorf("code %d", code)
	}
}
