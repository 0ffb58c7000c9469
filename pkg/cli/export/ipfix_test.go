// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// nfcapd runs nfdump's collector in the collectors' namespace. The function ends it, and returns what it kept, as nfdump
// prints it in a format.
func (w *exportWorld) nfcapd(port string) (told func(format string) string) {
	w.Helper()
	need.Programs(w.T, "nfcapd:nfdump", "nfdump")
	dir := w.TempDir()
	cmd := w.within(w.net.Path("c"), "nfcapd", "-w", dir, "-p", port, "-b", "127.0.0.1")
	clitest.Await(w.T, cmd, "Startup")
	ended := false
	return func(format string) string {
		w.Helper()
		if !ended {
			// It leaves unread what still waits in its socket when it is ended. A datagram counts as in when it is read.
			nstest.WaitFor(w.T, "nfcapd to read all", func() bool {
				udp := regexp.MustCompile(`(?m)^Udp: ([0-9]+) [0-9]+ [0-9]+ ([0-9]+) `).FindStringSubmatch(w.net.Run("c", "cat", "/proc/net/snmp"))
				return udp != nil && udp[1] == udp[2]
			})
			clitest.Interrupt(w, cmd)
			ended = true
		}
		out, err := exec.Command("nfdump", "-q", "-R", dir, "-o", format).CombinedOutput()
		if err != nil {
			w.Fatalf("nfdump: %v\n%s", err, out)
		}
		return string(out)
	}
}

// flowSums are packets and bytes by what tells flows apart for nfdump.
func (w *exportWorld) flowSums(args ...string) map[string][2]uint64 {
	w.Helper()
	sums := make(map[string][2]uint64)
	stdout, stderr, code := clitest.Radar(w.T, append([]string{"flows", "-o", "json"}, args...)...)
	if code != kit.ExitOK {
		w.Fatalf("flows: %s", stderr)
	}
	for line := range strings.Lines(stdout) {
		var f aggregate.FlowRow
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			w.Fatal(err)
		}
		number := map[string]int{"icmp": 1, "tcp": 6, "udp": 17}[f.Proto]
		key := fmt.Sprintf("%d %s %s", number, f.Src, f.Dst)
		if f.Sport != nil {
			key += fmt.Sprintf(" %d %d", *f.Sport, *f.Dport)
		}
		sum := sums[key]
		sums[key] = [2]uint64{sum[0] + f.Packets, sum[1] + f.Bytes}
	}
	return sums
}

// What nfdump's collector has received has the packets and bytes of each flow that radar flows has, and what tshark reads
// has the delays that radar measured. A recording gives the same flow records.
func TestIPFIX(t *testing.T) {
	w := newExportWorld(t, "bottleneck", nil)
	w.traffic()
	told := w.nfcapd("9995")
	stdout, _ := w.run("export", "ipfix", "--collector", "127.0.0.1:9995", "--last", "0", "-o", "json")
	var end flowEnd
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil {
		t.Fatal(err)
	}
	nfdump := "[" + told("json") + "]"
	var rows []struct {
		Packets uint64 `json:"in_packets"`
		Bytes   uint64 `json:"in_bytes"`
		Proto   int
		Src     string `json:"src4_addr"`
		Dst     string `json:"dst4_addr"`
		Sport   int    `json:"src_port"`
		Dport   int    `json:"dst_port"`
	}
	if err := json.Unmarshal([]byte(nfdump), &rows); err != nil {
		t.Fatalf("%v in %s", err, nfdump)
	}
	got := make(map[string][2]uint64)
	for _, r := range rows {
		key := fmt.Sprintf("%d %s %s", r.Proto, r.Src, r.Dst)
		if r.Proto != 1 {
			key += fmt.Sprintf(" %d %d", r.Sport, r.Dport)
		}
		sum := got[key]
		got[key] = [2]uint64{sum[0] + r.Packets, sum[1] + r.Bytes}
	}
	if diff := cmp.Diff(w.flowSums(), got); diff != "" || len(got) < 5 {
		t.Errorf("nfdump has other flows: %s\n%s", diff, nfdump)
	}
	if c := end.Collector; uint64(len(rows)) != end.Flows || c.Lost+c.Refused > 0 || c.SentFlows != end.Flows {
		t.Errorf("nfdump has %d flow records of %+v, %+v", len(rows), end, c)
	}
	dir := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(w.self, "record", "-w", dir, "--history")
	clitest.Await(t, cmd, "keeping packets")
	clitest.Interrupt(w, cmd)
	interruptedFile(t, dir)
	for _, mode := range []string{modePassport, modePostcard} {
		live := w.read("--mode", mode, "--last", "0")
		recorded := w.read("--mode", mode, "-r", dir)
		if diff := cmp.Diff(live, recorded); diff != "" || len(live) == 0 {
			t.Errorf("%s: a recording gives others: %s", mode, diff)
		}
		if mode == modePassport {
			w.sameDelays(live)
		}
	}
}

