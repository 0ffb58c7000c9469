// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// postcardSwitch is a switch that forwards IPv4 between eth0 and eth1 by packet sockets, and reports each
// packet of UDP to port 9999 as it has read it (INT-XD, Telemetry Report 2.0). What it says of its queue
// tells which switch and which packet it is about. It begins in the collector's namespace, and moves to that
// of the path in its arguments. Switch 1 sends every other postcard after the next one. It also sends some
// that are not true: of other content, of another flow, cut short, and of a node that nobody has named.
const postcardSwitch = `
import ctypes, os, select, socket, struct, subprocess, sys
me = int(sys.argv[2])
reports = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
reports.connect(("127.0.0.1", 32766))
fd = os.open(sys.argv[1], os.O_RDONLY)
if ctypes.CDLL(None, use_errno=True).setns(fd, 0):
    raise OSError(ctypes.get_errno())
def neighbour(dev):
    words = subprocess.check_output(["ip", "-4", "neigh", "show", "dev", dev], text=True).split()
    return bytes.fromhex(words[words.index("lladdr") + 1].replace(":", ""))
ports = []
for dev in "eth0", "eth1":
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24) # SO_RCVBUFFORCE: room for all
    s.bind((dev, 3)) # ETH_P_ALL
    ports.append((s, s.getsockname()[4], neighbour(dev)))
count, held = 0, []
def report(node, quote, depth):
    global count
    inner = quote + bytes(-len(quote) % 4)
    head = struct.pack("!BBBBHHHH", 0x14, (20 + len(inner)) // 4, 3, 0x20, 0x7000, 0, 0, 0)
    said = struct.pack("!HHIBBH", 1, 2, 100 * node, 0, depth >> 16, depth & 0xffff)
    held.append(struct.pack("!II", 0x20000000 | count, node) + head + said + inner)
    count += 1
def checked(b):
    b[24:26] = b"\0\0"
    total = sum(struct.unpack("!10H", b[14:34]))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    b[24:26] = struct.pack("!H", total ^ 0xffff)
print("ready", flush=True)
while True:
    for s in select.select([p[0] for p in ports], [], [])[0]:
        f, addr = s.recvfrom(65536)
        if addr[2] == 4 or f[12:14] != b"\x08\x00":
            continue
        f = bytearray(f)
        out, mac, to = ports[1 if s is ports[0][0] else 0]
        asread = bytes(f[14:14 + struct.unpack("!H", f[16:18])[0]])
        f[:12], f[22] = to + mac, f[22] - 1
        checked(f)
        assent = bytes(f[14:14 + len(asread)])
        out.send(f)
        if asread[9] != 17 or asread[22:24] != struct.pack("!H", 9999):
            continue
        n = struct.unpack("!I", asread[28:32])[0]
        quote = assent if me == 2 else asread
        report(me, quote, 1000 * me + n)
        if me == 1 and n < 10:
            report(2, quote[:31] + bytes([quote[31] ^ 0x80]) + quote[32:], 7)
            report(2, quote[:20] + b"\x12\x34" + quote[22:], 7)
            report(2, quote[:28], 7)
            report(9, quote, 7)
        if me != 1 or n % 2:
            for r in reversed(held):
                reports.send(r)
            held = []
`

// sendNumbered sends packets of one flow, of which the IP ID tells which one it is: 1000 and on.
const sendNumbered = `
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
src, dst = "10.0.1.1", "10.0.4.2"
for n in range(int(sys.argv[1])):
    data = struct.pack("!IIQ", n, 0, 0)
    udp = struct.pack("!HHHH", 4000, 9999, 8 + len(data), 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp + data), 1000 + n, 0x4000, 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
    s.sendto(ip + udp + data, (dst, 0))
`

