// SPDX-License-Identifier: Apache-2.0

// Package e2e measures real containers, of Docker and of Kathará, by their names,
// and holds the result to captures and to what the senders sent.
//
// The tests need root, a Docker engine (one that runs, or dockerd to start one),
// and tcpdump, ip, ethtool and iptables; those of Kathará also what ../setup.sh
// needs. RADAR_BIN names the binary to test; without it one is built.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/nodes/dockertest"
)

func TestMain(m *testing.M) {
	code := dockertest.Main(m)
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// engine is a Docker engine, for a test whose other needs are met.
func engine(t *testing.T) *dockertest.Engine {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "tcpdump", "ip:iproute2", "ethtool", "iptables", "nsenter:util-linux", "sysctl:procps")
	return dockertest.New(t)
}

// built is the binary of a run that was given none.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// radarBin is the binary under test: RADAR_BIN, or else one that is built.
func radarBin(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("RADAR_BIN"); path != "" {
		return path
	}
	need.Programs(t, "go:golang")
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "radar-kathara-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(built.dir, "radar"), "./cmd/radar")
		cmd.Dir = filepath.Join("..", "..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build radar: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "radar")
}
