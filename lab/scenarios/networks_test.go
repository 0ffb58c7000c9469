// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/lab"
)

// datagrams sends n from a machine to a port, one from each of as many ports.
func datagrams(t *testing.T, l *lab.Lab, machine, to string, port, n int) {
	t.Helper()
	for i := range n {
		sendFrom(t, l, machine, firstPort+i, to, port, 1, 10)
	}
}

// firstPort of those that tests send from.
const firstPort = 20_000

// iperf sends 1 MB by TCP, or UDP, and returns what the client printed.
func iperf(t *testing.T, l *lab.Lab, machine string, args ...string) string {
	t.Helper()
	// The server may still be starting, or be busy with the last client.
	for end := time.Now().Add(nstest.Patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), nstest.Patience)
		b, err := l.Command(ctx, machine, append([]string{"iperf3", "-n", "1M"}, args...)...).CombinedOutput()
		cancel()
		if err == nil {
			return string(b)
		}
		if time.Now().After(end) {
			t.Fatalf("iperf3 %v in %s: %v\n%s", args, machine, err, b)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// ruleCounts are the packets that the machine's nftables rules have counted, in
// their order.
func ruleCounts(t *testing.T, l *lab.Lab, machine string) []int {
	t.Helper()
	var counts []int
	for _, m := range regexp.MustCompile(`counter packets (\d+)`).FindAllStringSubmatch(run(t, l, machine, "nft", "list", "ruleset"), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, n)
	}
	return counts
}

// wantCounts demands of the machine's rules that they count so many packets; the last may
// be counted a little later.
func wantCounts(t *testing.T, l *lab.Lab, machine, what string, want ...int) {
	t.Helper()
	var got []int
	nstest.WaitFor(t, fmt.Sprintf("%v %s counted by the rules of %s", want, what, machine), func() bool {
		got = ruleCounts(t, l, machine)
		for i := range got {
			if i < len(want) && got[i] < want[i] {
				return false
			}
		}
		return true
	})
	if !slices.Equal(got, want) {
		t.Errorf("%s's rules have counted %v %s, want %v", machine, got, what, want)
	}
}

// TestECMPSpreads: flows go by all four paths, each by one, and answers also.
func TestECMPSpreads(t *testing.T) {
	const flows, packets = 64, 3
	l := up(t, "ecmp", nil)
	if got := pingTTL(t, l, "h1", "10.0.2.1"); got != 61 {
		t.Errorf("TTL from h2 to h1 is %d, want 61", got)
	}
	var there, back []*dump
	for n := 2; n <= 5; n++ {
		s := fmt.Sprintf("s%d", n)
		there = append(there, capture(t, l, s, "eth1", "udp and dst 10.0.2.1"))
		back = append(back, capture(t, l, s, "eth0", "icmp and src 10.0.2.1"))
	}
	for i := range flows {
		sendFrom(t, l, "h1", firstPort+i, "10.0.2.1", 7000, packets, 10) // nobody listens: h2 answers with ICMP
	}
	path := make(map[int]int) // source port -> path
	await(packets*flows, there...)
	for i, d := range there {
		list := d.stop(0)
		if len(list) < packets*flows/16 {
			t.Errorf("path %d has %d of %d packets: want about a quarter", i, len(list), packets*flows)
		}
		for _, p := range list {
			if was, ok := path[p.sport]; ok && was != i {
				t.Errorf("the flow from port %d takes paths %d and %d", p.sport, was, i)
			}
			path[p.sport] = i
		}
	}
	answers := 0
	await(1, back...)
	for _, d := range back {
		answers += len(d.stop(0))
	}
	if len(path) != flows || answers == 0 {
		t.Errorf("%d flows of %d arrived, %d answers", len(path), flows, answers)
	}
	// Answers of ICMP, which has no ports, have one path; TCP's spread. (With so
	// many streams each path has some, except in one run of a million.)
	iperf(t, l, "h1", "-c", startIperf(t, l, "h2", "10.0.2.1"), "-P", "56")
	var counts []int
	for i := 1; i <= 4; i++ {
		counts = append(counts, sentBy(t, l, "s6", fmt.Sprintf("eth%d", i)))
	}
	if slices.Min(counts) < 2 {
		t.Errorf("s6 has sent %v packets on its four ways back: want some on each", counts)
	}
}

