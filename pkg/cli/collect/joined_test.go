// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/words"
)

// postcardSwitch is a switch that forwards IPv4 between eth0 and eth1 by packet sockets, and reports each
// packet to h2 as it has read it (INT-XD, Telemetry Report 2.0). What it says of its queue
// tells which switch and which packet it is about. It begins in the collector's namespace, and moves to that
// of the path in its arguments. Switch 1 sends every other postcard after the next one. It also sends some
// that are not true: of other content, of another flow, cut short, and of a node that nobody has named.
const postcardSwitch = `
import ctypes, os, select, socket, struct, subprocess, sys, time
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
def report(node, quote, depth, came, went):
    global count
    inner = quote + bytes(-len(quote) % 4)
    head = struct.pack("!BBBBHHHH", 0x14, (36 + len(inner)) // 4, 7, 0x20, 0x7c00, 0, 0, 0)
    said = struct.pack("!HHIBBHQQ", 1, 2, 100 * node, 0, depth >> 16, depth & 0xffff, came, went)
    held.append(struct.pack("!II", 0x20000000 | count, node) + head + said + inner)
    count += 1
def now(): # the last digits tell whose time it is
    return time.time_ns() // 1000 * 1000 + 777
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
        came = now()
        if addr[2] == 4 or f[12:14] != b"\x08\x00":
            continue
        f = bytearray(f)
        out, mac, to = ports[1 if s is ports[0][0] else 0]
        asread = bytes(f[14:14 + struct.unpack("!H", f[16:18])[0]])
        f[:12], f[22] = to + mac, f[22] - 1
        checked(f)
        assent = bytes(f[14:14 + len(asread)])
        went = now()
        out.send(f)
        if asread[9] not in (1, 6, 17) or asread[16:20] != socket.inet_aton("10.0.4.2"):
            continue
        n = struct.unpack("!I", asread[-4:])[0]
        quote = assent if me == 2 else asread
        report(me, quote, 1000 * me + n, came, went)
        if me == 1 and n < 10:
            report(2, quote[:31] + bytes([quote[31] ^ 0x80]) + quote[32:], 7, came, went)
            report(2, quote[:20] + b"\x12\x34" + quote[22:], 7, came, went)
            report(2, quote[:28], 7, came, went)
            report(9, quote, 7, came, went)
        if me != 1 or n % 2:
            for r in reversed(held):
                reports.send(r)
            held = []
`

// sendNumbered sends packets of four kinds (UDP, TCP with and without time stamps, echoes), of which the IP
// ID, and the last bytes, tell which one it is: 1000 and on.
const sendNumbered = `
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
src, dst = "10.0.1.1", "10.0.4.2"
for n in range(int(sys.argv[1])):
    number = struct.pack("!I", n)
    data = number + bytes(12) + number
    proto, l4 = (
        (17, struct.pack("!HHHH", 4000, 9999, 8 + len(data), 0)),
        (6, struct.pack("!HHIIBBHHHBBBBII", 4000, 9999, 77000 + n, 5, 0x80, 16, 100, 0, 0, 1, 1, 8, 10, 1234 + n, 9)),
        (6, struct.pack("!HHIIBBHHH", 4000, 9999, 99000 + n, 6, 0x50, 16, 100, 0, 0)),
        (1, struct.pack("!BBHHH", 8, 0, 0, 33, n)))[n % 4]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(l4 + data), 1000 + n, 0x4000, 64, proto, 0, socket.inet_aton(src), socket.inet_aton(dst))
    s.sendto(ip + l4 + data, (dst, 0))
`

// How many packets there are, and how many of them switch 1 lies about, four times each.
const insidePackets, insideForged = 300, 10

