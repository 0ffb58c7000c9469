// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// generatedFile writes a capture file of what the flags describe.
func generatedFile(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "generated.pcap")
	if _, stderr, code := clitest.Radar(t, append([]string{"collect", "generate", "--write", path}, args...)...); code != kit.ExitOK {
		t.Fatalf("%v: code %d, %s", args, code, stderr)
	}
	return path
}

// payloads are what UDP carries in a capture file, and when.
func payloads(t *testing.T, path string) (list []string, at []time.Time) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := collect.OpenCapture(file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		p, err := c.NextPacket()
		if errors.Is(err, io.EOF) {
			return list, at
		}
		if err != nil {
			t.Fatal(err)
		}
		_, payload, err := p.UDP()
		if err != nil {
			t.Fatal(err)
		}
		list, at = append(list, string(payload)), append(at, p.At)
	}
}

// TestGenerateFile: the same flags write the same bytes, another seed others; times are those of
// the rate; what was written is what radar collect reads.
func TestGenerateFile(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	args := []string{"--count", "200", "--drops", "0.1", "--hops", "4"}
	first := generatedFile(t, args...)
	if read(first) != read(generatedFile(t, args...)) {
		t.Error("the same flags wrote other bytes")
	}
	if read(first) == read(generatedFile(t, append(args, "--seed", "2")...)) {
		t.Error("another seed wrote the same bytes")
	}
	_, at := payloads(t, generatedFile(t, "--duration", "1s", "--rate", "250/s"))
	if len(at) != 250 || at[249].Sub(at[0]) != 249*4*time.Millisecond {
		t.Errorf("%d datagrams in %v", len(at), at[len(at)-1].Sub(at[0]))
	}
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if _, stderr, code := clitest.Radar(t, "collect", "--all", "-r", first); code != kit.ExitOK || !strings.Contains(stderr, "; 200 packets kept") || strings.Contains(stderr, "odd") {
		t.Errorf("code %d, %s", code, stderr)
	}
	stdout, stderr, code := clitest.Radar(t, "collect", "generate", "--write", "-", "--count", "200", "--drops", "0.1", "--hops", "4")
	if code != kit.ExitOK || stdout != read(first) {
		t.Errorf("to standard output: code %d, %d bytes, %s", code, len(stdout), stderr)
	}
	if stdout, _, _ := clitest.Radar(t, "collect", "generate", "--write", first, "--count", "3", "--group", "4", "-o", "json"); stdout != `{"datagrams":3,"reports":12,"errors":0,"parts":0}`+"\n" {
		t.Errorf("as JSON: %s", stdout)
	}
}

// TestGenerateReplayFile: what is replayed has the bytes and times of the capture, or those of
// --rate; a loop goes on behind its end.
func TestGenerateReplayFile(t *testing.T) {
	file := clitest.ReportsFile(t) // one a second, not all of them to the port of reports
	ports := []string{"-r", file, "--port", "32766,54321,8090"}
	want, at := payloads(t, file)
	got, times := payloads(t, generatedFile(t, ports...))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payloads: %s", diff)
	}
	if diff := cmp.Diff(at, times, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("times: %s", diff)
	}
	got, times = payloads(t, generatedFile(t, append(ports, "--loop", "--count", "25")...))
	if len(got) != 25 {
		t.Fatalf("%d of 25", len(got))
	}
	for i := range got {
		if got[i] != want[i%len(want)] || times[i].Sub(at[0]) != time.Duration(i)*time.Second {
			t.Errorf("datagram %d at %v", i, times[i].Sub(at[0]))
		}
	}
	_, times = payloads(t, generatedFile(t, append(ports, "--rate", "1000")...))
	if d := times[9].Sub(times[0]); d != 9*time.Millisecond {
		t.Errorf("ten at 1000 a second in %v", d)
	}
	some, _ := payloads(t, generatedFile(t, "-r", file))
	if len(some) == 0 || len(some) >= len(want) {
		t.Errorf("%d of %d to the default port", len(some), len(want))
	}
	// What is cut is left out, and said.
	whole := clitest.FrameBytes(t, clitest.ReportFrames[0])
	cut := clitest.Capture(t, false, layers.LinkTypeEthernet, whole, whole[:len(whole)-1])
	_, stderr, code := clitest.Radar(t, "collect", "generate", "--write", filepath.Join(t.TempDir(), "x"), "-r", cut)
	if code != kit.ExitOK || !strings.Contains(stderr, "1 datagram written") || !strings.Contains(stderr, "1 packet left out") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// TestGenerateSends: what is made comes to a collector, what is replayed comes byte for byte, and