// startIperf starts a server that ends with the lab, and returns addr.
func startIperf(t *testing.T, l *lab.Lab, machine, addr string) string {
	t.Helper()
	run(t, l, machine, "iperf3", "-s", "-D")
	return addr
}

// sentBy is the number of packets that an interface has sent.
func sentBy(t *testing.T, l *lab.Lab, machine, ifname string) int {
	t.Helper()
	for line := range strings.SplitSeq(run(t, l, machine, "cat", "/proc/net/dev"), "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), ifname+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[9])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no interface %s", machine, ifname)
	return 0
}

// TestSwitchesSwitch: everyone reaches everyone at the first hop, and frames for
// a known address go nowhere else.
func TestSwitchesSwitch(t *testing.T) {
	l := up(t, "switches", nil)
	for from := 1; from <= 5; from++ {
		for to := 1; to <= 5; to++ {
			if got := pingTTL(t, l, fmt.Sprintf("h%d", from), fmt.Sprintf("10.0.0.%d", to)); got != 64 {
				t.Errorf("TTL from h%d to h%d is %d, want 64: no router between", to, from, got)
			}
		}
	}
	other := capture(t, l, "h2", "eth0", "icmp")
	shared := capture(t, l, "h5", "eth0", "icmp")
	at := capture(t, l, "h4", "eth0", "icmp")
	run(t, l, "h1", "ping", "-c", "5", "-i", "0.01", "10.0.0.4")
	if n := len(at.stop(10)); n != 10 {
		t.Errorf("h4 has seen %d packets, want 5 pings and answers", n)
	}
	if a, b := len(other.stop(0)), len(shared.stop(0)); a+b > 0 {
		t.Errorf("h2 has seen %d and h5 %d packets between h1 and h4, want none", a, b)
	}
	if link := l.Links[slices.IndexFunc(l.Links, func(k lab.Link) bool { return k.Name == "LAN" })]; link.Kind != lab.Bridged || len(link.Members) != 3 {
		t.Errorf("LAN is %+v, want a bridged link of three", link)
	}
}

// TestNAT: captures inside and outside show which addresses gw has changed.
func TestNAT(t *testing.T) {
	l := up(t, "nat", nil)
	outside := capture(t, l, "srv", "eth0", "tcp and dst port 5201")
	iperf(t, l, "in1", "-c", "192.0.2.2")
	out := make(map[int]bool) // ports of connections
	for _, p := range outside.stop(10) {
		if p.src != "192.0.2.1" {
			t.Fatalf("srv has a packet from %s, want gw's address only", p.src)
		}
		out[p.sport] = true
	}
	published := capture(t, l, "in2", "eth0", "tcp and dst port 80")
	iperf(t, l, "srv", "-c", "192.0.2.1", "-p", "8080")
	hairpin := capture(t, l, "in1", "eth0", "tcp and port 8080")
	iperf(t, l, "in1", "-c", "192.0.2.1", "-p", "8080")
	from := make(map[string]map[int]bool) // ports of connections, by address
	for _, p := range published.stop(20) {
		if p.dst != "10.0.1.12" {
			t.Fatalf("in2 has a packet to %s", p.dst)
		}
		if from[p.src] == nil {
			from[p.src] = make(map[int]bool)
		}
		from[p.src][p.sport] = true
	}
	srv, in1 := len(from["192.0.2.2"]), len(from["10.0.1.1"])
	if len(from) != 2 || srv < 2 || in1 < 2 || len(out) < 2 {
		t.Errorf("connections to in2 come from %v, to srv from %v: want two and more from srv by its own address, in1 by gw's", from, out)
	}
	for _, p := range hairpin.stop(20) {
		if p.src != "192.0.2.1" && p.dst != "192.0.2.1" {
			t.Fatalf("in1 has a packet from %s to %s: want it to know of gw only", p.src, p.dst)
		}
	}
	// dnat TCP, dnat UDP, masquerade, hairpin: two connections each time, and one more whenever
	// the server was not ready for them.
	wantCounts(t, l, "gw", "connections", srv+in1, 0, len(out), in1)
	// srv knows no way to the inside.
	if b, err := l.Command(t.Context(), "srv", "ping", "-c", "1", "-W", "1", "10.0.1.11").CombinedOutput(); err == nil {
		t.Errorf("srv reaches in1 directly:\n%s", b)
	}
}

