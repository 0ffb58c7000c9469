// SPDX-License-Identifier: Apache-2.0

// Package e2e compares radar with what really happens: it sends real traffic through
// labs, captures it on every link with tcpdump, at netfilter hooks and at raw sockets,
// drives radar as a user does, and lets package oracle compare packet by packet.
//
// A test asks for what it needs (root, tools, docker: package need) and for its tier: the
// tier "test" runs one of each kind, "nightly" all, and only "nightly" checks times.
//
// RADAR_BIN names the binary to test; without it one is built when a test wants it.
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
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

func TestMain(m *testing.M) {
	if gap := os.Getenv("RADAR_GAP"); gap != "" {
		if d, err := time.ParseDuration(gap); err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "lab/test/e2e: RADAR_GAP=%q: say a time, as 200us\n", gap)
			os.Exit(1)
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	code := dockertest.Main(m)
	radarbin.Remove()
	if err := writeReports(); err != nil {
		fmt.Fprintf(os.Stderr, "lab/test/e2e: %v\n", err)
		return 1
	}
	return code
}

// needNetwork ends a test on a machine that cannot run networks with traffic in them.
func needNetwork(t testing.TB) {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "nft:nftables", "ping:iputils-ping", "iperf3", "tcpdump", "ethtool", "sysctl:procps", "nsenter:util-linux")
}

// sideBySide lets a test run beside others, most of which wait, where no times are checked.
func sideBySide(t *testing.T) {
	t.Helper()
	if !need.IsNightly(t) {
		t.Parallel()
	}
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

// testGap is between packets of flows at full rate in the tier "test", whose packages share
// the machine.
const testGap = 100 * time.Microsecond

// fullRateGap is between packets of flows at full rate: none, or what RADAR_GAP says.
func fullRateGap(t testing.TB) time.Duration {
	t.Helper()
	if gap, err := time.ParseDuration(os.Getenv("RADAR_GAP")); err == nil {
		return gap
	}
	if !need.IsNightly(t) {
		return testGap
	}
	return 0
}

// lifetime ends with the test, and before go test ends all of them (-timeout): what hangs
// must not leave anything behind.
func lifetime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if end, ok := t.Deadline(); ok {
		ctx, cancel = context.WithDeadline(context.Background(), end.Add(-time.Minute))
	}
	t.Cleanup(cancel)
	return ctx
}