// what cannot be sent is counted.
func TestGenerateSends(t *testing.T) {
	n := nstest.New(t, "g")
	need.Programs(t, "tcpdump")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	t.Setenv("RADAR_STATE_DIR", state)
	t.Setenv("RADAR_DOMAIN", nstest.Unique())
	t.Setenv(clitest.ExecEnv, "1")
	within := func(name string, args ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=" + n.Path("g"), name}, args...)...)
	}
	run := func(code int, args ...string) string {
		t.Helper()
		out, err := within(self, append([]string{"collect", "generate"}, args...)...).CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || exit == nil && code != 0 || exit != nil && exit.ExitCode() != code {
			t.Fatalf("%v: %v, want code %d: %s", args, err, code, out)
		}
		return string(out)
	}
	if out := run(kit.ExitOK, "--to", "127.0.0.1:32766", "--count", "100", "--rate", "0"); !strings.Contains(out, "could not be sent, the last") {
		t.Errorf("to nobody: %s", out)
	}
	run(kit.ExitFailure, "--to", "127.255.255.255:32766", "--count", "1")
	run(kit.ExitFailure, "--to", "192.0.2.1:32766", "--count", "1")

	collector := within(self, "collect", "--all", "--join", "1m") // a busy machine may send postcards late
	clitest.Await(t, collector, "collecting at")
	begin := time.Now()
	out := run(kit.ExitOK, "--to", "127.0.0.1:32766", "--count", "1000", "--rate", "2000", "--drops", "0.1", "--gap-every", "100", "--seed", "5")
	if took := time.Since(begin); took < 499*time.Millisecond || !strings.Contains(out, "1000 datagrams with 1000 reports sent") {
		t.Errorf("%v, %s", took, out)
	}
	run(kit.ExitOK, "--to", "[::1]:32766", "--count", "300", "--mode", "xd", "--report", "1.0", "--first-node", "11", "--ipv6") // other packets than those before
	nstest.WaitFor(t, "all reports to be kept", func() bool {
		info, err := store.Load(os.Getenv("RADAR_DOMAIN"))
		return err == nil && info.Counts.Packets == 1300
	})
	clitest.Interrupt(t, collector)
	info, err := store.Load(os.Getenv("RADAR_DOMAIN"))
	if err != nil {
		t.Fatal(err)
	}
	// Node 3 has numbered some 940 datagrams, the others those of their drops.
	if c := info.Counts; c.Rejected != 0 || c.Anomalous != 0 || c.Records != 1100 || info.Gaps < 8 || info.Gaps > 10 {
		t.Errorf("%+v, %d gaps", c, info.Gaps)
	}
	paths, _, _ := clitest.Radar(t, "paths")
	for _, want := range []string{"int-1 > int-2 > int-3\n", "int-11 > int-12 > int-13\n"} {
		if !strings.Contains(paths, want) {
			t.Errorf("no %q in\n%s", want, paths)
		}
	}
	if losses, _, _ := clitest.Radar(t, "loss"); !strings.Contains(losses, "INT_80") {
		t.Errorf("losses:\n%s", losses)
	}

	file := clitest.ReportsFile(t)
	captured := filepath.Join(t.TempDir(), "captured.pcap")
	tcpdump := within("tcpdump", "-i", "lo", "-p", "-n", "-U", "-Z", "root", "-w", captured, "udp port 32766")
	clitest.Await(t, tcpdump, "listening on")
	listener := within(self, "collect", "--listen", "127.0.0.1")
	clitest.Await(t, listener, "collecting at")
	replayed, err := within(self, "collect", "generate", "--to", "127.0.0.1:32766", "-r", file, "--port", "32766,54321,8090",
		"--rate", "100", "--loop", "--count", "25", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "tcpdump to write all", func() bool { return clitest.CountPackets(t, captured) == 25 })
	clitest.Interrupt(t, tcpdump)
	want, _ := payloads(t, file)
	got, _ := payloads(t, captured)
	for i := range got {
		if got[i] != want[i%len(want)] {
			t.Errorf("datagram %d: %x, want %x", i, got[i], want[i%len(want)])
		}
	}
	if all := clitest.Lines(t, string(replayed)); len(all) != 1 || all[0]["seconds"].(float64) < 0.239 { // the first is due at 0
		t.Errorf("25 at 100 a second: %s", replayed)
	}

	// Interrupted, it says what it sent.
	var said bytes.Buffer
	endless := within(self, "collect", "generate", "--to", "127.0.0.1:32766", "-o", "json", "--rate", "100")
	endless.Stdout = &said
	if err := endless.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "more reports to come", func() bool {
		info, err := store.Load(os.Getenv("RADAR_DOMAIN"))
		return err == nil && info.Counts.Packets > 30
	})
	clitest.Interrupt(t, endless)
	clitest.Interrupt(t, listener)
	if all := clitest.Lines(t, said.String()); len(all) != 1 || all[0]["seconds"] == nil {
		t.Errorf("interrupted: %s", &said)
	}
}

