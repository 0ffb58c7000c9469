// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// busy makes traffic of many kinds in a chain h1 - r1 - h2: delivered, queued, lost in a queue and in a rule, dropped
// after delivery, of TCP with trains, and of fragments. It returns when all has ended.
func busy(w *clitest.World) {
	w.Helper()
	w.Ping(5)
	w.In("h1", "bash", "-c", "for i in $(seq 5); do echo x >/dev/udp/10.0.2.2/9999; done")
	w.UDP() // nobody listens
	w.In("h1", "ping", "-q", "-c", "2", "-i", "0.01", "-s", "4000", "10.0.2.2")
	w.TCP(200000)
	w.In("h1", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(200): s.sendto(b"x" * 1000, ("10.0.2.2", 7))`)
	// All have ended when nothing has changed for a while longer than a follower waits.
	last := ""
	for same := 0; same < 3; time.Sleep(time.Second) {
		t := w.Status().Totals
		now := fmt.Sprint(t.Delivered, t.Left, t.Lost, t.Expired, t.InFlight)
		if same++; now != last || t.InFlight > 0 {
			same = 0
		}
		last = now
	}
}

// questions are those that a recording must answer as the domain did.
func questions(w *clitest.World) [][]string {
	some := w.Packets("--last", "0")
	middle := some[len(some)/2]
	list := [][]string{
		{"packets"}, {"packets", "--last", "0"}, {"packets", "--last", "0", "--state", "lost"}, {"packets", "--last", "7"},
		{"packets", "--sort", "latency", "--top", "10"}, {"packets", "--last", "0", "icmp"}, {"packets", "--last", "0", "--dst", "h2", "--node", "r1"},
		{"packets", "--since", middle.Time}, {"packets", "--until", middle.Time},
		{"paths"}, {"paths", "--proto", "tcp"}, {"paths", "--last", "9"},
		{"latency"}, {"latency", "--by", "link"}, {"latency", "--by", "queue"}, {"latency", "--by", "path"}, {"latency", "--by", "end-to-end"},
		{"latency", "--by", "flow", "--top", "0"}, {"latency", "--series"}, {"latency", "--since", middle.Time},
		{"loss"}, {"loss", "--by", "flow"}, {"loss", "--after-delivery"}, {"loss", "--series"},
		{"flows", "--top", "0"}, {"flows", "--top", "0", "--src", "h1"}, {"flows", "--sort", "loss", "--top", "3"},
		{"throughput", "--by", "link"}, {"throughput", "--by", "flow"}, {"throughput", "--by", "port"}, {"throughput", "--series"},
		{"trace", "--last"}, {"trace", "--last=3", "--state", "lost"}, {"trace", "--slowest", "3"}, {"trace", middle.ID},
	}
	return list
}

// notNow takes out what is about the moment of the question.
var notNow = regexp.MustCompile(`"last_bps":\d+,?|"story":.*`)

// notAsked takes out of losses what only a node can say, and in how many columns that stands: how its queue is set, what
// its packet filter counts, and which of its rules can have dropped.
var notAsked = regexp.MustCompile(`,"(?:queue|netfilter)":\{[^}]*\}|,"causes":\[\{[^}]*\}\]|"\[\{""kind"".*?\}\]"|; ip t f \(hook forward\): rule of handle \d+|, or larger than its burst| +`)

const queueCSV = "tbf,20000000,3000" // the same in CSV

// asked are the answers in JSON, and as tables where they do not depend on the moment of the question.
func asked(w *clitest.World, args []string, more ...string) map[string]string {
	w.Helper()
	answers := make(map[string]string)
	for _, format := range []string{"json", "wide", "table", "csv"} {
		if args[0] == "throughput" && !strings.Contains(strings.Join(args, " "), "--series") && format != "json" || args[0] == "trace" && format == "csv" {
			continue
		}
		stdout, stderr, code := clitest.Radar(w.T, append(append(args, "-o", format), more...)...)
		if code != kit.ExitOK {
			w.Fatalf("radar %v -o %s %v: code %d: %s", args, format, more, code, stderr)
		}
		answers[format] = notNow.ReplaceAllString(stdout, "")
		if args[0] == "loss" {
			answers[format] = strings.ReplaceAll(notAsked.ReplaceAllString(answers[format], ""), queueCSV, ",,")
		}
	}
	return answers
}

// A recording answers every question as the domain did.
func TestSameAnswers(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run")
	w.In("r1", "nft", dropRule)
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "20mbit", "burst", "3000", "limit", "20000")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)...)
	w.Says([]string{"status"}, "recorder", dir)
	busy(w)
	all := questions(w)
	live := make([]map[string]string, len(all))
	for i, args := range all {
		live[i] = asked(w, args)
	}
	topo := w.Radar(kit.ExitOK, "topo", "-o", "json")
	w.Radar(kit.ExitOK, "detach")
	w.NothingLeft()
	for i, args := range all {
		for format, got := range asked(w, args, "-r", dir) {
			if want := live[i][format]; got != want {
				t.Errorf("radar %s -o %s differs: %s", strings.Join(args, " "), format, difference(got, want))
			}
			if live[i][format] == "" {
				t.Errorf("radar %s -o %s says nothing", strings.Join(args, " "), format)
			}
		}
	}
	if got := w.Radar(kit.ExitOK, "topo", "-o", "json", "-r", dir); got != topo {
		t.Errorf("radar topo differs: %s", difference(got, topo))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("no files in %s: %v", dir, err)
	}
	refusals(w, dir)
	damaged(w, dir)
}

// refusals: what a recording cannot do is said, and so is what it covers.
func refusals(w *clitest.World, dir string) {
	for want, args := range map[string][]string{
		"-f with --read: a recording has ended":                                                     {"packets", "-f", "-r", dir},
		"domain " + w.Domain + " has no such node (did you mean \"r1\"?), its nodes are h1, r1, h2": {"packets", "--node", "r2", "-r", dir},
	} {
		if out := w.Radar(kit.ExitUsage, args...); !strings.Contains(out, want) {
			w.Errorf("radar %v says %q, want %q", args, out, want)
		}
	}
	if out := w.Radar(kit.ExitOK, "flows", "--dport", "12345", "-r", dir); !strings.Contains(out, "no packet matches; the recording "+dir+" covers 20") {
		w.Errorf("an empty answer says %q", out)
	}
	if out := w.Radar(kit.ExitFailure, "packets", "-r", filepath.Join(dir, "none")); !strings.Contains(out, "no such file") {
		w.Errorf("a recording that is not there: %q", out)
	}
	if out := w.Radar(kit.ExitFailure, "packets"); !strings.Contains(out, "not attached") {
		w.Errorf("the domain: %q", out)
	}
	// Five minutes before the last packet are all packets, whenever one asks.
	if all, some := w.Packets("--last", "0", "-r", dir), w.Packets("--since", "5m", "-r", dir); len(all) != len(some) {
		w.Errorf("--since 5m: %d of %d packets", len(some), len(all))
	}
}

// damaged: an answer is without a segment that was changed, and says so with file and place.
func damaged(w *clitest.World, dir string) {
	path := filesOf(w, dir)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[len(changed)/2] ^= 1
	for what, text := range map[string][]byte{"a bit is flipped": changed, "the end is missing": whole[:len(whole)/2], "it is another file": []byte("PAR1 no segment PAR1")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			w.Fatal(err)
		}
		stdout, stderr, code := clitest.Radar(w.T, "packets", "--last", "0", "-o", "json", "-r", dir)
		if code != kit.ExitOK || !strings.Contains(stderr, "radar: warning: damaged, the answer is without it: "+path+": ") {
			w.Errorf("%s: code %d, %d bytes, %q", what, code, len(stdout), stderr)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		w.Fatal(err)
	}
}

// difference shows the first lines that differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d of %d\n\trecorded %s\n\tlive     %s", i+1, len(w), g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