// TestPostcardsInside: what three switches inside the domain report of each packet is joined to radar's own
// story of it, in the order of the way, and nothing else is. Who collects elsewhere claims no order.
func TestPostcardsInside(t *testing.T) {
	const packets, forged = 300, 10
	w := newWorldOf(t, "chain", map[string]string{"N": "3"})
	n := nstest.New(t, "c")
	n.Run("c", "ip", "link", "set", "lo", "up")
	if out, err := w.lab.Command(t.Context(), "h1", "ping", "-q", "-c", "1", "10.0.4.2").CombinedOutput(); err != nil {
		t.Fatalf("ping: %v: %s", err, out)
	}
	w.radar(exitOK, append([]string{"attach", "-d"}, w.lab.AttachArgs()...)...)
	for i := 1; i <= 3; i++ {
		node := fmt.Sprint("r", i)
		w.in(node, "sysctl", "-qw", "net.ipv4.ip_forward=0")
		process := exec.Command("nsenter", "--net="+n.Path("c"), "python3", "-c", postcardSwitch, w.lab.NetNSPath(node), fmt.Sprint(i))
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(t.TempDir(), "events.jsonl")
	collector := exec.Command("nsenter", "--net="+n.Path("c"), self, "collect", "--all", "--listen", "127.0.0.1", "--join", "1m",
		"--node", "1=r1,2=r2,3=r3", "--json", events, "--snapshot", "0")
	collector.Env = os.Environ()
	await(t, collector, "collecting at")
	w.in("h1", "python3", "-c", sendNumbered, fmt.Sprint(packets))
	const reports = 3*packets + 4*forged
	var info *collect.Info
	defer func() {
		if t.Failed() {
			t.Logf("collected: %+v", info)
		}
	}()
	nstest.WaitFor(t, "all reports to come", func() bool {
		info, err = collect.Load(w.domain)
		return err == nil && info.Next == reports
	})
	if err := collector.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := collector.Wait(); err != nil {
		t.Fatal(err)
	}
	if info, err = collect.Load(w.domain); err != nil {
		t.Fatal(err)
	}
	want := collect.JoinCounts{Packets: packets, Joined: 3 * packets, Foreign: 2 * forged, Unproven: forged, OffPath: forged}
	if info.Counts.Joins != want {
		t.Errorf("counts %+v\nwant %+v", info.Counts.Joins, want)
	}
	said, err := os.ReadFile(collector.Stderr.(*os.File).Name())
	if err != nil || !strings.Contains(string(said), "900 postcards joined to radar's own stories of 300 packets") {
		t.Errorf("%v, said:\n%s", err, said)
	}

	found := 0
	for _, r := range w.packets("--last", "2000", "udp", "dst", "port", "9999") {
		if r.Source != record.EBPF {
			continue
		}
		found++
		number := uint64(r.IPID - 1000)
		path := pathText(&r)
		if path != "h1 > r1 > r2 > r3 > h2" || r.State != record.Delivered {
			t.Fatalf("packet %d: %s, %s", number, r.State, path)
		}
		for i, h := range r.Hops {
			switch {
			case (i == 0 || i == 4) && h.INT != nil:
				t.Fatalf("packet %d at %s: %v", number, h.Node, h.INT)
			case i > 0 && i < 4 && (h.INT["queue_occ"] != 1000*uint64(i)+number || h.INT["node_id"] != uint64(i)):
				t.Fatalf("packet %d at %s: %v", number, h.Node, h.INT)
			}
		}
		if found == 1 {
			if text := w.radar(exitOK, "trace", r.ID); !strings.Contains(text, fmt.Sprintf("the switch says {queue 0: %d, latency 200}", 2000+number)) {
				t.Errorf("trace:\n%s", text)
			}
		}
	}
	if found != packets {
		t.Errorf("%d packets of radar's own, want %d", found, packets)
	}
	if paths := pathEvents(t, events); len(paths) != 1 || paths[0] != "r1 > r2 > r3" {
		t.Errorf("path events %q", paths)
	}
	var counted int
	for line := range strings.Lines(w.radar(exitOK, "paths", "-o", "json", "--src", "10.0.1.1", "udp", "dst", "port", "9999")) {
		var row struct {
			Path    string `json:"path"`
			Packets int    `json:"packets"`
		}
		if json.Unmarshal([]byte(line), &row) == nil && strings.HasPrefix(row.Path, "h1") {
			if counted += row.Packets; row.Path != "h1 > r1 > r2 > r3 > h2" {
				t.Errorf("path %q", row.Path)
			}
		}
	}
	if counted != packets {
		t.Errorf("paths has %d packets, want each once: %d", counted, packets)
	}
	elsewhere(t, w.domain, packets)
}

// elsewhere reads the same reports where the domain is not: there the order is not claimed.
func elsewhere(t *testing.T, name string, packets uint64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(collect.Dir(name), "*.pcap"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", files, err)
	}
	events := filepath.Join(t.TempDir(), "elsewhere.jsonl")
	stdout, stderr, code := radar(t, "collect", "--domain", name+"e", "--all", "--join", "1m", "--json", events, "--snapshot", "0", "-r", files[0])
	if code != exitOK {
		t.Fatalf("collect -r: %d: %s%s", code, stdout, stderr)
	}
	info, err := collect.Load(name + "e")
	if err != nil || info.Counts.Unordered < packets || info.Counts.Joins.Joined != 0 || !strings.Contains(stderr, "the order of the nodes is not known") {
		t.Errorf("%v, %+v: %s", err, info.Counts, stderr)
	}
	if paths := pathEvents(t, events); len(paths) > 0 {
		t.Errorf("paths are claimed: %q", paths)
	}
	stdout, _, _ = radar(t, "packets", "--domain", name+"e", "--last", "0")
	if !strings.Contains(stdout, "int-1, int-2, int-3 (order not known)") || strings.Contains(stdout, "int-1 > int-2") {
		t.Errorf("packets:\n%.2000s", stdout)
	}
}

// pathEvents are the paths of the events in a file.
func pathEvents(t *testing.T, file string) (paths []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e metrics.EventJSON
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Metric == metrics.FlowPath.String() {
			paths = append(paths, strings.Join(e.Path, " > "))
		}
	}
	return paths
}
