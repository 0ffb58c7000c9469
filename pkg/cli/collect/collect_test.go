// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestCollectFile: a file's reports are in every answer, with nothing attached.
func TestCollectFile(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	_, stderr, code := clitest.Radar(t, "collect", "-r", clitest.ReportsFile(t), "--node", "1=leaf1,2=spine2", "--source", "10.9.0.3=switch-p4-16")
	if code != kit.ExitOK || !strings.Contains(stderr, "10 datagrams") {
		t.Fatalf("code %d, %s", code, stderr)
	}
	// That profile is right for one of them only.
	stdout, _, _ := clitest.Radar(t, "loss", "-o", "json")
	if !strings.Contains(stdout, `"reason":"ACL_DROP"`) {
		t.Errorf("loss: %s", stdout)
	}
	if _, stderr, code = clitest.Radar(t, "collect", "-r", clitest.ReportsFile(t), "--node", "1=leaf1,2=spine2"); code != kit.ExitOK {
		t.Fatalf("code %d, %s", code, stderr)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"packets", []string{"leaf1 > spine2 > int-3", "int-286331153/511 node INT_80", "10.0.0.1:40000 > 10.0.0.2:8080"}},
		{"packets --state lost", []string{"lost"}},
		{"packets --node int-171 -o json", []string{`"source":"int"`, `"egress_ts":4567`}},
		{"packets -o wide", []string{"-i0 "}},
		{"packets -o csv", []string{",int,"}},
		{"paths", []string{"1      1     40          0     1     0        0      -      -  leaf1 > spine2 > int-3"}},
		{"latency --by node", []string{"400ns", "int-4"}},
		{"latency --node spine2", []string{"203us"}},
		{"loss", []string{"int-286331153  511   node  INT_80"}},
		{"loss --by flow", []string{"10.0.0.1:12345 > 10.0.0.2:80 tcp"}},
		{"flows", []string{"10.0.0.1:5000 > 10.0.0.2:5000 udp"}},
		{"throughput --by node", []string{"spine2"}},
	} {
		stdout, stderr, code := clitest.Radar(t, strings.Fields(c.args)...)
		for _, want := range c.want {
			if code != kit.ExitOK || !strings.Contains(stdout, want) {
				t.Errorf("%s: code %d, no %q in\n%s%s", c.args, code, want, stdout, stderr)
			}
		}
	}
	if _, stderr, code := clitest.Radar(t, "collect", "--forget"); code != kit.ExitOK {
		t.Errorf("forget: code %d, %s", code, stderr)
	}
	if _, stderr, code := clitest.Radar(t, "paths"); code != kit.ExitFailure || !strings.Contains(stderr, "is not attached") {
		t.Errorf("after forgetting: code %d, %s", code, stderr)
	}
}

