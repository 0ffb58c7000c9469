// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/claim"
)

// childOf names the directory of a test that runs in a process of its own.
const childOf = "RADAR_SEGMENTS_DIR"

// child runs a test again, in a process of its own.
func child(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$")
	cmd.Env = append(os.Environ(), childOf+"="+dir)
	return cmd
}

// simple is a packet that its position identifies.
func simple(pos uint64) *Packet {
	p := &Packet{Source: record.EBPF}
	p.Pos, p.T0, p.State, p.LatencyNs, p.Segs = pos, 1e12+pos*1000, record.Delivered, packet.NoTime, 1
	return p
}

// TestKilled: a process that records is killed 200 times, at any moment. Every packet that Flush has
// confirmed is there once, nothing is damaged, and what is there are all packets up to the last one.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childOf); dir != "" {
		recordUntilKilled(t, dir)
		return
	}
	times := 200
	if need.IsCheck(t) {
		times = 20
	}
	rng := rand.New(rand.NewPCG(1, 2))
	compacted := 0
	dir := t.TempDir()
	for i := range times {
		if i%25 == 24 {
			dir = t.TempDir()
		}
		cmd := child(t, "TestKilled", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		confirmed := uint64(0)
		after := rng.IntN(12)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "kept "); ok {
				confirmed, _ = strconv.ParseUint(text, 10, 64)
			}
			if after--; after < 0 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		compacted += checkWhole(t, dir, confirmed)
	}
	if compacted == 0 {
		t.Error("no file has taken the place of others: the test kills no compaction")
	}
}

// recordUntilKilled records, and says up to which packet that is on the disk.
func recordUntilKilled(t *testing.T, dir string) {
	w := create(t, dir, quiet)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(p *Packet) error { next = p.Pos + 1; return nil }); err != nil {
		t.Fatal(err)
	}
	d.Close()
	for of := (&testScope{offset: base}); ; {
		for range 20 {
			if err := w.Add(simple(next), of); err != nil {
				t.Fatal(err)
			}
			next++
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("kept", next)
	}
}

