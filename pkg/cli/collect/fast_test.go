// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// fastNet is a namespace that sends reports to another, which collects them.
type fastNet struct {
	t *testing.T
	*nstest.Net
	self string
}

func newFastNet(t *testing.T) *fastNet {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &fastNet{t, nstest.New(t, "s", "c"), self}
	need.Programs(t, "ethtool", "taskset:util-linux")
	n.Veth("s", "eth0", "c", "eth0")
	n.Address("s", "eth0", "10.0.0.1/24")
	n.Address("c", "eth0", "10.0.0.2/24")
	n.Address("s", "eth0", "fd00::1/64")
	n.Address("c", "eth0", "fd00::2/64")
	n.Run("s", "ping", "-c", "1", "-W", "60", "10.0.0.2")
	n.Run("s", "ping", "-c", "1", "-W", "60", "fd00::2")
	return n
}

func (n *fastNet) within(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + n.Path(name), n.self}, args...)...)
}

// collected is what a collector has of the reports that are sent to it.
type collected struct {
	info   collect.Info
	events []string // sorted
	values []map[string]any
	stderr string
}

// collect runs a collector while reports are sent, each generate at a time.
func (n *fastNet) collect(flags []string, generate ...string) (c collected) {
	n.t.Helper()
	n.t.Setenv("RADAR_STATE_DIR", n.t.TempDir())
	collector := n.within("c", append([]string{"collect", "-o", "json", "--show", "events"}, flags...)...)
	collector.Env = append(os.Environ(), clitest.ExecEnv+"=1")
	var shown bytes.Buffer
	collector.Stdout = &shown
	clitest.Await(n.t, collector, "collecting at")
	sent := 0
	for _, g := range generate {
		args := append([]string{"collect", "generate", "--seed", "7", "--count", "1000", "--rate", "1000"}, strings.Fields(g)...)
		// On one CPU: of what a flow's reports say on several, which was the last is not known.
		cmd := exec.Command("taskset", append([]string{"-c", "0", "nsenter", "--net=" + n.Path("s"), n.self}, args...)...)
		cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			n.t.Fatalf("%v: %v: %s", args, err, out)
		}
		sent += 1000
	}
	nstest.WaitFor(n.t, "all reports to be counted", func() bool {
		info, err := store.Load("default")
		return err == nil && info.Counts.Packets >= uint64(sent)
	})
	clitest.Interrupt(n.t, collector)
	info, err := store.Load("default")
	if err != nil {
		n.t.Fatal(err)
	}
	c.info = *info
	for _, e := range clitest.Lines(n.t, shown.String()) {
		delete(e, "time")
		delete(e, "t_ns")
		c.events = append(c.events, fmt.Sprint(slices.Sorted(maps.Keys(e)), e))
	}
	slices.Sort(c.events)
	stdout, _, _ := clitest.Radar(n.t, "int", "metrics", "-o", "json")
	for _, row := range clitest.Lines(n.t, stdout) {
		delete(row, "t_ns")
		delete(row, "reported_t_ns")
		if row["src"] == nil { // whose report was the last of several flows', XDP does not know
			delete(row, "value")
		}
		c.values = append(c.values, row)
	}
	if b, err := os.ReadFile(collector.Stderr.(*os.File).Name()); err == nil {
		c.stderr = string(b)
	}
	return c
}

// xdp is what "ip link" says of XDP at the collector's interface.
func (n *fastNet) xdp() string {
	out := n.Run("c", "ip", "-d", "link", "show", "eth0")
	_, rest, _ := strings.Cut(out, "prog/xdp")
	return rest
}

