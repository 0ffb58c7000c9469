// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// receiver reads what comes to a port: size bytes at a time, with a pause after each.
const receiver = `
import socket, sys, time
port, rcvbuf, size, pause = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if rcvbuf: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
s.bind(("", port))
s.listen()
print("ready", flush=True)
c, _ = s.accept()
while c.recv(size):
    if pause: time.sleep(pause)
`

// sender sends for a time, and prints what the kernel's TCP knows of the connection: that is the truth.
const sender = `
import json, socket, struct, sys, time
addr, port, seconds, size, pause, control = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6]
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, 13, control.encode())
s.settimeout(seconds)
end, sent, error = time.monotonic() + seconds, 0, ""
try:
    s.connect((addr, port))
    while time.monotonic() < end:
        s.settimeout(max(0.01, end - time.monotonic()))
        sent += s.send(b"x" * size)
        if pause: time.sleep(pause)
except OSError as e:
    error = str(e)
info = s.getsockopt(socket.IPPROTO_TCP, 11, 256) # TCP_INFO
u32 = struct.unpack_from("24I", info, 8)
busy, rwnd, sndbuf = struct.unpack_from("3Q", info, 168) if len(info) >= 192 else (0, 0, 0)
print(json.dumps({"sent": sent, "error": error, "retrans": u32[23], "rtt_us": u32[15], "busy_us": busy, "rwnd_us": rwnd, "sndbuf_us": sndbuf}))
`

// truth is what the sender's kernel knows.
type truth struct {
	Sent    int    `json:"sent"`
	Error   string `json:"error"`
	Retrans uint64 `json:"retrans"`
	RTTUs   int64  `json:"rtt_us"`
	BusyUs  int64  `json:"busy_us"`
	RwndUs  int64  `json:"rwnd_us"`
}

// slowCase is a network, or an end, that makes a flow slow.
type slowCase struct {
	name    string
	r1, h2  string  // commands that make it so, for a shell
	forward string  // options of "radar lab forward" in r1; "": it routes
	seconds float64 // the sender's
	chunk   int
	gap     float64 // s between the sender's writes
	control string  // congestion control
	rcvbuf  int
	read    int
	pause   float64 // s between the receiver's reads
	want    explain.Cause
	place   string
	check   func(t *testing.T, w *clitest.World, a *explain.Answer, k *truth)
	nightly bool
}

// clean takes away what cases made.
const clean = `nft flush ruleset; tc qdisc del dev eth1 root; ip link set eth1 mtu 1500; ip route flush cache; true`

// explained runs one case and returns what radar says of it.
func (c *slowCase) explained(t *testing.T, w *clitest.World, port int) (*explain.Answer, *truth) {
	t.Helper()
	to := "10.0.2.2"
	if c.forward != "" {
		to = "10.9.0.2"
		forward(t, w, c.forward)
	}
	w.In("r1", "sh", "-ec", "true\n"+c.r1)
	w.In("h2", "sh", "-ec", "true\n"+c.h2)
	defer w.In("r1", "sh", "-c", clean)
	defer w.In("h2", "sh", "-c", clean)
	arg := func(v any) string { return fmt.Sprint(v) }
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	r := w.Lab.Command(ctx, "h2", "python3", "-c", receiver, arg(port), arg(c.rcvbuf), arg(c.read), arg(c.pause))
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = r.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	text := w.In("h1", "python3", "-c", sender, to, arg(port), arg(c.seconds), arg(c.chunk), arg(c.gap), c.control)
	k := &truth{}
	if err := json.Unmarshal([]byte(text), k); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	a := &explain.Answer{}
	stdout, stderr, code := clitest.Radar(t, "explain", fmt.Sprintf("h1-%s:%d", to, port), "-o", "json")
	if code != kit.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), a); err != nil {
		t.Fatal(err)
	}
	return a, k
}

// forward makes r1 a switch in user space with delay, loss or reordering, until the test ends.
func forward(t *testing.T, w *clitest.World, options string) {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	cmd := w.Lab.Command(ctx, "r1", append([]string{radarbin.Path(t), "lab", "forward", "eth0", "eth1"}, strings.Fields(options)...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() { cancel(); _ = cmd.Wait() })
	nstest.WaitFor(t, "the switch to forward", func() bool {
		return w.Lab.Command(ctx, "h1", "ping", "-c", "1", "-W", "1", "10.9.0.2").Run() == nil
	})
}

// switched gives both hosts addresses of one network, and r1 none.
func switched(w *clitest.World) {
	w.In("h1", "ip", "address", "add", "10.9.0.1/24", "dev", "eth0")
	w.In("h2", "ip", "address", "add", "10.9.0.2/24", "dev", "eth0")
	w.In("r1", "sh", "-c", "sysctl -qw net.ipv4.ip_forward=0; ip address flush dev eth0; ip address flush dev eth1")
}

// run runs cases one after the other, all in one network.
func run(t *testing.T, w *clitest.World, first int, cases []slowCase) {
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "1s"}, w.Lab.AttachArgs()...)...)
	for i := range cases {
		c := cases[i]
		t.Run(c.name, func(t *testing.T) {
			if c.seconds == 0 {
				c.seconds = 1.5
			}
			if c.chunk == 0 {
				c.chunk = 1 << 16
			}
			if c.control == "" {
				c.control = "cubic"
			}
			if c.read == 0 {
				c.read = 1 << 20
			}
			begun := time.Now()
			a, k := c.explained(t, w, first+i)
			t.Logf("%.1f s: %s", time.Since(begun).Seconds(), a.Summary)
			if a.Cause != c.want || c.place != "" && a.Place != c.place {
				t.Errorf("the cause is %s at %q, want %s at %q\n%s", a.Cause, a.Place, c.want, c.place, w.Radar(kit.ExitOK, "explain", fmt.Sprintf("h1-%s:%d", a.Dst, first+i), "-o", "wide"))
			}
			if c.check != nil {
				c.check(t, w, a, k)
			}
		})
	}
}

