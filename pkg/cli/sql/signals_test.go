// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package sql_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// TestSignals: whatever signal ends a query or a prompt, nothing is left of --temp.
func TestSignals(t *testing.T) {
	heard := make(chan os.Signal, 1) // else a child of tests that nohup has begun ignores it
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
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
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		end(t, s, "sql", "-r", dir, "-c", "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 0")
		if s != syscall.SIGINT {
			end(t, s, "sql", "-r", dir)
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
