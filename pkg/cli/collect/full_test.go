// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// TestCollectDiskFull: a disk that becomes full while reports come ends nothing. It is told once and
// counted; outputs and /metrics go on; and when there is room again, reports are kept again.
func TestCollectDiskFull(t *testing.T) {
	n := nstest.New(t, "c")
	need.Programs(t, "curl", "unshare:util-linux", "nsenter:util-linux", "mount")
	n.Run("c", "ip", "link", "set", "lo", "up")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state, events := t.TempDir(), filepath.Join(t.TempDir(), "events.jsonl")
	within := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command("nsenter", append([]string{"--net=" + n.Path("c"), name}, args...)...)
		cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1")
		return cmd
	}
	// The disk is the collector's alone: a mount of its own namespace, which goes with it.
	collector := within("unshare", "--mount", "sh", "-ec", `mount -t tmpfs -o size=512k,mode=0700 radar "$RADAR_STATE_DIR"; exec "$0" "$@"`,
		self, "collect", "--all", "--listen", "127.0.0.1", "--http", "9432", "--json", events, "--snapshot", "0")
	collector.Env = append(collector.Env, "RADAR_STATE_DIR="+state)
	clitest.Await(t, collector, "collecting at")
	send := func(seed, count int) {
		t.Helper()
		cmd := within(self, "collect", "generate", "--to", "127.0.0.1:32766", "--seed", fmt.Sprint(seed), "--count", fmt.Sprint(count), "--rate", "2000", "--latency", "1000-100000", "--hops", "3")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", cmd.Args, err, out)
		}
	}
	said := func() string {
		b, err := os.ReadFile(collector.Stderr.(*os.File).Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	counter := func(name string) int {
		out, err := within("curl", "-sf", "127.0.0.1:9432/metrics").Output()
		if err != nil {
			t.Fatalf("ask for metrics: %v: %s", err, said())
		}
		m := regexp.MustCompile(`(?m)^radar_collect_` + name + `\{domain="default"\} (\S+)$`).FindSubmatch(out)
		if m == nil {
			t.Fatalf("no %s in %s", name, out)
		}
		f, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return int(f)
	}
	const warning, over, many = "radar: no room for what is collected", "radar: there is room again", 3000
	send(1, many)
	nstest.WaitFor(t, "all reports to come", func() bool { return counter("datagrams_total") == many })
	nstest.WaitFor(t, "the disk to be full", func() bool { return strings.Contains(said(), warning) && counter("not_kept_total") > 0 })
	was := counter("datagrams_total")
	send(2, 100)
	nstest.WaitFor(t, "more to come while it is full", func() bool { return counter("datagrams_total") == was+100 && counter("unsaved_total") > 2 })
	if b, err := os.ReadFile(events); err != nil || strings.Count(string(b), "\n") < many {
		t.Errorf("%v, %d events", err, strings.Count(string(b), "\n"))
	}
	if strings.Count(said(), warning) != 1 || strings.Contains(said(), over) {
		t.Errorf("said %s", said())
	}

	pid := fmt.Sprint(collector.Process.Pid)
	if out, err := exec.Command("nsenter", "--mount=/proc/"+pid+"/ns/mnt", "mount", "-o", "remount,size=64m", state).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	nstest.WaitFor(t, "room to be found", func() bool { return strings.Contains(said(), over) })
	refused := counter("not_kept_total")
	send(3, 500)
	nstest.WaitFor(t, "more to come when there is room", func() bool { return counter("datagrams_total") == was+600 })
	if got := counter("not_kept_total"); got != refused {
		t.Errorf("%d not kept, %d when there was no room", got, refused)
	}
	// What is kept can be read, whole, with the numbers that its description says.
	t.Setenv("RADAR_STATE_DIR", "/proc/"+pid+"/root"+state)
	kept := was + 600 - refused
	nstest.WaitFor(t, "the description", func() bool {
		info, err := store.Load("default")
		return err == nil && info.Next == uint64(kept)
	})
	info, err := store.Load("default")
	if err != nil {
		t.Fatal(err)
	}
	read := uint64(0)
	err = store.Each("default", info, func(number uint64, p collect.Packet) error {
		if _, _, err := p.UDP(); err != nil || number != read {
			t.Fatalf("packet %d of %d: %v", number, read, err)
		}
		read++
		return nil
	})
	if err != nil || read != uint64(kept) {
		t.Errorf("%v, %d packets kept, want %d", err, read, kept)
	}
	if err := collector.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := collector.Wait(); err != nil {
		t.Errorf("collector: %v: %s", err, said())
	}
	if text := said(); strings.Count(text, warning) != 1 || strings.Count(text, over) != 1 || !strings.Contains(text, fmt.Sprintf("the disk was full: %d datagrams not kept", refused)) {
		t.Errorf("said %s", text)
	}
}
