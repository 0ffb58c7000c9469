// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/fidelity"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// serve answers at a port of h2: it reads what comes to the end (sink), thinks and answers (think:SECONDS:BYTES), or resets
// the connection after so many bytes (reset:BYTES).
const serve = `
import socket, struct, sys, time
port, (mode, *args) = int(sys.argv[1]), sys.argv[2].split(":")
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", port))
s.listen()
print("ready", flush=True)
while True:
    c, _ = s.accept()
    if mode == "sink":
        while c.recv(1 << 20): pass
    elif mode == "think":
        c.recv(100)
        time.sleep(float(args[0]))
        c.sendall(b"x" * int(args[1]))
    else:
        n = 0
        while n < int(args[0]): n += len(c.recv(1 << 12))
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
`

// transfer sends so many bytes in pieces, with a pause between, and reads the answer to its end. It waits so long for anything.
const transfer = `
import socket, sys, time
addr, port, size, pieces, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
n = 0
try:
    s = socket.create_connection((addr, port), float(sys.argv[6]))
    for i in range(pieces):
        if i and pause: time.sleep(pause)
        s.sendall(b"x" * size)
    s.shutdown(socket.SHUT_WR)
    while b := s.recv(1 << 20): n += len(b)
except OSError as e: print(e)
print(n)
`

// held is a lab with a server at h2.
type held struct {
	*clitest.World
	to   string
	port int
}

