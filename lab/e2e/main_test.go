// SPDX-License-Identifier: Apache-2.0

// Package e2e holds radar to the truth: it sends real traffic through labs,
// captures it on every link with tcpdump, at netfilter hooks and at raw sockets,
// drives radar as a user does, and lets package oracle compare packet by packet.
//
// The tests need root, python3, tcpdump, iperf3, ping, nft, tc, ip, ethtool, bpftool and docker; without
// them they fail. RADAR_BIN names the binary to test; without it one is built.
// RADAR_E2E_JSON names a file that gets all tables as JSON. RADAR_SOAK=1 tries every fault many times over. RADAR_GAP is the
// time between packets of flows at full rate: under the race detector radar is some ten times
// as slow, and would be starved. RADAR_ENDURE: see TestEndure.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/nodes/dockertest"
	"github.com/vnetradar/radar/pkg/oracle"
)

// radarBin is the binary under test.
var radarBin = os.Getenv("RADAR_BIN")

func TestMain(m *testing.M) {
	if err := checkTools(); err != nil {
		fmt.Fprintf(os.Stderr, "lab/e2e: %v\n", err)
		os.Exit(1)
	}
	if gap := os.Getenv("RADAR_GAP"); gap != "" && fullRateGap() == 0 {
		fmt.Fprintf(os.Stderr, "lab/e2e: RADAR_GAP=%q: say a time, as 200us\n", gap)
		os.Exit(1)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "radar-e2e-")
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab/e2e: make a directory for the binary: %v\n", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if radarBin == "" {
		radarBin = filepath.Join(dir, "radar")
		if err := buildRadar(radarBin); err != nil {
			fmt.Fprintf(os.Stderr, "lab/e2e: %v\n", err)
			return 1
		}
	}
	code := dockertest.Main(m)
	if err := writeReports(); err != nil {
		fmt.Fprintf(os.Stderr, "lab/e2e: %v\n", err)
		return 1
	}
	return code
}

func buildRadar(to string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", to}, flags...), "./cmd/radar")...)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build radar: %w\n%s", err, out)
	}
	return nil
}

func checkTools() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root, to make network namespaces and to load BPF programs")
	}
	var missing []string
	for _, tool := range []string{"go", "python3", "tcpdump", "iperf3", "ping", "nft", "tc", "ip", "ethtool", "bpftool", "docker"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("needs %s: install the packages python3, tcpdump, iperf3, iputils-ping, nftables, iproute2, ethtool, bpftool, docker.io",
			strings.Join(missing, ", "))
	}
	return nil
}

// kept is the report of a round, and the test it is of.
type kept struct {
	Test string `json:"test"`
	*oracle.Report
	Table string `json:"table"` // the report as it is printed
}

// reports of all rounds that counted, in order.
var reports struct {
	sync.Mutex
	list []kept
}

// keepReport prints a report and keeps it.
func keepReport(t *testing.T, r *oracle.Report) {
	t.Helper()
	var table bytes.Buffer
	if err := r.Write(&table); err != nil {
		t.Fatal(err)
	}
	reports.Lock()
	defer reports.Unlock()
	reports.list = append(reports.list, kept{t.Name(), r, table.String()})
	fmt.Println(table.String())
}

func writeReports() error {
	path := os.Getenv("RADAR_E2E_JSON")
	if path == "" {
		return nil
	}
	out := struct {
		Time   time.Time `json:"time"`
		Kernel string    `json:"kernel"`
		CPUs   int       `json:"cpus"`
		Rounds []kept    `json:"rounds"`
	}{time.Now().UTC(), kernel(), runtime.NumCPU(), reports.list}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// fullRateGap is between packets of flows at full rate: none, or what RADAR_GAP says.
func fullRateGap() time.Duration {
	gap, err := time.ParseDuration(os.Getenv("RADAR_GAP"))
	if err != nil {
		return 0
	}
	return gap
}

// deadline bounds everything that one test starts.
func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
