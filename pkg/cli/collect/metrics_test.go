// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestMetrics: of reports that say what the last one said none is kept, but those of drops are;
// metrics count them all.
func TestMetrics(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if _, stderr, code := clitest.Radar(t, "int", "metrics"); code != kit.ExitFailure || !strings.Contains(stderr, "no reports (radar collect)") {
		t.Errorf("without reports: code %d, %s", code, stderr)
	}
	stack, drop := clitest.FrameBytes(t, "intcollector-e2e-p0"), clitest.FrameBytes(t, "p4studio-switch-v2-drop")
	file := clitest.Capture(t, false, layers.LinkTypeEthernet, stack, stack, stack, drop, drop)
	stdout, stderr, code := clitest.Radar(t, "collect", "-r", file, "--node", "6=leaf6", "--show", "events")
	if code != kit.ExitOK || !strings.Contains(stderr, "5 reports, 4 of them without an event; 3 packets kept") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if n := strings.Count(stdout, "\n"); n != 1+11 || !strings.Contains(stdout, "hop_latency            4ns       new  10.0.0.1:5000 > 10.0.0.2:5000 udp at leaf6\n") {
		t.Errorf("%d lines:\n%s", n, stdout)
	}
	stdout, stderr, _ = clitest.Radar(t, "packets", "-o", "json")
	if strings.Count(stdout, "\n") != 3 || strings.Count(stdout, `"state":"lost"`) != 2 || !strings.Contains(stderr, "4 reports without an event") {
		t.Errorf("packets: %s%s", stdout, stderr)
	}
	for _, c := range []struct {
		args string
		rows int
		want string
	}{
		{"", 1 + 11, "flow_latency      408ns     408ns        3  2026-11-18"},
		{"--node leaf6 -o csv", 1 + 4, "flow_path,10.0.0.1,10.0.0.2,udp,5000,5000,,,,,,,,,\"[\"\"leaf6\"\",\"\"int-5\"\",\"\"int-4\"\"]\",3,"},
		{"--metric queue_occupancy,link_utilization --node int-4", 1 + 2, "queue_occupancy     600       600        3"},
		{"--metric hop_latency -o json", 3, `"node":"leaf6","node_id":6,"value":4,"reported":4,"reports":3,`},
		{"--node nobody", 1, "OF"},
	} {
		stdout, stderr, code := clitest.Radar(t, append([]string{"int", "metrics"}, strings.Fields(c.args)...)...)
		if code != kit.ExitOK || strings.Count(stdout, "\n") != c.rows || !strings.Contains(stdout, c.want) {
			t.Errorf("%q: code %d, want %d lines with %q:\n%s%s", c.args, code, c.rows, c.want, stdout, stderr)
		}
	}
	if _, stderr, code := clitest.Radar(t, "int", "metrics", "--metric", "latency"); code != kit.ExitUsage || !strings.Contains(stderr, `no metric "latency"`) {
		t.Errorf("code %d, %s", code, stderr)
	}
	// Thresholds: every change of the last node's latency, 400 and 401.
	next := append([]byte(nil), stack...)
	if i := strings.Index(string(next), "\x00\x00\x01\x90"); i < 0 {
		t.Fatal("no latency of 400 in the frame")
	} else {
		next[i+3]++
	}
	file = clitest.Capture(t, false, layers.LinkTypeEthernet, stack, next)
	for thresholds, events := range map[string]int{"": 11, "hop_latency=0": 12, "all=0.1%": 13, "hop_latency=1ns,flow_latency=1us": 11, "hop_latency=0,flow_latency=0": 13} {
		args := []string{"collect", "-r", file, "--show", "events", "-o", "json"}
		if thresholds != "" {
			args = append(args, "--threshold", thresholds)
		}
		stdout, stderr, code := clitest.Radar(t, args...)
		if n := strings.Count(stdout, "\n"); code != kit.ExitOK || n != events {
			t.Errorf("--threshold %s: code %d, %d events, want %d\n%s%s", thresholds, code, n, events, stdout, stderr)
		}
	}
}
