// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package sql_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// TestSignals: whatever signal ends a query or a prompt, nothing is left of --temp.
func TestSignals(t *testing.T) {
	heard := make(chan os.Signal, 1) // else a child of tests that nohup has begun ignores it
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	dir := oneEvent(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		end(t, s, "sql", "-r", dir, "-c", "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 0")
		if s != syscall.SIGINT {
			end(t, s, "sql", "-r", dir)
		}
	}
}

// oneEvent makes a recording.
func oneEvent(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	w, err := segments.Create(dir, segments.Meta{}, segments.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddEvent(time.Unix(1, 0), "told", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cpuOf is the CPU time of a process, in hundredths of a second.
func cpuOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	ticks, err := strconv.Atoi(strings.Fields(rest)[11])
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

// TestSecondSignal: a query that heeds no signal says so, and ends at the next one, with nothing left of --temp. SIGHUP
// is none that ends it.
func TestSecondSignal(t *testing.T) {
	dir := oneEvent(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		temp := t.TempDir()
		// One call, which compares each letter with each.
		cmd := exec.Command(background.SelfPath, "sql", "-r", dir, "--temp", temp, "-c", "SELECT levenshtein(repeat('a', 3000000), repeat('b', 3000000))")
		cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1")
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		defer func() { _ = cmd.Process.Kill() }()
		nstest.WaitFor(t, "the query to be at work", func() bool {
			return cpuOf(t, cmd.Process.Pid) > 200
		})
		for _, last := range []bool{false, true} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if !last { // it is heard, and does not end the query: that is said
				if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.Contains(line, "heeds no signal") {
					t.Fatalf("%v: %q, %v", s, line, err)
				}
				for range 2 { // whose terminal has gone
					if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
						t.Fatal(err)
					}
				}
				before := cpuOf(t, cmd.Process.Pid)
				nstest.WaitFor(t, "the query to go on", func() bool { return cpuOf(t, cmd.Process.Pid) > before+50 })
			}
		}
		select {
		case <-ended:
		case <-time.After(nstest.Patience):
			t.Fatalf("%v: a second one does not end it", s)
		}
		if cmd.ProcessState.ExitCode() != 128+int(s) {
			t.Errorf("%v: it ended with %v", s, cmd.ProcessState)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%v: %v are left, %v", s, left, err)
		}
	}
}

// TestManyDamages: a directory full of what is no recording is one line.
func TestManyDamages(t *testing.T) {
	dir := oneEvent(t)
	hour := filepath.Join(dir, "2026-11-27T10")
	if err := os.Mkdir(hour, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 20000 {
		if err := os.WriteFile(filepath.Join(hour, fmt.Sprintf("packets-%08d.parquet", i)), []byte("bogus"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"sql", "-r", dir, "-c", "SELECT 1"}, {"packets", "-r", dir}, {"paths", "-r", dir}} {
		_, stderr, _ := clitest.Radar(t, args...)
		if strings.Count(stderr, "warning: damaged") != 1 || !strings.Contains(stderr, "; and 19999 others\n") {
			t.Errorf("%v: %.1000s", args, stderr)
		}
	}
}

// end ends a radar by a signal when it has its temporary directory.
func end(t *testing.T, s syscall.Signal, args ...string) {
	t.Helper()
	temp := t.TempDir()
	terminal, seen := clitest.WatchTerminal(t)
	cmd := exec.Command(background.SelfPath, append(args, "--temp", temp)...)
	cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1", "TERM=xterm", "XDG_STATE_HOME="+t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	inTemp := func() int {
		list, err := filepath.Glob(filepath.Join(temp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	prompt := len(args) == 3
	for stop := time.Now().Add(clitest.Patience); inTemp() == 0 || prompt && !strings.Contains(seen.String(), "radar> "); time.Sleep(time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("%v has not begun: %q", args, seen.String())
		}
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, %v: %v", s, args, err)
	}
	if n := inTemp(); n > 0 {
		t.Errorf("%v, %v: %d directories are left", s, args, n)
	}
}