// TestCollectInputs: what comes by UDP and what tcpdump captures of it make the same records,
// events and metrics, and so do the files that were kept. Each frame's datagram goes over the loopback device of
// a namespace, by IPv4 and IPv6. (They quote the same packet: not joined.)
func TestCollectInputs(t *testing.T) {
	n := nstest.New(t, "c")
	need.Programs(t, "tcpdump")
	n.Run("c", "ip", "link", "set", "lo", "up")
	live, file, kept := t.TempDir(), t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	within := func(name string, args ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=" + n.Path("c"), name}, args...)...)
	}
	captured := filepath.Join(t.TempDir(), "captured.pcap")
	tcpdump := within("tcpdump", "-i", "lo", "-p", "-n", "-U", "-Z", "root", "--time-stamp-precision=nano", "-w", captured, "udp")
	clitest.Await(t, tcpdump, "listening on")
	collector := within(self, "collect", "--port", "32766,6000", "--join", "0", "-o", "json", "--all", "--show", "events")
	collector.Env = append(os.Environ(), "RADAR_STATE_DIR="+live, clitest.ExecEnv+"=1")
	var shown bytes.Buffer
	collector.Stdout = &shown
	clitest.Await(t, collector, "collecting at [::]:6000")
	t.Setenv("RADAR_STATE_DIR", live)
	sent := 0
	for _, to := range []string{"127.0.0.1:32766", "[::1]:6000"} {
		spec, err := topo.ParseSpec(n.Spec("c"))
		if err != nil {
			t.Fatal(err)
		}
		err = spec.Do(func() error {
			conn, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			defer conn.Close()
			payloads := [][]byte{[]byte("this is no report")}
			for _, name := range clitest.ReportFrames {
				b := clitest.FrameBytes(t, name)[14:]
				payloads = append(payloads, b[int(b[0]&15)*4+8:binary.BigEndian.Uint16(b[2:])])
			}
			for _, b := range payloads {
				if _, err := conn.Write(b); err != nil {
					return err
				}
				sent++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// Before others come by another socket: then which is first is not said.
		nstest.WaitFor(t, "all reports to be kept", func() bool {
			info, err := store.Load("default")
			return err == nil && info.Counts.Packets == uint64(sent)
		})
	}
	nstest.WaitFor(t, "tcpdump to write all", func() bool { return clitest.CountPackets(t, captured) == sent })
	clitest.Interrupt(t, tcpdump)
	clitest.Interrupt(t, collector)

	byUDP, _, _ := clitest.Radar(t, "packets", "-o", "json", "--last", "0")
	files, err := filepath.Glob(filepath.Join(store.Dir("default"), "*.pcap"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	values, _, _ := clitest.Radar(t, "int", "metrics", "-o", "json")
	type read struct{ packets, events, values string }
	from := func(dir, file string) (r read) {
		t.Setenv("RADAR_STATE_DIR", dir)
		stdout, stderr, code := clitest.Radar(t, "collect", "--all", "--join", "0", "-r", file, "--show", "events", "-o", "json")
		if code != kit.ExitOK {
			t.Fatalf("collect -r: code %d, %s", code, stderr)
		}
		r.events = stdout
		r.packets, _, _ = clitest.Radar(t, "packets", "-o", "json", "--last", "0")
		r.values, _, _ = clitest.Radar(t, "int", "metrics", "-o", "json")
		return r
	}
	same := func(what, by, got string, n int, clocks bool) {
		t.Helper()
		want, have := clitest.Lines(t, by), clitest.Lines(t, got)
		if len(want) != n {
			t.Fatalf("%d %s by UDP, want %d", len(want), what, n)
		}
		for _, list := range [][]map[string]any{want, have} {
			for _, r := range list {
				delete(r, "id")
				if !clocks { // stamped at different places of the kernel
					delete(r, "time")
					delete(r, "t_ns")
					delete(r, "reported_t_ns")
				}
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	for _, c := range []struct {
		read
		clocks bool
	}{{from(file, captured), false}, {from(kept, files[0]), true}} {
		same("records", byUDP, c.packets, 2*len(clitest.ReportFrames), c.clocks)
		same("events", shown.String(), c.events, 32, c.clocks)
		same("values", values, c.values, 27, c.clocks)
	}
	t.Setenv("RADAR_STATE_DIR", live)
	info, err := store.Load("default")
	if err != nil {
		t.Fatal(err)
	}
	n2 := uint64(2 * len(clitest.ReportFrames))
	if c := info.Counts; c.Packets != uint64(sent) || c.Records != n2 || c.Rejected != 2 || c.Reports != n2 || info.PID != 0 {
		t.Errorf("counts %+v of %d sent, process %d", c, sent, info.PID)
	}
}

// TestCollectRefuses: each error names what is wrong, and nothing is left.
func TestCollectRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RADAR_STATE_DIR", filepath.Join(dir, "state"))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--port 0", kit.ExitUsage, "--port 0: use 1 to 65535"},
		{"--port 70000", kit.ExitUsage, "use 1 to 65535"},
		{"--listen here", kit.ExitUsage, `--listen "here": no IP address`},
		{"--listen 192.0.2.1", kit.ExitFailure, "cannot assign requested address"},
		{"--source 10.0.0.1", kit.ExitUsage, "use ADDRESS=PROFILE"},
		{"--source 10.0.0.1=cisco", kit.ExitUsage, `unknown profile "cisco"`},
		{"--source switch=geant", kit.ExitUsage, "use ADDRESS=PROFILE"},
		{"--source 10.0.0.1=geant,10.0.0.1=tps", kit.ExitUsage, "twice"},
		{"--node 1=a,0x1=b", kit.ExitUsage, "twice"},
		{"--node 1=a\x1bb", kit.ExitUsage, "use ID=NAME"},
		{"--port 7,7", kit.ExitUsage, "twice"},
		{"--join 2m", kit.ExitUsage, "use 0 to 1m"},
		{"--show all", kit.ExitUsage, "use packets, events"},
		{"--threshold hop_latency", kit.ExitUsage, "use METRIC="},
		{"--threshold hop=1%", kit.ExitUsage, `no metric "hop": use flow_path`},
		{"--threshold hop_latency=1", kit.ExitUsage, `threshold "1" of hop_latency: use a time`},
		{"--threshold all=1us", kit.ExitUsage, "of queue_occupancy: use a number"},
		{"--threshold hop_latency=1us,hop_latency=2us", kit.ExitUsage, "twice"},
		{"--flows 0", kit.ExitUsage, "use 1 to 16M"},
		{"--age -1s", kit.ExitUsage, "use 0 or more"},
		{"--forget --keep 1m", kit.ExitUsage, "--forget and --keep"},
		{"--node leaf1=1", kit.ExitUsage, "use ID=NAME"},
		{"--node 4294967296=x", kit.ExitUsage, "use ID=NAME"},
		{"--allow here", kit.ExitUsage, `--allow "here": use an address, or a prefix`},
		{"--allow fe80::1%eth0", kit.ExitUsage, "use an address, or a prefix"},
		{"--allow 10.0.0.1/8", kit.ExitUsage, "--allow 10.0.0.1/8: bits behind the prefix are set: did you mean 10.0.0.0/8, or 10.0.0.1?"},
		{"--allow 10.0.0.1,10.0.0.1/32", kit.ExitUsage, "--allow 10.0.0.1/32: twice"},
		{"--allow ::ffff:10.0.0.0/104", kit.ExitUsage, "write the prefix as IPv4 does"},
		{"--keep 10", kit.ExitUsage, "use at least 64k"},
		{"--keep-metrics 10", kit.ExitUsage, "--keep-metrics 10: use at least 64k"},
		{"-r /nowhere/none.pcap", kit.ExitFailure, "no such file"},
		{"-r x --interface lo", kit.ExitUsage, "--interface and -r FILE: use one of them"},
		{"--interface lo --listen ::1", kit.ExitUsage, "--interface and --listen: use one of them"},
		{"--interface lo --xdp lo", kit.ExitUsage, "--interface and --xdp: use one of them"},
		{"--interface nowhere", kit.ExitFailure, "interface nowhere: Link not found"},
		{"-r x --listen ::1", kit.ExitUsage, "use one of them"},
		{"x", kit.ExitUsage, "x"},
	} {
		_, stderr, code := clitest.Radar(t, append([]string{"collect"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no capture, in spite of its name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// What was kept stays until there is something to take its place.
	if _, stderr, code := clitest.Radar(t, "collect", "--all", "-r", clitest.ReportsFile(t)); code != kit.ExitOK {
		t.Fatalf("code %d, %s", code, stderr)
	}
	if _, stderr, code := clitest.Radar(t, "collect", "-r", filepath.Join(dir, "text")); code != kit.ExitFailure || !strings.Contains(stderr, "neither pcap nor pcapng") {
		t.Errorf("code %d, %s", code, stderr)
	}
	kept, err := filepath.Glob(filepath.Join(store.Dir("default"), "*.pcap"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	for _, from := range []string{"", kept[0]} { // also read into its own place
		if from != "" {
			clitest.Radar(t, "collect", "--all", "-r", from)
		}
		if stdout, _, _ := clitest.Radar(t, "packets", "-o", "json"); strings.Count(stdout, "\n") != len(clitest.ReportFrames) {
			t.Errorf("after reading %q: %s", from, stdout)
		}
	}
	if _, stderr, code := clitest.Radar(t, "paths", "--node", "nobody"); code != kit.ExitUsage || !strings.Contains(stderr, "int-ID") {
		t.Errorf("a node that nobody has: code %d, %s", code, stderr)
	}
	// A description that is damaged is named; forgetting works.
	if err := os.WriteFile(filepath.Join(store.Dir("default"), "collector.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := clitest.Radar(t, "packets"); code != kit.ExitFailure || !strings.Contains(stderr, "collector.json") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code := clitest.Radar(t, "collect", "--forget"); code != kit.ExitOK {
		t.Errorf("code %d, %s", code, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "state", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCollectBesideRing: packets of switches and radar's own are in one answer.
func TestCollectBesideRing(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--slots", "4K"}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.Settled(10)
	own := w.Packets("--last", "0")
	w.Radar(kit.ExitOK, "collect", "--all", "-r", clitest.ReportsFile(t))
	all := w.Packets("--last", "0")
	if len(all) != len(own)+len(clitest.ReportFrames) {
		t.Errorf("%d packets, want %d of radar's and %d of reports", len(all), len(own), len(clitest.ReportFrames))
	}
	for i := range all[1:] {
		if all[i].TNs > all[i+1].TNs {
			t.Errorf("packet %d, %s, is before %s", i, all[i].Time, all[i+1].Time)
		}
	}
	if newest := w.Packets("--last", "3"); len(newest) != 3 || newest[2].ID != all[len(all)-1].ID {
		t.Errorf("the newest three: %+v", newest)
	}
	paths := w.Radar(kit.ExitOK, "paths")
	for _, want := range []string{"h1 > r1 > h2", "h2 > r1 > h1", "int-1 > int-2 > int-3"} {
		if !strings.Contains(paths, want) {
			t.Errorf("no %q in\n%s", want, paths)
		}
	}
	if got := w.Radar(kit.ExitOK, "latency", "--by", "node"); !strings.Contains(got, "r1") || !strings.Contains(got, "int-4") {
		t.Errorf("latency:\n%s", got)
	}
	if got := w.Radar(kit.ExitUsage, "paths", "--node", "nobody"); !strings.Contains(got, "no such node") {
		t.Errorf("a node that nobody has: %s", got)
	}
	// Detaching leaves the reports, forgetting them leaves the domain.
	w.Radar(kit.ExitOK, "collect", "--forget")
	if left := w.Packets("--last", "0"); len(left) < len(own) {
		t.Errorf("%d packets after forgetting, %d before", len(left), len(own))
	}
}