// TestFirewall sends a different number of packets to every rule.
func TestFirewall(t *testing.T) {
	l := up(t, "firewall", nil)
	if got := pingTTL(t, l, "h1", "10.0.2.2"); got != 63 {
		t.Errorf("TTL from h2 to h1 is %d, want 63", got)
	}
	answers := capture(t, l, "h1", "eth0", "src 10.0.1.2 or icmp or tcp port 23")
	arrived := capture(t, l, "h2", "eth0", "udp")
	for i, port := range []int{7001, 7002, 7003, 7004} {
		datagrams(t, l, "h1", "10.0.2.2", port, i+3)
	}
	datagrams(t, l, "h1", "10.0.1.2", 161, 2)
	telnet := l.Command(t.Context(), "h1", "iperf3", "-c", "10.0.2.2", "-p", "23", "--connect-timeout", "120000")
	if b, err := telnet.CombinedOutput(); err == nil || !strings.Contains(string(b), "Connection refused") {
		t.Errorf("TCP to port 23: %v, want it refused\n%s", err, b)
	}
	iperf(t, l, "h1", "-c", startIperf(t, l, "h2", "10.0.2.2"))

	toPort := make(map[int]int)
	for _, p := range arrived.stop(11) {
		toPort[p.dport]++
	}
	if toPort[7001] != 0 || toPort[7002] != 0 || toPort[7003] != 5 || toPort[7004] != 6 {
		t.Errorf("datagrams at h2 by port: %v, want 5 to 7003 and 6 to 7004", toPort)
	}
	prohibited, reset, syns := 0, 0, 0
	for _, p := range answers.stop(4 + 1 + 1) {
		if p.icmp && p.icmpType == layers.ICMPv4TypeDestinationUnreachable && p.icmpCode == layers.ICMPv4CodeCommAdminProhibited && p.src == "10.0.1.2" {
			prohibited++
		}
		if p.tcp && p.sport == 23 {
			reset++
		}
		if p.tcp && p.dport == 23 { // once more, if h1 had to wait for the answer for too long
			syns++
		}
	}
	if prohibited != 4 || reset != syns || syns == 0 {
		t.Errorf("h1 has %d answers \"prohibited\" and %d resets, want 4 and as many as it sent to port 23, %d", prohibited, reset, syns)
	}
	wantCounts(t, l, "fw", "packets", 3, 4, syns, 2)
	dropped := regexp.MustCompile(`(?m)^\s*5\s+\d+\s+DROP`)
	nstest.WaitFor(t, "5 packets dropped by iptables in h2", func() bool {
		return dropped.MatchString(run(t, l, "h2", "iptables", "-vnxL", "INPUT"))
	})
}

