// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/lab"
)

var update = flag.Bool("update", false, "rewrite the golden folders")

func open(t *testing.T, name string) *lab.Scenario {
	t.Helper()
	s, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNames(t *testing.T) {
	if got, want := Names(), []string{"bottleneck", "chain", "ecmp", "firewall", "forwarder", "int-p4", "nat", "servicechain", "switches", "vmrouter"}; !slices.Equal(got, want) {
		t.Errorf("Names = %v, want %v", got, want)
	}
	if _, err := Open("nonsense"); err == nil || !strings.Contains(err.Error(), "bottleneck, chain, ecmp") {
		t.Errorf("Open of an unknown scenario: %v", err)
	}
}

// readDir returns the files of a folder.
func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

func TestExportGolden(t *testing.T) {
	want := filepath.Join("testdata", "chain2")
	if *update {
		if err := os.RemoveAll(want); err != nil {
			t.Fatal(err)
		}
		if err := open(t, "chain").Export(want, map[string]string{"N": "2"}); err != nil {
			t.Fatal(err)
		}
	}
	got := filepath.Join(t.TempDir(), "new", "folder")
	if err := open(t, "chain").Export(got, map[string]string{"N": "2"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(readDir(t, want), readDir(t, got)); diff != "" {
		t.Errorf("exported chain N=2 (-want +got):\n%s", diff)
	}
	if err := open(t, "chain").Export(got, nil); err == nil {
		t.Error("Export has replaced files")
	}
}

// TestExportIsTheSameLab exports every scenario and reads it back.
func TestExportIsTheSameLab(t *testing.T) {
	for _, name := range Names() {
		s := open(t, name)
		dir := filepath.Join(t.TempDir(), name)
		if err := s.Export(dir, nil); err != nil {
			t.Fatal(err)
		}
		want, err := s.Topology(nil)
		if err != nil {
			t.Fatal(err)
		}
		exported, err := lab.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := exported.Topology(nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Source, got.Source = "", ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-built-in +exported):\n%s", name, diff)
		}
		if len(got.Warnings) > 0 {
			t.Errorf("%s: warnings %q", name, got.Warnings)
		}
	}
}

// TestScriptsParse has sh check the syntax of all scripts, for chains of every
// length.
func TestScriptsParse(t *testing.T) {
	check := func(topo *lab.Topology) {
		for _, m := range topo.Machines {
			for _, s := range m.Scripts {
				cmd := exec.Command("sh", "-n")
				cmd.Stdin = strings.NewReader(s.Body)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", topo.Name, s.Name, err, out)
				}
				if strings.TrimSpace(s.Body) == "" {
					t.Errorf("%s: %s is empty", topo.Name, s.Name)
				}
			}
		}
	}
	for n := range 60 {
		topo, err := open(t, "chain").Topology(map[string]string{"N": strconv.Itoa(n + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if len(topo.Machines) != n+3 || len(topo.Links) != n+2 {
			t.Errorf("chain N=%d: %d machines, %d links", n+1, len(topo.Machines), len(topo.Links))
		}
		if n%20 == 0 {
			check(topo)
		}
	}
	for _, name := range Names() {
		topo, err := open(t, name).Topology(nil)
		if err != nil {
			t.Fatal(err)
		}
		check(topo)
	}
}

// TestSwitchesNeedBMv2: where there is none, int-p4 says how to get it in one line, and leaves
// nothing behind.
func TestSwitchesNeedBMv2(t *testing.T) {
	state := t.TempDir()
	t.Setenv("RADAR_STATE_DIR", state)
	t.Setenv("PATH", t.TempDir())
	topo, err := open(t, "int-p4").Topology(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lab.Up(t.Context(), topo, lab.Options{Name: fmt.Sprintf("rdr%dp", os.Getpid())})
	if _, ok := errors.AsType[*lab.MissingError](err); !ok || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "simple_switch_grpc") || !strings.Contains(err.Error(), "docs/p4.md") {
		t.Errorf("Up: %v", err)
	}
	if left := readDir(t, state); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// needs ends the test where no scenario can run.
func needs(t *testing.T) {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "nft:nftables", "iptables", "ping:iputils-ping", "iperf3", "tcpdump", "nsenter:util-linux")
}

// up starts a scenario under a name of the test's own.
func up(t *testing.T, scenario string, set map[string]string) *lab.Lab {
	t.Helper()
	needs(t)
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	topo, err := open(t, scenario).Topology(set)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Up(t.Context(), topo, lab.Options{Name: fmt.Sprintf("rdr%ds", os.Getpid()), ScriptTimeout: nstest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		if err := l.Down(); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	carry(t, l)
	return l
}

// carry waits until all links carry, of which the kernel tells later: before that they
// drop what they are to send, and bridges what they get.
func carry(t *testing.T, l *lab.Lab) {
	t.Helper()
	paths := make([]string, 0, len(l.Machines)+1)
	for _, m := range l.Machines {
		paths = append(paths, l.NetNSPath(m.Name))
	}
	if l.LinksNetNS != "" {
		paths = append(paths, filepath.Join("/run/netns", l.LinksNetNS))
	}
	nstest.AwaitCarrier(t, paths...)
}

// run runs a command in a machine and returns what it printed.
func run(t *testing.T, l *lab.Lab, machine string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nstest.Patience)
	defer cancel()
	b, err := l.Command(ctx, machine, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", machine, strings.Join(argv, " "), err, b)
	}
	return string(b)
}

// pingTTL pings once and returns the TTL that the answer came with.
func pingTTL(t *testing.T, l *lab.Lab, machine, addr string) int {
	t.Helper()
	out := run(t, l, machine, "ping", "-c", "1", "-W", "60", addr)
	_, rest, _ := strings.Cut(out, "ttl=")
	ttl, err := strconv.Atoi(strings.Fields(rest + " ")[0])
	if err != nil {
		t.Fatalf("no TTL in the output of ping:\n%s", out)
	}
	return ttl
}

func TestChainForwards(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			l := up(t, "chain", map[string]string{"N": strconv.Itoa(n)})
			if got := pingTTL(t, l, "h1", fmt.Sprintf("10.0.%d.2", n+1)); got != 64-n {
				t.Errorf("TTL from h2 to h1 is %d, want %d: one less for each router", got, 64-n)
			}
			// Every address answers from both ends.
			for i := 1; i <= n+1; i++ {
				for _, host := range []string{"h1", "h2"} {
					pingTTL(t, l, host, fmt.Sprintf("10.0.%d.1", i))
					pingTTL(t, l, host, fmt.Sprintf("10.0.%d.2", i))
				}
			}
		})
	}
}

func TestLongChainIsUpSoon(t *testing.T) {
	start, work, short := time.Now(), childrenTime(t), cpuShort()
	l := up(t, "chain", map[string]string{"N": "10"})
	took := time.Since(start)
	work, short = childrenTime(t)-work, cpuShort()-short
	t.Logf("chain N=10 is up after %v, with %v of work; for %v there were too few CPUs", took, work, short)
	if need.IsNightly(t) && (took-short > 2*time.Second || work > 2*time.Second) {
		t.Errorf("chain N=10 took %v, with %v of work; for %v there were too few CPUs: want less than 2 s", took, work, short)
	}
	if got := pingTTL(t, l, "h1", "10.0.11.2"); got != 54 {
		t.Errorf("TTL from h2 to h1 is %d, want 54", got)
	}
}

// childrenTime is the CPU time of commands that have ended.
func childrenTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuShort is how long somebody on this machine had to wait for a CPU, or a CPU for its host, 0
// where the kernel does not say: what takes long then is not slow.
func cpuShort() time.Duration {
	cpus, _ := os.ReadFile("/proc/stat") // first: cpu user nice system idle iowait irq softirq steal, in 10 ms
	words := append(strings.Fields(string(cpus)), make([]string, 9)...)
	steal, _ := strconv.ParseInt(words[8], 10, 64)
	b, _ := os.ReadFile("/proc/pressure/cpu")
	_, rest, _ := strings.Cut(string(b), "total=")
	us, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(us, 10, 64)
	return time.Duration(n)*time.Microsecond + time.Duration(steal)*10*time.Millisecond
}

// sendUDP sends n datagrams from h1 to a port of h2 as fast as it can. The
// socket is not connected: that nobody listens is no error.
func sendUDP(t *testing.T, l *lab.Lab, port, n, size int) {
	t.Helper()
	sendFrom(t, l, "h1", 0, "10.0.4.2", port, n, size)
}

// sendFrom sends n datagrams from a socket of its own in a machine; from is its
// local port, 0 for any.
func sendFrom(t *testing.T, l *lab.Lab, machine string, from int, to string, port, n, size int) {
	t.Helper()
	conn, err := socketIn(l.NetNSPath(machine), from)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	dst := &net.UDPAddr{IP: net.ParseIP(to), Port: port}
	for range n {
		if _, err := conn.WriteTo(make([]byte, size), dst); err != nil {
			t.Fatal(err)
		}
	}
}

// socketIn opens a UDP socket in a namespace. A thread that cannot come back
// ends with its goroutine.
func socketIn(path string, port int) (conn net.PacketConn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, herr := netns.Get()
		ns, nerr := netns.GetFromPath(path)
		if err = errors.Join(herr, nerr); err != nil {
			return
		}
		defer home.Close()
		defer ns.Close()
		if err = netns.Set(ns); err != nil {
			return
		}
		conn, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return conn, err
}

func TestBottleneckDrops(t *testing.T) {
	l := up(t, "bottleneck", nil)
	for _, host := range []string{"h1", "h3"} {
		if got := pingTTL(t, l, host, "10.0.4.2"); got != 61 {
			t.Errorf("TTL from h2 to %s is %d, want 61", host, got)
		}
	}
	sendUDP(t, l, 9999, 5, 100)
	got := counter(t, l)
	for deadline := time.Now().Add(nstest.Patience); got < 5 && time.Now().Before(deadline); got = counter(t, l) {
		time.Sleep(5 * time.Millisecond) // softirqs may be late
	}
	if got != 5 {
		t.Errorf("r1 has dropped %d datagrams to port 9999, want all 5", got)
	}
	if sent, dropped := tbf(t, l); dropped != 0 {
		t.Errorf("r2 has dropped %d of %d packets before there was load", dropped, sent)
	}
	// Into a queue of 64 kB, once more if the sender had to wait for a CPU for so long that
	// the queue let all pass.
	sent, dropped := 0, 0
	for load, deadline := 2000, time.Now().Add(nstest.Patience); dropped < 100 && time.Now().Before(deadline); load += 2000 {
		sendUDP(t, l, 8888, 2000, 1000)
		nstest.WaitFor(t, fmt.Sprintf("%d packets sent or dropped by r2", load), func() bool {
			sent, dropped = tbf(t, l)
			return sent+dropped >= load
		})
	}
	if dropped < 100 || sent < 60 {
		t.Errorf("r2 has sent %d and dropped %d packets under load: want most dropped", sent, dropped)
	}
	if got := counter(t, l); got != 5 {
		t.Errorf("r1 has dropped %d datagrams, want no more than the 5 to port 9999", got)
	}
}

// counter is the number of packets that r1's rule has dropped.
func counter(t *testing.T, l *lab.Lab) int {
	t.Helper()
	var rules struct {
		Nftables []struct {
			Rule struct {
				Expr []struct {
					Counter *struct{ Packets int }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(run(t, l, "r1", "nft", "-j", "list", "ruleset")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, object := range rules.Nftables {
		for _, e := range object.Rule.Expr {
			if e.Counter != nil {
				return e.Counter.Packets
			}
		}
	}
	t.Fatal("r1 has no counter")
	return 0
}

// tbf is the number of packets that r2's queue has sent and dropped.
func tbf(t *testing.T, l *lab.Lab) (sent, dropped int) {
	t.Helper()
	var qdiscs []struct {
		Kind           string
		Packets, Drops int
	}
	if err := json.Unmarshal([]byte(run(t, l, "r2", "tc", "-s", "-j", "qdisc", "show", "dev", "eth1")), &qdiscs); err != nil {
		t.Fatal(err)
	}
	for _, q := range qdiscs {
		if q.Kind == "tbf" {
			return q.Packets, q.Drops
		}
	}
	t.Fatal("r2's eth1 has no TBF")
	return 0, 0
}
