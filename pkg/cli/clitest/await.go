// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// Await starts a command and waits until it says something on standard error.
func Await(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); said.Close() })
	nstest.WaitFor(t, fmt.Sprintf("%v to say %q", cmd.Args, want), func() bool {
		b, err := os.ReadFile(said.Name())
		return err == nil && strings.Contains(string(b), want)
	})
}

// Interrupt ends a command as Ctrl-C does, and waits for it. It must end without an error.
func Interrupt(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", cmd.Args, err)
	}
}

// Lines are what a command prints as JSON, one object each.
func Lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for dec := json.NewDecoder(strings.NewReader(text)); dec.More(); {
		var one map[string]any
		if err := dec.Decode(&one); err != nil {
			t.Fatal(err)
		}
		list = append(list, one)
	}
	return list
}