// interruptedFile exports a recording to a file, with Ctrl-C at once: what was in the file stays.
func interruptedFile(t *testing.T, recording string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "f.ipfix")
	if err := os.WriteFile(file, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var said strings.Builder
	code := clitest.Run(ctx, []string{"export", "ipfix", "-r", recording, "--file", file}, strings.NewReader(""), io.Discard, &said)
	if text, err := os.ReadFile(file); err != nil || string(text) != "whole" || code != kit.ExitFailure || !strings.Contains(said.String(), "interrupted before it was whole") {
		t.Errorf("exit code %d, %s; the file has %d bytes, %v", code, said.String(), len(text), err)
	}
}

// read is what tshark reads in the flow records of an export, one a line, sorted.
func (w *exportWorld) read(args ...string) []string {
	w.Helper()
	need.Programs(w.T, "tshark")
	file := filepath.Join(w.TempDir(), "flows.ipfix")
	w.run(append([]string{"export", "ipfix", "--file", file}, args...)...)
	out, err := exec.Command("tshark", "-r", file, "-V").Output()
	if err != nil || strings.Contains(string(out), "Malformed") || strings.Contains(string(out), "No template found") {
		w.Fatalf("tshark: %v\n%s", err, out)
	}
	var list []string
	var row []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		switch name, value, _ := strings.Cut(line, ": "); {
		case strings.HasPrefix(line, "Flow ") && !strings.Contains(line, ":"), strings.HasPrefix(line, "Set "):
			if len(row) > 4 {
				list = append(list, strings.Join(row, " | "))
			}
			row = nil
		case slices.Contains([]string{"Protocol", "SrcAddr", "DstAddr", "SrcPort", "DstPort", "Packets", "Octets", "Dropped Packets", "StartTime", "EndTime",
			"InputInt", "OutputInt", "Observation Point Id", "Flow Id", "Flow End Reason"}, name):
			row = append(row, name+" "+value)
		case strings.Contains(line, "Type 53") && strings.Contains(line, "Value (hex bytes)"):
			row = append(row, line[strings.Index(line, "Type 53"):])
		}
	}
	if len(row) > 4 {
		list = append(list, strings.Join(row, " | "))
	}
	slices.Sort(list)
	return list
}

// sameDelays demands that the largest and the smallest delay of delivered packets are in records.
func (w *exportWorld) sameDelays(rows []string) {
	w.Helper()
	least, most := make(map[string]int64), make(map[string]int64)
	for _, r := range w.Packets("--last", "0", "--state", "delivered") {
		key := r.Src + " " + r.Dst + " " + r.Proto
		if old, ok := least[key]; !ok || *r.LatencyNs < old {
			least[key] = *r.LatencyNs
		}
		most[key] = max(most[key], *r.LatencyNs)
	}
	text := strings.Join(rows, "\n")
	for _, want := range []struct {
		id  int
		all map[string]int64
	}{{531, least}, {532, most}} {
		for key := range maps.Keys(want.all) {
			us := (want.all[key] + 500) / 1000
			hex := strings.TrimSpace(fmt.Sprintf("% x", []byte{byte(us >> 24), byte(us >> 16), byte(us >> 8), byte(us)}))
			if line := fmt.Sprintf("Type %d: Value (hex bytes): %s", want.id, hex); !strings.Contains(text, line) {
				w.Errorf("%s: no %q in\n%s", key, line, text)
			}
		}
	}
}

