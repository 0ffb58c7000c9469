// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// waiting is a flight recorder, with what it says.
func waiting(dir string) (r *Recorder, said *[]string) {
	said = new([]string)
	d := network()
	r = &Recorder{Options: Options{Dir: dir, Say: func(text string) { *said = append(*said, text) }}}
	r.ring = &answer.Ring{Reader: &agent.Reader{Domain: d, Decoder: backpack.NewDecoder(d, nil)}}
	r.flight = &flight{Flight: &Flight{Before: time.Second, After: time.Second}, lastMet: make(map[*Condition]int64)}
	return r, said
}

// A directory that cannot be opened does not end a flight recorder. It says so once for each trigger.
func TestUnopened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, said := waiting(filepath.Join(file, "run"))
	c := &Condition{Text: "path change"}
	for _, at := range []int64{0, 10 * ms, 5000 * ms} {
		if err := r.meet(&met{of: c, at: at, last: at, value: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(*said) != 2 || !strings.Contains((*said)[0], "path change: x, but nothing is kept: ") || r.flight.triggers != 2 || r.flight.unopened == nil {
		t.Errorf("it says %q, %d triggers", *said, r.flight.triggers)
	}
}

// A disk that fails when a window ends does not end a flight recorder.
func TestUnfinished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, said := waiting(dir)
	var err error
	if r.writer, err = segments.Create(dir, segments.Meta{}, segments.Options{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.event("lost", nil)
	r.flight.windows = []window{{0, 1}}
	if err := r.finish(); err != nil {
		t.Errorf("it ends: %v", err)
	}
	if n := r.writer.Stats().EventsNotKept; n != 1 || len(*said) != 1 || !strings.Contains((*said)[0], "not all of it is kept: ") {
		t.Errorf("%d events were not kept, it says %q", n, *said)
	}
	_ = r.writer.Close()
}

// What a directory lacks is told before a flight recorder waits, and nothing is made there.
func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "a", "b")} {
		if err := checkDir(path); err != nil {
			t.Error(err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("it has made %v, %v", list, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "run"), "/proc/run"} {
		if err := checkDir(path); err == nil {
			t.Errorf("%s can be written", path)
		}
	}
	lock, err := statedir.TryLock(filepath.Join(dir, statedir.LockFile), unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(lock)
	if err := checkDir(dir); !errors.Is(err, segments.ErrInUse) {
		t.Errorf("another one records there: %v", err)
	}
}