// TestGenerateRefuses: each error names what is wrong.
func TestGenerateRefuses(t *testing.T) {
	file := clitest.ReportsFile(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", kit.ExitUsage, "use --to HOST:PORT or --write FILE"},
		{"--to 127.0.0.1:1 --write x", kit.ExitUsage, "use --to HOST:PORT or --write FILE"},
		{"--to 127.0.0.1", kit.ExitUsage, "use HOST:PORT"},
		{"--to 127.0.0.1:0", kit.ExitUsage, "use HOST:PORT"},
		{"--to :32766", kit.ExitUsage, "use HOST:PORT"},
		{"--to 224.0.0.1:32766", kit.ExitFailure, "not the address of one machine"},
		{"--to 255.255.255.255:32766", kit.ExitFailure, "not the address of one machine"},
		{"--to 127.0.0.1:1 --loop", kit.ExitUsage, "use it with -r FILE"},
		{"--to 127.0.0.1:1 --port 5", kit.ExitUsage, "use it with -r FILE"},
		{"--to 127.0.0.1:1 --rate -1", kit.ExitUsage, "is no rate"},
		{"--to 127.0.0.1:1 --rate 1e9", kit.ExitUsage, "is no rate"},
		{"--to 127.0.0.1:1 --duration -1s", kit.ExitUsage, "not negative"},
		{"--to 127.0.0.1:1 --latency 5-1", kit.ExitUsage, "is no range"},
		{"--to 127.0.0.1:1 --instructions 0x1ff81", kit.ExitUsage, "use 16 bits"},
		{"--to 127.0.0.1:1 --instructions 0x0040", kit.ExitUsage, "use only bits of 0xff81"},
		{"--to 127.0.0.1:1 --instructions 0x0080 --report 1.0", kit.ExitUsage, "use only bits of 0xff01"},
		{"--to 127.0.0.1:1 --hops 20", kit.ExitUsage, "length out of range"},
		{"--to 127.0.0.1:1 --drops 2", kit.ExitUsage, "use 0 to 1"},
		{"--to 127.0.0.1:1 --vlan 5 --quote ip", kit.ExitUsage, "VLAN"},
		{"--to 127.0.0.1:1 --report 0.5", kit.ExitUsage, "use 2.0, 1.0"},
		{"--write x", kit.ExitUsage, "has no end"},
		{"--write x --loop -r " + file, kit.ExitUsage, "has no end"},
		{"--write x --hops 4 -r " + file, kit.ExitUsage, "--hops and -r FILE"},
		{"--write x --loop -r - --count 1", kit.ExitUsage, "cannot be read again"},
		{"--write x --port 0 -r " + file, kit.ExitUsage, "use 1 to 65535"},
		{"--write x --count 1 -r /nowhere/none.pcap", kit.ExitFailure, "no such file"},
		{"--write x --count 1 --loop --port 7 -r " + file, kit.ExitFailure, "no whole datagram to ports [7]"},
		{"--write /nowhere/x --count 1", kit.ExitFailure, "no such file"},
		{"x --count 1 --write x", kit.ExitUsage, "x"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			if args[i] == "x" && i > 0 {
				args[i] = filepath.Join(t.TempDir(), "x")
			}
		}
		_, stderr, code := clitest.Radar(t, append([]string{"collect", "generate"}, args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
}