// server starts one that goes with the test.
func (h *held) server(t *testing.T, mode string) {
	t.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	cmd := h.Lab.Command(ctx, "h2", "python3", "-c", serve, fmt.Sprint(h.port), mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// send sends pieces of so many bytes from h1.
func (h *held) send(size, pieces int, pause float64) string {
	return h.In("h1", "python3", "-c", transfer, h.to, fmt.Sprint(h.port), fmt.Sprint(size), fmt.Sprint(pieces), fmt.Sprint(pause), "30")
}

// try is send to an address of which no answer is expected, for some seconds.
func (h *held) try(to string, port, size int, seconds string) {
	h.In("h1", "python3", "-c", transfer, to, fmt.Sprint(port), fmt.Sprint(size), "1", "0", seconds)
}

// explained is the answer about the flow.
func (h *held) explained(t *testing.T) *explain.Answer {
	t.Helper()
	return h.explainedOf(t, fmt.Sprintf("tcp port %d", h.port))
}

func (h *held) explainedOf(t *testing.T, expression string) *explain.Answer {
	t.Helper()
	stdout, stderr, code := clitest.Radar(t, "explain", expression, "-o", "json")
	if code != kit.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	a := &explain.Answer{}
	if err := json.Unmarshal([]byte(stdout), a); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %v", a.Summary, a.Lacks)
	return a
}

// newHeld is a chain of so many routers, of which some machines are attached.
func newHeld(t *testing.T, routers, port int, attached []string, flags ...string) *held {
	t.Helper()
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": fmt.Sprint(routers)})
	h := &held{w, fmt.Sprintf("10.0.%d.2", routers+1), port}
	w.In("h1", "ping", "-c", "1", h.to)
	all := w.Lab.AttachArgs()
	args := append([]string{"attach", "-d"}, flags...)
	for i, m := range w.Lab.Machines {
		if attached == nil || slices.Contains(attached, m.Name) {
			args = append(args, all[i])
		}
	}
	w.Radar(kit.ExitOK, args...)
	return h
}

func (h *held) want(t *testing.T, a *explain.Answer, cause explain.Cause, place string, lacks ...explain.Lack) {
	t.Helper()
	if a.Cause != cause || a.Place != place {
		t.Errorf("the cause is %s at %q, want %s at %q: %s", a.Cause, a.Place, cause, place, a.Summary)
	}
	for _, l := range lacks {
		if !slices.Contains(a.Lacks, l) || !slices.Contains(a.DependsOn, l) || !strings.HasPrefix(a.Summary, "as far as is known (") {
			t.Errorf("lacks %v, depends on %v, want %s in both: %s", a.Lacks, a.DependsOn, l, a.Summary)
		}
	}
}

// TestNodesBetween: a packet that passes nodes which are not attached is one packet, and one that does not come back from
// them is lost there.
func TestNodesBetween(t *testing.T) {
	h := newHeld(t, 3, 7001, []string{"h1", "r1", "r3", "h2"}, "--timeout", "1s")
	h.server(t, "sink")
	h.send(1000, 30, 0.01)
	a := h.explained(t)
	h.want(t, a, explain.BySender, "h1", explain.Between)
	if a.Packets < 30 || a.Packets > 32 || a.Resent != 0 || a.RTT == nil || a.Receiver != "h2" {
		t.Errorf("%d packets, %d sent again, round trip %+v, to %s", a.Packets, a.Resent, a.RTT, a.Receiver)
	}
	h.port = 7002
	h.server(t, "sink")
	h.In("r2", "sh", "-ec", nft("tcp dport 7002 tcp flags & (syn|fin) == 0 numgen inc mod 20 == 0 counter drop"))
	h.send(20000, 100, 0)
	h.In("h1", "sleep", "0.3")
	a = h.explained(t)
	if len(a.Losses) == 0 || a.Losses[0].Name() != "r1/eth1" || a.Losses[0].Reason != "NOT_SEEN" || a.Lost == 0 || 10*a.ResentWhy[explain.WasLost] < 9*a.Resent {
		t.Errorf("%d lost, %d sent again: %v, %+v", a.Lost, a.Resent, a.ResentWhy, a.Losses)
	}
}

// TestReceiverOutside: a router is not called the receiver, if the receiver is not attached.
func TestReceiverOutside(t *testing.T) {
	h := newHeld(t, 2, 7001, []string{"h1", "r1"}, "--timeout", "1s")
	h.server(t, "sink")
	h.send(1000, 30, 0.02)
	a := h.explained(t)
	h.want(t, a, explain.BySender, "h1", explain.Outside)
	if a.Receiver != "" || a.Beyond != "r1/eth1" {
		t.Errorf("%s is the receiver, beyond %s", a.Receiver, a.Beyond)
	}
	h.try("10.0.3.9", 7999, 1, "1.5")
	if out := h.Radar(kit.ExitOK, "explain", "tcp port 7999"); !strings.Contains(out, "10.0.3.9 did not answer") {
		t.Errorf("no answer from an address beyond r1: %s", out)
	}
}

// TestNotEndedYet: what was lost without a report is known to be lost before it times out.
func TestNotEndedYet(t *testing.T) {
	radarbin.Path(t)
	h := newHeld(t, 1, 7001, nil, "--timeout", "60s", "--slots", "256K")
	h.to = "10.9.0.2"
	switched(h.World)
	forward(t, h.World, "--delay 2ms --loss 3% --seed 3")
	h.server(t, "sink")
	h.send(100000, 20, 0)
	h.In("h1", "sleep", "0.5")
	a := h.explained(t)
	h.want(t, a, explain.ByLoss, "r1", explain.Pending)
	if a.Lost == 0 || a.ResentWhy[explain.WasLost] == 0 {
		t.Errorf("%d lost, sent again for %v", a.Lost, a.ResentWhy)
	}
}

// TestRingCameRound: what was lost is compared with what was sent at the same time.
func TestRingCameRound(t *testing.T) {
	radarbin.Path(t)
	h := newHeld(t, 1, 7001, nil, "--timeout", "60s", "--slots", "4K")
	h.to = "10.9.0.2"
	switched(h.World)
	forward(t, h.World, "--loss 2% --seed 3")
	h.server(t, "sink")
	h.send(1000, 6000, 0.0005)
	h.In("h1", "sleep", "0.5")
	a := h.explained(t)
	// A packet in four thousand is off by 0.3 %.
	if a.LostRatio < 0.008 || a.LostRatio > 0.032 || a.Packets > 4096 {
		t.Errorf("%s, %d of %d lost (%.2f %%), want about 2 %%", a.Cause, a.Lost, a.Packets, 100*a.LostRatio)
	}
}

// TestHeld: flows that an end has held, or ended.
func TestHeld(t *testing.T) {
	h := newHeld(t, 1, 7001, nil, "--timeout", "1s", "--slots", "512K")
	t.Run("reset", func(t *testing.T) {
		h.port = 7001
		h.server(t, "reset:1000000")
		h.send(100000, 50, 0)
		a := h.explained(t)
		h.want(t, a, explain.ByReset, "h2")
		if a.Reset == nil || !a.Reset.Broke || !strings.Contains(a.Summary, "h2 reset the connection (RST) after ") {
			t.Errorf("%+v: %s", a.Reset, a.Summary)
		}
	})
	t.Run("the server thinks", func(t *testing.T) {
		h.port = 7002
		h.server(t, "think:1.5:1000000")
		h.send(10, 1, 0)
		a := h.explained(t)
		h.want(t, a, explain.BySender, "h2")
		if a.ThroughputBps > 6e6 || a.Time.Sender < 1.4e9 || a.Wait != explain.Gaps {
			t.Errorf("%d bit/s, %+v, %s", a.ThroughputBps, a.Time, a.Wait)
		}
	})
	t.Run("the client thinks", func(t *testing.T) {
		h.port = 7003
		h.server(t, "think:0:1000000")
		h.In("h1", "python3", "-c", strings.Replace(transfer, "    for i in", "    time.sleep(1.5)\n    for i in", 1), h.to, "7003", "10", "1", "0", "30")
		a := h.explained(t)
		h.want(t, a, explain.BySender, "h1")
		if a.Wait != explain.ForPeer {
			t.Errorf("%+v, %s", a.Time, a.Wait)
		}
	})
	t.Run("gaps", func(t *testing.T) {
		h.port = 7004
		h.server(t, "sink")
		h.In("h1", "python3", "-c", strings.Replace(transfer, "if i and pause", "if i == 40: time.sleep(1)\n        if i and pause", 1), h.to, "7004", "10", "80", "0.001", "30")
		a := h.explained(t)
		h.want(t, a, explain.BySender, "h1")
		if a.GapsNs < 1e9 || !strings.Contains(a.Summary, "the longest of 1.0") {
			t.Errorf("%s", a.Summary)
		}
	})
	t.Run("SYNs", func(t *testing.T) {
		h.port = 7005
		h.server(t, "sink")
		h.In("r1", "sh", "-ec", nft("tcp dport 7005 tcp flags & (syn|ack) == syn numgen inc mod 3 < 2 counter drop"))
		h.send(1000, 10, 0)
		h.In("r1", "nft", "flush", "ruleset")
		a := h.explained(t)
		h.want(t, a, explain.ByFirewall, "r1")
		if strings.Contains(a.Summary, "policer") || !strings.Contains(a.Summary, "2 of its 3 SYNs") {
			t.Errorf("%s", a.Summary)
		}
	})
	t.Run("a train is too large", func(t *testing.T) {
		h.port = 7006
		h.server(t, "sink")
		h.In("r1", "sh", "-ec", blackHole(1400))
		h.try(h.to, 7006, 2700, "3")
		h.In("r1", "sh", "-c", clean)
		a := h.explained(t)
		h.want(t, a, explain.ByMTU, "r1")
		if strings.Contains(a.Summary, "1252") || !strings.Contains(a.Summary, "packets of 1500 bytes") {
			t.Errorf("%s", a.Summary)
		}
	})
	t.Run("fast", func(t *testing.T) {
		h.port = 7007
		h.server(t, "sink")
		h.send(1<<20, 200, 0)
		if a := h.explained(t); a.ThroughputBps >= 1e9 && (strings.Contains(a.Summary, "slow") && !strings.Contains(a.Summary, "too slowly") || a.Cause != explain.Nothing) {
			t.Errorf("%s: %s", a.Cause, a.Summary)
		}
	})
}

// TestSpikes: a delay that comes now and then is one, though half of the packets do not meet it.
func TestSpikes(t *testing.T) {
	radarbin.Path(t)
	h := newHeld(t, 1, 7001, nil, "--timeout", "2s", "--slots", "256K")
	h.to = "10.9.0.2"
	switched(h.World)
	delays := t.TempDir() + "/delays"
	h.In("h1", "sh", "-c", "(for i in $(seq 100); do echo 200us; done; echo 400ms) > "+delays)
	forward(t, h.World, "--seed 1 --delay file:"+delays)
	h.server(t, "sink")
	h.send(20000, 300, 0.001)
	a := h.explained(t)
	h.want(t, a, explain.ByDelay, "r1")
	if !strings.Contains(a.Summary, "at times") || !strings.Contains(a.Summary, "ms (p99)") {
		t.Errorf("%s", a.Summary)
	}
}

// 8,000,000 bytes, and headers of as many segments as the processors make of them.
var notUsedUp = regexp.MustCompile(`a burst of 32\.0MiB, which was not used up: [78]\.\d+MiB`)

// TestQueueDeclares: what a queue declares of its burst and its limit is told, where that decides.
func TestQueueDeclares(t *testing.T) {
	h := newHeld(t, 1, 7001, nil, "--timeout", "1s", "--slots", "256K")
	h.In("r1", "sh", "-ec", "tc qdisc add dev eth1 root tbf rate 10mbit burst 32mb limit 100kb")
	h.server(t, "sink")
	h.send(100000, 80, 0)
	a := h.explained(t)
	if a.Cause == explain.ByQueue || !strings.Contains(a.Summary, "r1/eth1 did not hold it to its rate of 10.0Mbit/s: its burst of 32.0MiB was not used up by ") {
		t.Errorf("%s: %s", a.Cause, a.Summary)
	}
	row := fidelityOf(h.World, "tcp port 7001")[fidelity.Rate]
	if row.Verdict != fidelity.Untrue || row.Measured == nil || *row.Measured < 12e6 || !notUsedUp.MatchString(strings.Join(row.Causes, "; ")) {
		t.Errorf("%+v", row)
	}
	h.In("r1", "sh", "-ec", `tc qdisc replace dev eth1 root handle 1: htb default 1
tc class add dev eth1 parent 1: classid 1:1 htb rate 20mbit burst 4kb cburst 4kb
tc qdisc add dev eth1 parent 1:1 handle 2: pfifo limit 5`)
	h.Listen("h2", 9000)
	h.In("h1", "python3", "-c", flood) // 30 Mbit/s of datagrams
	h.Ended(2000, "--proto", "udp", "--dport", "9000")
	a = h.explainedOf(t, "udp port 9000")
	h.want(t, a, explain.ByQueue, "r1/eth1")
	if q := a.Queues[0]; q.ConfiguredBps != 20e6 || q.LimitPackets != 5 || q.Holds != "pfifo" || !strings.Contains(a.Summary, "(its pfifo holds 5 packets)") {
		t.Errorf("%+v: %s", q, a.Summary)
	}
}

// TestForms: a flow is named by its ends, by one of them, or not at all, and scripts learn what held it.
func TestForms(t *testing.T) {
	h := newHeld(t, 1, 7001, nil, "--timeout", "1s", "--slots", "64K")
	h.server(t, "think:0.5:200000")
	h.send(100, 1, 0)
	h.port = 7002
	h.server(t, "sink")
	h.send(100, 30, 0.01)
	h.In("r1", "sh", "-ec", nft("tcp dport 7003 counter drop"))
	h.try(h.to, 7003, 1, "1.5")
	for _, args := range [][]string{nil, {"h1"}, {"h2"}, {"10.0.2.2"}, {"h1", "h2"}, {"h2", "h1"}, {"h2:7001"}, {"h1", "10.0.2.2:7001"}, {"h2:7001", "h1"}, {"h1-h2:7001"}, {"tcp port 7001"}} {
		out := h.Radar(kit.ExitOK, append([]string{"explain"}, args...)...)
		if !strings.HasPrefix(out, "slow because h2 had nothing to send") {
			t.Errorf("explain %v: %s", args, out)
		}
	}
	if out := h.Radar(kit.ExitOK, "explain"); !strings.Contains(out, ":7002 ") || !strings.Contains(out, "slow_sender") || !strings.Contains(out, "firewall") || !strings.Contains(out, "no connection: a rule in r1 dropped") {
		t.Errorf("the others: %s", out)
	}
	h.Radar(kit.ExitUsage, "explain", "h1", "h9")
	if out := h.Radar(kit.ExitOK, "explain", "h1", "h2", "--dport", "7001"); !strings.HasPrefix(out, "slow because h2 had nothing to send") {
		t.Errorf("ends beside a flag: %s", out)
	}
	h.Radar(kit.ExitCause, "explain", "h2:7003", "--exit-code")
	h.Radar(kit.ExitFailure, "explain", "h2:7999", "--exit-code")
	// Datagrams: of TCP, a sender that waits for a processor has nothing to send.
	h.Listen("h2", 7004)
	h.In("h1", "python3", "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor i in range(5): s.sendto(b'x', ('10.0.2.2', 7004))")
	h.Ended(5, "--proto", "udp", "--dport", "7004")
	h.Radar(kit.ExitOK, "explain", "h2:7004", "--exit-code")

	got := asserted(h.World, kit.ExitFailure, `
assertions:
  - name: nothing refuses
    select: {dport: [7002, 7003]}
    never_cause: [firewall, queue]
  - name: the network holds no flow
    select: {dport: 7002}
    never_cause: [firewall, queue, loss, delay, mtu, reordering]
  - name: only ends
    select: {dport: [7001, 7002]}
    cause: [slow_sender, nothing]
  - name: nothing at all
    select: {dport: 7002}
    cause: nothing
  - name: no such flow
    select: {dport: 7999}
    cause: nothing
`)
	const holds, fails = assertion.Holds, assertion.Fails
	want(h.World, got, map[string]assertion.Verdict{"nothing refuses": fails, "the network holds no flow": holds, "only ends": holds, "nothing at all": fails, "no such flow": fails})
	if r := got["nothing refuses"]; len(r.Evidence) != 1 || !strings.Contains(r.Evidence[0].What, "a rule in r1 dropped") || r.Values["firewall"] != 1 || r.Values["slow_sender"] != 1 {
		t.Errorf("%+v", r)
	}
}

// TestKernelView: while the connection lives, the sending socket says what it waits for; afterwards it does not.
func TestKernelView(t *testing.T) {
	radarbin.Path(t)
	h := newHeld(t, 1, 7001, nil, "--timeout", "1s", "--slots", "256K")
	h.to = "10.9.0.2"
	switched(h.World)
	forward(t, h.World, "--delay 20ms")
	for port, c := range map[int]struct{ read, send string }{7001: {"8192", "0"}, 7002: {"0", "4096"}} {
		h.port = port
		read := "import socket; s = socket.socket(); s.setsockopt(1, 2, 1); n = " + c.read + "\nif n: s.setsockopt(1, 8, n)\n" +
			fmt.Sprintf("s.bind((\"\", %d)); s.listen(); print(1, flush=True); c, _ = s.accept()\nwhile c.recv(1 << 20): pass", port)
		h.Python("h2", read)
		h.Python("h1", fmt.Sprintf("import socket, sys, time; s = socket.socket(); n = %s\nif n: s.setsockopt(1, 7, n)\ns.connect((%q, %d)); end = time.time() + 1.5\n"+
			"while True:\n  s.sendall(b\"x\" * 100000)\n  if end and time.time() > end: print(1, flush=True); end = 0", c.send, h.to, port))
		a := h.explained(t)
		v := a.Kernel
		if v == nil || v.Node != "h1" || v.Samples < 2 || v.Whole.BusyNs < 1e9 || v.RTTNs < 30e6 || v.Recent.BusyNs > v.Whole.BusyNs {
			t.Fatalf("%+v", v)
		}
		if port == 7001 && (3*v.Whole.WindowNs < v.Whole.BusyNs || a.Cause != explain.ByWindow || v.ByBuffer()) ||
			port == 7002 && (!v.ByBuffer() || !strings.Contains(a.Summary, "the kernel of h1 says that its socket's send buffer held it")) {
			t.Errorf("port %d: %+v: %s", port, v, a.Summary)
		}
	}
	h.port = 7003
	h.server(t, "sink")
	h.send(1000, 10, 0)
	if a := h.explained(t); a.Kernel != nil {
		t.Errorf("the socket is gone: %+v", a.Kernel)
	}
}
