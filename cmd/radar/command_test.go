// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/vnetradar/radar/pkg/nodes/dockertest"
)

// execEnv makes the test program be radar: for agents and foreground commands.
const execEnv = "RADAR_TEST_EXEC"

func TestMain(m *testing.M) {
	if os.Getenv(execEnv) != "" {
		main()
	}
	os.Exit(dockertest.Main(m))
}

// radar runs one command line and returns what it printed and its exit code. The
// state directory is an empty one: no domain of this machine is ever touched.
func radar(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	if os.Getenv("RADAR_STATE_DIR") == "" {
		t.Setenv("RADAR_STATE_DIR", t.TempDir())
	}
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// mustRadar runs a command line that has to succeed and returns its output.
func mustRadar(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := radar(t, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("radar %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// growing is what a command prints, which can be read meanwhile.
type growing struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}
