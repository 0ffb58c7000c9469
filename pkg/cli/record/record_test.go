// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/recorder"
	"github.com/vnetradar/radar/pkg/store/claim"
	"github.com/vnetradar/radar/pkg/words"
)

// filesOf are the finished segments of packets in a recording.
func filesOf(w *clitest.World, dir string) []string {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "packets-*.parquet"))
	if err != nil {
		w.Fatal(err)
	}
	return files
}

// A recorder keeps what ends from now on, or with --history what the ring remembers too, and says what it has kept.
// An expression says which packets. A single file can be asked, too.
func TestRecord(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.Settled(10)
	later, all, udp := filepath.Join(t.TempDir(), "later"), filepath.Join(t.TempDir(), "all"), filepath.Join(t.TempDir(), "udp")
	commands := make(map[string]func() string)
	for dir, more := range map[string][]string{later: nil, all: {"--history"}, udp: {"udp"}} {
		cmd, said := recorderOf(w, "keeping packets of domain "+w.Domain, append([]string{"-w", dir}, more...)...)
		commands[dir] = func() string { clitest.Interrupt(t, cmd); return said() }
	}
	w.Ping(3)
	w.UDP()
	w.Settled(10 + 6 + 2) // with the ICMP error
	live := w.Packets("--last", "0")
	for dir, want := range map[string]int{later: 8, all: 18, udp: 1} {
		said := commands[dir]()
		if !strings.Contains(said, fmt.Sprintf("radar: %d packet", want)) || !strings.Contains(said, dir+" has ") || strings.Contains(said, "not kept") {
			t.Errorf("%s: it says %q, want %d packets", dir, said, want)
		}
		kept := w.Packets("--last", "0", "-r", dir)
		if len(kept) != want {
			t.Errorf("%s: %d packets, want %d", dir, len(kept), want)
		}
		for _, path := range filesOf(w, dir) {
			if one := w.Packets("--last", "0", "-r", path); len(one) != want {
				t.Errorf("%s: %d packets, want %d", path, len(one), want)
			}
		}
	}
	if len(live) != 18 {
		t.Errorf("the ring has %d packets", len(live))
	}
	var result recorder.Result
	cmd := exec.Command("/proc/self/exe", "record", "-w", all, "-o", "json", "--history")
	var out bytes.Buffer
	cmd.Stdout = &out
	clitest.Await(t, cmd, "keeping packets")
	nstest.WaitFor(t, "the recorder to take the directory", func() bool {
		return strings.Contains(w.Radar(kit.ExitFailure, "record", "-w", all), "another process records there")
	})
	clitest.Interrupt(t, cmd)
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Kept != 18 || result.Files == 0 || result.Bytes == 0 {
		t.Errorf("%s: %+v, %v", out.String(), result, err)
	}
	// It continued a recording of the same packets: each is there once.
	if kept := w.Packets("--last", "0", "-r", all); len(kept) != 18 {
		t.Errorf("%d packets, want 18", len(kept))
	}
}

