// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"path/filepath"
	"testing"
	"time"
)

// Events are in the folders of their hours, and whoever told them learns that their file was removed.
func TestEventsRemoved(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{MaxAge: time.Hour, KeepAge: 30 * time.Minute})
	hour := time.Now().Truncate(time.Hour)
	before := hour.Add(-time.Hour)
	for _, at := range []time.Time{before, hour.Add(90 * time.Minute), before.Add(time.Second)} {
		if err := w.AddEvent(at, "told", nil); err != nil {
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
