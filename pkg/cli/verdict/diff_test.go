// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/radarbin"
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

// sentPackets sends twice, and returns the records of what was sent.
func sentPackets(w *clitest.World) []record.Record {
	w.Helper()
	selected := []string{"--proto", "udp", "--dst", "10.0.0.2"}
	for range 2 {
		w.In("h1", "python3", "-c", sendPaced, "10.0.0.2")
	}
	w.Ended(sent, selected...)
	all := w.Packets(append(selected, "--last", "0", "--state", "delivered,lost")...)
	if len(all) != sent {
		w.Fatalf("%d records of %d packets: %+v", len(all), sent, w.Status().Totals)
	}
	return all
}

const (
	sent  = 2400
	block = 25 // packets that go to the same run
)

// writeRun writes records into a file, as "radar packets" prints them.
func writeRun(w *clitest.World, path string, list []record.Record) {
	w.Helper()
	var text bytes.Buffer
	for i := range list {
		if err := kit.PrintJSON(&text, list[i].JSON()); err != nil {
			w.Fatal(err)
		}
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		w.Fatal(err)
	}
}

// halves makes two equal runs of one: its blocks go to either in turn. Two runs one after the other are not equal where
// the load of the machine changes.
func halves(all []record.Record) (runs [2][]record.Record) {
	for i := range all {
		run := &runs[i/block%2]
		*run = append(*run, all[i])
	}
	return runs
}

// slowed are the same packets, but each was longer in f than any of them, and 5 ms on top, and how much longer. Whatever
// the machine did to them, each is then slower than all were before.
func slowed(w *clitest.World, all []record.Record) (list []record.Record, more int64) {
	w.Helper()
	for i := range all {
		if all[i].LatencyNs != nil {
			more = max(more, *all[i].LatencyNs)
		}
	}
	more += 5e6
	later := func(ns *int64) *int64 {
		if ns == nil {
			return nil
		}
		sum := *ns + more
		return &sum
	}
	for _, r := range all {
		r.LatencyNs, r.Hops = later(r.LatencyNs), slices.Clone(r.Hops)
		for i := range r.Hops {
			if h := &r.Hops[i]; h.Node == "f" {
				h.NodeNs = later(h.NodeNs)
			}
		}
		list = append(list, r)
	}
	return list, more
}

// rare is the chance of a false alarm that a test of packets of this machine asks for: the default of one in a hundred
// would make one in a hundred of its runs red. That alarms are no more than was asked for is shown with known packets
// (pkg/answer/compare).
const rare = 1e-6

// diffOf is what "radar diff" says of two runs.
func diffOf(w *clitest.World, a, b string) (r compare.Report) {
	w.Helper()
	out := w.Radar(kit.ExitOK, "diff", a, b, "--least-time", "2ms", "--alpha", fmt.Sprint(rare), "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return r
}

// TestDiff: more time in a node is the first thing that is told, and nothing that is as it was. Two equal runs do not
// differ, however their packets are mixed.
func TestDiff(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(radarbin.Path(t))+":"+os.Getenv("PATH"))
	// f forwards in user space with a delay: not every kernel has netem.
	w := clitest.NewWorldOf(t, "forwarder", map[string]string{"DELAY": "constant:5ms"})
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Listen("h2", 9000)
	dir := t.TempDir()
	before, again, slower := filepath.Join(dir, "before.json"), filepath.Join(dir, "again.json"), filepath.Join(dir, "slower.json")
	all := sentPackets(w)
	runs := halves(all)
	writeRun(w, before, runs[0])
	writeRun(w, again, runs[1])
	if r := diffOf(w, before, again); r.Different || r.Comparisons < 5 {
		t.Errorf("equal runs differ: %+v", r)
	}
	w.Radar(kit.ExitOK, "diff", "--exit-code", "--least-time", "2ms", "--alpha", fmt.Sprint(rare), before, again)
	w.Radar(kit.ExitOK, "diff", "--exit-code", w.Domain, w.Domain)
	mixed(t, all)
	testWrongRuns(w, before)
	list, more := slowed(w, runs[0])
	writeRun(w, slower, list)
	testSlower(w, before, slower, float64(more))
	late, _ := slowed(w, all)
	lateRuns := halves(late)
	late1, late2 := filepath.Join(dir, "late1.json"), filepath.Join(dir, "late2.json")
	writeRun(w, late1, lateRuns[0])
	writeRun(w, late2, lateRuns[1])
	if out := w.Radar(kit.ExitOK, "diff", "--alpha", "0.99", before, again, "--", late1, late2); !strings.Contains(out, "before  2 runs (") || !strings.Contains(out, "node f: p50 from ") {
		w.Errorf("diff of two groups says\n%s", out)
	}
}

func testSlower(w *clitest.World, before, slower string, more float64) {
	r := diffOf(w, before, slower)
	if !r.Different || r.Changes[0].What != "node f" || r.Changes[0].Kind != "latency" {
		w.Fatalf("%v ns more in f: %+v", more, r)
	}
	i := slices.IndexFunc(r.Changes, func(c compare.Change) bool { return c.What == "node f" && c.Metric == "p50_ns" })
	if i < 0 {
		w.Fatalf("the median in f is as it was: %+v", r)
	}
	if c := r.Changes[i]; c.After-c.Before != more || *c.Low > more || *c.High < more {
		w.Errorf("the difference is %v ns (%v to %v), want %v", c.After-c.Before, *c.Low, *c.High, more)
	}
	for _, c := range r.Changes {
		if c.Kind != "latency" || strings.HasPrefix(c.What, "link ") {
			w.Errorf("this has not changed: %+v", c)
		}
	}
	out := w.Radar(kit.ExitFailure, "diff", "--exit-code", "--least-time", "2ms", before, slower)
	if !strings.Contains(out, "node f: p50 from ") {
		w.Errorf("diff says\n%s", out)
	}
}

// mixed makes two runs of blocks of packets that were drawn from the same ones, twenty times.
func mixed(t *testing.T, all []record.Record) {
	const resamples = 20 // each of which may alarm
	o := compare.DefaultOptions
	o.LeastTime, o.Alpha = 2e6, rare/resamples
	for seed := range uint64(resamples) {
		rng := rand.New(rand.NewPCG(seed, 2))
		runs := [2]*compare.Run{compare.NewRun("a"), compare.NewRun("b")}
		for i := 0; i < len(all); i += block {
			run := runs[rng.IntN(2)]
			for j := i; j < min(i+block, len(all)); j++ {
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
		{kit.ExitUsage, []string{good, "b", "c"}, "3 arguments: use RUN1 and RUN2, or write -- between two groups of runs"},
		{kit.ExitUsage, []string{good, "b", "--", "c"}, "a group of one run: write 2 at least before and after --"},
		{kit.ExitUsage, []string{good, "b", "--", good, "c"}, "is there twice: groups are of runs that were made anew"},
		{kit.ExitUsage, []string{good, good, "--alpha", "2"}, "--alpha 2: use a probability"},
	} {
		if out := w.Radar(c.code, append([]string{"diff"}, c.args...)...); !strings.Contains(out, c.want) {
			w.Errorf("radar diff %v: no %q in %s", c.args, c.want, out)
		}
	}
}
