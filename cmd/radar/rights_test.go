// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/nodes/dockertest"
)

// nobody is the user without any rights.
const nobody = 65534

// A user without rights learns from every command which capabilities are missing.
func TestUnprivileged(t *testing.T) {
	need.AsRoot(t)    // it becomes another user
	dockertest.New(t) // one that does not answer this user
	t.Setenv(execEnv, "1")
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
	for _, state := range []string{closed, readable, none} {
		t.Setenv("RADAR_STATE_DIR", state)
		for _, command := range []string{
			"attach netns:host", "attach pid:1", "attach --dry-run netns:host", "attach docker:web", "attach --docker", "attach --lab nolab",
			"status", "packets", "packets -f", "paths", "latency", "loss", "detach", "detach h1",
			"lab up chain", "lab down chain", "lab exec chain h1 true",
		} {
			if !strings.HasPrefix(command, "attach") && !strings.HasPrefix(command, "lab") && state != closed {
				continue // they say that nothing is attached, which is true
			}
			cmd := exec.Command(selfPath, strings.Fields(command)...)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out, err := cmd.CombinedOutput()
			exit, _ := errors.AsType[*exec.ExitError](err)
			if exit == nil || exit.ExitCode() != exitKernel {
				t.Errorf("radar %s, state in %s: %v, want exit code %d\n%s", command, state, err, exitKernel, out)
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
