// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
)

func TestUpScriptFails(t *testing.T) {
	name := newLab(t)
	topo := pair("sleep 600 &\nip link set eth0 up\n  ip link set eth7 up\necho not reached\n").topology(t)
	_, err := Up(t.Context(), topo, Options{Name: name})
	failed, ok := errors.AsType[*ScriptError](err)
	if !ok {
		t.Fatalf("Up = %v: want a *ScriptError", err)
	}
	if failed.Machine != "a" || failed.Script != "a.startup" || failed.Line != 3 || failed.Reason != "exit status 1" {
		t.Errorf("error %+v: want machine a, a.startup, line 3, exit status 1", failed)
	}
	if !strings.Contains(failed.Output, `Cannot find device "eth7"`) || strings.Contains(failed.Output, "not reached") {
		t.Errorf("output of the script:\n%s", failed.Output)
	}
	wantGone(t, name)
}

// TestScriptsFindTheProgram: a startup script can run the program that runs the lab.
func TestScriptsFindTheProgram(t *testing.T) {
	name := newLab(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := mustUp(t, pair("command -v "+filepath.Base(self)+"\n").topology(t), Options{Name: name})
	if log, err := os.ReadFile(l.LogPath("a")); err != nil || !strings.HasSuffix(string(log), "\n"+self+"\n") {
		t.Errorf("log of a: %v\n%s\nwant %s in it", err, log, self)
	}
}

// TestUpReportsEveryScript has two scripts fail at the same time.
func TestUpReportsEveryScript(t *testing.T) {
	name := newLab(t)
	f := pair("exit 3\n")
	f["b.startup"] = "exit 4\n"
	_, err := Up(t.Context(), f.topology(t), Options{Name: name})
	for _, want := range []string{"a.startup:1: exit status 3", "b.startup:1: exit status 4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q in it", err, want)
		}
	}
	wantGone(t, name)
}

func TestUpKeepGoing(t *testing.T) {
	name := newLab(t)
	f := pair("ip link set eth7 up\nip address add 10.0.0.1/24 dev eth0\nfalse\n")
	f["lab.conf"] += "a[exec]=\"ip address add 10.0.0.2/24 dev eth0\"\n"
	var warned []string
	l := mustUp(t, f.topology(t), Options{Name: name, KeepGoing: true, Warn: func(w string) { warned = append(warned, w) }})
	if len(warned) != 1 || !strings.Contains(warned[0], "machine a: a.startup: exit status 1") {
		t.Errorf("warnings: %q", warned)
	}
	got := output(t, l, "a", "ip", "-br", "address", "show", "dev", "eth0")
	if !strings.Contains(got, "10.0.0.1/24") || !strings.Contains(got, "10.0.0.2/24") {
		t.Errorf("scripts have not gone on: %s", got)
	}
	log, err := os.ReadFile(l.LogPath("a"))
	if err != nil || !strings.Contains(string(log), `Cannot find device "eth7"`) {
		t.Errorf("log of a: %v\n%s", err, log)
	}
}

func TestUpScriptTimeout(t *testing.T) {
	name := newLab(t)
	_, err := Up(t.Context(), pair("sleep 3600\n").topology(t), Options{Name: name, ScriptTimeout: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "a.startup: still running after") {
		t.Errorf("Up = %v: want a script that is still running", err)
	}
	wantGone(t, name)
}

func TestUpInterrupted(t *testing.T) {
	name := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		nstest.WaitFor(t, "the script to start", func() bool { return exists(ready) })
		cancel()
	}()
	_, err := Up(ctx, pair("echo $$ > "+ready+"\nsleep 600\n").topology(t), Options{Name: name})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Up = %v: want %v", err, context.Canceled)
	}
	wantGone(t, name)
	if pid := readPID(t, ready); alive(pid) {
		t.Errorf("the script, process %d, still runs", pid)
	}
}

// TestUpKilled kills the process that starts a lab, which then cannot clean up.
func TestUpKilled(t *testing.T) {
	name := newLab(t)
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	for file, text := range pair("echo $$ > " + ready + "\nsleep 600\n") {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := startHelper(t, "up", nil, dir, name)
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "the script to start", func() bool { return exists(ready) })
	l, err := Get(name)
	if err != nil || l.Status != Starting {
		t.Fatalf("Get = %+v, %v: want a lab that is starting", l, err)
	}
	if err := l.Down(); !errors.Is(err, ErrBusy) {
		t.Errorf("Down meanwhile: %v, want %v", err, ErrBusy)
	}
	if _, err := Up(t.Context(), pair("").topology(t), Options{Name: name}); !errors.Is(err, ErrBusy) {
		t.Errorf("Up meanwhile: %v, want %v", err, ErrBusy)
	}
	up.Process.Kill()
	up.Wait()

	if l, err = Get(name); err != nil || l.Status != Incomplete {
		t.Fatalf("Get after the kill = %+v, %v: want %s", l, err, Incomplete)
	}
	script := readPID(t, ready)
	if !alive(script) {
		t.Fatal("the script has ended already: the test tests nothing")
	}
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	if alive(script) {
		t.Errorf("the script, process %d, still runs", script)
	}
	wantGone(t, name)
}