// TestServiceChain: six clients reach all three servers, always the same one, and
// no server knows the client's address; captures tell.
func TestServiceChain(t *testing.T) {
	l := up(t, "servicechain", nil)
	var servers []*dump
	for n := 1; n <= 3; n++ {
		servers = append(servers, capture(t, l, fmt.Sprintf("srv%d", n), "eth0", "tcp and dst port 80"))
	}
	client := capture(t, l, "client", "eth0", "tcp and src port 80")
	for round := range 2 {
		for n := 1; n <= 6; n++ {
			iperf(t, l, "client", "-c", "10.0.3.2", "-p", "80", "-B", fmt.Sprintf("10.0.1.%d", n), fmt.Sprintf("--cport=%d", 40000+10*n+round))
		}
	}
	datagrams(t, l, "client", "10.0.3.2", 81, 7)
	who := make(map[string]int)
	used := make(map[int]bool)
	for i, d := range servers {
		for _, p := range d.stop(0) {
			if was, ok := who[p.src]; ok && was != i {
				t.Errorf("client %s has servers %d and %d", p.src, was+1, i+1)
			}
			who[p.src], used[i] = i, true
			if !strings.HasPrefix(p.src, "10.0.9.") || p.ttl != 61 {
				t.Fatalf("srv%d has a packet from %s with TTL %d: want one of NAT's addresses, and 61", i+1, p.src, p.ttl)
			}
		}
	}
	if len(who) != 6 || len(used) != 3 {
		t.Errorf("clients and their servers: %v, want six and all three", who)
	}
	for _, p := range client.stop(10) {
		if p.src != "10.0.3.2" || p.ttl != 61 {
			t.Fatalf("an answer comes from %s with TTL %d: want the load balancer, and 61", p.src, p.ttl)
		}
	}
	wantCounts(t, l, "fw", "packets to port 81", 7)
}

// TestForwarder: the delay is in the range, the loss is what was asked for.
func TestForwarder(t *testing.T) {
	needs(t)
	need.Programs(t, "go:golang")
	need.Radar(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "radar"), "./cmd/radar")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build radar: %v\n%s", err, out)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	l := up(t, "forwarder", map[string]string{"DELAY": "uniform:3ms,6ms", "LOSS": "20", "SEED": "5"})
	before := capture(t, l, "h1", "eth0", "udp and dst port 7000")
	after := capture(t, l, "h2", "eth0", "udp and dst port 7000")
	run(t, l, "h1", "ip", "neigh", "add", "10.0.0.2", "lladdr", mac(t, l, "h2"), "dev", "eth0")
	// h2 says of each packet that nobody listens. If it had to ask for h1's address first,
	// which gets lost, too, its answers would wait for that and use up the buffer that the
	// kernel has for all ICMP of a CPU: answers in other tests' namespaces would be dropped.
	run(t, l, "h2", "ip", "neigh", "add", "10.0.0.1", "lladdr", mac(t, l, "h1"), "dev", "eth0")
	const n = 300
	for i := range n {
		sendFrom(t, l, "h1", firstPort+i, "10.0.0.2", 7000, 1, 100)
		time.Sleep(time.Millisecond)
	}
	sent := make(map[int]time.Time)
	for _, p := range before.stop(n) {
		sent[p.sport] = p.at
	}
	await(n*7/10, after)
	time.Sleep(200 * time.Millisecond) // more than there should be would come by then
	got := after.stop(0)
	if k := len(got); len(sent) != n || k < n*7/10 || k > n*9/10 {
		t.Errorf("%d packets sent, %d arrived: want %d and about 80 %%", len(sent), k, n)
	}
	var delays []time.Duration
	for _, p := range got {
		delays = append(delays, p.at.Sub(sent[p.sport]))
	}
	slices.Sort(delays)
	// On a busy machine all may be late; where times are checked, a tenth is not.
	least, tenth, median := delays[0], delays[len(delays)/10], delays[len(delays)/2]
	if least < 3*time.Millisecond || median < 4*time.Millisecond || need.IsNightly(t) && tenth > 6*time.Millisecond {
		t.Errorf("delays from %v, a tenth up to %v, median %v: want them from 3 to 6 ms", least, tenth, median)
	}
}

// mac is the MAC address of a machine's eth0.
func mac(t *testing.T, l *lab.Lab, machine string) string {
	t.Helper()
	fields := strings.Fields(run(t, l, machine, "ip", "-br", "link", "show", "dev", "eth0"))
	if len(fields) < 3 {
		t.Fatalf("no MAC address in %q", fields)
	}
	return fields[2]
}