// TestPostcardsInside: what three switches inside the domain report of each packet is joined to radar's own
// story of it, in the order of the way, and nothing else is. Who collects elsewhere claims no order.
func TestPostcardsInside(t *testing.T) {
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "3"})
	n := nstest.New(t, "c")
	n.Run("c", "ip", "link", "set", "lo", "up")
	w.In("h1", "ping", "-q", "-c", "1", "10.0.4.2") // every address is known
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	for i := 1; i <= 3; i++ {
		startSwitch(w, n, i)
	}
	events := filepath.Join(t.TempDir(), "events.jsonl")
	info, said := collectInside(w, n, events)
	want := collect.JoinCounts{
		Packets: insidePackets, Joined: 3 * insidePackets, Foreign: 2 * insideForged, Unproven: insideForged, OffPath: insideForged,
	}
	if info.Counts.Joins != want {
		t.Errorf("counts %+v\nwant %+v", info.Counts.Joins, want)
	}
	if !strings.Contains(said, "900 postcards joined to radar's own stories of 300 packets") {
		t.Errorf("said:\n%s", said)
	}
	if paths := pathEvents(t, events); !slices.Equal(paths, slices.Repeat([]string{"r1 > r2 > r3"}, 3)) { // of three flows
		t.Errorf("path events %q", paths)
	}
	if c := &info.Counts; c.ClockFaults+c.Untimed+c.Skewed > 0 {
		t.Errorf("times that cannot be: %d, reports without: %d, skewed: %d", c.ClockFaults, c.Untimed, c.Skewed)
	}
	if links := linkEvents(t, events, true); !slices.Equal(links, []string{"r1 > r2", "r2 > r3"}) {
		t.Errorf("events of links %q", links)
	}
	checkJoined(w)
	checkCountedOnce(w)
	elsewhere(t, w.Domain, insidePackets)
}

// startSwitch starts the switch in a router.
func startSwitch(w *clitest.World, n *nstest.Net, i int) {
	w.Helper()
	node := fmt.Sprint("r", i)
	w.In(node, "sysctl", "-qw", "net.ipv4.ip_forward=0")
	process := exec.Command("nsenter", "--net="+n.Path("c"), "python3", "-c", postcardSwitch, w.Lab.NetNSPath(node), fmt.Sprint(i))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := process.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		w.Fatal(err)
	}
}

// collectInside collects what the switches report of the packets, and returns what the collector says.
func collectInside(w *clitest.World, n *nstest.Net, events string) (info *collect.Info, said string) {
	w.Helper()
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	collector := exec.Command("nsenter", "--net="+n.Path("c"), self, "collect", "--all", "--listen", "127.0.0.1", "--join", "1m",
		"--node", "1=r1,2=r2,3=r3", "--source", "127.0.0.1=spec-2.1,clock=shared", "--event-time", "report", "--json", events, "--snapshot", "0")
	clitest.Await(w.T, collector, "collecting at")
	w.In("h1", "python3", "-c", sendNumbered, fmt.Sprint(insidePackets))
	defer func() {
		if w.Failed() {
			w.Logf("collected: %+v", info)
		}
	}()
	nstest.WaitFor(w.T, "all reports to come", func() bool {
		info, err = store.Load(w.Domain)
		return err == nil && info.Next == 3*insidePackets+4*insideForged
	})
	if err := collector.Process.Signal(os.Interrupt); err != nil {
		w.Fatal(err)
	}
	if err := collector.Wait(); err != nil {
		w.Fatal(err)
	}
	if info, err = store.Load(w.Domain); err != nil {
		w.Fatal(err)
	}
	b, err := os.ReadFile(collector.Stderr.(*os.File).Name())
	if err != nil {
		w.Fatal(err)
	}
	return info, string(b)
}

// checkJoined holds each packet against what the switches have said of it.
func checkJoined(w *clitest.World) {
	w.Helper()
	found := 0
	for _, r := range w.Packets("--last", "4000", "--src", "10.0.1.1", "--dst", "10.0.4.2") {
		if r.Source != record.EBPF {
			continue
		}
		found++
		number := uint64(r.IPID - 1000)
		if path := words.Path(&r); path != "h1 > r1 > r2 > r3 > h2" || r.State != record.Delivered {
			w.Fatalf("packet %d: %s, %s", number, r.State, path)
		}
		for i, h := range r.Hops {
			switch {
			case (i == 0 || i == 4) && h.INT != nil:
				w.Fatalf("packet %d at %s: %v", number, h.Node, h.INT)
			case i > 0 && i < 4 && (h.INT["queue_occ"] != 1000*uint64(i)+number || h.INT["node_id"] != uint64(i)):
				w.Fatalf("packet %d at %s: %v", number, h.Node, h.INT)
			}
		}
		if found > 1 {
			continue
		}
		if text := w.Radar(kit.ExitOK, "trace", r.ID); !strings.Contains(text, fmt.Sprintf("the switch says {queue 0: %d, latency 200}", 2000+number)) {
			w.Errorf("trace:\n%s", text)
		}
	}
	if found != insidePackets {
		w.Errorf("%d packets of radar's own, want %d", found, insidePackets)
	}
}

