// SPDX-License-Identifier: Apache-2.0

// Package child starts programs for the length of a test.
package child

import (
	"os/exec"
	"testing"
)

// Start starts a command, which is killed when the test ends, and waits until it says something.
func Start(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = out.Read(make([]byte, 1))
	return err
}

// Shell starts a shell that runs a script and then sleeps, and returns its process ID when the
// script is done.
func Shell(t testing.TB, script string) (pid int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script+"; echo; exec sleep 3600")
	if err := Start(t, cmd); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
