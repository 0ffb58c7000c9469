// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

// longestLeak is how long a new member of a bridge may see rewritten bits: the time
// from `ip link set X master BRIDGE` until the agent has closed it.
const longestLeak = 300 * time.Millisecond

// pinger sends a ping every 2 ms until stopped; whether it is answered does not matter.
func (b *bridged) pinger(from, to string, args ...string) (stop func()) {
	b.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--net=" + b.Path(from), "ping", "-q", "-n", "-i", "0.002", to}, args...)...)
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			cmd.Process.Kill()
			cmd.Wait()
			stopped = true
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// stateInMemory puts the domain's description where it is by default: writing it to a
// disk takes longer than all else.
func (b *bridged) stateInMemory() {
	b.t.Helper()
	dir, err := os.MkdirTemp("/run", "rdr")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { os.RemoveAll(dir) })
	b.t.Setenv("RADAR_STATE_DIR", dir)
	nstest.Cleanup(b.t, func() { b.try("detach", "--no-drain") })
}

// stateRE finds the states of ports in what radar status says.
var stateRE = regexp.MustCompile(` (STATE|up|down|no carrier|-) (ROLE|internal|edge)`)

// ports are the lines "node port role peer" of radar status.
func (b *bridged) ports() string {
	b.t.Helper()
	out := string(b.run(b.t, "status"))
	out = out[strings.Index(out, "\nNODE"):strings.Index(out, "\nPACKETS")]
	out = stateRE.ReplaceAllString(strings.Join(strings.Fields(out), " "), " $2")
	return strings.ReplaceAll(out, b.Name("host"), "host")
}

// waitPorts waits until the status shows, or no longer shows, a port.
func (b *bridged) waitPorts(what string, shown bool) {
	b.t.Helper()
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(b.ports(), what) == shown {
			return
		}
	}
	b.t.Fatalf("status shows %q: %v, want %v: %s", what, !shown, shown, b.ports())
}

// someTraffic waits until a node has got so many packets more.
func (b *bridged) someTraffic(node string) {
	b.t.Helper()
	const packets = 50
	received := func() uint64 {
		l, err := b.Handle(node).LinkByName("eth0")
		if err != nil {
			b.t.Fatal(err)
		}
		return l.Attrs().Statistics.RxPackets
	}
	before := received()
	nstest.WaitFor(b.t, fmt.Sprintf("%d packets to %s", packets, node), func() bool { return received() >= before+packets })
}

// TestBridgeJoins: a container that nobody attached joins the bridge under traffic.
// What it sees of rewritten bits ends soon, and everything else goes on.
//
// How soon depends on the machine, so this is nightly. TestBridgeChanges also checks that
// everything else goes on, and what the agent does.
func TestBridgeJoins(t *testing.T) {
	need.Nightly(t)
	b := newBridged(t, false)
	b.stateInMemory()
	b.attach("a", "b")
	b.addNode("n")
	b.Veth("n", "eth0", "host", "vn")
	b.Address("n", "eth0", "10.9.0.9/24")
	// Nobody has learned the address: the bridge floods what is sent to it.
	b.Run("a", "ip", "neigh", "add", "10.9.0.9", "lladdr", "02:00:00:00:00:09", "dev", "eth0")
	stop := b.pinger("a", "10.9.0.9")
	steady := b.pinger("a", addrB)
	dump := b.listen("n", "eth0")
	b.someTraffic("b")
	host := b.Handle("host")
	vn, err := host.LinkByName("vn")
	if err != nil {
		t.Fatal(err)
	}
	br0, err := host.LinkByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	waited := b.waitsForCPU()
	joined := time.Now() // no process has to start between this and the change
	if err := host.LinkSetMaster(vn, br0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	b.waitPorts("(not attached) vn edge (found) host/br0", true)
	stop()
	if err := dump.stop(); err != nil {
		t.Fatal(err)
	}
	seen, leaked, last := wireBits(t, dump.file)
	if seen == 0 {
		t.Error("the new member saw no packet: the test shows nothing")
	}
	leak, without := last.Sub(joined), waited(last)
	t.Logf("a new member saw %d packets, %d with rewritten bits, the last one %v after it joined; the agent waited for a CPU for %v meanwhile", seen, leaked, leak, without)
	if leaked > 0 && leak-without > longestLeak {
		t.Errorf("a new member saw rewritten bits for %v", leak)
	}

	b.Run("host", "ip", "link", "set", "vn", "nomaster")
	b.waitPorts("(not attached) vn", false)
	steady()
	b.settle(t)
	for _, r := range b.records(t) {
		if r.Dst == addrB && story(&r) != "a > b delivered" {
			t.Errorf("a packet beside that: %s, %+v", story(&r), r.Loss)
		}
	}
}

// waitsForCPU notes how long the agent is kept waiting for a CPU: a busy machine makes it
// slow, not wrong. The function that it returns ends that and says how long until then.
func (b *bridged) waitsForCPU() func(until time.Time) time.Duration {
	b.t.Helper()
	tasks := fmt.Sprintf("/proc/%d/task/*/schedstat", b.status(b.t).Agent.PID)
	delay := func() (sum time.Duration) {
		files, _ := filepath.Glob(tasks)
		for _, file := range files {
			var ran, waited int64
			if text, err := os.ReadFile(file); err == nil { // or the thread has ended
				fmt.Sscan(string(text), &ran, &waited)
			}
			sum += time.Duration(waited)
		}
		return sum
	}
	type at struct {
		time  time.Time
		delay time.Duration
	}
	list := []at{{time.Now(), delay()}}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
				list = append(list, at{time.Now(), delay()})
			}
		}
	}()
	stop := sync.OnceFunc(func() { close(quit); <-done })
	b.t.Cleanup(stop)
	return func(until time.Time) time.Duration {
		stop()
		i := slices.IndexFunc(list, func(a at) bool { return a.time.After(until) })
		if i < 0 {
			i = len(list) - 1
		}
		return list[i].delay - list[0].delay
	}
}

