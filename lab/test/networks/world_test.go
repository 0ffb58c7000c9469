// SPDX-License-Identifier: Apache-2.0

// Package networks builds small networks with one fault each, of the kinds that people who run such networks ask about in
// public, puts the question that they would put, and demands that an answer names the place and the cause. That a network
// shows its symptom is checked too, by what it does without radar.
//
// The tier "test" runs those of a few seconds, "nightly" all.
package networks

import (
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/host"
)

func TestMain(m *testing.M) { radarbin.Main(m) }

// world is a network, and radar that measures it.
type world struct {
	testing.TB
	*nstest.Net
	nodes  []string
	bin    string
	domain string
}

// network is one with a fault.
type network struct {
	name  string
	nodes string // "a r b"
	slow  bool   // only nightly runs it
	build func(*world)
	// symptom is what its users see: true if the network has its fault. It runs before and after attach.
	symptom func(*world) bool
	asks    []ask
}

// ask is a question, and patterns that one line of its answer matches all of.
type ask struct {
	question string
	want     []string
	never    string // no line matches
}

func (n *network) run(t *testing.T) {
	t.Parallel()
	if n.slow {
		need.Nightly(t)
	}
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "bridge:iproute2", "nft:nftables", "ping:iputils-ping", "sysctl:procps")
	w := &world{TB: t, nodes: strings.Fields(n.nodes), bin: radarbin.Path(t), domain: nstest.Unique()}
	w.Net = nstest.New(t, w.nodes...)
	for _, node := range w.nodes { // the namespaces of other machines may begin with other settings
		w.sh(node, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.ip_forward=0")
	}
	n.build(w)
	if !n.symptom(w) {
		t.Fatal("the network does not show its fault")
	}
	w.attach()
	if !n.symptom(w) {
		t.Fatal("the network shows its fault no more once radar measures it")
	}
	for _, a := range n.asks {
		w.expect(a)
	}
}

// expect asks until the answer is there: losses are final only after a while, and the agent may lag.
func (w *world) expect(a ask) {
	w.Helper()
	var text string
	for end := time.Now().Add(nstest.Patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		text = w.radar(strings.Fields(a.question)...)
		if a.never != "" && regexp.MustCompile(a.never).MatchString(text) {
			w.Errorf("radar %s says what is wrong (%s):\n%s", a.question, a.never, text)
			return
		}
		if strings.Contains(text, "panic:") {
			break
		}
		for line := range strings.Lines(text) {
			if matchesAll(line, a.want) {
				w.Logf("radar %s: %s", a.question, strings.TrimSpace(line))
				w.stillNot(a)
				return
			}
		}
		if w.Failed() {
			break
		}
	}
	w.Errorf("radar %s: no line has all of %q:\n%s", a.question, a.want, text)
}

// stillNot asks once more when nothing is under way: until then radar does not know what has no answer, and is silent.
func (w *world) stillNot(a ask) {
	w.Helper()
	if a.never == "" {
		return
	}
	time.Sleep(timeout + time.Second)
	if text := w.radar(strings.Fields(a.question)...); regexp.MustCompile(a.never).MatchString(text) {
		w.Errorf("radar %s says in the end what is wrong (%s):\n%s", a.question, a.never, text)
	}
}

func matchesAll(line string, want []string) bool {
	for _, p := range want {
		if !regexp.MustCompile(p).MatchString(line) {
			return false
		}
	}
	return true
}

// radar runs it, and returns all that it printed.
func (w *world) radar(args ...string) string {
	out, _ := exec.Command(w.bin, append(args, "--domain", w.domain)...).CombinedOutput()
	return string(out)
}

// timeout is how long a packet is under way at most.
const timeout = 2 * time.Second

func (w *world) attach() {
	w.Helper()
	args := []string{"attach", "-d", "--timeout", timeout.String(), "--slots", "65536"}
	for _, node := range w.nodes {
		args = append(args, w.Spec(node))
	}
	nstest.Cleanup(w.TB, func() { w.radar("detach", "--no-drain") })
	if out, err := exec.Command(w.bin, append(args, "--domain", w.domain)...).CombinedOutput(); err != nil {
		w.Fatalf("attach: %v\n%s", err, out)
	}
}

// sh runs a command line in a node.
func (w *world) sh(node, line string) string {
	w.Helper()
	return w.Run(node, "sh", "-c", line)
}

