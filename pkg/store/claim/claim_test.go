// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/store/readme"
)

func take(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func holds(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

// What a directory lacks is told to who claims it. Nothing is left of a claim that nobody has used.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "a", "b")
	for range 2 {
		d := take(t, run)
		want := fmt.Sprintf("recording in %s: another process records there", run)
		if pid := Holder(run); pid != 0 { // the kernel does not show it everywhere
			want += fmt.Sprintf(" (process %d)", os.Getpid())
		}
		if _, err := Take(run); !errors.Is(err, ErrInUse) || err.Error() != want {
			t.Errorf("a second claim: %v, want %s", err, want)
		}
		d.Release()
		holds(t, dir)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "run"), "/proc/run"} {
		if _, err := Take(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What somebody else has put there stays. What a recorder has left that was killed goes.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	take(t, dir).Release()
	holds(t, dir) // it was there before
	run := filepath.Join(dir, "run")
	unix.Close(take(t, run).Lock) // killed
	holds(t, run, statedir.LockFile)
	take(t, run).Release()
	holds(t, dir)
	d := take(t, run)
	if err := os.Mkdir(filepath.Join(run, "2026-01-01T00"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.Release()
	take(t, run).Release()
	holds(t, run, "2026-01-01T00", statedir.LockFile)
}

// A recording of which all has gone but radar's own text is one of nothing. A text that somebody has changed stays.
func TestReleaseReadme(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	d := take(t, run)
	if err := readme.Write(run); err != nil {
		t.Fatal(err)
	}
	if !HoldsNothing(run) {
		t.Error("a text beside a recording is something")
	}
	d.Release()
	holds(t, dir)
	d = take(t, run)
	if err := os.WriteFile(filepath.Join(run, readme.Name), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Release()
	holds(t, run, readme.Name)
}

// Where one takes a directory that another one gives back at that moment, nobody is told anything but that it is in use.
func TestTakeWhileReleased(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300 {
				switch d, err := Take(run); {
				case err == nil && !d.Stands():
					t.Error("the directory is another one")
				case err == nil:
					d.Release()
				case !errors.Is(err, ErrInUse):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A lock can be taken where nothing can be made.
func TestTry(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	d := take(t, run)
	defer d.Release()
	if err := d.Try(); err != nil {
		t.Error(err)
	}
	holds(t, run, statedir.LockFile)
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	if err := d.Try(); err == nil || !strings.HasPrefix(err.Error(), "recording in "+run+": ") {
		t.Error(err)
	}
}
