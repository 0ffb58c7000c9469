// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// setSwitch makes a file the switch of expedited grace periods. Other tests use the machine's.
func setSwitch(t *testing.T, path, value string) {
	t.Helper()
	expeditedPath = path
	t.Cleanup(func() { expeditedPath = sysExpedited })
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readSwitch(path string) string {
	value, _ := os.ReadFile(path)
	return strings.TrimSpace(string(value))
}

// Attaching leaves the switch as it was, also when it was on.
func TestExpedite(t *testing.T) {
	need.Programs(t, "pgrep:procps")
	path := filepath.Join(t.TempDir(), "rcu_expedited")
	for _, c := range []struct {
		hooks          int
		before, during string
	}{{manyHooks, "0\n", "1"}, {manyHooks - 1, "0\n", "0"}, {manyHooks, "1\n", "1"}} {
		setSwitch(t, path, c.before)
		done := Expedite(c.hooks)
		during := readSwitch(path)
		done()
		if after := readSwitch(path); during != c.during || after != strings.TrimSpace(c.before) {
			t.Errorf("%d hooks, switch at %q: %q and then %q", c.hooks, c.before, during, after)
		}
	}
	// Somebody kills the keeper.
	setSwitch(t, path, "0\n")
	done := Expedite(manyHooks)
	killKeeper(t)
	done()
	if after := readSwitch(path); after != "0" {
		t.Errorf("with a keeper that was killed the switch is left at %q", after)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	Expedite(manyHooks)() // no such file: nothing happens
	if _, err := os.Stat(path); err == nil {
		t.Error("the switch was made")
	}
}

// killKeeper kills the one keeper that this process has.
func killKeeper(t *testing.T) {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", "-P", strconv.Itoa(os.Getpid()), "radar-rcu-keeper").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestExpediteKilled: a process that is killed while the switch is on gives it back, also
// where its whole process group is killed or interrupted.
func TestExpediteKilled(t *testing.T) {
	if path := os.Getenv("RADAR_TEST_EXPEDITE"); path != "" {
		expeditedPath = path
		Expedite(manyHooks)
		os.Stdout.WriteString("on\n")
		time.Sleep(time.Hour)
	}
	path := filepath.Join(t.TempDir(), "rcu_expedited")
	for name, end := range map[string]func(pid int) error{
		"killed":            func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"group killed":      func(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) },
		"group interrupted": func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
	} {
		setSwitch(t, path, "0\n")
		cmd := exec.Command(os.Args[0], "-test.run=^TestExpediteKilled$")
		cmd.Env = append(os.Environ(), "RADAR_TEST_EXPEDITE="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if during := readSwitch(path); err != nil || line != "on\n" || during != "1" {
			t.Errorf("%s: it says %q, %v; the switch is at %q", name, line, err, during)
		}
		if err := end(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		nstest.WaitFor(t, name+": the switch to be off", func() bool { return readSwitch(path) == "0" })
	}
}

// TestExpediteContainer: all processes of a PID namespace may be killed at once, so that
// nobody would give the switch back. There it stays as it is.
func TestExpediteContainer(t *testing.T) {
	need.AsRoot(t)
	if path := os.Getenv("RADAR_TEST_EXPEDITE"); path != "" {
		expeditedPath = path
		done := Expedite(manyHooks)
		os.Stdout.WriteString(readSwitch(path) + "\n")
		done()
		return
	}
	path := filepath.Join(t.TempDir(), "rcu_expedited")
	for flags, during := range map[uintptr]string{0: "1", syscall.CLONE_NEWPID: "0"} {
		setSwitch(t, path, "0\n")
		cmd := exec.Command(os.Args[0], "-test.run=^TestExpediteContainer$")
		cmd.Env = append(os.Environ(), "RADAR_TEST_EXPEDITE="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		out, err := cmd.CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err != nil || line != during {
			t.Errorf("with clone flags %#x: %v, the switch is at %q, want %q", flags, err, line, during)
		}
		if after := readSwitch(path); after != "0" {
			t.Errorf("with clone flags %#x the switch is left at %q", flags, after)
		}
	}
}
