// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// inOrder sorts lines.
func inOrder(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Packets of reports that are recorded answer every question as those that the collector keeps.
func TestCollectRecord(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := clitest.Radar(t, "collect", "--all", "-r", clitest.ReportsFile(t), "--node", "1=leaf1,2=spine2", "--record", dir)
	if code != kit.ExitOK || !strings.Contains(stderr, " packets recorded in "+dir) {
		t.Fatalf("code %d, %s", code, stderr)
	}
	for _, args := range []string{
		"packets --last 0", "packets --last 0 --node spine2", "packets --last 0 --state lost", "packets --sort latency", "paths", "latency",
		"latency --by flow", "loss", "loss --by flow", "flows --top 0", "throughput --series",
	} {
		for _, format := range []string{"json", "table", "csv"} {
			live, _, _ := clitest.Radar(t, append(strings.Fields(args), "-o", format)...)
			recorded, stderr, code := clitest.Radar(t, append(strings.Fields(args), "-o", format, "-r", dir)...)
			if strings.HasPrefix(args, "packets") { // a collector's come in the order in which they were waited for
				live, recorded = inOrder(live), inOrder(recorded)
			}
			if code != kit.ExitOK || live == "" || recorded != live {
				t.Errorf("radar %s -o %s: code %d %s, %d bytes, live %d bytes", args, format, code, stderr, len(recorded), len(live))
			}
		}
	}
}