// checkWhole looks whether all packets are there up to one that is at least the last confirmed one. It
// returns how many files are in the place of others.
func checkWhole(t *testing.T, dir string, confirmed uint64) (compacted int) {
	t.Helper()
	all := readAll(t, dir)
	for i, p := range all {
		if p.Pos != uint64(i) {
			t.Fatalf("packet %d is at the place of %d", p.Pos, i)
		}
	}
	if uint64(len(all)) < confirmed {
		t.Fatalf("%d packets; %d were confirmed", len(all), confirmed)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, s := range d.all {
		if len(s.replaces) > 0 {
			compacted++
		}
	}
	return compacted
}

// TestDiskFull: on a full disk adding goes on and no error is returned; what is not kept is counted, and
// what is kept can be read.
func TestDiskFull(t *testing.T) {
	dir := os.Getenv(childOf)
	if dir == "" {
		need.AsRoot(t)
		cmd := child(t, "TestDiskFull", t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("radar", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	w := create(t, dir, quiet)
	g, of, n := newGenerator(1), &testScope{offset: base}, 0
	for range 40 {
		for range 500 {
			if err := w.Add(g.packet(), of); err != nil {
				t.Fatal(err)
			}
			n++
		}
		_ = w.Flush()
	}
	s := w.Stats()
	if s.NotKept[DiskFull] == 0 || s.Kept == 0 || s.Kept+s.NotKept[DiskFull] != uint64(n) || len(s.NotKept) != 1 {
		t.Errorf("%d packets: %+v", n, s)
	}
	if !strings.Contains(s.LastError, "no space left on device") {
		t.Errorf("last error: %q", s.LastError)
	}
	_ = w.Close()
	if all := readAll(t, dir); uint64(len(all)) != s.Kept {
		t.Errorf("%d packets are read, %d were kept", len(all), s.Kept)
	}
}

// TestSlowDisk: while the disk takes nothing, adding returns at once and counts.
func TestSlowDisk(t *testing.T) {
	w := create(t, t.TempDir(), quiet)
	held := make([]*batch, 0, batches)
	for range batches {
		held = append(held, <-w.free) // as if they waited for the disk
	}
	of := &testScope{offset: base}
	for i := range uint64(10) {
		if err := w.Add(simple(i), of); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range held {
		w.free <- b
	}
	if err := w.Add(simple(10), of); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.NotKept[DiskSlow] != 10 || s.Kept != 1 {
		t.Errorf("%+v", s)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// What is not finished is named, and who records.
func TestNotRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	notRead := func() Unfinished {
		d, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		return d.Unfinished()
	}
	w := create(t, dir, quiet)
	self := claim.Holder(dir) // 0: the kernel does not show it everywhere
	if u := notRead(); u.PID != self || self != 0 && self != os.Getpid() || len(u.Files) > 0 || !u.Nothing {
		t.Errorf("while it is recorded: %+v", u)
	}
	if err := w.Add(simple(1), &testScope{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if u := notRead(); u.PID != 0 || len(u.Files) > 0 || u.Nothing {
		t.Errorf("of a whole recording: %+v", u)
	}
	left := filepath.Join(folderOf(0), "."+kindPackets+"-1"+unfinished)
	if err := os.WriteFile(filepath.Join(dir, left), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if u := notRead(); u.PID != 0 || !slices.Equal(u.Files, []string{left}) || u.Nothing {
		t.Errorf("of one that was killed: %+v, want %s", u, left)
	}
	dir = filepath.Join(dir, "flight")
	d, err := claim.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(d.Lock)
	if u := notRead(); u.PID != 0 || len(u.Files) > 0 || !u.Nothing {
		t.Errorf("of one that was killed before it kept anything: %+v", u)
	}
}

// TestOneWriter: a second writer is refused, and one behind it is not; a directory is private.
func TestOneWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w := create(t, dir, quiet)
	if _, err := Create(dir, testMeta(), quiet); !errors.Is(err, claim.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second writer: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(simple(1), &testScope{}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := create(t, dir, quiet).Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAge: a segment is finished by its age, without further packets.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{MaxAge: 20 * time.Millisecond})
	defer w.Close()
	if err := w.Add(simple(0), &testScope{offset: base}); err != nil {
		t.Fatal(err)
	}
	for w.Stats().Segments == 0 {
		time.Sleep(time.Millisecond)
	}
	if all := readAll(t, dir); len(all) != 1 {
		t.Errorf("%d packets", len(all))
	}
}

// TestBounds: the oldest segments go when the directory is over its bounds.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	add := func(o Options, first, n uint64) {
		o.MaxAge = time.Hour
		w := create(t, dir, o)
		for i := range n {
			p := simple(first + i)
			p.T0 += (first + i) * uint64(time.Hour) // each in its own folder
			if err := w.Add(p, &testScope{offset: base}); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	add(Options{}, 0, 6)
	size := int64(0)
	for _, path := range glob(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, info.Size())
	}
	add(Options{KeepBytes: 3 * size}, 6, 1)
	if all := readAll(t, dir); len(all) != 3 || all[0].Pos != 4 || all[2].Pos != 6 {
		t.Errorf("%d packets, the first is %d", len(all), all[0].Pos)
	}
	if folders, _ := filepath.Glob(filepath.Join(dir, "2*")); len(folders) != 3 {
		t.Errorf("folders: %v", folders)
	}
	before := time.Since(time.Unix(0, base+1e12+5*int64(time.Hour)+int64(30*time.Minute)))
	if before < 0 {
		t.Fatal("the clock is before the test's packets")
	}
	add(Options{KeepAge: before}, 7, 0)
	if all := readAll(t, dir); len(all) != 1 || all[0].Pos != 6 {
		t.Errorf("%d packets", len(all))
	}
}

func glob(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"+ending))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestCompaction: small segments become one. A process that is killed between its steps leaves both,
// of which one is read, and the next writer removes the others.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, quiet)
	of := &testScope{offset: time.Now().Add(24 * time.Hour).UnixNano()} // an hour in which four files are few
	for i := range uint64(40) {
		if err := w.Add(simple(i), of); err != nil {
			t.Fatal(err)
		}
		if i%10 != 9 {
			continue
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	small := glob(t, dir)
	w.keeper.mu.Lock()
	files := w.keeper.files
	w.keeper.mu.Unlock()
	if _, err := w.keeper.merge(files); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, dir, 40)
	if n := len(glob(t, dir)); len(small) != 4 || n != 5 {
		t.Fatalf("%d files, then %d", len(small), n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := create(t, dir, quiet).Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(glob(t, dir)); n != 1 {
		t.Errorf("%d files are left", n)
	}
	checkWhole(t, dir, 40)
}

// TestUnfinished: what a killed process has left is removed, and nothing else.
func TestUnfinished(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	const hour = "2026-01-01T00"
	stay := []string{hour + "/.editor.tmp", hour + "/.packets-1.tmp.gz", "MyThings/.packets-1.tmp", hour + "/packets-1.tmp", "linked/.packets-1.tmp"}
	gone := []string{hour + "/.packets-1.tmp", hour + "/.events-1.tmp"}
	if err := os.Symlink(other, filepath.Join(dir, "2026-01-01T01")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(stay, gone...) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := create(t, dir, quiet).Close(); err != nil {
		t.Fatal(err)
	}
	for i, name := range append(stay, gone...) {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != (i < len(stay)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEvents: events come back, in the order of their times.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, quiet)
	at := time.Unix(0, base).UTC()
	for i := range 5 {
		if err := w.AddEvent(at.Add(time.Duration(-i)), "attach", map[string]any{"node": fmt.Sprint("h", i), "ports": []any{"e0"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddEvent(at, "wrong", map[string]any{"f": func() {}}); err == nil {
		t.Error("an event that is no JSON is kept")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := 0
	if err := d.Events(context.Background(), func(e Event) error {
		want := 4 - n
		if !e.Time.Equal(at.Add(time.Duration(-want))) || e.Kind != "attach" || e.Fields["node"] != fmt.Sprint("h", want) {
			t.Errorf("event %d: %+v", n, e)
		}
		n++
		return nil
	}); err != nil || n != 5 || len(d.Damage()) > 0 {
		t.Errorf("%d events, %v, %v", n, err, d.Damage())
	}
}
