// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// helperEnv makes the test program do something else: what helpers says.
const helperEnv = "RADAR_LAB_TEST_HELPER"

// helpers run in a process of their own, started by startHelper.
var helpers = map[string]func(args []string) error{
	"up":    helperUp,
	"exec":  helperExec,
	"visit": helperVisit,
	"quiet": helperQuiet,
}

// The main goroutine stays on the main thread, whose namespace is what /proc/PID
// shows: helperVisit needs that.
func init() {
	if os.Getenv(helperEnv) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		if err := helpers[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if left, _ := filepath.Glob(netnsPath(namePrefix() + "x*")); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: the tests left namespaces behind: %v\n", left)
		code = 1
	}
	os.Exit(code)
}

// startHelper runs one of helpers, with argv in front of it if need be.
func startHelper(t *testing.T, name string, wrap []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(append(wrap, self), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	t.Cleanup(func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}

// needTools ends the test where it cannot run.
func needTools(t *testing.T) {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "nft:nftables", "ping:iputils-ping", "nsenter:util-linux", "unshare:util-linux")
}

func namePrefix() string { return fmt.Sprintf("rdr%d", os.Getpid()) }

// newLab gives the test a state directory and a lab name of its own, and
// removes what is left of that lab in the end.
func newLab(t *testing.T) string {
	t.Helper()
	needTools(t)
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	name := namePrefix() + "x"
	t.Cleanup(func() { down(t, name) })
	return name
}

func down(t *testing.T, name string) {
	t.Helper()
	l, err := Get(name)
	if err != nil {
		return
	}
	if err := l.Down(); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// files is a lab folder, name -> text.
type files map[string]string

func (f files) topology(t *testing.T) *Topology {
	t.Helper()
	topo, err := parseFolder(&folder{files: f})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// pair is two machines on one wire; script is a's.
func pair(script string) files {
	return files{"lab.conf": "a[0]=A\nb[0]=A\n", "a.startup": script}
}

func mustUp(t *testing.T, topo *Topology, opts Options) *Lab {
	t.Helper()
	opts.ScriptTimeout = nstest.Patience
	l, err := Up(t.Context(), topo, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// output runs a command in a machine and returns what it printed.
func output(t *testing.T, l *Lab, machine string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nstest.Patience)
	defer cancel()
	b, err := l.Command(ctx, machine, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", machine, strings.Join(argv, " "), err, b)
	}
	return strings.TrimSpace(string(b))
}

// wantGone fails if anything of the lab is left.
func wantGone(t *testing.T, name string) {
	t.Helper()
	if left, _ := filepath.Glob(netnsPath(name) + "[-.]*"); len(left) > 0 {
		t.Errorf("namespaces left: %v", left)
	}
	if left, _ := os.ReadDir(stateDir()); len(left) > 0 {
		t.Errorf("files left in the state directory: %v", left)
	}
}

// alive reports whether the process runs.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// helperUp starts the lab folder args[0] under the name args[1].
func helperUp(args []string) error {
	topo, err := Parse(os.DirFS(args[0]))
	if err != nil {
		return err
	}
	_, err = Up(context.Background(), topo, Options{Name: args[1]})
	return err
}

// helperExec is "radar lab exec".
func helperExec(args []string) error {
	l, err := Get(args[0])
	if err != nil {
		return err
	}
	return l.Exec(args[1], args[2:])
}

// helperVisit stays in a namespace with its main thread, the others outside.
func helperVisit(args []string) error {
	ns, err := netns.GetFromPath(args[0])
	if err != nil {
		return err
	}
	if err := netns.Set(ns); err != nil {
		return err
	}
	if err := os.WriteFile(args[1], nil, 0o600); err != nil {
		return err
	}
	time.Sleep(10 * time.Minute)
	return nil
}