// While a recorder has finished nothing, no answer is empty without saying that it is at work. What a recorder that was
// killed has not finished is named.
func TestNothingFinished(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	cmd, _ := recorderOf(w, "keeping packets", "-w", dir, "--rotate-age", "1h")
	w.Ping(5)
	promise := filepath.Join(w.TempDir(), "lab.yaml")
	if err := os.WriteFile(promise, []byte("assertions: [{name: all arrive, no_loss: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		w.Helper()
		for _, args := range [][]string{
			{"packets"}, {"paths"}, {"latency"}, {"latency", "--series"}, {"loss"}, {"flows"}, {"throughput"}, {"trace", "--last"}, {"trace", "5f3a9c01-1"},
			{"explain"}, {"assert", promise}, {"topo"}, {"sql", "-c", "SELECT * FROM packets"}, {"sql", "-c", "SELECT count(*) FROM packets"}, {"plot", "latency", "-o", filepath.Join(w.TempDir(), "x.svg")},
			{"plot", "timeline", "-o", filepath.Join(w.TempDir(), "x.svg")}, {"export", "ipfix", "--file", filepath.Join(w.TempDir(), "x")}, {"packets", "-w", filepath.Join(w.TempDir(), "x.pcapng")},
		} {
			if stdout, stderr, _ := clitest.Radar(w.T, append(args, "-r", dir)...); !strings.Contains(stdout+stderr, want) { // assert has a column for it
				w.Errorf("radar %v: no %q in %q and %q", args, want, stdout, stderr)
			}
		}
	}
	waits := fmt.Sprintf("a recorder (process %d) has kept nothing in %s yet", cmd.Process.Pid, dir)
	if claim.Holder(dir) == 0 { // the kernel does not show it everywhere
		waits = "nothing was kept in " + dir
	}
	says(waits)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, stderr, _ := clitest.Radar(w.T, "packets", "-r", dir); !strings.Contains(stderr, "nothing was kept in "+dir+": a lock alone is there") {
		t.Errorf("of a recorder that was killed: %q", stderr)
	}
	left := filepath.Join(dir, "2026-01-01T00", ".packets-1.tmp") // of more packets than these
	if err := errors.Join(os.Mkdir(filepath.Dir(left), 0o700), os.WriteFile(left, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	says("a file was not finished, and is not read: " + left)
	if _, stderr, _ := clitest.Radar(w.T, "trace", "5f3a9c01-1", "5f3a9c01-2", "-r", dir); strings.Count(stderr, "was not finished") != 1 {
		t.Errorf("trace of two packets: %q, want it once", stderr)
	}
}

// A recorder that is killed harms neither traffic nor the domain, and what it had finished can be read.
func TestKilled(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	cmd, said := recorderOf(w, "keeping packets", "-w", dir, "--rotate-age", "1s")
	w.Ping(10)
	nstest.WaitFor(t, "a segment that is finished", func() bool {
		w.Ping(1)
		return len(filesOf(w, dir)) > 0
	})
	finished := len(w.Packets("--last", "0", "-r", dir))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	before := w.Status().Totals
	w.PingMeasured(10)
	if now := w.Status(); now.Totals.Delivered < before.Delivered+20 || !now.Agent.Alive {
		t.Errorf("before %+v, now %+v", before, now.Totals)
	}
	stdout, stderr, code := clitest.Radar(t, "packets", "--last", "0", "-o", "json", "-r", dir)
	if got := len(clitest.Lines(t, stdout)); code != kit.ExitOK || !strings.Contains(stderr, "has no end") && !strings.Contains(stderr, "not finished") || got < finished || finished == 0 {
		t.Errorf("%d packets, %d were finished; code %d, %q, it said %q", got, finished, code, stderr, said())
	}
	// Another one goes on there.
	next, _ := recorderOf(w, "keeping packets", "-w", dir)
	w.Ping(4)
	before = w.Status().Totals
	nstest.WaitFor(t, "an end", func() bool { return w.Status().Totals.InFlight == 0 })
	clitest.Interrupt(t, next)
	if got := len(w.Packets("--last", "0", "-r", dir)); got < finished+8 {
		t.Errorf("%d packets, want %d and 8 more", got, finished)
	}
}

// smallDisk is a disk on which a recording has little room. fill takes most of it and sends more packets than fit into
// the rest, free gives it back.
func smallDisk(w *clitest.World) (dir string, fill, free func()) {
	w.Helper()
	disk := w.TempDir()
	if err := unix.Mount("radar", disk, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		w.Fatal(err)
	}
	nstest.Cleanup(w.T, func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	full := filepath.Join(disk, "full")
	fill = func() {
		if err := os.WriteFile(full, bytes.Repeat([]byte("x"), 48<<10), 0o600); err != nil {
			w.Fatal(err)
		}
		w.In("h1", "python3", "-c", `import socket, os
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(3000): s.sendto(os.urandom(i % 1000 + 8), ("10.0.2.2", 7))`)
		w.Ping(5)
		nstest.WaitFor(w.T, "the end of all packets", func() bool { v := w.Status().Totals; return v.Delivered >= 3010 && v.InFlight == 0 })
	}
	free = func() {
		if err := os.Remove(full); err != nil {
			w.Fatal(err)
		}
	}
	return filepath.Join(disk, "run"), fill, free
}

// Where the disk is full, measurement goes on, and what was not kept is counted. The recording says so when there is
// room for it.
func TestDiskFull(t *testing.T) {
	w := clitest.NewWorld(t)
	dir, fill, free := smallDisk(w)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	cmd, said := recorderOf(w, "keeping packets", "-w", dir, "--rotate-age", "1s")
	fill()
	live := len(w.Packets("--last", "0"))
	nstest.WaitFor(t, "the recorder to say that it cannot keep them", func() bool { return strings.Contains(said(), "packets are not kept: the disk was full: ") })
	free()
	clitest.Interrupt(t, cmd)
	if live < 3010 {
		t.Errorf("the ring has %d packets", live)
	}
	if !strings.Contains(said(), " packets not kept: the disk was full\n") || !strings.Contains(said(), "radar: the last error: ") {
		t.Errorf("it says %q", said())
	}
	// What it has written can be read, and it says that there is more.
	stdout, stderr, code := clitest.Radar(t, "packets", "--last", "0", "-o", "json", "-r", dir)
	if code != kit.ExitOK || strings.Contains(stderr, "damaged") || !strings.Contains(stderr, " not recorded: the disk was full") {
		t.Errorf("code %d, %q", code, stderr)
	}
	if got := len(clitest.Lines(t, stdout)); got >= live {
		t.Errorf("%d packets of %d", got, live)
	}
}

// status and detach say what a recorder in the background could not keep.
func TestDiskFullInBackground(t *testing.T) {
	w := clitest.NewWorld(t)
	dir, fill, _ := smallDisk(w)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)...)
	fill()
	const cause = " not recorded: the disk was full"
	nstest.WaitFor(t, "status to say so", func() bool { return strings.Contains(w.Radar(kit.ExitOK, "status"), cause) })
	w.Says([]string{"status"}, "last error: ")
	if out := w.Radar(kit.ExitOK, "detach"); !strings.Contains(out, " not recorded in "+dir+": the disk was full") || !strings.Contains(out, "the recorder's last error: ") {
		t.Errorf("detach says %q", out)
	}
	w.NothingLeft()
}

// A recorder in the background is shown by status, ends with the domain, and has all packets then.
func TestDetachEndsRecorder(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run")
	attach := append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)
	if out := w.Radar(kit.ExitOK, attach...); !strings.Contains(out, "keeps all packets in "+dir) {
		t.Errorf("attach says %q", out)
	}
	if out := w.Radar(kit.ExitFailure, "attach", "-d", "--record", dir+"2"); !strings.Contains(out, "records the domain into "+dir+" already") {
		t.Errorf("a second recorder: %q", out)
	}
	w.Ping(10)
	running, err := recorder.Find(w.Domain)
	if err != nil || running == nil || running.Dir != dir {
		t.Fatalf("%+v, %v", running, err)
	}
	w.Says([]string{"status"}, fmt.Sprintf("process %d, into %s", running.PID, dir))
	w.Radar(kit.ExitOK, "detach", "h2") // a part of the domain: the recorder goes on
	if !running.Alive() {
		t.Error("the recorder has ended with a node")
	}
	if out := w.Radar(kit.ExitOK, "detach"); !strings.Contains(out, "radar: "+packetsKept(t, dir)+" kept in "+dir+"; look at them with: radar packets -r "+dir+"\n") {
		t.Errorf("detach says %q", out)
	}
	if running.Alive() {
		t.Error("the recorder lives on")
	}
	w.NothingLeft()
	if kept := w.Packets("--last", "0", "-r", dir, "icmp"); len(kept) != 20 {
		t.Errorf("%d packets, want 20", len(kept))
	}
	w.Says([]string{"packets", "--node", "h2", "-r", dir}, "h1 > r1 > h2")
}

// packetsKept is how many packets a recording has, whatever they are.
func packetsKept(t *testing.T, dir string) string {
	t.Helper()
	stdout, _, _ := clitest.Radar(t, "packets", "--last", "0", "-o", "json", "-r", dir)
	return words.PacketsWere(uint64(len(clitest.Lines(t, stdout))))
}

// A recorder that does not end with its domain is ended: nothing is left behind.
func TestDetachEndsStoppedRecorder(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", filepath.Join(t.TempDir(), "run")}, w.Lab.AttachArgs()...)...)
	running, err := recorder.Find(w.Domain)
	if err != nil || running == nil {
		t.Fatalf("%+v, %v", running, err)
	}
	if err := unix.Kill(running.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if out := w.Radar(kit.ExitOK, "detach"); !strings.Contains(out, "the recorder was ended before it had finished") {
		t.Errorf("detach says %q", out)
	}
	if running.Alive() {
		_ = unix.Kill(running.PID, unix.SIGKILL)
		t.Error("the recorder lives on")
	}
	w.NothingLeft()
}
