// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/claim"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// dropRule makes r1 drop what goes to port 9999, and count it.
const dropRule = "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 9999 counter drop"

// burst sends packets that r1 drops.
func burst(w *clitest.World, n string) {
	w.Helper()
	w.In("h1", "bash", "-c", "for i in $(seq "+n+"); do echo x >/dev/udp/10.0.2.2/9999; done")
}

// recorderOf starts radar record, and waits until it says so.
func recorderOf(w *clitest.World, says string, args ...string) (cmd *exec.Cmd, said func() string) {
	w.Helper()
	path := filepath.Join(w.TempDir(), "said")
	cmd = exec.Command("/proc/self/exe", append([]string{"record"}, args...)...)
	clitest.Await(w.T, cmd, says)
	file, ok := cmd.Stderr.(*os.File)
	if !ok {
		w.Fatal(path)
	}
	return cmd, func() string {
		b, err := os.ReadFile(file.Name())
		if err != nil {
			w.Fatal(err)
		}
		return string(b)
	}
}

// cannotWrite wants that a flight recorder does not wait for what it could not keep: a lock that is there can be taken where
// nothing can be made.
func cannotWrite(w *clitest.World, dir string) {
	w.Helper()
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, statedir.LockFile), nil, 0o600)); err != nil {
		w.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		need.Lack(w.T, need.Tools, fmt.Sprintf("a file system with immutable directories for temporary files (%v)", err))
	}
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "/proc/self/exe", "record", "-w", dir, "--on", "path change").CombinedOutput()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0); err != nil {
		w.Fatal(err)
	}
	if text := string(out); !strings.Contains(text, "recording in "+dir+": ") || !strings.Contains(text, "not permitted") {
		w.Errorf("a directory that cannot be written: %q", out)
	}
}