// TestCollectXDP: with the fast path events and metrics are what the socket alone has of the same
// reports; nothing else that comes is touched, and nothing stays.
//
// How many reports the fast path takes depends on how soon the collector has read the first
// ones of a flow: it is judged where times are.
func TestCollectXDP(t *testing.T) {
	n := newFastNet(t)
	before := n.Run("s", "ethtool", "-k", "eth0") + n.Run("c", "ethtool", "-k", "eth0")
	// The second sender's packets are of another family, and so are its nodes.
	generate := []string{
		"--to 10.0.0.2:32766 --hops 5 --flows 4 --latency 1000-1080 --queue 50-55 --queue-step 1 --drops 0.01",
		"--to [fd00::2]:32766 --hops 3 --flows 2 --latency 1000-1080 --queue 50-55 --queue-step 1 --report 1.0 --mode xd --first-node 21 --ipv6",
	}
	want := n.collect([]string{"--join", "0"}, generate...)
	got := n.collect([]string{"--join", "0", "--xdp", "eth0"}, generate...)
	if diff := cmp.Diff(want.events, got.events); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if diff := cmp.Diff(want.values, got.values); diff != "" {
		t.Errorf("values: %s", diff)
	}
	x := got.info.XDP
	if x == nil || x.Mode != "generic" || x.FastPath == 0 || need.IsNightly(t) && x.FastPath < 1000 || x.FastPath+x.SlowPath != 2000 || x.QueueDrops != 0 || got.info.Metrics != want.info.Metrics || got.info.Gaps != want.info.Gaps {
		t.Errorf("%+v\n%+v of %+v, want %+v", x, got.info.Metrics, got.info.Gaps, want.info.Metrics)
	}
	if !strings.Contains(got.stderr, "radar: XDP at eth0, generic") || !strings.Contains(got.stderr, "said nothing new") {
		t.Errorf("stderr: %s", got.stderr)
	}
	if after := n.Run("s", "ethtool", "-k", "eth0") + n.Run("c", "ethtool", "-k", "eth0"); after != before {
		t.Error("offloads have changed")
	}

	// Fragments come by the socket; so does what goes to a port that is not reports'.
	n.Run("s", "ip", "link", "set", "eth0", "mtu", "1280")
	frag := n.collect([]string{"--xdp", "eth0"}, "--to 10.0.0.2:32766 --hops 28 --instructions 0xff00 --report 1.0 --payload 400 --latency 1000-1080")
	if x := frag.info.XDP; x == nil || x.FastPath+x.SlowPath != 0 || frag.info.Metrics.Reports != 1000 {
		t.Errorf("fragments: %+v, %+v", frag.info.XDP, frag.info.Metrics)
	}
	n.Run("s", "ip", "link", "set", "eth0", "mtu", "1500")

	// Everything goes up if every report is kept.
	all := n.collect([]string{"--xdp", "eth0", "--xdp-mode", "native", "--all", "--join", "0"}, generate[0])
	if x := all.info.XDP; x == nil || x.Mode != "native" || x.SlowPath != 1000 || all.info.Counts.Records != 1000 {
		t.Errorf("all: %+v, %+v", all.info.XDP, all.info.Counts)
	}

	// Killed, it leaves nothing; while it runs, what is not reports' comes through.
	collector := n.within("c", "collect", "--xdp", "eth0")
	collector.Env = append(os.Environ(), clitest.ExecEnv+"=1")
	clitest.Await(t, collector, "collecting at")
	if n.xdp() == "" {
		t.Error("no program while it runs")
	}
	n.Run("s", "ping", "-c", "3", "-i", "0.1", "-W", "60", "10.0.0.2")
	second := n.within("c", "collect", "--domain", "second", "--port", "40000", "--xdp", "eth0", "--http", "127.0.0.1:0", "--json", os.DevNull)
	second.Env = append(os.Environ(), clitest.ExecEnv+"=1")
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "--xdp: attach to eth0, generic") {
		t.Errorf("a second one: %v, %s", err, out)
	}
	if err := collector.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = collector.Wait()
	nstest.WaitFor(t, "the program to be detached", func() bool { return n.xdp() == "" })

	for args, want := range map[string]string{
		"--xdp nowhere":                  `interface nowhere: Link not found`,
		"--xdp eth0 -r x":                "--xdp and -r FILE: use one of them",
		"--xdp-mode native":              "--xdp-mode says how --xdp DEVICE is attached",
		"--xdp eth0 --xdp-mode hardware": `unknown XDP mode "hardware": use auto, native, generic`,
	} {
		cmd := n.within("c", append([]string{"collect"}, strings.Fields(args)...)...)
		cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
}
