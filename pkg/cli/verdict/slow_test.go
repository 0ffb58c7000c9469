// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/need"
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
import fcntl, json, socket, struct, sys, time
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
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)) # nothing is sent again afterwards
wait = time.monotonic() + 1
while time.monotonic() < wait and struct.unpack("i", fcntl.ioctl(s, 0x5411, b"\0" * 4))[0]: time.sleep(0.01) # SIOCOUTQ
info = s.getsockopt(socket.IPPROTO_TCP, 11, 256) # TCP_INFO
s.close()
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

	untold func(reason string) uint64 // drops for which no program was run, at most
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
	check   func(t *testing.T, now string, a *explain.Answer, k *truth) // now is what r1's kernel counts
	nightly bool                                                        // there is another of its kind
	now     string
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
	drops := dropwatch.Start(t)
	text := w.In("h1", "python3", "-c", sender, to, arg(port), arg(c.seconds), arg(c.chunk), arg(c.gap), c.control)
	k := &truth{untold: func(reason string) uint64 { return w.Untold(drops, reason) }}
	if err := json.Unmarshal([]byte(text), k); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	c.now = w.In("r1", "sh", "-c", "tc -s qdisc show dev eth1; nft list ruleset")
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
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "1s", "--slots", "512K"}, w.Lab.AttachArgs()...)...)
	for i := range cases {
		c := cases[i]
		t.Run(c.name, func(t *testing.T) {
			if c.nightly {
				need.Nightly(t)
			}
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
			t.Logf("%.1f s: %s %v", time.Since(begun).Seconds(), a.Summary, a.Lacks)
			if a.Cause != c.want || c.place != "" && a.Place != c.place {
				t.Errorf("the cause is %s at %q, want %s at %q\n%s", a.Cause, a.Place, c.want, c.place, w.Radar(kit.ExitOK, "explain", fmt.Sprintf("h1-%s:%d", a.Dst, first+i), "-o", "wide"))
			}
			sentAgain(t, a, k)
			if c.want == explain.ByQueue || need.IsNightly(t) {
				fromRecords(t, w, a)
			}
			if c.check != nil {
				c.check(t, c.now, a, k)
			}
		})
	}
}

// fromRecords: records alone have the same cause in them, without what the kernel says of queues now.
func fromRecords(t *testing.T, w *clitest.World, a *explain.Answer) {
	f := explain.New(explain.Flow{Proto: a.Proto, Src: explain.Endpoint{Addr: a.Src, Port: a.Sport}, Dst: explain.Endpoint{Addr: a.Dst, Port: a.Dport}})
	records := w.Packets("--last", "0", fmt.Sprintf("tcp port %d or icmp", a.Dport))
	for i := range records {
		f.Add(&records[i])
	}
	if again, ok := f.Finish(); !ok || again.Cause != a.Cause || again.Place != a.Place {
		t.Errorf("records say %+v", again)
	}
}

func nft(rule string) string {
	return "nft 'add table t; add chain t f { type filter hook forward priority 0; }; add rule t f " + rule + "'"
}

// routed are cases in which r1 is a router.
var routed = []slowCase{
	{name: "queue 20 Mbit/s", r1: "tc qdisc add dev eth1 root tbf rate 20mbit burst 16kb limit 64kb", want: explain.ByQueue, place: "r1/eth1", check: queueDrops},
	{name: "queue 5 Mbit/s, BBR", r1: "tc qdisc add dev eth1 root tbf rate 5mbit burst 16kb limit 100kb", control: "bbr", want: explain.ByQueue, place: "r1/eth1", check: queueDrops, nightly: true},
	{name: "queue 50 Mbit/s", r1: "tc qdisc add dev eth1 root tbf rate 50mbit burst 32kb limit 1mb", want: explain.ByQueue, place: "r1/eth1", check: queueDrops, nightly: true},
	{name: "slow receiver", read: 20000, pause: 0.05, want: explain.ByReceiver, place: "h2", check: waitedForWindow},
	{name: "slower receiver", read: 4000, pause: 0.02, want: explain.ByReceiver, place: "h2", check: waitedForWindow, nightly: true},
	{name: "slow sender", chunk: 20000, gap: 0.03, want: explain.BySender, place: "h1", check: wasIdle},
	{name: "sender of small messages", chunk: 200, gap: 0.005, want: explain.BySender, place: "h1", check: wasIdle, nightly: true},
	{name: "firewall, from the beginning", r1: nft("tcp dport 5201-5900 counter drop"), want: explain.ByFirewall, place: "r1", check: ruleDrops},
	{name: "firewall, answers", r1: nft("tcp sport 5201-5900 counter drop"), want: explain.ByFirewall, place: "r1", check: ruleDrops, nightly: true},
	{name: "firewall, after some data", seconds: 2, r1: nft("tcp dport 5201-5900 quota over 300 kbytes counter drop"), want: explain.ByFirewall, place: "r1", check: ruleDrops, nightly: true},
	{name: "policer 1 MB/s", r1: nft("tcp dport 5201-5900 limit rate over 1 mbytes/second burst 30 kbytes counter drop"), want: explain.ByFirewall, place: "r1", check: ruleDrops},
	{name: "policer 300 kB/s", r1: nft("tcp dport 5201-5900 limit rate over 300 kbytes/second burst 20 kbytes counter drop"), want: explain.ByFirewall, place: "r1", check: ruleDrops, nightly: true},
	{name: "MTU black hole", seconds: 2, r1: blackHole(1200), want: explain.ByMTU, place: "r1"},
	{name: "MTU black hole of 800", seconds: 2, r1: blackHole(800), want: explain.ByMTU, place: "r1", nightly: true},
}

