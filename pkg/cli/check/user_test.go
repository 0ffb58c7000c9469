// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// TestOtherUser: a user who has all the capabilities, and may not make the directories that radar needs, is told so: an
// attach would fail for him. Root is not.
func TestOtherUser(t *testing.T) {
	need.AsRoot(t)
	if err := hook.Mount(); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Chmod(filepath.Dir(state), 0o755); err != nil {
		t.Fatal(err)
	}
	var caps []uintptr
	for _, c := range kernel.Capabilities {
		caps = append(caps, uintptr(c.Bit))
	}
	for uid, want := range map[uint32]string{0: "", 65534: "fail"} {
		cmd := exec.Command(background.SelfPath, "check")
		cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1", "RADAR_STATE_DIR="+state)
		if uid != 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, AmbientCaps: caps}
		}
		out, _ := cmd.CombinedOutput()
		for _, name := range []string{"bpffs", "state"} {
			for line := range strings.Lines(string(out)) {
				if f := strings.Fields(line); len(f) > 1 && f[1] == name && (f[0] == "fail") != (want == "fail") {
					t.Errorf("user %d: %s", uid, out)
				}
			}
		}
		if strings.Contains(string(out), "fail ") != (want == "fail") || want == "fail" && cmd.ProcessState.ExitCode() != kit.ExitKernel {
			t.Errorf("user %d: exit code %d\n%s", uid, cmd.ProcessState.ExitCode(), out)
		}
	}
}