// wireBits counts the packets of a capture, and those whose TTL is that of a GUID.
func wireBits(t *testing.T, file string) (seen, leaked int, last time.Time) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, err := r.ReadPacketData()
		if err != nil {
			return seen, leaked, last
		}
		ip := &layers.IPv4{}
		if len(data) < 14 || ip.DecodeFromBytes(data[14:], gopacket.NilDecodeFeedback) != nil {
			continue
		}
		seen++
		if ip.TTL > 64 {
			leaked++
			last = ci.Timestamp
		}
	}
}

// TestBridgeChanges: nodes come and go, a second domain is refused, the agent is
// killed, and in the end nothing is left.
func TestBridgeChanges(t *testing.T) {
	b := newBridged(t, false)
	b.attach("a")
	if got, want := b.ports(), "NODE PORT ROLE PEER a eth0 internal host/br0 host br0 edge (found) host/br0 (not attached) vb edge (found) host/br0 (not attached) vu edge (found) host/br0"; got != want {
		t.Errorf("ports:\n%s\nwant\n%s", got, want)
	}
	out, err := (&radar{ctx: b.ctx, bin: radarbin.Path(t), domain: uniqueName()}).try("attach", "-d", b.Spec("u"))
	if err == nil || !strings.Contains(err.Error(), "bridge "+b.Name("host")+"/br0") || !strings.Contains(err.Error(), b.domain) {
		t.Errorf("a second domain on the bridge: %v\n%s", err, out)
	}

	dump := b.listen("u", "eth0")
	stacks := []*tcpdump{b.listen("a", "nflog"), b.listen("b", "nflog"), b.listen("host", "nflog")}
	stop := b.pinger("a", addrU, "-M", "do")
	stopB := b.pinger("a", addrB)
	b.someTraffic("b")
	b.someTraffic("u")
	b.run(t, "attach", "-d", b.Spec("b")) // its member is closed no longer
	b.waitPorts("(not attached) vb", false)
	b.waitPorts("b eth0 internal host/br0", true)
	b.someTraffic("u")
	b.run(t, "detach", "b")
	b.waitPorts("(not attached) vb", true)
	b.someTraffic("u")
	kill(t, b.status(t).Agent.PID)
	b.someTraffic("u")
	b.someTraffic("b")
	stopB()
	b.run(t, "detach")
	b.someTraffic("u")
	stop()
	b.carried()
	if err := dump.stop(); err != nil {
		t.Fatal(err)
	}
	seen, leaked, _ := wireBits(t, dump.file)
	if seen < 200 || leaked > 0 {
		t.Errorf("a member saw %d packets, %d with rewritten bits", seen, leaked)
	}
	for _, d := range stacks {
		wrong, packets := 0, d.packets(t)
		for _, p := range packets {
			if p.ip.TTL > 64 {
				wrong++
			}
		}
		if wrong > 0 || len(packets) == 0 && d.node != "host" {
			t.Errorf("the stack of %s saw %d packets, %d with rewritten bits", d.node, len(packets), wrong)
		}
	}
	for _, n := range []string{"host", "a", "b", "u"} {
		if out := b.Run(n, "bpftool", "net", "show"); strings.Contains(out, "rdr_") {
			t.Errorf("left in %s:\n%s", n, out)
		}
		if out := b.Run(n, "tc", "qdisc", "show"); strings.Contains(out, "clsact") {
			t.Errorf("left in %s:\n%s", n, out)
		}
	}
}
