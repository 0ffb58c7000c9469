// SPDX-License-Identifier: Apache-2.0

// Package clitest is what tests of commands share. They run the whole command line in-process, in
// namespaces of their own.
package clitest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// ExecEnv makes the test program be radar: for agents and foreground commands.
const ExecEnv = "RADAR_TEST_EXEC"

// Run runs one command line and returns its exit code (cli.Run). This package cannot name it:
// tests inside of a command's package import this one, and cli imports the command.
var Run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Main is TestMain of a package of commands.
func Main(m *testing.M, run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	if os.Getenv(ExecEnv) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	Run = run
	code := dockertest.Main(m)
	radarbin.Remove()
	os.Exit(code)
}

// Root is the folder of the tree, from wherever a test runs.
func Root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above this folder")
	return ""
}

// Radar runs one command line and returns what it printed and its exit code. The
// state directory is an empty one: no domain of this machine is ever touched.
func Radar(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	if os.Getenv("RADAR_STATE_DIR") == "" {
		t.Setenv("RADAR_STATE_DIR", t.TempDir())
	}
	var out, errs bytes.Buffer
	code = Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// Must runs a command line that has to succeed and returns its output.
func Must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := Radar(t, args...)
	if code != kit.ExitOK || stderr != "" {
		t.Fatalf("radar %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// Growing is what a command prints, which can be read meanwhile.
type Growing struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (g *Growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

// String is what came so far.
func (g *Growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}
