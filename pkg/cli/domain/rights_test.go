// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
)

// nobody is the user without any rights.
const nobody = 65534

// A user without rights learns from every command which capabilities are missing.
func TestUnprivileged(t *testing.T) {
	need.AsRoot(t)    // it becomes another user
	dockertest.New(t) // one that does not answer this user
	t.Setenv(clitest.ExecEnv, "1")
	closed := filepath.Join(t.TempDir(), "closed") // nobody may not look into it
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	readable := t.TempDir()
	for _, dir := range []string{readable, filepath.Dir(readable)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const none = "/nonexistent"
	link := filepath.Join(readable, "link")
	if err := os.Symlink(closed, link); err != nil {
		t.Fatal(err)
	}
	below := []string{filepath.Join(closed, "none", "state"), filepath.Join(link, "state")}
	for _, state := range append([]string{closed, readable, none}, below...) {
		t.Setenv("RADAR_STATE_DIR", state)
		for _, command := range []string{
			"attach netns:host", "attach pid:1", "attach --dry-run netns:host", "attach docker:web", "attach --docker", "attach --lab nolab",
			"status", "packets", "packets -f", "paths", "latency", "loss", "detach", "detach h1",
			"lab up chain", "lab down chain", "lab exec chain h1 true",
		} {
			if !strings.HasPrefix(command, "attach") && !strings.HasPrefix(command, "lab") && state != closed && !slices.Contains(below, state) {
				continue // they say that nothing is attached, which is true
			}
			cmd := exec.Command(background.SelfPath, strings.Fields(command)...)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out, err := cmd.CombinedOutput()
			exit, _ := errors.AsType[*exec.ExitError](err)
			if exit == nil || exit.ExitCode() != kit.ExitKernel {
				t.Errorf("radar %s, state in %s: %v, want exit code %d\n%s", command, state, err, kit.ExitKernel, out)
				continue
			}
			for _, want := range []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "root"} {
				if strings.Count(string(out), want) != 1 {
					t.Errorf("radar %s, state in %s: want %q once in\n%s", command, state, want, out)
				}
			}
		}
	}
}

// Of files that are not this user's no command speaks of capabilities, and it names the file that the user gave.
func TestFilesOfOthers(t *testing.T) {
	need.AsRoot(t) // it becomes another user
	t.Setenv(clitest.ExecEnv, "1")
	t.Setenv("RADAR_STATE_DIR", "/nonexistent")
	dir := t.TempDir()
	for _, open := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(dir, "run")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"packets -r " + closed, "plot latency -o x.svg -r " + closed, "lab export chain " + closed + "/lab", "collect --config " + closed + "/x.yaml",
		"collect -r " + closed + "/x.pcap",
	} {
		cmd := exec.Command(background.SelfPath, strings.Fields(command)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		exit, _ := errors.AsType[*exec.ExitError](err)
		if text := string(out); exit == nil || exit.ExitCode() != kit.ExitFailure || strings.Contains(text, "CAP_") || !strings.Contains(text, closed) || !strings.Contains(text, "permission denied") {
			t.Errorf("radar %s: %v, want exit code %d, and no capability\n%s", command, err, kit.ExitFailure, out)
		}
	}
}

// What README names is what it takes: root with these capabilities, and no other, can do all; and
// where one of those that are needed is missing, radar check fails.
func TestCapabilitiesOfREADME(t *testing.T) {
	need.Programs(t, "setpriv:util-linux")
	w := clitest.NewWorld(t)
	readme, err := os.ReadFile(filepath.Join(clitest.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, needs, _ := strings.Cut(string(readme), "\n## Needs\n")
	needs, _, _ = strings.Cut(needs, "\n## ")
	var names []string
	for _, name := range regexp.MustCompile(`\bCAP_[A-Z_]+\b`).FindAllString(needs, -1) {
		names = append(names, strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	self, err := os.Executable() // background.SelfPath would be setpriv
	if err != nil {
		t.Fatal(err)
	}
	// As root with those capabilities.
	run := func(caps []string, args ...string) (string, int) {
		set := "-all,+" + strings.Join(caps, ",+")
		cmd := exec.Command("setpriv", append([]string{"--bounding-set=" + set, "--inh-caps=" + set, self}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(names, "check"); code != kit.ExitOK || strings.Contains(out, "CAP_") {
		t.Errorf("with %v radar check: code %d\n%s", names, code, out)
	}
	for _, name := range []string{"sys_admin", "net_admin", "net_broadcast"} {
		less := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		if out, code := run(less, "check"); code == kit.ExitOK || len(less) != len(names)-1 || !strings.Contains(out, "CAP_"+strings.ToUpper(name)) {
			t.Errorf("with %v radar check: code %d\n%s", less, code, out)
		}
	}
	var nodes []string
	for _, m := range []string{"h1", "r1", "h2"} { // by process, as containers are
		sleep := w.Lab.Command(w.Context(), m, "sleep", "1000")
		if err := sleep.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = sleep.Process.Kill()
			_ = sleep.Wait()
		})
		nodes = append(nodes, fmt.Sprintf("%s=pid:%d", m, sleep.Process.Pid))
	}
	nstest.WaitFor(t, "radar attach with the capabilities of README", func() bool {
		out, code := run(names, append([]string{"attach", "-d"}, nodes...)...) // a process may not be in its namespace yet
		if code != kit.ExitOK {
			t.Log(out)
		}
		return code == kit.ExitOK
	})
	w.Ping(3)
	w.Await([]string{"paths"}, "h1 > r1 > h2")
	if out, code := run(names, "detach", "--no-drain"); code != kit.ExitOK {
		t.Errorf("detach: code %d\n%s", code, out)
	}
}
