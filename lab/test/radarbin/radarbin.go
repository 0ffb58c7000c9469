// SPDX-License-Identifier: Apache-2.0

// Package radarbin has the radar binary that tests drive as a user does: the one that RADAR_BIN
// names, or else one that is built when a test first wants it.
package radarbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

var built struct {
	sync.Mutex
	dir string // "": none was built
	err error
}

// Path returns the binary under test. The tier "check" has none, since building takes long: the
// test is skipped there. A TestMain calls Remove at its end.
func Path(t testing.TB) string {
	t.Helper()
	need.Radar(t)
	if path := os.Getenv("RADAR_BIN"); path != "" {
		return path
	}
	if need.IsCheck(t) {
		t.Skip("needs the radar binary: make test runs it")
	}
	need.Programs(t, "go:golang")
	built.Lock()
	defer built.Unlock()
	if built.dir == "" && built.err == nil {
		if built.dir, built.err = os.MkdirTemp("", "radar-test-"); built.err == nil {
			built.err = Build(filepath.Join(built.dir, "radar"))
		}
	}
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "radar")
}

// Build writes a radar binary to the path to, with more flags of go build.
func Build(to string, flags ...string) error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("build radar: go env GOMOD: %w", err)
	}
	cmd := exec.Command("go", append(append([]string{"build", "-o", to}, flags...), "./cmd/radar")...)
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(mod)))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build radar: %w\n%s", err, out)
	}
	return nil
}

// Remove deletes what Path built, if it did.
func Remove() {
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		os.RemoveAll(built.dir)
		built.dir = ""
	}
}

// Main is TestMain of a package that needs no more than the binary: it runs the tests and removes what Path built.
func Main(m *testing.M) {
	code := m.Run()
	Remove()
	os.Exit(code)
}