// checkCountedOnce: radar paths counts what both have seen once.
func checkCountedOnce(w *clitest.World) {
	w.Helper()
	counted := 0
	for line := range strings.Lines(w.Radar(kit.ExitOK, "paths", "-o", "json", "--src", "10.0.1.1", "--dst", "10.0.4.2")) {
		var row struct {
			Path    string `json:"path"`
			Packets int    `json:"packets"`
		}
		if json.Unmarshal([]byte(line), &row) != nil || !strings.HasPrefix(row.Path, "h1") {
			continue // a note, or what nobody has joined
		}
		if counted += row.Packets; row.Path != "h1 > r1 > r2 > r3 > h2" {
			w.Errorf("path %q", row.Path)
		}
	}
	if counted != insidePackets {
		w.Errorf("paths has %d packets, want each once: %d", counted, insidePackets)
	}
}

// elsewhere reads the same reports where the domain is not: there the order is not claimed.
func elsewhere(t *testing.T, name string, packets uint64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store.Dir(name), "*.pcap"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", files, err)
	}
	events := filepath.Join(t.TempDir(), "elsewhere.jsonl")
	stdout, stderr, code := clitest.Radar(t, "collect", "--domain", name+"e", "--all", "--join", "1m", "--source", "127.0.0.1=spec-2.1,clock=shared", "--json", events, "--snapshot", "0", "-r", files[0])
	if code != kit.ExitOK {
		t.Fatalf("collect -r: %d: %s%s", code, stdout, stderr)
	}
	info, err := store.Load(name + "e")
	if err != nil || info.Counts.Unordered < packets || info.Counts.Joins.Joined != 0 || !strings.Contains(stderr, "the order of the nodes is not known") {
		t.Errorf("%v, %+v: %s", err, info.Counts, stderr)
	}
	if paths := pathEvents(t, events); len(paths) > 0 {
		t.Errorf("paths are claimed: %q", paths)
	}
	if links := linkEvents(t, events, false); len(links) > 0 || info.Counts.ClockFaults > 0 {
		t.Errorf("links are claimed: %q; %d times that cannot be", links, info.Counts.ClockFaults)
	}
	stdout, _, _ = clitest.Radar(t, "packets", "--domain", name+"e", "--last", "0")
	if !strings.Contains(stdout, "int-1, int-2, int-3 (order not known)") || strings.Contains(stdout, "int-1 > int-2") {
		t.Errorf("packets:\n%.2000s", stdout)
	}
}

// eventsIn are the events in a file.
func eventsIn(t *testing.T, file string) (list []metrics.EventJSON) {
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
		list = append(list, e)
	}
	return list
}

// pathEvents are the paths of the events in a file.
func pathEvents(t *testing.T, file string) (paths []string) {
	t.Helper()
	for _, e := range eventsIn(t, file) {
		if e.Metric == metrics.FlowPath.String() {
			paths = append(paths, strings.Join(e.Path, " > "))
		}
	}
	return paths
}

// linkEvents are the links that events in a file are about, each once. told: events have the switches' times.
func linkEvents(t *testing.T, file string, told bool) (links []string) {
	t.Helper()
	for _, e := range eventsIn(t, file) {
		if told && e.TNs%1000 != 777 {
			t.Errorf("%s at %d, no time of a switch", e.Metric, e.TNs)
		}
		if e.Metric == metrics.LinkLatency.String() {
			links = append(links, e.Node+" > "+e.ToNode)
		}
	}
	slices.Sort(links)
	return slices.Compact(links)
}
