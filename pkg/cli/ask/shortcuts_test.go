// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"encoding/csv"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// What is misspelled is guessed where it is near.
func TestDidYouMean(t *testing.T) {
	for args, want := range map[string]string{
		"packets --sinse 5m":                   `unknown flag: --sinse, did you mean "--since"?`,
		"packets --bogusbogus":                 "unknown flag: --bogusbogus\n",
		"packets --sort latency -f":            "--sort latency: packets that are shown as they end",
		"packets --top 3":                      "--top: only with --sort latency",
		"packets --long":                       "--long: only with -o csv",
		"packets --until 10m --since 5m":       "lies before",
		"packets --until tomorrow":             `--until "tomorrow": use a duration`,
		"trace --slowest 3 --last":             "--last beside --slowest",
		"trace --slowest 3 5f3a9c01-1":         "beside --slowest",
		"loss -f --fail-if-lost":               "--fail-if-lost",
		"packets --dst 10.0.0.0/99":            "--dst",
		"packets --domain nobody-here --dst h": `--dst "h"`,
	} {
		if stdout, stderr, code := clitest.Radar(t, strings.Fields(args)...); code != kit.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("radar %s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// --version is what everybody tries first.
func TestVersionFlag(t *testing.T) {
	t.Setenv("RADAR_VERSION", "1.2") // whatever an installer may set
	flag, _, code := clitest.Radar(t, "--version")
	command, _, _ := clitest.Radar(t, "version")
	if code != kit.ExitOK || flag != command || !regexp.MustCompile(`^radar \d+\.\d+\.\d+-dev `).MatchString(flag) {
		t.Errorf("code %d, %q; radar version says %q", code, flag, command)
	}
}

// What people ask for again and again has a short way.
func TestShortcuts(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	before := time.Now()
	w.PingMeasured(5)
	w.Settled(w.Status().Totals.Measured)

	// Names of nodes are their addresses.
	all, toH2 := w.Packets("--last", "0"), w.Packets("--dst", "h2", "--last", "0")
	if 2*len(toH2) != len(all) || toH2[0].Dst != "10.0.2.2" || len(w.Packets("--src", "h2", "--dst", "h2", "--last", "0")) != 0 {
		t.Errorf("%d packets, %d to h2: %+v", len(all), len(toH2), toH2[0])
	}
	if got := w.Packets("--dst", "h1,10.0.2.2", "--last", "0"); len(got) != len(all) {
		t.Errorf("%d packets to h1 or 10.0.2.2, want %d", len(got), len(all))
	}
	out := w.Radar(kit.ExitUsage, "packets", "--dst", "h3")
	if !strings.Contains(out, `--dst "h3": domain `) || !strings.Contains(out, "did you mean") || !strings.Contains(out, "its nodes are h1, ") {
		t.Errorf("it said %q", out)
	}

	// The slowest.
	slow := w.Packets("--sort", "latency", "--top", "3")
	if len(slow) != 3 || *slow[0].LatencyNs < *slow[1].LatencyNs || *slow[1].LatencyNs < *slow[2].LatencyNs {
		t.Fatalf("the slowest are %+v", slow)
	}
	for _, r := range all {
		if *r.LatencyNs > *slow[0].LatencyNs || *r.LatencyNs > *slow[2].LatencyNs && r.ID != slow[0].ID && r.ID != slow[1].ID {
			t.Errorf("packet %s took %d ns, and is not among the slowest", r.ID, *r.LatencyNs)
		}
	}
	told := w.Radar(kit.ExitOK, "trace", "--slowest", "2")
	if at := strings.Index(told, slow[0].ID); at < 0 || strings.Index(told, slow[1].ID) < at || strings.Contains(told, slow[2].ID) {
		t.Errorf("of %s and %s it tells\n%s", slow[0].ID, slow[1].ID, told)
	}

	// Times.
	stamp := before.UTC().Format(time.RFC3339Nano)
	if got := w.Packets("--until", stamp); len(got) != 0 {
		t.Errorf("%d packets before the first one", len(got))
	}
	middle := time.Unix(0, all[len(all)/2].TNs).UTC().Format(time.RFC3339Nano)
	if early, late := w.Packets("--until", middle), w.Packets("--since", middle); len(early) != len(all)/2 || len(early)+len(late) != len(all) {
		t.Errorf("%d packets before %s and %d after, of %d", len(early), middle, len(late), len(all))
	}
	w.Says([]string{"flows", "--until", stamp}, "no packet matches")

	// For spreadsheets.
	rows := csvRows(w, "packets", "--last", "0", "-o", "csv")
	if len(rows) != len(all)+1 || rows[0][0] != "path" || rows[1][0] != "h1 > r1 > h2" {
		t.Errorf("%d rows, %q", len(rows), rows[:2])
	}
	hops := csvRows(w, "packets", "--last", "0", "--long", "-o", "csv")
	if len(hops) != 3*len(all)+1 || !strings.Contains(strings.Join(hops[0], ","), "index,hop_node,") || hops[2][0] != all[0].ID {
		t.Errorf("%d rows of hops, want %d: %q", len(hops), 3*len(all)+1, hops[:3])
	}

	// For scripts.
	w.Radar(kit.ExitOK, "loss", "--fail-if-lost")
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 9 drop")
	w.UDP()
	nstest.WaitFor(t, "the loss", func() bool { return len(askedLosses(w)) == 1 })
	for _, args := range []string{"loss --fail-if-lost", "loss --fail-if-lost --by flow", "loss --fail-if-lost --dst h2 --since 10m"} {
		if out := w.Radar(kit.ExitLost, strings.Fields(args)...); !strings.Contains(out, "1 packet was lost") {
			t.Errorf("radar %s says\n%s", args, out)
		}
	}
	w.Radar(kit.ExitOK, "loss", "--fail-if-lost", "--dst", "h1")
}

// csvRows is what a command prints.
func csvRows(w *clitest.World, args ...string) [][]string {
	w.Helper()
	stdout, stderr, code := clitest.Radar(w.T, args...)
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || code != kit.ExitOK || len(rows) < 3 {
		w.Fatalf("radar %v: code %d, %v, %d rows\n%s", args, code, err, len(rows), stderr)
	}
	return rows
}