func nft(rule string) string {
	return "nft 'add table t; add chain t f { type filter hook forward priority 0; }; add rule t f " + rule + "'"
}

// routed are cases in which r1 is a router.
var routed = []slowCase{
	{name: "queue 20 Mbit/s", r1: "tc qdisc add dev eth1 root tbf rate 20mbit burst 16kb limit 64kb", want: explain.ByQueue, place: "r1/eth1"},
	{name: "queue 5 Mbit/s, BBR", r1: "tc qdisc add dev eth1 root tbf rate 5mbit burst 16kb limit 100kb", control: "bbr", want: explain.ByQueue, place: "r1/eth1", nightly: true},
	{name: "queue 50 Mbit/s", r1: "tc qdisc add dev eth1 root tbf rate 50mbit burst 32kb limit 1mb", want: explain.ByQueue, place: "r1/eth1", nightly: true},
	{name: "slow receiver", read: 20000, pause: 0.05, want: explain.ByReceiver, place: "h2"},
	{name: "slower receiver", read: 4000, pause: 0.02, want: explain.ByReceiver, place: "h2", nightly: true},
	{name: "slow sender", chunk: 20000, gap: 0.03, want: explain.BySender, place: "h1"},
	{name: "sender of small messages", chunk: 200, gap: 0.005, want: explain.BySender, place: "h1", nightly: true},
	{name: "firewall, from the beginning", r1: nft("tcp dport 5201-5900 counter drop"), want: explain.ByFirewall, place: "r1"},
	{name: "firewall, answers", r1: nft("tcp sport 5201-5900 counter drop"), want: explain.ByFirewall, place: "r1", nightly: true},
	{name: "firewall, after some data", seconds: 3, r1: nft("tcp dport 5201-5900 quota over 300 kbytes counter drop"), want: explain.ByFirewall, place: "r1"},
	{name: "policer 1 MB/s", r1: nft("tcp dport 5201-5900 limit rate over 1 mbytes/second burst 30 kbytes counter drop"), want: explain.ByFirewall, place: "r1"},
	{name: "policer 300 kB/s", r1: nft("tcp dport 5201-5900 limit rate over 300 kbytes/second burst 20 kbytes counter drop"), want: explain.ByFirewall, place: "r1", nightly: true},
	{name: "MTU black hole", seconds: 3, r1: "ip link set eth1 mtu 1200; nft 'add table t; add chain t o { type filter hook output priority 0; }; add rule t o icmp type destination-unreachable counter drop'", want: explain.ByMTU, place: "r1"},
	{name: "MTU black hole of 800", seconds: 2, r1: "ip link set eth1 mtu 800; nft 'add table t; add chain t o { type filter hook output priority 0; }; add rule t o icmp type destination-unreachable counter drop'", want: explain.ByMTU, place: "r1", nightly: true},
}

// throughSwitch are cases in which r1 is a switch in user space: it delays, loses and reorders where no netem is.
var throughSwitch = []slowCase{
	{name: "loss 2 %", forward: "--delay 2ms --loss 2%", seconds: 2, want: explain.ByLoss, place: "r1"},
	{name: "loss 0.5 %", forward: "--delay 5ms --loss 0.5%", seconds: 3, want: explain.ByLoss, place: "r1", nightly: true},
	{name: "delay 30 ms", forward: "--delay 30ms", want: explain.ByDelay, place: "r1"},
	{name: "delay 80 ms, BBR", forward: "--delay 80ms", control: "bbr", seconds: 3, want: explain.ByDelay, place: "r1", nightly: true},
	{name: "window 16 kB", forward: "--delay 10ms", rcvbuf: 16384, want: explain.ByWindow, place: "h2"},
	{name: "window 64 kB", forward: "--delay 30ms", rcvbuf: 65536, seconds: 3, want: explain.ByWindow, place: "h2", nightly: true},
	{name: "reordering", forward: "--delay uniform:1ms,8ms --reorder", want: explain.ByReordering, place: "r1"},
	{name: "reordering of few", forward: "--delay exponential:3ms --reorder", seconds: 2, want: explain.ByReordering, place: "r1", nightly: true},
}

// TestSlow: why a flow is slow is known, since the test makes it so. radar finds it.
func TestSlow(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Ping(1)
	run(t, w, 5201, routed)
}

// TestSlowThroughSwitch is TestSlow for what a router cannot do.
func TestSlowThroughSwitch(t *testing.T) {
	radarbin.Path(t)
	w := clitest.NewWorld(t)
	w.Ping(1)
	switched(w)
	run(t, w, 5301, throughSwitch)
}
