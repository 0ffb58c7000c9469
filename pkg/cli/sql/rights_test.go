// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package sql_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
)

// TestFilesOfOthers: of a recording that is not this user's SQL names the folder, and speaks of no capability.
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
	const nobody = 65534
	cmd := exec.Command(background.SelfPath, "sql", "-c", "x", "-r", closed)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	exit, _ := errors.AsType[*exec.ExitError](err)
	if text := string(out); exit == nil || exit.ExitCode() != kit.ExitFailure || strings.Contains(text, "CAP_") || !strings.Contains(text, closed) || !strings.Contains(text, "permission denied") {
		t.Errorf("radar sql: %v, want exit code %d, and no capability\n%s", err, kit.ExitFailure, out)
	}
}