// throughSwitch are cases in which r1 is a switch in user space: it delays, loses and reorders where no netem is.
var throughSwitch = []slowCase{
	{name: "loss 2 %", forward: "--delay 2ms --loss 2%", seconds: 2, want: explain.ByLoss, place: "r1"},
	{name: "loss 0.5 %", forward: "--delay 5ms --loss 0.5%", seconds: 3, want: explain.ByLoss, place: "r1", nightly: true},
	{name: "delay 30 ms", forward: "--delay 30ms", want: explain.ByDelay, place: "r1", check: roundTrip},
	{name: "delay 80 ms, BBR", forward: "--delay 80ms", control: "bbr", seconds: 3, want: explain.ByDelay, place: "r1", check: roundTrip, nightly: true},
	{name: "window 16 kB", forward: "--delay 10ms", rcvbuf: 16384, want: explain.ByWindow, place: "h2", check: waitedForWindow},
	{name: "window 64 kB", forward: "--delay 30ms", rcvbuf: 65536, seconds: 3, want: explain.ByWindow, place: "h2", check: waitedForWindow, nightly: true},
	{name: "reordering", forward: "--delay uniform:1ms,8ms --reorder", want: explain.ByReordering, place: "r1"},
	{name: "reordering of few", forward: "--delay exponential:3ms --reorder", seconds: 2, want: explain.ByReordering, place: "r1", nightly: true},
}

// blackHole makes the link behind r1 a narrow one, of which no sender learns.
func blackHole(mtu int) string {
	return fmt.Sprintf("ip link set eth1 mtu %d; nft 'add table t; add chain t o { type filter hook output priority 0; }; add rule t o icmp type destination-unreachable counter drop'", mtu)
}

// queueDrops: tc counts as many drops as radar does. It counts skbs, which a shaper cuts into packets.
func queueDrops(t *testing.T, now string, a *explain.Answer, k *truth) {
	var dropped uint64
	if _, err := fmt.Sscanf(now[strings.Index(now, "(dropped"):], "(dropped %d,", &dropped); err != nil {
		t.Fatalf("%v in %s", err, now)
	}
	if lost := a.Queues[0].Lost; lost+k.untold("QDISC_DROP") < dropped {
		t.Errorf("%d packets lost, tc has dropped %d", lost, dropped)
	}
	if rate := a.Queues[0].RateBps; rate < a.ThroughputBps*9/10 || rate > a.Queues[0].ConfiguredBps*11/10 {
		t.Errorf("the queue let out %d bit/s of %d, the flow had %d", rate, a.Queues[0].ConfiguredBps, a.ThroughputBps)
	}
}

// ruleDrops: nft counts as many drops as radar does, in skbs.
func ruleDrops(t *testing.T, now string, a *explain.Answer, k *truth) {
	var packets, lost uint64
	if _, err := fmt.Sscanf(now[strings.Index(now, "counter packets"):], "counter packets %d", &packets); err != nil {
		t.Fatalf("%v in %s", err, now)
	}
	for _, l := range a.Losses {
		lost += l.Packets
	}
	if packets == 0 || lost+k.untold("NETFILTER_DROP") < packets {
		t.Errorf("%d packets lost, nft has dropped %d", lost, packets)
	}
}

// waitedForWindow: the kernel says that its sender waited for the window most of the time.
func waitedForWindow(t *testing.T, _ string, a *explain.Answer, k *truth) {
	if 2*k.RwndUs < k.BusyUs {
		t.Errorf("the case is none: the sender waited for the window %d of %d us", k.RwndUs, k.BusyUs)
	}
}

// wasIdle: the kernel says that its sender had nothing to send most of the time.
func wasIdle(t *testing.T, _ string, a *explain.Answer, k *truth) {
	if 2*k.BusyUs > a.DurationNs/1000 {
		t.Errorf("the case is none: the sender was busy for %d of %d us", k.BusyUs, a.DurationNs/1000)
	}
}

// roundTrip: the parts of the round trip are the whole, and that is what the kernel measures, or less: the kernel's
// includes the host.
func roundTrip(t *testing.T, _ string, a *explain.Answer, k *truth) {
	if a.Summed < a.Mean*99/100 || a.Summed > a.Mean {
		t.Errorf("all parts take %d of %d ns", a.Summed, a.Mean)
	}
	if a.RTT.MinNs > k.RTTUs*1500 {
		t.Errorf("the round trip takes %d ns at least, the kernel has %d us", a.RTT.MinNs, k.RTTUs)
	}
}

// sentAgain: the kernel has sent as much again as radar has seen.
func sentAgain(t *testing.T, a *explain.Answer, k *truth) {
	seen := a.Resent
	if a.Syns > 0 {
		seen += a.Syns - 1
	}
	if seen != k.Retrans {
		t.Errorf("%d packets were sent again, the kernel says %d", seen, k.Retrans)
	}
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
