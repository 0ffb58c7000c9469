// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestImpatient: who presses Ctrl-C again and again while the files are being finished loses nothing. A recording whose
// recorder was killed says in every answer that it has no end, and one that ended does not.
func TestImpatient(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	dir := filepath.Join(t.TempDir(), "run")
	cmd, said := recorderOf(w, "keeping packets", "-w", dir, "--rotate-age", "1h")
	w.Ping(20)
	w.Settled(40)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for waits := true; waits; {
		select {
		case err := <-ended:
			if waits = false; err != nil {
				t.Errorf("it ended with %v, and said %q", err, said())
			}
		default:
			_ = cmd.Process.Signal(os.Interrupt)
			time.Sleep(100 * time.Microsecond)
		}
	}
	if n := len(w.Packets("--last", "0", "-r", dir)); n != 40 || !strings.Contains(said(), "40 packets kept") {
		t.Errorf("%d packets are kept, want 40; it said %q", n, said())
	}
	says := func(want string, has bool) {
		t.Helper()
		for _, args := range [][]string{{"packets"}, {"paths"}, {"loss"}, {"sql", "-c", "SELECT count(*) FROM packets"}} {
			_, stderr, _ := clitest.Radar(t, append(args, "-r", dir)...)
			if n := strings.Count(stderr, want); n != map[bool]int{true: 1}[has] {
				t.Errorf("%v: %q says %d times %q", args, stderr, n, want)
			}
		}
	}
	says("has no end", false)
	says("was not finished", false)

	again, _ := recorderOf(w, "keeping packets", "-w", dir, "--rotate-age", "1s")
	events := func() int {
		list, err := filepath.Glob(filepath.Join(dir, "*", "events-*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := events()
	nstest.WaitFor(t, "events of the second recorder that are finished", func() bool {
		w.Ping(1)
		return events() > before
	})
	if err := again.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = again.Wait()
	// What it has not finished may be removed by hand: the recording lacks its end all the same.
	left, err := filepath.Glob(filepath.Join(dir, "*", ".*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		says("not finished", true)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	says("the recording "+dir+" has no end", true)
}
