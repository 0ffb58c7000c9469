// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// conntrackSum adds up a column of what the kernel says of conntrack in a machine.
func conntrackSum(w *clitest.World, machine, column string) (sum uint64) {
	w.Helper()
	lines := strings.Split(strings.TrimSpace(w.In(machine, "cat", "/proc/net/stat/nf_conntrack")), "\n")
	for i, name := range strings.Fields(lines[0]) {
		for _, line := range lines[1:] {
			n, err := strconv.ParseUint(strings.Fields(line)[i], 16, 64)
			if err != nil {
				w.Fatal(err)
			}
			if name == column {
				sum += n
			}
		}
	}
	return sum
}

// rowOf waits for the row of losses at a function and of a flow's port, and returns it.
func rowOf(w *clitest.World, function string, packets uint64) (row answer.LossRow) {
	w.Helper()
	nstest.WaitFor(w.T, fmt.Sprintf("%d losses by %s", packets, function), func() bool {
		for _, row = range nowRows(w) {
			if row.Function == function && row.Packets == packets {
				return true
			}
		}
		return false
	})
	return row
}

// A packet that netfilter drops was dropped by a rule only where that is known: conntrack's own counters say what it
// dropped, such as packets of flows that masquerade has no port for.
func TestWhyNetfilter(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=600") // the ports stay in use until all is asked
	// What was dropped before is not of these packets.
	w.In("r1", "nft", "add table ip n; add chain ip n p { type nat hook postrouting priority 100; }; add rule ip n p oif eth1 ip protocol udp masquerade to :5000-5002")
	masqueraded := func(from, n int) {
		for port := from; port < from+n; port++ {
			w.In("h1", "python3", "-c", fmt.Sprintf(`import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.0.1.1", %d))
s.sendto(b"x", ("10.0.2.2", 9005))`, port))
		}
	}
	masqueraded(20000, 5)
	before := conntrackSum(w, "r1", "insert_failed")
	if before == 0 {
		t.Fatal("conntrack has inserted all")
	}
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	masqueraded(20010, 6)
	failed := conntrackSum(w, "r1", "insert_failed") - before
	row := rowOf(w, "nf_hook_slow", failed)
	if row.Netfilter == nil || row.Netfilter.Rules || row.Netfilter.ConntrackNotInserted != failed || row.Netfilter.ConntrackDrops != failed {
		t.Errorf("conntrack has not inserted %d; the row %+v, netfilter %+v", failed, row, row.Netfilter)
	}
	const why = "NAT of r1 has no free port for udp to 10.0.2.2:9005 (all 3 of 10.0.2.1, 5000-5002, are in use: ip n p: rule of handle 2)"
	out := w.Says([]string{"loss"}, why)
	out += w.Says([]string{"loss", "--by", "flow"}, why)
	out += w.Says([]string{"loss", "--series"}, why)
	out += w.Says([]string{"trace", "--last", "--state", "lost"}, "netfilter dropped it: "+why+" [NETFILTER_DROP, nf_hook_slow()]")
	if strings.Contains(out, "firewall rule") {
		t.Errorf("no rule drops:\n%s", out)
	}
	// A rule of nf_tables has a function of its own, one of legacy iptables has not.
	w.In("r1", "nft", "add table ip f; add chain ip f p { type filter hook forward priority 0; }; add rule ip f p udp dport 9006 drop")
	w.UDPTo("10.0.2.2", 9006)
	awaitLoss(w, "loss", "nft_do_chain", "  firewall rule")
	w.Says([]string{"loss"}, why)
	w.In("r1", "iptables-legacy", "-A", "FORWARD", "-p", "udp", "--dport", "9007", "-j", "DROP")
	w.Says([]string{"loss"}, "firewall rule, or "+why)
}

// Of a queue WHY says "full" only where it was: a token bucket whose burst is below the packet refuses it though it is
// empty, and what lies in a queue that is replaced, removed, or whose port is set down, is freed without a reason.
func TestWhyQueue(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(1)
	send := func(n, port int) {
		for range n {
			bigUDP(w, "10.0.2.2", port)
		}
	}
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "100mbit", "burst", "1000", "limit", "100000")
	send(3, 9001)
	if stats := w.In("r1", "tc", "-s", "qdisc", "show", "dev", "eth1"); !strings.Contains(stats, "dropped 3,") || !strings.Contains(stats, "backlog 0b") {
		t.Fatalf("no empty queue that dropped:\n%s", stats)
	}
	const small = "larger than the queue's burst (1000 bytes)"
	awaitLoss(w, "loss", "3", "QDISC_DROP", "tbf", small)
	out := w.Says([]string{"loss", "--by", "flow"}, small) + w.Says([]string{"loss", "--series"}, small) +
		w.Says([]string{"trace", "--last", "--state", "lost"}, "LOST in the queue of eth1 (tbf): "+small)
	if strings.Contains(out, "full") {
		t.Errorf("the queue is empty:\n%s", out)
	}
	// Slow, so that all but the first wait.
	slow := func(port int) {
		w.In("r1", "tc", "qdisc", "replace", "dev", "eth1", "root", "tbf", "rate", "8bit", "burst", "1600", "limit", "100000")
		send(4, port)
		if stats := w.In("r1", "tc", "-s", "qdisc", "show", "dev", "eth1"); !strings.Contains(stats, " 3p ") {
			t.Fatalf("not three packets in the queue:\n%s", stats)
		}
	}
	slow(9002)
	w.In("r1", "tc", "qdisc", "replace", "dev", "eth1", "root", "pfifo", "limit", "100")
	slow(9003)
	w.In("r1", "tc", "qdisc", "del", "dev", "eth1", "root")
	slow(9004)
	w.In("r1", "ip", "link", "set", "eth1", "down")
	const emptied = "queue emptied: replaced, removed, or its port set down"
	w.Ended(12, "--dport", "9002-9004")
	awaitLoss(w, "loss", "9", "eth1", emptied)
	w.Says([]string{"trace", "--last", "--state", "lost"}, emptied)
}