// Flow records go out as packets end, over UDP and over TCP; where the collector of a connection goes and comes again, all
// of it is told anew, and what did not go is counted.
func TestIPFIXLive(t *testing.T) {
	w := newExportWorld(t, "chain", map[string]string{"N": "1"})
	told := w.nfcapd("9995")
	cmd := w.within(w.net.Path("c"), w.self, "export", "ipfix", "--collector", "127.0.0.1:9995", "--idle-timeout", "1m", "--rate", "1000", "icmp")
	clitest.Await(t, cmd, "sending flow records (passport)")
	said := saidBy(t, cmd)
	w.Ping(10)
	w.Settled(20)
	clitest.Interrupt(w, cmd)
	wants(t, said(), "20 packets, 1680 bytes, in 2 flow records", "127.0.0.1:9995: 1 message with 2 flow records sent\n")
	if text := told("line"); strings.Count(text, "ICMP") != 2 {
		t.Errorf("nfdump: %s", text)
	}
}

// Each error says what is wrong.
func TestIPFIXRefuses(t *testing.T) {
	t.Setenv("RADAR_DOMAIN", "nobody-here")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", kit.ExitUsage, "no --collector"},
		{"--collector 127.0.0.1:1 --file x", kit.ExitUsage, "use one of them"},
		{"--collector 127.0.0.1:1", kit.ExitFailure, "is not attached"},
		{"--collector 127.0.0.1:1 --transport sctp", kit.ExitUsage, "use udp, tcp"},
		{"--collector 127.0.0.1:1 --idle-timeout 1ms", kit.ExitUsage, "use 1s or more"},
		{"--collector 127.0.0.1:1 --mtu 100", kit.ExitUsage, "records do not fit"},
		{"--collector 127.0.0.1:1 --mtu 1500 --transport tcp", kit.ExitUsage, "only over UDP"},
		{"--collector 127.0.0.1:1 --flows 0", kit.ExitUsage, "use 1 or more"},
		{"--collector 127.0.0.1:1 --state in_flight", kit.ExitUsage, "when they have ended"},
		{"--collector 127.0.0.1:1 -r /nowhere", kit.ExitFailure, "/nowhere"},
	} {
		if _, stderr, code := clitest.Radar(t, append([]string{"export", "ipfix"}, strings.Fields(c.args)...)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
}

// A connection that breaks is made again, and the new session knows so; meanwhile what does not go is counted. Nobody
// there at the start is an error.
func TestIPFIXConnection(t *testing.T) {
	address := netip.MustParseAddrPort(servers.Free(t))
	if _, err := newTCPWay(t.Context(), "c", address, false); err == nil || !strings.Contains(err.Error(), "no collector at c: connect: connection refused: start one there") {
		t.Error(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	accepted := func(l net.Listener) net.Conn {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	l := listen()
	opened, err := newTCPWay(t.Context(), "c", address, false)
	if err != nil {
		t.Fatal(err)
	}
	w := opened.(*tcpWay)
	conn := accepted(l)
	w.send([]byte("one"), 1)
	b := make([]byte, 3)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "one" || w.renew() {
		t.Fatalf("%q, %v", b, err)
	}
	l.Close()
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	nstest.WaitFor(t, "the connection to break", func() bool { w.send([]byte("lost"), 2); return w.conn == nil })
	nstest.WaitFor(t, "a try to fail", func() bool { w.send([]byte("lost"), 2); return w.Errors["connect: connection refused"] > 0 })
	l = listen()
	defer l.Close()
	nstest.WaitFor(t, "another connection", func() bool { w.send([]byte("stale"), 3); return w.conn != nil })
	conn = accepted(l)
	defer conn.Close()
	if !w.renew() || w.renew() {
		t.Error("the new session is not told once")
	}
	w.send([]byte("two"), 1)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "two" {
		t.Errorf("%q, %v: what a session has not heard the templates of is not sent to it", b, err)
	}
	if c := w.counts(); c.Reconnects != 1 || c.Lost < 2 || c.LostFlows < 4 || c.Errors["connect: connection refused"] == 0 {
		t.Errorf("%+v", c)
	}
	if err := w.close(true); err != nil {
		t.Error(err)
	}
}
