// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/topo"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// TestCollectFile: a file's reports are in every answer, with nothing attached.
func TestCollectFile(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	_, stderr, code := radar(t, "collect", "-r", reportsFile(t), "--node", "1=leaf1,2=spine2", "--source", "10.9.0.3=switch-p4-16")
	if code != exitOK || !strings.Contains(stderr, "10 datagrams") {
		t.Fatalf("code %d, %s", code, stderr)
	}
	// That profile is right for one of them only.
	stdout, _, _ := radar(t, "loss", "-o", "json")
	if !strings.Contains(stdout, `"reason":"ACL_DROP"`) {
		t.Errorf("loss: %s", stdout)
	}
	if _, stderr, code = radar(t, "collect", "-r", reportsFile(t), "--node", "1=leaf1,2=spine2"); code != exitOK {
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
		stdout, stderr, code := radar(t, strings.Fields(c.args)...)
		for _, want := range c.want {
			if code != exitOK || !strings.Contains(stdout, want) {
				t.Errorf("%s: code %d, no %q in\n%s%s", c.args, code, want, stdout, stderr)
			}
		}
	}
	if _, stderr, code := radar(t, "collect", "--forget"); code != exitOK {
		t.Errorf("forget: code %d, %s", code, stderr)
	}
	if _, stderr, code := radar(t, "paths"); code != exitFailure || !strings.Contains(stderr, "is not attached") {
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
	await(t, tcpdump, "listening on")
	collector := within(self, "collect", "--port", "32766,6000", "--join", "0", "-o", "json", "--all", "--show", "events")
	collector.Env = append(os.Environ(), "RADAR_STATE_DIR="+live, execEnv+"=1")
	var shown bytes.Buffer
	collector.Stdout = &shown
	await(t, collector, "collecting at [::]:6000")
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
			for _, name := range reportFrames {
				b := intBytes(t, name)[14:]
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
			info, err := collect.Load("default")
			return err == nil && info.Counts.Packets == uint64(sent)
		})
	}
	stopped := func(cmd *exec.Cmd) {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", cmd.Args, err)
		}
	}
	nstest.WaitFor(t, "tcpdump to write all", func() bool { return countPackets(t, captured) == sent })
	stopped(tcpdump)
	stopped(collector)

	byUDP, _, _ := radar(t, "packets", "-o", "json", "--last", "0")
	files, err := filepath.Glob(filepath.Join(collect.Dir("default"), "*.pcap"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	values, _, _ := radar(t, "metrics", "-o", "json")
	type read struct{ packets, events, values string }
	from := func(dir, file string) (r read) {
		t.Setenv("RADAR_STATE_DIR", dir)
		stdout, stderr, code := radar(t, "collect", "--all", "--join", "0", "-r", file, "--show", "events", "-o", "json")
		if code != exitOK {
			t.Fatalf("collect -r: code %d, %s", code, stderr)
		}
		r.events = stdout
		r.packets, _, _ = radar(t, "packets", "-o", "json", "--last", "0")
		r.values, _, _ = radar(t, "metrics", "-o", "json")
		return r
	}
	same := func(what, by, got string, n int, clocks bool) {
		t.Helper()
		want, have := lines(t, by), lines(t, got)
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
		same("records", byUDP, c.packets, 2*len(reportFrames), c.clocks)
		same("events", shown.String(), c.events, 32, c.clocks)
		same("values", values, c.values, 27, c.clocks)
	}
	t.Setenv("RADAR_STATE_DIR", live)
	info, err := collect.Load("default")
	if err != nil {
		t.Fatal(err)
	}
	n2 := uint64(2 * len(reportFrames))
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
		{"--port 0", exitUsage, "--port 0: use 1 to 65535"},
		{"--port 70000", exitUsage, "use 1 to 65535"},
		{"--listen here", exitUsage, `--listen "here": no IP address`},
		{"--listen 192.0.2.1", exitFailure, "cannot assign requested address"},
		{"--source 10.0.0.1", exitUsage, "use ADDRESS=PROFILE"},
		{"--source 10.0.0.1=cisco", exitUsage, `unknown profile "cisco"`},
		{"--source switch=geant", exitUsage, "use ADDRESS=PROFILE"},
		{"--source 10.0.0.1=geant,10.0.0.1=tps", exitUsage, "twice"},
		{"--node 1=a,0x1=b", exitUsage, "twice"},
		{"--node 1=a\x1bb", exitUsage, "use ID=NAME"},
		{"--port 7,7", exitUsage, "twice"},
		{"--join 2m", exitUsage, "use 0 to 1m"},
		{"--show all", exitUsage, "use packets, events"},
		{"--threshold hop_latency", exitUsage, "use METRIC="},
		{"--threshold hop=1%", exitUsage, `no metric "hop": use flow_path`},
		{"--threshold hop_latency=1", exitUsage, `threshold "1" of hop_latency: use a time`},
		{"--threshold all=1us", exitUsage, "of queue_occupancy: use a number"},
		{"--threshold hop_latency=1us,hop_latency=2us", exitUsage, "twice"},
		{"--flows 0", exitUsage, "use 1 to 16M"},
		{"--age -1s", exitUsage, "use 0 or more"},
		{"--forget --keep 1m", exitUsage, "--forget and --keep"},
		{"--node leaf1=1", exitUsage, "use ID=NAME"},
		{"--node 4294967296=x", exitUsage, "use ID=NAME"},
		{"--allow here", exitUsage, `--allow "here": use an address, or a prefix`},
		{"--allow fe80::1%eth0", exitUsage, "use an address, or a prefix"},
		{"--allow 10.0.0.1/8", exitUsage, "--allow 10.0.0.1/8: bits behind the prefix are set: did you mean 10.0.0.0/8, or 10.0.0.1?"},
		{"--allow 10.0.0.1,10.0.0.1/32", exitUsage, "--allow 10.0.0.1/32: twice"},
		{"--allow ::ffff:10.0.0.0/104", exitUsage, "write the prefix as IPv4 does"},
		{"--keep 10", exitUsage, "use at least 64k"},
		{"--keep-metrics 10", exitUsage, "--keep-metrics 10: use at least 64k"},
		{"-r /nowhere/none.pcap", exitFailure, "no such file"},
		{"-r x --interface lo", exitUsage, "--interface and -r FILE: use one of them"},
		{"--interface lo --listen ::1", exitUsage, "--interface and --listen: use one of them"},
		{"--interface lo --xdp lo", exitUsage, "--interface and --xdp: use one of them"},
		{"--interface nowhere", exitFailure, "interface nowhere: Link not found"},
		{"-r x --listen ::1", exitUsage, "use one of them"},
		{"x", exitUsage, "x"},
	} {
		_, stderr, code := radar(t, append([]string{"collect"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no capture, in spite of its name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// What was kept stays until there is something to take its place.
	if _, stderr, code := radar(t, "collect", "--all", "-r", reportsFile(t)); code != exitOK {
		t.Fatalf("code %d, %s", code, stderr)
	}
	if _, stderr, code := radar(t, "collect", "-r", filepath.Join(dir, "text")); code != exitFailure || !strings.Contains(stderr, "neither pcap nor pcapng") {
		t.Errorf("code %d, %s", code, stderr)
	}
	kept, err := filepath.Glob(filepath.Join(collect.Dir("default"), "*.pcap"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	for _, from := range []string{"", kept[0]} { // also read into its own place
		if from != "" {
			radar(t, "collect", "--all", "-r", from)
		}
		if stdout, _, _ := radar(t, "packets", "-o", "json"); strings.Count(stdout, "\n") != len(reportFrames) {
			t.Errorf("after reading %q: %s", from, stdout)
		}
	}
	if _, stderr, code := radar(t, "paths", "--node", "nobody"); code != exitUsage || !strings.Contains(stderr, "int-ID") {
		t.Errorf("a node that nobody has: code %d, %s", code, stderr)
	}
	// A description that is damaged is named; forgetting works.
	if err := os.WriteFile(filepath.Join(collect.Dir("default"), "collector.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := radar(t, "packets"); code != exitFailure || !strings.Contains(stderr, "collector.json") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code := radar(t, "collect", "--forget"); code != exitOK {
		t.Errorf("code %d, %s", code, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "state", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCollectBesideRing: packets of switches and radar's own are in one answer.
func TestCollectBesideRing(t *testing.T) {
	w := newWorld(t)
	w.radar(exitOK, append([]string{"attach", "-d", "--slots", "4K"}, w.lab.AttachArgs()...)...)
	w.ping(5)
	w.settled(10)
	own := w.packets("--last", "0")
	w.radar(exitOK, "collect", "--all", "-r", reportsFile(t))
	all := w.packets("--last", "0")
	if len(all) != len(own)+len(reportFrames) {
		t.Errorf("%d packets, want %d of radar's and %d of reports", len(all), len(own), len(reportFrames))
	}
	for i := range all[1:] {
		if all[i].TNs > all[i+1].TNs {
			t.Errorf("packet %d, %s, is before %s", i, all[i].Time, all[i+1].Time)
		}
	}
	if newest := w.packets("--last", "3"); len(newest) != 3 || newest[2].ID != all[len(all)-1].ID {
		t.Errorf("the newest three: %+v", newest)
	}
	paths := w.radar(exitOK, "paths")
	for _, want := range []string{"h1 > r1 > h2", "h2 > r1 > h1", "int-1 > int-2 > int-3"} {
		if !strings.Contains(paths, want) {
			t.Errorf("no %q in\n%s", want, paths)
		}
	}
	if got := w.radar(exitOK, "latency", "--by", "node"); !strings.Contains(got, "r1") || !strings.Contains(got, "int-4") {
		t.Errorf("latency:\n%s", got)
	}
	if got := w.radar(exitUsage, "paths", "--node", "nobody"); !strings.Contains(got, "no such node") {
		t.Errorf("a node that nobody has: %s", got)
	}
	// Detaching leaves the reports, forgetting them leaves the domain.
	w.radar(exitOK, "collect", "--forget")
	if left := w.packets("--last", "0"); len(left) < len(own) {
		t.Errorf("%d packets after forgetting, %d before", len(left), len(own))
	}
}
