// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/compare"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// sendPaced sends 1,200 datagrams to port 9000 of an address, one each 2 ms.
const sendPaced = `
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at = time.monotonic()
for i in range(1200):
    s.sendto(b"x" * 200, (sys.argv[1], 9000))
    at += 0.002
    time.sleep(max(0, at - time.monotonic()))`

// runOf sends, writes the records of what was sent into a file, and returns them. A machine that has no processor for
// the forwarder makes other runs than those that are wanted: they are made anew.
func runOf(w *clitest.World, path string, delay time.Duration) []record.Record {
	w.Helper()
	for range 20 {
		sent := uint64(1200)
		for _, f := range clitest.RowsOf[aggregate.FlowRow](w, "flows", "--proto", "udp", "--dst", "10.0.0.2") {
			sent += f.Packets
		}
		w.In("h1", "python3", "-c", sendPaced, "10.0.0.2")
		w.Ended(sent, "--proto", "udp", "--dst", "10.0.0.2")
		all := w.Packets("--last", "1200", "--proto", "udp", "--dst", "10.0.0.2", "--state", "delivered,lost")
		if !onTime(all, delay) {
			continue
		}
		var text bytes.Buffer
		for i := range all {
			if err := kit.PrintJSON(&text, all[i].JSON()); err != nil {
				w.Fatal(err)
			}
		}
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			w.Fatal(err)
		}
		return all
	}
	w.Fatalf("the forwarder is never on time")
	return nil
}

// onTime reports whether three of four packets were as long in f as they were to be.
func onTime(all []record.Record, delay time.Duration) bool {
	good := 0
	for _, r := range all {
		for _, h := range r.Hops {
			if h.Node == "f" && h.NodeNs != nil && time.Duration(*h.NodeNs) < delay+time.Millisecond {
				good++
			}
		}
	}
	return good > len(all)*3/4
}

// diffOf is what "radar diff" says of two runs.
func diffOf(w *clitest.World, a, b string) (r compare.Report) {
	w.Helper()
	out := w.Radar(kit.ExitOK, "diff", a, b, "--least-time", "2ms", "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return r
}

// delayedWorld is h1 - f - h2, where f forwards in user space with that delay: not every kernel has netem.
func delayedWorld(t *testing.T, delay string) *clitest.World {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(radarbin.Path(t))+":"+os.Getenv("PATH"))
	w := clitest.NewWorldOf(t, "forwarder", map[string]string{"DELAY": "constant:" + delay})
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Listen("h2", 9000)
	return w
}

// TestDiff: 5 ms more in a node is the first thing that is told, and nothing that is as it was. Two equal runs do
// not differ, however their packets are mixed.
func TestDiff(t *testing.T) {
	dir := t.TempDir()
	before, again, slower := filepath.Join(dir, "before.json"), filepath.Join(dir, "again.json"), filepath.Join(dir, "slower.json")
	t.Run("5ms", func(t *testing.T) {
		w := delayedWorld(t, "5ms")
		one, other := runOf(w, before, 5*time.Millisecond), runOf(w, again, 5*time.Millisecond)
		if r := diffOf(w, before, again); r.Different || r.Comparisons < 5 {
			t.Errorf("equal runs differ: %+v", r)
		}
		w.Radar(kit.ExitOK, "diff", "--exit-code", "--least-time", "2ms", before, again)
		w.Radar(kit.ExitOK, "diff", "--exit-code", w.Domain, w.Domain)
		mixed(t, slices.Concat(one, other))
		testWrongRuns(w, before)
	})
	t.Run("10ms", func(t *testing.T) {
		w := delayedWorld(t, "10ms")
		runOf(w, slower, 10*time.Millisecond)
		testSlower(w, before, slower)
	})
}

func testSlower(w *clitest.World, before, slower string) {
	r := diffOf(w, before, slower)
	if !r.Different || r.Changes[0].What != "node f" || r.Changes[0].Kind != "latency" {
		w.Fatalf("5 ms more in f: %+v", r)
	}
	i := slices.IndexFunc(r.Changes, func(c compare.Change) bool { return c.What == "node f" && c.Metric == "p50_ns" })
	if i < 0 {
		w.Fatalf("the median in f is as it was: %+v", r)
	}
	c := r.Changes[i]
	if d := c.After - c.Before; d < 4e6 || d > 6.5e6 || *c.Low > 5.5e6 || *c.High < 4.5e6 {
		w.Errorf("the difference is %v ns (%v to %v), want 5 ms", d, *c.Low, *c.High)
	}
	for _, c := range r.Changes {
		if c.Kind != "latency" && c.Kind != "rate" || strings.HasPrefix(c.What, "link ") { // a late sender has another rate
			w.Errorf("this has not changed: %+v", c)
		}
	}
	out := w.Radar(kit.ExitFailure, "diff", "--exit-code", "--least-time", "2ms", before, slower)
	if !strings.Contains(out, "node f: p50 from 5.") {
		w.Errorf("diff says\n%s", out)
	}
}

// mixed makes two runs of blocks of packets that were drawn from the same ones, twenty times.
func mixed(t *testing.T, all []record.Record) {
	o := compare.DefaultOptions
	o.LeastTime = 2e6
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		runs := [2]*compare.Run{compare.NewRun("a"), compare.NewRun("b")}
		for i := 0; i < len(all); i += 25 {
			run := runs[rng.IntN(2)]
			for j := i; j < min(i+25, len(all)); j++ {
				run.Add(&all[j])
			}
		}
		if r := compare.Compare(runs[0], runs[1], o); slices.ContainsFunc(r.Changes, func(c compare.Change) bool { return c.Kind != "rate" }) {
			t.Errorf("resample %d of equal runs differs: %+v", seed, r.Changes)
		}
	}
}

// testWrongRuns: what is no run is refused, with its place.
func testWrongRuns(w *clitest.World, good string) {
	bad := filepath.Join(w.TempDir(), "bad.json")
	text, err := os.ReadFile(good)
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(bad, append(text, "{\"v\":1}\nx\n"...), 0o600); err != nil {
		w.Fatal(err)
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{kit.ExitFailure, []string{good, bad}, "line 1201 is no record of version 1"},
		{kit.ExitFailure, []string{good, "nothing"}, "run nothing: "},
		{kit.ExitUsage, []string{good, "no/such/file"}, "there is no such recording or file"},
		{kit.ExitFailure, []string{good, "aftr"}, "run aftr: there is no such recording or file, and no domain of that name is attached"},
		{kit.ExitUsage, []string{good, good, "--dst", "10.0.0.2"}, "flags that select are for domains and recordings"},
		{kit.ExitUsage, []string{good}, "1 argument: use RUN1 and RUN2"},
		{kit.ExitUsage, []string{"-", "-"}, "standard input is one run only"},
		{kit.ExitUsage, []string{good, good, "--alpha", "2"}, "--alpha 2: use a probability"},
	} {
		if out := w.Radar(c.code, append([]string{"diff"}, c.args...)...); !strings.Contains(out, c.want) {
			w.Errorf("radar diff %v: no %q in %s", c.args, c.want, out)
		}
	}
}