// wire joins two ports, and gives each an address: "-" is none.
func (w *world) wire(a, addrA, b, addrB string) {
	w.Helper()
	nodeA, portA, _ := strings.Cut(a, "/")
	nodeB, portB, _ := strings.Cut(b, "/")
	w.Veth(nodeA, portA, nodeB, portB)
	if addrA != "-" {
		w.Address(nodeA, portA, addrA)
	}
	if addrB != "-" {
		w.Address(nodeB, portB, addrB)
	}
}

// forwards makes routers of nodes.
func (w *world) forwards(nodes ...string) {
	for _, n := range nodes {
		w.sh(n, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
	}
}

// line is a - r - b: 10.1.0.1, .254 and 10.2.0.254, 10.2.0.1.
func line(w *world) {
	w.wire("a/eth0", "10.1.0.1/24", "r/eth0", "10.1.0.254/24")
	w.wire("r/eth1", "10.2.0.254/24", "b/eth0", "10.2.0.1/24")
	w.forwards("r")
	w.sh("a", "ip route add default via 10.1.0.254")
	w.sh("b", "ip route add default via 10.2.0.254")
}

// line6 is line, with IPv6 from a to r.
func line6(w *world) {
	line(w)
	w.Address("a", "eth0", "fd00:1::1/64")
	w.Address("r", "eth0", "fd00:1::254/64")
	w.sh("a", "ip -6 route add default via fd00:1::254")
}

// lan is a and b at the bridge br0 of s, 10.0.0.1 and 10.0.0.2.
func lan(options string) func(*world) {
	return func(w *world) {
		w.sh("s", "ip link add br0 type bridge "+options)
		for i, n := range []string{"a", "b"} {
			w.wire(n+"/eth0", fmt.Sprintf("10.0.0.%d/24", i+1), fmt.Sprintf("s/p%d", i+1), "-")
		}
		w.sh("s", "ip link set p1 master br0; ip link set p2 master br0; ip link set br0 up")
	}
}

// knows gives a node the MAC address of another one's port for good.
func (w *world) knows(node, port, address, other, otherPort string) {
	mac := strings.TrimSpace(w.sh(other, "cat /proc/net/arp >/dev/null; ip -br link show "+otherPort+" | awk '{print $3}'"))
	w.sh(node, fmt.Sprintf("ip neigh replace %s lladdr %s dev %s nud permanent", address, mac, port))
}

var received = regexp.MustCompile(`(\d+) received`)

// answers is how many of some pings are answered.
func (w *world) answers(node, to string, options ...string) int {
	out, _ := w.Try(node, append([]string{"ping", "-n", "-c3", "-i0.2", "-W1"}, append(options, to)...)...)
	n := 0
	if m := received.FindStringSubmatch(out); m != nil {
		fmt.Sscan(m[1], &n)
	}
	return n
}

// silent reports that no ping is answered.
func silent(node, to string, options ...string) func(*world) bool {
	return func(w *world) bool { return w.answers(node, to, options...) == 0 }
}

// in runs f in a node.
func (w *world) in(node string, f func() error) {
	w.Helper()
	ns, err := netns.GetFromPath(w.Path(node))
	if err != nil {
		w.Fatal(err)
	}
	defer ns.Close()
	if err := host.InNetns(ns, f); err != nil {
		w.Fatalf("in %s: %v", node, err)
	}
}

// serve answers connections at an address of a node until the test ends.
func (w *world) serve(node, address string) {
	w.Helper()
	var listener net.Listener
	w.in(node, func() (err error) { listener, err = net.Listen("tcp", address); return err })
	w.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for b := make([]byte, 1<<16); ; {
					if _, err := conn.Read(b); err != nil {
						return
					}
					if _, err := conn.Write([]byte("ok")); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// connect sends so many bytes, and reports whether an answer came; the error says what came instead.
func (w *world) connect(node, to string, bytes int) (err error) {
	w.in(node, func() error {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", to, 2*time.Second); err != nil {
			return nil
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err = conn.Write(make([]byte, bytes)); err == nil {
			_, err = conn.Read(make([]byte, 9))
		}
		return nil
	})
	return err
}

// udp is a socket of a node, until the test ends.
func (w *world) udp(node, address string) net.PacketConn {
	w.Helper()
	var conn net.PacketConn
	w.in(node, func() (err error) { conn, err = net.ListenPacket("udp", address); return err })
	w.Cleanup(func() { conn.Close() })
	return conn
}

// send sends so many datagrams.
func (w *world) send(conn net.PacketConn, to string, n, bytes int) {
	w.Helper()
	addr, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		w.Fatal(err)
	}
	for range n {
		conn.WriteTo(make([]byte, bytes), addr) // an ICMP error of an earlier one is none of this
		time.Sleep(5 * time.Millisecond)
	}
}