// TestDownEndsProcesses has a daemon that ends when asked to, one that does not,
// and processes that are none of the lab's.
func TestDownEndsProcesses(t *testing.T) {
	name := newLab(t)
	dir := t.TempDir()
	path := func(file string) string { return filepath.Join(dir, file) }
	l := mustUp(t, pair(strings.Join([]string{
		"sleep 600 &",
		"echo $! > " + path("polite"),
		// Killed only: it ignores the signal, and so does its sleep.
		"sh -c 'trap \"\" TERM; echo $$ > " + path("stubborn") + "; sleep 600' &",
		"",
	}, "\n")).topology(t), Options{Name: name})
	nstest.WaitFor(t, "the daemons", func() bool { return exists(path("polite")) && exists(path("stubborn")) })
	polite, stubborn := readPID(t, path("polite")), readPID(t, path("stubborn"))
	if !alive(polite) || !alive(stubborn) {
		t.Fatal("a daemon has not outlived its startup script")
	}
	outside := exec.Command("sleep", "600")
	visitor := startHelper(t, "visit", nil, l.NetNSPath("a"), path("visiting"))
	for _, cmd := range []*exec.Cmd{outside, visitor} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
	}
	nstest.WaitFor(t, "the visitor", func() bool { return exists(path("visiting")) })
	if inum, err := netnsInum(fmt.Sprintf("/proc/%d/ns/net", visitor.Process.Pid)); err != nil || inum != l.Machines[0].Inum {
		t.Fatalf("the visitor is in %d (%v), not in a: the test tests nothing", inum, err)
	}

	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	if alive(polite) || alive(stubborn) {
		t.Errorf("daemons alive after Down: %d %v, %d %v", polite, alive(polite), stubborn, alive(stubborn))
	}
	if !alive(outside.Process.Pid) {
		t.Error("Down killed a process outside the lab")
	}
	if !alive(visitor.Process.Pid) {
		t.Error("Down killed a process that had only a thread in the lab")
	}
	wantGone(t, name)
}

func TestCommand(t *testing.T) {
	name := newLab(t)
	l := mustUp(t, pair("").topology(t), Options{Name: name})
	cmd := l.Command(t.Context(), "a", "sh", "-c", "cat; exit 7")
	cmd.Stdin = strings.NewReader("through")
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 7 || string(out) != "through" {
		t.Errorf("Command: output %q, error %v: want what went in, and exit status 7", out, err)
	}
}

func TestExec(t *testing.T) {
	name := newLab(t)
	l := mustUp(t, pair("").topology(t), Options{Name: name})
	cmd := startHelper(t, "exec", nil, name, "b", "sh", "-c", "readlink /proc/self/ns/net; cat; kill -TERM $$")
	cmd.Stdin = strings.NewReader("through")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if want := fmt.Sprintf("net:[%d]\nthrough", l.Node("b").Inum); string(out) != want {
		t.Errorf("Exec printed %q, want %q (%s)", out, want, stderr.String())
	}
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("Exec ended with %v: want the command's own end, by SIGTERM", err)
	}
	if err := l.Exec("nobody", []string{"true"}); err == nil || !strings.Contains(err.Error(), `no machine "nobody": it has a, b`) {
		t.Errorf("Exec in an unknown machine: %v", err)
	}
	if err := l.Exec("a", []string{"no-such-command"}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("Exec of an unknown command: %v", err)
	}
}

func TestFailedLine(t *testing.T) {
	for _, tc := range []struct {
		script, output string
		want           int
	}{
		{"a\n\n  b c\n", "+ a\n+ b c\nerror\n", 3},
		{"a\na\n", "+ a\n", 0},
		{"ip $x\n", "+ ip 1\n", 0},
		{"a\n", "", 0},
		{"a\n\n", "error\n", 0},
		// A command in the background is traced when its shell comes to it.
		{"a b &\nc\n  d\n", "+ c\n+ d\n+ a b\nerror\n", 3},
		{"a b &\nc\nd\n", "+ a b\n+ c\nerror\n", 2},
		{"a b &\na b\n", "+ a b\n+ a b\nerror\n", 0},
		{"a $x &\nb\n", "+ b\n+ a 1\nerror\n", 0},
		{"a && b &&\nc\n", "+ a\n+ b\n+ c\n", 2},
	} {
		if got := failedLine(tc.script, tc.output); got != tc.want {
			t.Errorf("failedLine(%q, %q) = %d, want %d", tc.script, tc.output, got, tc.want)
		}
	}
}

func exists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && (st.Size() > 0 || strings.HasSuffix(path, "visiting"))
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
