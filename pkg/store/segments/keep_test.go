// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// filesOf are the files that a Writer knows.
func filesOf(w *Writer) []finished {
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	return slices.Clone(w.keeper.files)
}

// fourFiles begins a recording of 40 packets in four files, too few to become one.
func fourFiles(t *testing.T, dir string) *Writer {
	t.Helper()
	w := create(t, dir, quiet)
	of := &testScope{offset: time.Now().Add(24 * time.Hour).UnixNano()} // an hour to come
	for i := range uint64(40) {
		if err := w.Add(simple(i), of); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// TestNotRemoved: a file that cannot be removed when another one is in its place is tried again, and every file
// that follows names it: its packets do not come back.
func TestNotRemoved(t *testing.T) {
	dir := t.TempDir()
	w := fourFiles(t, dir)
	files := filesOf(w)
	done, err := w.keeper.merge(files[:2])
	if err != nil {
		t.Fatal(err)
	}
	stuck := filepath.Join(dir, files[0].path)
	text, err := os.ReadFile(stuck)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(stuck), os.MkdirAll(filepath.Join(stuck, "x"), 0o700)); err != nil { // nothing removes it
		t.Fatal(err)
	}
	w.keeper.replace(files[:2], done, nil)
	if s := w.Stats(); s.Segments != 4 {
		t.Errorf("%d files: the one that is still there is not counted", s.Segments)
	}
	if err := errors.Join(os.RemoveAll(stuck), os.WriteFile(stuck, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, dir, 40)
	files = filesOf(w)
	last, err := w.keeper.merge(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, done.path)); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, dir, 40)
	w.keeper.replace(files, last, nil)
	if left := glob(t, dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	checkWhole(t, dir, 40)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestUnsynced: a file whose name may not last is kept, with a warning; those in whose place it is are removed as
// soon as it lasts.
func TestUnsynced(t *testing.T) {
	dir := t.TempDir()
	w := fourFiles(t, dir)
	files := filesOf(w)
	done, err := w.keeper.merge(files)
	if err != nil {
		t.Fatal(err)
	}
	done.unsynced = errors.New("the folder cannot be synced")
	w.keeper.replace(files, done, nil)
	if s := w.Stats(); s.LastError != "the folder cannot be synced" || s.Kept != 40 || len(s.NotKept) > 0 || s.Segments != 1 {
		t.Errorf("%+v", s)
	}
	if left := glob(t, dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
