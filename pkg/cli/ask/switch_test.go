// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// pythonSwitch forwards IPv4 between eth0 and eth1 by packet sockets, all but UDP to port 9999. It
// changes the payload of UDP to port 9998.
const pythonSwitch = `
import select, socket, struct, subprocess
def neighbour(dev):
    words = subprocess.check_output(["ip", "-4", "neigh", "show", "dev", dev], text=True).split()
    return bytes.fromhex(words[words.index("lladdr") + 1].replace(":", ""))
ports = []
for dev in "eth0", "eth1":
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.bind((dev, 3)) # ETH_P_ALL
    ports.append((s, s.getsockname()[4], neighbour(dev)))
print("ready", flush=True)
while True:
    for s in select.select([p[0] for p in ports], [], [])[0]:
        f, addr = s.recvfrom(65536)
        if addr[2] == 4 or f[12:14] != b"\x08\x00" or (f[23] == 17 and f[36:38] == struct.pack("!H", 9999)):
            continue
        f = bytearray(f)
        if f[23] == 17 and f[36:38] == struct.pack("!H", 9998):
            f[40:44] = b"\0\0" + bytes([f[42] ^ 255, f[43]]) # without a checksum
        out, mac, to = ports[1 if s is ports[0][0] else 0]
        b = f
        b[:12], b[22], b[24:26] = to + mac, b[22] - 1, b"\0\0"
        total = sum(struct.unpack("!10H", b[14:34]))
        while total > 0xffff:
            total = (total & 0xffff) + (total >> 16)
        b[24:26] = struct.pack("!H", total ^ 0xffff)
        out.send(b)
`

// TestNotForwarded: in r1 a process forwards packets, and the kernel drops its own copy of each.
// What the process does not forward is lost because of it, and not for the kernel's reason. attach
// says that there is such a process, status that it was seen to forward.
func TestNotForwarded(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Ping(1) // every address is known
	w.In("r1", "sysctl", "-qw", "net.ipv4.ip_forward=0")
	w.Python("r1", pythonSwitch)
	text := w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "5s"}, w.Lab.AttachArgs()...)...)
	if !strings.Contains(text, "in node r1 python3 (process ") || !strings.Contains(text, "reads 2 interfaces") {
		t.Errorf("attach does not name the process:\n%s", text)
	}
	node := func() (process string) {
		for _, n := range w.Status().Nodes {
			if n.Name == "r1" {
				process = n.Switch
			}
		}
		return process
	}
	if p := node(); p != "" {
		t.Errorf("process %q was seen to forward, before there was a packet", p)
	}
	nstest.WaitFor(t, "the agent to see who forwards", func() bool {
		w.Ping(1)
		return node() == "python3"
	})
	if text := w.Radar(kit.ExitOK, "status"); !strings.Contains(text, "in node r1 python3 forwards packets") {
		t.Errorf("status does not name the process:\n%s", text)
	}
	w.In("h1", "python3", "-c", `
import os, socket
for df in 0, 2: # IP_PMTUDISC_DONT, IP_PMTUDISC_DO: found by key, and by the header
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 10, df)
    for i in range(20):
        s.sendto(os.urandom(32), ("10.0.2.2", 9999))`)
	got, id := make(map[string]int), ""
	nstest.WaitFor(t, "all packets to end", func() bool {
		clear(got)
		n := 0
		for _, r := range w.Packets("--last", "1000", "udp") {
			n, id = n+1, r.ID
			text := string(r.State)
			if r.Loss != nil {
				text += " " + r.Loss.Node + "/" + r.Loss.Port + " " + string(r.Loss.At) + " " + r.Loss.Reason + " " + r.Loss.Function
			}
			got[text]++
		}
		return n == 40 && got[string(record.InFlight)] == 0
	})
	if len(got) != 1 || got["lost r1/eth0 node NOT_FORWARDED python3"] != 40 {
		t.Errorf("ends: %v\nwant 40 that python3 in r1 did not forward", got)
	}
	nstest.WaitFor(t, "the loss to be counted", func() bool {
		return strings.Contains(w.Radar(kit.ExitOK, "loss"), record.NotForwarded)
	})
	if text := w.Radar(kit.ExitOK, "trace", id); !strings.Contains(text, "not forwarded by python3") {
		t.Errorf("radar trace:\n%s", text)
	}
	w.In("h1", "python3", "-c", `
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)
for i in range(20):
    s.sendto(os.urandom(32), ("10.0.2.2", 9998))`)
	nstest.WaitFor(t, "all changed packets to end", func() bool {
		clear(got)
		n := 0
		for _, r := range w.Packets("--last", "1000", "udp dst port 9998") {
			if r.State != record.InFlight {
				n++
			}
			got[fmt.Sprintf("%s %s TTL %d", r.State, r.Hops[len(r.Hops)-1].Node, r.TTL)]++
		}
		return n == 40
	})
	if len(got) != 2 || got["left r1 TTL 64"] != 20 || got["delivered h2 TTL 63"] != 20 {
		t.Errorf("stories of packets whose content was changed: %v\nwant 20 that left r1, and 20 that began there with TTL 63", got)
	}
	for _, r := range w.Packets("--last", "1000", "icmp") {
		if r.State != record.Delivered || len(r.Hops) != 3 {
			t.Fatalf("an echo that the process forwarded: %s, %+v", r.State, r.Hops)
		}
	}
}
