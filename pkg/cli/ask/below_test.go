// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// onTerminal is what a user sees of a command, in order.
func onTerminal(w *clitest.World, args ...string) string {
	w.Helper()
	var seen clitest.Growing
	if code := clitest.Run(w.Context(), args, strings.NewReader(""), &seen, &seen); code != kit.ExitOK {
		w.Fatalf("radar %v: code %d\n%s", args, code, seen.String())
	}
	return seen.String()
}

// Notes stand below the rows. Where there are no rows, there is no title: a note says why.
func TestNotesBelowRows(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(2)
	w.Settled(4)
	for args, want := range map[string]string{
		"packets --dst 192.0.2.1":         "no packet matches",
		"paths --dst 192.0.2.1":           "no packet matches",
		"latency --dst 192.0.2.1":         "no packet matches",
		"flows --dst 192.0.2.1":           "no packet matches",
		"loss --dst 192.0.2.1":            "no packet matches",
		"loss --by flow --dst 192.0.2.1":  "no packet matches",
		"loss":                            "nothing was lost on the way of 4 packets",
		"loss --series":                   "nothing was lost on the way of 4 packets",
		"loss --by flow --dst 10.0.2.2":   "nothing was lost on the way of 2 packets",
		"loss --after-delivery":           "nothing was dropped after delivery of 4 packets",
		"loss --after-delivery --by flow": "nothing was dropped after delivery of 4 packets",
		"loss --after-delivery --series":  "nothing was dropped after delivery of 4 packets",
		"latency --by queue":              "none of 4 packets was seen to wait in a port's queue",
	} {
		stdout, stderr, code := clitest.Radar(t, strings.Fields(args)...)
		if code != kit.ExitOK || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("radar %s: code %d, stdout %q, stderr %q, want nothing but %q", args, code, stdout, stderr, want)
		}
	}
	if out := onTerminal(w, "loss", "-o", "csv"); !strings.HasPrefix(out, "node,") {
		t.Errorf("CSV without a title: %q", out)
	}

	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 1004 drop")
	w.UDPTo("10.0.2.2", 1004)
	w.UDP() // nobody listens
	w.Ended(1, "--dport", "1004")
	w.Ended(1, "--dport", "9")
	w.Await([]string{"loss", "--after-delivery"}, "nobody listens")
	for args, order := range map[string][2]string{
		"loss":           {"firewall rule", "besides, after delivery 1 packet was dropped"},
		"loss --by flow": {"firewall rule", "besides, after delivery 1 packet was dropped"},
		"flows --top 1":  {"FLOW", "more flows (--top 0 shows all)"},
	} {
		out := onTerminal(w, strings.Fields(args)...)
		rows, note := strings.Index(out, order[0]), strings.Index(out, order[1])
		if rows < 0 || note < rows {
			t.Errorf("radar %s: want %q, and below it %q:\n%s", args, order[0], order[1], out)
		}
	}
	if out := w.Says([]string{"latency", "--dport", "1004"}, "none of 1 packet has arrived"); strings.Contains(out, "P50") {
		t.Errorf("a title without rows:\n%s", out)
	}
	w.Kill()
	for _, args := range []string{"status", "paths", "packets"} {
		out := onTerminal(w, strings.Fields(args)...)
		if rows, note := strings.Index(out, "PACKET"), strings.Index(out, "no agent runs"); rows < 0 || note < rows {
			t.Errorf("radar %s: want the note below the rows:\n%s", args, out)
		}
	}
}

// On a terminal each answer of -f takes the place of the one before, with its notes.
func TestNotesOfFollow(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(2)
	w.Settled(4)
	terminal, seen := clitest.WatchTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int)
	go func() {
		done <- clitest.Run(ctx, []string{"loss", "-f", "--interval", "50ms"}, strings.NewReader(""), terminal, terminal)
	}()
	nstest.WaitFor(t, "three answers", func() bool { return strings.Count(seen.String(), "\x1b[H\x1b[2J") > 3 })
	cancel()
	if code := <-done; code != kit.ExitOK {
		t.Errorf("code %d", code)
	}
	for i, screen := range strings.Split(seen.String(), "\x1b[H\x1b[2J")[1:3] {
		if rows, note := strings.Index(screen, "PACKETS"), strings.Index(screen, "nothing was lost on the way of 4 packets"); rows < 0 || note < rows {
			t.Errorf("answer %d has no note below its rows:\n%s", i, screen)
		}
	}
}
