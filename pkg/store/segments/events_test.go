// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Events are in the folders of their hours, and whoever added them learns that their file was removed.
func TestEventsRemoved(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{MaxAge: time.Hour, KeepAge: 30 * time.Minute})
	hour := time.Now().Truncate(time.Hour)
	before := hour.Add(-time.Hour)
	for _, at := range []time.Time{before, hour.Add(90 * time.Minute), before.Add(time.Second)} {
		if err := w.AddEvent(at, "added", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "events-*"))
	if got := w.Stats().EventsRemoved; err != nil || len(files) != 1 || got != before.Add(time.Second).UnixNano() {
		t.Errorf("%v, removed up to %v, %v", files, time.Unix(0, got), err)
	}
}

// Events that are held are there when the directory is gone; without them that it is gone is said.
func TestHoldEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w := create(t, dir, quiet)
	if err := w.AddEvent(time.Unix(7, 0), "added", map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var opened [2]*Dir
	for i := range opened {
		d, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		opened[i] = d
	}
	if err := opened[0].HoldEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n := 0
		if err := opened[0].Events(t.Context(), func(Event) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("held: %d events, %v", n, err)
		}
	}
	if err := opened[1].Events(t.Context(), func(Event) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not held: %v", err)
	}
}
