// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStamp: a file that is replaced has changed, also within the tick of the file system's clock, by one of the same
// size.
func TestStamp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string, at time.Time) {
		t.Helper()
		next := path + "-next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(next, at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	var s Stamp
	changed := func(want bool, what string) {
		t.Helper()
		if got := s.Changed(path); got != want {
			t.Errorf("%s: changed is %v, want %v", what, got, want)
		}
	}
	changed(true, "no file")
	now := time.Now()
	write("a", now)
	changed(true, "a new file")
	write("b", now)
	changed(true, "one of the same moment")
	old := now.Add(-time.Hour)
	write("c", old)
	changed(true, "an old file")
	changed(false, "the same again")
	read := func(want bool, err error, what string) {
		t.Helper()
		called := false
		got := s.IfChanged(path, func() error { called = true; return err })
		if called != want || called && got != err {
			t.Errorf("%s: read is %v with %v, want %v", what, called, got, want)
		}
	}
	read(false, nil, "still the same")
	s = Stamp{}
	failed := errors.New("failed")
	read(true, failed, "it fails")
	read(true, nil, "after it failed")
	read(false, nil, "after it was read")
	if err := os.Chtimes(path, old, old.Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	changed(true, "touched")
	changed(false, "the same again")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	changed(true, "removed")
}
