// SPDX-License-Identifier: Apache-2.0

// Package dropwatch tells drops that radar overlooked from drops for which this kernel ran no BPF
// program: the kernels of some virtual machines call no tracing program while a thread of process 1
// is current, whatever softirq runs on top of it.
package dropwatch

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/clock"
)

// ErrIncomplete says that the list has not all drops, so that nothing can be told from it.
var ErrIncomplete = errors.New("the list of drop events is not complete")

// Watch lists the kernel's own drop events from tracefs, without BPF.
type Watch struct {
	// Missed is for how many drops the kernel did not run radar's hook, by its own count
	// (loss_missed, docs/times-and-losses.md): another run of the hook was preempted on that CPU.
	Missed int

	dir     string // tracefs instance; "": there is no tracefs
	events  []dropEvent
	ofFirst map[string]bool // names of process 1's threads
}

type dropEvent struct {
	at     int64 // Unix ns, to the microsecond
	init   bool  // a thread of process 1 was current when it happened
	taken  bool  // by Blind
	reason string
}

// Start starts listing. tracefs is mounted for the test alone: not all machines have it mounted.
// Without it nothing can be excused.
func Start(t testing.TB) *Watch {
	t.Helper()
	tracefs := t.TempDir()
	if err := unix.Mount("tracefs", tracefs, "tracefs", 0, ""); err != nil {
		t.Logf("no list of the kernel's drop events: mount tracefs: %v", err)
		return &Watch{}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(tracefs, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount tracefs: %v", err)
		}
	})
	w := &Watch{dir: filepath.Join(tracefs, "instances", fmt.Sprintf("rdrdrops%d-%d", os.Getpid(), serial.Add(1)))}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatalf("list drop events: %v", err)
	}
	t.Cleanup(func() { os.Remove(w.dir) })
	for _, s := range []struct{ file, value string }{
		{"trace_clock", "mono"}, {"buffer_size_kb", "49152"}, {"options/record-tgid", "1"}, {"events/skb/kfree_skb/enable", "1"},
	} {
		if err := os.WriteFile(filepath.Join(w.dir, s.file), []byte(s.value), 0); err != nil {
			t.Fatalf("list drop events: %v", err)
		}
	}
	w.nameFirst()
	return w
}

// dropLine is a line of the trace: task-PID (TGID) [CPU] flags seconds: kfree_skb: ... reason: NAME.
// TGID is -------, if the task began to run before the list did.
var dropLine = regexp.MustCompile(`^ *(.+)-(\d+) +\( *([\d-]+)\) +\[\d+\] +\S+ +(\d+)\.(\d{6}): kfree_skb: .* reason: (\w+)`)

// listed is how many events the list has, and had: a list that is full drops the oldest.
var listed = regexp.MustCompile(`entries-in-buffer/entries-written: (\d+)/(\d+)`)

var serial atomic.Int32

// Stop ends the list, and reads it. The error is ErrIncomplete if not all of it is there.
func (w *Watch) Stop() error {
	if w.dir == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(w.dir, "events/skb/kfree_skb/enable"), []byte("0"), 0); err != nil {
		return fmt.Errorf("stop listing drop events: %w", err)
	}
	return w.Read()
}

// Read reads what was listed until now.
func (w *Watch) Read() error {
	if w.dir == "" {
		return nil
	}
	w.nameFirst()
	before := w.events
	w.events = nil
	f, err := os.Open(filepath.Join(w.dir, "trace"))
	if err != nil {
		return fmt.Errorf("read drop events: %w", err)
	}
	defer f.Close()
	offset := clock.WallOffset()
	for s := bufio.NewScanner(f); s.Scan(); {
		if m := listed.FindStringSubmatch(s.Text()); m != nil && m[1] != m[2] {
			return fmt.Errorf("%w: of %s drop events %s are left", ErrIncomplete, m[2], m[1])
		}
		m := dropLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		us, _ := strconv.ParseInt(m[4]+m[5], 10, 64)
		w.events = append(w.events, dropEvent{at: us*1000 + offset, init: w.ofInit(m[1], m[2], m[3]), reason: m[6]})
	}
	for i := range min(len(before), len(w.events)) {
		w.events[i].taken = before[i].taken
	}
	return nil
}

// unnamed is the name of a task that the trace does not know.
const unnamed = "<...>"

// ofInit reports whether a task is a thread of process 1. Such threads come and go, so the list's own word comes first. Of a
// thread that has ended, and that began to run before the list did, only the name is left.
func (w *Watch) ofInit(name, task, group string) bool {
	if !strings.Contains(group, "-") {
		return group == "1"
	}
	if _, err := os.Stat("/proc/1/task/" + task); err == nil {
		return true
	}
	if _, err := os.Stat("/proc/" + task); err == nil {
		return false // it lives, and is another process's
	}
	return name == unnamed || w.ofFirst[name]
}

// nameFirst notes what threads of process 1 are called now.
func (w *Watch) nameFirst() {
	if w.ofFirst == nil {
		w.ofFirst = make(map[string]bool)
	}
	files, _ := filepath.Glob("/proc/1/task/*/comm")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil { // else it has just ended
			w.ofFirst[strings.TrimSpace(string(b))] = true
		}
	}
}

// Len is how many drops the list has.
func (w *Watch) Len() int { return len(w.events) }

// Unseen is how many of the listed drops for that reason interrupted a thread of process 1.
func (w *Watch) Unseen(reason string) (n int) {
	for _, e := range w.events {
		if e.init && e.reason == reason {
			n++
		}
	}
	return n
}

// Blind reports whether a drop for one of the reasons in that time, Unix ns, interrupted a thread of
// process 1, or can be one of those that the kernel counted as missed. It counts each drop
// for one question.
func (w *Watch) Blind(from, to int64, reasons []string) bool {
	var other *dropEvent
	for i := range w.events {
		e := &w.events[i]
		if e.taken || e.at < from-1000 || e.at > to || !slices.Contains(reasons, e.reason) {
			continue
		}
		if e.init {
			e.taken = true
			return true
		}
		if other == nil {
			other = e
		}
	}
	if other == nil || w.Missed == 0 {
		return false
	}
	other.taken = true
	w.Missed--
	return true
}