// What detach says of losses is what the answers before it have said.
func TestWhyAtDetach(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(1)
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "100mbit", "burst", "1000", "limit", "100000")
	bigUDP(w, "10.0.2.2", 9001)
	const small = "larger than the queue's burst (1000 bytes)"
	awaitLoss(w, "loss", "1", "QDISC_DROP", "tbf", small)
	w.Says([]string{"detach"}, small)
}

// kernelCount is a counter of the kernel in a machine.
func kernelCount(w *clitest.World, machine, name string) uint64 {
	w.Helper()
	for line := range strings.Lines(w.In(machine, "nstat", "-asz", name)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			if err != nil {
				w.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// fullListener runs in h2. It listens, accepts nothing, and lets h1 ask for more connections than there is room for. It ends
// when the kernel has refused some, with all of them closed.
const fullListener = `import socket, subprocess, time
def refused():
    with open("/proc/net/netstat") as f:
        names, values = [line.split() for line in f if line.startswith("TcpExt:")]
    return int(values[names.index("ListenOverflows")])
before = refused()
s = socket.socket()
s.bind(("10.0.2.2", %[2]d))
s.listen(0)
c = subprocess.Popen(["nsenter", "--net=%[1]s", "python3", "-c", """import socket, sys
all = [socket.socket() for i in range(8)]
for c in all:
    c.setblocking(False)
    c.connect_ex(("10.0.2.2", %[2]d))
sys.stdin.read()"""], stdin=subprocess.PIPE)
while refused() == before:
    time.sleep(0.01)
c.communicate()
`

// lonelyFragments sends first fragments of datagrams whose rest never comes.
const lonelyFragments = `import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for i in range(5):
    s.sendto(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 36, 100 + i, 0x2000, 64, 17, 0, socket.inet_aton("10.0.1.1"), socket.inet_aton("10.0.2.2"))
        + struct.pack("!HHHH", 7, 8, 100, 0) + bytes([i]) * 8, ("10.0.2.2", 0))`

// What a node drops after delivery without a sign that radar sees, the node's own counters have, and answers say so: a
// connection's first packets for a listener that is full, and fragments whose rest does not come. What they counted
// before the node was attached is not of its packets.
func TestKernelDrops(t *testing.T) {
	w := clitest.NewWorld(t)
	fill := func(port int) { w.In("h2", "python3", "-c", fmt.Sprintf(fullListener, w.Lab.NetNSPath("h1"), port)) }
	const overflows, fails = "TcpExtListenOverflows", "IpReasmFails"
	fill(81)
	before := kernelCount(w, "h2", overflows)
	w.In("h2", "sysctl", "-qw", "net.ipv4.ipfrag_time=1")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(1)
	w.Settled(2)
	w.Says([]string{"loss", "--after-delivery"}, "nothing was dropped after delivery of 2 packets, nor do the nodes' own counters have any")

	fill(82)
	refused := kernelCount(w, "h2", overflows) - before
	want := fmt.Sprintf("h2 itself counts more drops of what came to it than were seen, of all its traffic since attach: %s %d (too many new connections)", overflows, refused)
	out := w.Says([]string{"loss", "--after-delivery"}, want)
	if strings.Contains(out, "nothing was dropped") {
		t.Errorf("the kernel of h2 has refused %d:\n%s", refused, out)
	}
	w.Says([]string{"loss"}, want)

	w.In("h1", "python3", "-c", lonelyFragments)
	nstest.WaitFor(t, "fragments to be given up", func() bool { return kernelCount(w, "h2", fails) >= 5 })
	w.Says([]string{"loss", "--after-delivery"}, fmt.Sprintf("%s %d (fragments missing)", fails, kernelCount(w, "h2", fails)))

	// Of a node that another agent has attached the counts go on.
	w.Kill()
	w.Radar(kit.ExitOK, "attach", "-d")
	w.Says([]string{"loss"}, fmt.Sprintf("since attach: %s %d ", overflows, refused))
}