// triggers are the events that say what was met.
func triggers(w *clitest.World, dir string) (list []segments.Event) {
	w.Helper()
	d, err := segments.Open(dir)
	if err != nil {
		w.Fatal(err)
	}
	defer d.Close()
	if err := d.Events(context.Background(), func(e segments.Event) error {
		if e.Kind == recording.EventTrigger {
			list = append(list, e)
		}
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	return list
}

// A flight recorder keeps nothing until its condition is met, and then the packets of before and after: those that the
// ring has of that time, each once. A second burst in the time after makes the same recording longer.
func TestFlightRecorder(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", dropRule)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	dir := filepath.Join(t.TempDir(), "flight")
	const before, after = 2 * time.Second, time.Second
	cmd, said := recorderOf(w, "waiting for: loss > 10 in 1s; loss.h2 > 0 in 1s", "-w", dir,
		"--on", "loss > 10 in 1s", "--on", "loss.h2 > 0 in 1s", "--before", before.String(), "--after", after.String())
	w.Ping(30)
	time.Sleep(before + 500*time.Millisecond) // these come too early
	w.Ping(20)
	burst(w, "8") // not enough
	time.Sleep(before + 500*time.Millisecond)
	if files := filesOf(w, dir); len(files) > 0 {
		t.Fatalf("there are files before anything has happened: %v\n%s", files, said())
	}
	w.Ping(20)
	burst(w, "40")
	w.Ping(10)
	time.Sleep(500 * time.Millisecond)
	burst(w, "15") // in the time after the first burst
	w.Ping(5)
	nstest.WaitFor(t, "the recorder to say what was met", func() bool { return strings.Contains(said(), "loss > 10 in 1s: 11 in ") })
	time.Sleep(after + time.Second)
	w.Ping(15) // these come too late
	time.Sleep(500 * time.Millisecond)
	all := w.Packets("--last", "0")
	clitest.Interrupt(t, cmd)
	events := triggers(w, dir)
	if len(events) == 0 || events[0].Fields["condition"] != "loss > 10 in 1s" || events[0].Fields["merged"] != false ||
		slices.ContainsFunc(events[1:], func(e segments.Event) bool { return e.Fields["merged"] != true }) {
		t.Fatalf("events: %+v\n%s", events, said())
	}
	kept := w.Packets("--last", "0", "-r", dir)
	checkWindow(w, all, kept, events, before, after)
	counter := w.In("r1", "nft", "list", "table", "ip", "t")
	if lost := w.Packets("--last", "0", "--state", "lost", "-r", dir); !strings.Contains(counter, "packets 63 ") || len(lost) != 55 {
		t.Errorf("%d lost packets, want the 55 of both bursts; nft counts all 63:\n%s", len(lost), counter)
	}
	if !regexp.MustCompile(`radar: \d+ packets kept; .*flight has`).MatchString(said()) || strings.Contains(said(), "not kept") {
		t.Errorf("it says %q", said())
	}
}

// checkWindow: of the packets that the ring has, those are kept, each once, that were under way from before the first
// loss beyond the tenth on, until after the last one.
func checkWindow(w *clitest.World, all, kept []record.Record, events []segments.Event, before, after time.Duration) {
	w.Helper()
	at, err := time.Parse(time.RFC3339Nano, events[0].Fields["at"].(string))
	if err != nil {
		w.Fatal(err)
	}
	var lost []record.Record
	for _, r := range all {
		if r.State == record.Lost {
			lost = append(lost, r)
		}
	}
	last := lost[len(lost)-1]
	from, until := at.Add(-before).UnixNano(), last.TNs+*last.Loss.AtNs+after.Nanoseconds()
	want := make(map[string]bool)
	for _, r := range all {
		end := r.TNs
		switch {
		case r.LatencyNs != nil && r.State != record.Lost:
			end += *r.LatencyNs
		case r.Loss != nil && r.Loss.AtNs != nil:
			end += *r.Loss.AtNs
		}
		if r.TNs <= until && end >= from {
			want[r.ID] = true
		}
	}
	if len(want) == 0 || len(want) == len(all) {
		w.Fatalf("of %d packets %d are to be kept: the test shows nothing", len(all), len(want))
	}
	got := make(map[string]bool)
	for _, r := range kept {
		if got[r.ID] {
			w.Errorf("packet %s was kept twice", r.ID)
		}
		if got[r.ID] = true; !want[r.ID] {
			w.Errorf("packet %s of %s is kept, which is not of %v to %v", r.ID, r.Time, time.Unix(0, from).UTC(), time.Unix(0, until).UTC())
		}
	}
	for _, r := range all {
		if want[r.ID] && !got[r.ID] {
			w.Errorf("packet %s of %s is not kept (%s)", r.ID, r.Time, r.State)
		}
	}
}

// Without a trigger there are no files, and what is wrong with a condition is told before anything runs.
func TestNoTrigger(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	dir := filepath.Join(t.TempDir(), "flight")
	cmd, said := recorderOf(w, "waiting for", "-w", dir, "--on", "queue r1/eth1 > 10ms", "--on", "p99 link r1-h2 > 500ms in 1s", "--on", "path change")
	w.Ping(20)
	w.Settled(40)
	want := fmt.Sprintf("radar: recording in %s: another process records there", dir)
	if claim.Holder(dir) != 0 { // the kernel does not show it everywhere
		want += fmt.Sprintf(" (process %d)", cmd.Process.Pid)
	}
	if out := w.Radar(kit.ExitFailure, "record", "-w", dir, "--on", "path change"); !strings.Contains(out, want) {
		t.Errorf("a second recorder: %q, want %q", out, want)
	}
	clitest.Interrupt(t, cmd)
	if _, err := os.Stat(dir); !os.IsNotExist(err) || !strings.Contains(said(), "radar: no condition was met, nothing was kept") {
		t.Errorf("%v, %q", err, said())
	}
	cannotWrite(w, dir)
	for want, args := range map[string][]string{
		`--on "loss.r2 > 3 in 1s": there is no node "r2" (did you mean "h2"?): there are h1, h2, r1`: {"--on", "loss.r2 > 3 in 1s"},
		"--before: only with --on":       {"--before", "3s"},
		"--history with --on":            {"--on", "path change", "--history"},
		"--before 2h0m0s, --after 5s: ":  {"--on", "path change", "--before", "2h"},
		"--rotate-size 1K: use at least": {"--rotate-size", "1K"},
	} {
		if out := w.Radar(kit.ExitUsage, append([]string{"record", "-w", dir}, args...)...); !strings.Contains(out, want) {
			t.Errorf("radar record %v: %q, want %q", args, out, want)
		}
	}
}

// A queue that holds packets for too long is noticed.
func TestFlightQueue(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1mbit", "burst", "2000", "limit", "100000")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	dir := filepath.Join(t.TempDir(), "flight")
	cmd, said := recorderOf(w, "waiting for", "-w", dir, "--on", "queue r1/eth1 > 30ms", "--before", "1s", "--after", "100ms")
	w.In("h1", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20): s.sendto(b"x" * 1000, ("10.0.2.2", 7))`)
	nstest.WaitFor(t, "the recorder to say what was met", func() bool { return strings.Contains(said(), "queue r1/eth1 > 30ms: ") })
	clitest.Interrupt(t, cmd)
	waited := w.Packets("--last", "0", "-r", dir, "udp")
	if !slices.ContainsFunc(waited, func(r record.Record) bool {
		return len(r.Hops) > 1 && r.Hops[1].QueueNs != nil && *r.Hops[1].QueueNs > (30*time.Millisecond).Nanoseconds()
	}) {
		t.Errorf("no packet among %d waited for so long", len(waited))
	}
}

// A promise of a file that begins to be broken is noticed once, and the event says which and by how much.
func TestFlightPromise(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(file, []byte("assertions:\n- {name: h2 is reached, select: {dst: h2}, no_loss: true}\n- {name: the way, crosses: [r1]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "flight")
	condition := "assert " + file + " in 1s"
	cmd, said := recorderOf(w, "waiting for: "+condition, "-w", dir, "--on", condition, "--before", "1s", "--after", "100ms")
	if err := os.Remove(file); err != nil { // it was read
		t.Fatal(err)
	}
	w.Ping(100)
	w.In("r1", "nft", dropRule)
	if strings.Contains(said(), "is broken") {
		t.Fatalf("nothing was lost, and it says %q", said())
	}
	nstest.WaitFor(t, "the recorder to say what is broken", func() bool {
		burst(w, "5")
		w.Ping(5)
		return strings.Contains(said(), `"h2 is reached" (line 2) is broken: `)
	})
	w.Settled(w.Status().Totals.Measured)
	clitest.Interrupt(t, cmd)
	events := triggers(w, dir)
	if len(events) != 1 || events[0].Fields["condition"] != condition ||
		!regexp.MustCompile(`^"h2 is reached" \(line 2\) is broken: \d+ of \d+ lost \(.* %\), promised: no packet lost$`).MatchString(fmt.Sprint(events[0].Fields["value"])) {
		t.Errorf("events: %+v\n%s", events, said())
	}
	if lost := w.Packets("--last", "0", "--state", "lost", "-r", dir); len(lost) == 0 {
		t.Errorf("no lost packet is kept\n%s", said())
	}
	if out := w.Radar(kit.ExitUsage, "record", "-w", dir, "--on", condition); !strings.Contains(out, "--on") || !strings.Contains(out, "no such file") {
		t.Errorf("a file that is gone: %q", out)
	}
}

// A run that ends within the TIME of a promise is judged by what packets after it could not mend, and the rest is told.
func TestShortFlight(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", dropRule)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(file, []byte("assertions:\n- {name: all arrive, no_loss: true}\n- {name: most arrive, loss: {below: 1 %}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "flight")
	cmd, said := recorderOf(w, "waiting for: assert ", "-w", dir, "--on", "assert "+file+" in 1h", "--before", "30s", "--after", "1s") // 30s: from before it began
	burst(w, "5")
	w.Settled(w.Status().Totals.Measured)
	clitest.Interrupt(t, cmd)
	if events := triggers(w, dir); len(events) != 1 || !strings.HasPrefix(fmt.Sprint(events[0].Fields["value"]), `"all arrive" (line 2) is broken: 5 of `) {
		t.Errorf("events: %+v\n%s", events, said())
	}
	if strings.Contains(said(), "come round") {
		t.Errorf("of a ring that has room for all:\n%s", said())
	}
	if lost := w.Packets("--last", "0", "--state", "lost", "-r", dir); len(lost) != 5 || !strings.Contains(said(), ` are too short to decide "most arrive"`) {
		t.Errorf("%d lost packets are kept, want 5\n%s", len(lost), said())
	}
}

// A recorder in the background finds the file, wherever it runs.
func TestAttachedFlight(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", dropRule)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("lab.yaml", []byte("assertions: [{name: h2 is reached, no_loss: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", "run", "--on", "assert lab.yaml in 1s"}, w.Lab.AttachArgs()...)...)
	nstest.WaitFor(t, "a recording", func() bool {
		burst(w, "5")
		return len(filesOf(w, "run")) > 0
	})
	w.Radar(kit.ExitOK, "detach", "--no-drain")
	if events := triggers(w, filepath.Join(dir, "run")); len(events) != 1 || !strings.Contains(fmt.Sprint(events[0].Fields["value"]), `"h2 is reached" (line 1) is broken: `) {
		t.Errorf("events: %+v", events)
	}
	for want, args := range map[string][]string{
		"--on: only with --record": {"--on", "path change"},
		`nowhere in 1s": open `:    {"--record", "run", "--on", "assert nowhere in 1s"},
	} {
		if out := w.Radar(kit.ExitUsage, slices.Concat([]string{"attach", "-d"}, args, w.Lab.AttachArgs())...); !strings.Contains(out, want) {
			t.Errorf("%v: %q, want %q", args, out, want)
		}
	}
}
