// SPDX-License-Identifier: Apache-2.0

// Package e2e measures real containers, of Docker and of Kathará, by their names,
// and holds the result to captures and to what the senders sent.
//
// The tests need root, a Docker engine (one that runs, or dockerd to start one),
// and tcpdump, ip, ethtool and iptables; those of Kathará also what ../setup.sh
// needs. Without they fail. RADAR_BIN names the binary to test; without it one is
// built.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/nodes/dockertest"
)

// radarBin is the binary under test.
var radarBin = os.Getenv("RADAR_BIN")

func TestMain(m *testing.M) {
	if err := checkTools(); err != nil {
		fmt.Fprintf(os.Stderr, "lab/kathara/e2e: %v\n", err)
		os.Exit(1)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "radar-kathara-")
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab/kathara/e2e: make a directory for the binary: %v\n", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if radarBin == "" {
		radarBin = filepath.Join(dir, "radar")
		cmd := exec.Command("go", "build", "-o", radarBin, "./cmd/radar")
		cmd.Dir = filepath.Join("..", "..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "lab/kathara/e2e: build radar: %v\n%s", err, out)
			return 1
		}
	}
	return dockertest.Main(m)
}

func checkTools() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root, to use network namespaces and to load BPF programs")
	}
	var missing []string
	for _, tool := range []string{"docker", "tcpdump", "ip", "ethtool", "iptables", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("needs %s: run make kathara, which installs what is missing", strings.Join(missing, ", "))
	}
	return nil
}
