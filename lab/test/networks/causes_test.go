// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
)

// causes are networks in which the kernel has one reason, or none, for many faults.
var causes = []network{
	{
		name: "router does not forward", nodes: "a r b",
		build:   func(w *world) { line(w); w.sh("r", "sysctl -qw net.ipv4.ip_forward=0") },
		symptom: silent("a", "10.2.0.1"),
		asks:    []ask{{"loss", []string{`\br\b.*IP_INADDRERRORS`, `r does not forward \(net\.ipv4\.ip_forward=0\)`, `b has it`}, `bad address`}},
	},
	{
		name: "stale neighbour", nodes: "a b s c",
		build: func(w *world) {
			lan("")(w)
			w.wire("c/eth0", "10.0.0.3/24", "s/p3", "-")
			w.sh("s", "ip link set p3 master br0")
			w.sh("c", "ip addr add 10.0.0.100/32 dev eth0")
			w.knows("a", "eth0", "10.0.0.100", "b", "eth0")
		},
		symptom: silent("a", "10.0.0.100"),
		asks:    []ask{{"loss", []string{`\bb\b.*IP_INADDRERRORS`, `10\.0\.0\.100 is not its address; c has it`}, ""}},
	},
	{
		name: "bridge's far port has a smaller MTU", nodes: "a b s",
		build: func(w *world) {
			lan("")(w)
			w.sh("a", "ip link set eth0 mtu 1600")
			w.sh("b", "ip link set eth0 mtu 1600")
			w.sh("s", "ip link set p1 mtu 1600")
			w.knows("a", "eth0", "10.0.0.2", "b", "eth0")
			w.knows("b", "eth0", "10.0.0.1", "a", "eth0")
		},
		symptom: silent("a", "10.0.0.2", "-M", "do", "-s", "1550"),
		asks:    []ask{{"loss", []string{`\bs\b`, `too big \(MTU\): s/p2 has 1500`}, ""}},
	},
	{
		name: "router's far port has a smaller MTU", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("r", "ip link set eth1 mtu 1400")
			w.sh("b", "ip link set eth0 mtu 1400")
		},
		symptom: func(w *world) bool {
			w.sh("a", "ip route flush cache") // what it has learned of the path
			return w.answers("a", "10.2.0.1", "-M", "do", "-s", "1450") == 0
		},
		asks: []ask{{"loss", []string{`\br\b.*PKT_TOO_BIG`, `too big \(MTU\): r/eth1 has 1400`}, ""}},
	},
	{
		name: "isolated ports", nodes: "a b s",
		build: func(w *world) {
			lan("")(w)
			w.sh("s", "bridge link set dev p1 isolated on; bridge link set dev p2 isolated on")
			w.knows("a", "eth0", "10.0.0.2", "b", "eth0")
		},
		symptom: silent("a", "10.0.0.2"),
		asks:    []ask{{"loss", []string{`\bs\b`, `s/p1 and s/p2 are isolated`}, ""}},
	},
	{
		name: "isolated ports, and ARP", nodes: "a b s",
		build: func(w *world) {
			lan("")(w)
			w.sh("s", "bridge link set dev p1 isolated on; bridge link set dev p2 isolated on")
		},
		symptom: silent("a", "10.0.0.2"),
		asks:    []ask{{"loss", []string{`a dropped`, `NEIGH_FAILED`, `s/p1 and s/p2 are isolated`}, ""}},
	},
	{
		name: "hairpin off", nodes: "c h",
		build: func(w *world) {
			w.sh("h", "ip link add br0 type bridge; ip link set br0 up; ip addr add 10.5.0.254/24 dev br0")
			w.wire("c/eth0", "10.5.0.1/24", "h/p1", "-")
			w.sh("h", "ip link set p1 master br0; sysctl -qw net.bridge.bridge-nf-call-iptables=1")
			w.forwards("h")
			w.sh("c", "ip route add default via 10.5.0.254")
			w.sh("h", "ip addr add 192.0.2.1/32 dev lo")
			w.sh("h", `nft 'add table ip n; add chain ip n pre { type nat hook prerouting priority -100; }; add rule ip n pre ip daddr 192.0.2.1 tcp dport 80 dnat to 10.5.0.1'`)
			w.serve("c", "0.0.0.0:80")
		},
		symptom: func(w *world) bool { return w.connect("c", "192.0.2.1:80", 1) != nil },
		asks:    []ask{{"loss", []string{`\bh\b`, `hairpin is off at h/p1`}, ""}},
	},
	{
		name: "service with a backend that is not there", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("r", "sysctl -qw net.ipv4.neigh.eth1.retrans_time_ms=100") // it gives up before packets expire
			w.sh("r", `nft 'add table ip n; add chain ip n pre { type nat hook prerouting priority -100; }; add rule ip n pre ip daddr 192.0.2.1 tcp dport 80 dnat to 10.2.0.14:8080'`)
		},
		symptom: func(w *world) bool { return w.connect("a", "192.0.2.1:80", 1) != nil },
		asks: []ask{
			{"loss", []string{`\br\b`, `no ARP answer; no node of the domain has 10\.2\.0\.14`}, ""},
			{"explain", []string{`no ARP answer; no node of the domain has 10\.2\.0\.14`}, ""},
		},
	},
	{
		name: "conntrack zone of one direction", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("r", `nft 'add table ip f; add chain ip f pre { type filter hook prerouting priority -300; }; add rule ip f pre iifname eth0 ct zone set 7; add chain ip f fw { type filter hook forward priority 0; policy drop; }; add rule ip f fw ct state established accept; add rule ip f fw iifname eth0 accept'`)
			w.serve("b", "10.2.0.1:80")
		},
		symptom: func(w *world) bool { return w.connect("a", "10.2.0.1:80", 1) != nil },
		asks:    []ask{{"loss", []string{`\br\b`, `policy; r's conntrack has connections that they answer in a zone \(ct zone 7\), without an answer`}, ""}},
	},
	{
		name: "tunnel that sends to the wrong far end", nodes: "a b n1 n2 n3 s",
		build: func(w *world) {
			w.sh("s", "ip link add br0 type bridge; ip link set br0 up")
			for i, n := range []string{"n1", "n2", "n3"} {
				w.wire(n+"/eth0", fmt.Sprintf("10.9.0.%d/24", i+1), fmt.Sprintf("s/p%d", i+1), "-")
				w.sh("s", fmt.Sprintf("ip link set p%d master br0", i+1))
				w.sh(n, "ip link add br0 type bridge; ip link set br0 up; ip link add vx type vxlan id 7 dstport 4789 nolearning; ip link set vx master br0 up")
			}
			w.wire("a/eth0", "10.0.0.1/24", "n1/pod", "-")
			w.wire("b/eth0", "10.0.0.2/24", "n3/pod", "-")
			w.sh("n1", "ip link set pod master br0")
			w.sh("n3", "ip link set pod master br0")
			mac := strings.TrimSpace(w.sh("b", "ip -br link show eth0 | awk '{print $3}'"))
			w.sh("n1", "bridge fdb append 00:00:00:00:00:00 dev vx dst 10.9.0.3; bridge fdb add "+mac+" dev vx dst 10.9.0.2 self")
			w.sh("n2", "bridge fdb append 00:00:00:00:00:00 dev vx dst 10.9.0.1")
			w.sh("n3", "bridge fdb append 00:00:00:00:00:00 dev vx dst 10.9.0.1")
			w.knows("a", "eth0", "10.0.0.2", "b", "eth0")
		},
		symptom: silent("a", "10.0.0.2"),
		asks: []ask{
			{"paths", []string{`\ba > n1 > n2\s`}, ""},
			{"loss", []string{`\bn2\b`, `n1/vx sends frames for 10\.0\.0\.2 to this node \(fdb .* dst 10\.9\.0\.2\), but b has it`}, ""},
		},
	},
	{
		name: "port that listens to spanning tree", nodes: "a b s",
		build: lan("stp_state 1 forward_delay 3000"),
		symptom: func(w *world) bool {
			w.sh("a", "ip neigh flush all")
			return w.answers("a", "10.0.0.2", "-i0.5") == 0
		},
		asks: []ask{{"loss", []string{`a dropped`, `NEIGH_FAILED`, `s/p[12] is (listening|learning) \(STP\)`}, ""}},
	},
	{
		name: "group without a member", nodes: "a b s", slow: true,
		build: func(w *world) {
			lan("mcast_snooping 1 mcast_querier 1 mcast_query_response_interval 100 mcast_startup_query_interval 100 mcast_query_interval 300")(w)
			w.sh("a", "ip route add 239.0.0.0/8 dev eth0")
			conn := w.udp("a", "10.0.0.1:0")
			for w.floods(conn) {
				time.Sleep(200 * time.Millisecond)
			}
		},
		symptom: func(w *world) bool { return !w.floods(w.udp("a", "10.0.0.1:0")) },
		asks:    []ask{{"loss", []string{`\bs\b`, `no port of s/br0 has joined the group 239\.1\.1\.1`}, ""}},
	},
	{
		name: "bridged frames and rules for IPv4", nodes: "a b s",
		build: func(w *world) {
			lan("")(w)
			w.sh("s", "sysctl -qw net.bridge.bridge-nf-call-iptables=1")
			w.sh("s", "nft 'add table ip f; add chain ip f FORWARD { type filter hook forward priority 0; policy drop; }'")
		},
		symptom: silent("a", "10.0.0.2"),
		asks:    []ask{{"loss", []string{`\bs\b`, `firewall rule`, `s/br0`, `bridge-nf-call-iptables=1`, `ip f FORWARD \(hook forward\): policy`}, ""}},
	},
	{
		name: "bridged frames and rules for IPv6", nodes: "a b s",
		build: func(w *world) {
			lan("")(w)
			w.Address("a", "eth0", "fd00::1/64")
			w.Address("b", "eth0", "fd00::2/64")
			w.sh("s", "sysctl -qw net.bridge.bridge-nf-call-ip6tables=1")
			w.sh("s", "nft 'add table ip6 f; add chain ip6 f FORWARD { type filter hook forward priority 0; policy drop; }'")
		},
		symptom: silent("a", "fd00::2"),
		asks:    []ask{{"loss", []string{`a dropped`, `no neighbour's answer`, `s/br0`, `bridge-nf-call-ip6tables=1`}, ""}},
	},
	{
		name: "which rule", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("r", "nft 'add table inet f; add chain inet f fw { type filter hook forward priority 0; }; add rule inet f fw tcp dport 22 accept; add rule inet f fw icmp type echo-request drop'")
			w.sh("r", "nft 'add table ip6 f; add chain ip6 f fw { type filter hook forward priority 0; policy drop; }; add table ip o; add chain ip o out { type filter hook output priority 0; }; add rule ip o out tcp dport 1 drop'")
		},
		symptom: silent("a", "10.2.0.1"),
		asks:    []ask{{"loss", []string{`\br\b`, `firewall rule; inet f fw \(hook forward\): rule of handle \d+`}, `one of`}},
	},
	{
		name: "which rule for what is sent", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("a", "nft 'add table ip o; add chain ip o out { type filter hook output priority 0; policy drop; }; add rule ip o out udp dport 53 accept; add chain ip o in { type filter hook input priority 0; policy drop; }'")
		},
		symptom: silent("a", "10.2.0.1"),
		asks:    []ask{{"loss", []string{`a dropped`, `firewall rule; ip o out \(hook output\): policy`}, `one of`}},
	},
	{
		name: "which rule of legacy iptables", nodes: "a r b",
		build: func(w *world) {
			need.Programs(w.TB, "iptables-legacy:iptables")
			line(w)
			for _, rule := range []string{"-P INPUT DROP", "-A FORWARD -p tcp --dport 22 -j ACCEPT", "-A FORWARD -p tcp --dport 7 -j DROP",
				"-A FORWARD -p icmp -j ACCEPT -s 10.9.9.9", "-A FORWARD -p icmp --icmp-type echo-request -j DROP"} {
				w.sh("r", "iptables-legacy "+rule)
			}
		},
		symptom: silent("a", "10.2.0.1"),
		asks:    []ask{{"loss", []string{`\br\b`, `firewall rule; iptables filter FORWARD: rule 4 \(\d+ packets\)`}, `one of`}},
	},
	{
		name: "which rule of a chain that legacy ip6tables calls", nodes: "a r b",
		build: func(w *world) {
			need.Programs(w.TB, "ip6tables-legacy:iptables")
			line6(w)
			w.sh("r", "ip6tables-legacy -N no; ip6tables-legacy -A no -p udp -j DROP; ip6tables-legacy -A INPUT -p icmpv6 --icmpv6-type echo-request -j no; ip6tables-legacy -A no -j REJECT")
		},
		symptom: silent("a", "fd00:1::254"),
		asks:    []ask{{"loss --after-delivery", []string{`\br\b`, `firewall rule; ip6tables filter no: rule 2 \(\d+ packets\)`}, `one of`}},
	},
	{
		name: "NAT without a free port", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.sh("r", "nft 'add table ip n; add chain ip n post { type nat hook postrouting priority 100; }; add rule ip n post oif eth1 tcp dport 80 masquerade to :50000-50003'")
			w.serve("b", "10.2.0.1:80")
		},
		symptom: portsUsedUp("10.2.0.1:80"),
		asks: []ask{{"loss", []string{`\br\b`, `NAT of r has no free port for tcp to 10\.2\.0\.1:80 \(all 4 of 10\.2\.0\.254, 50000-50003, are in use: ip n post: rule of handle \d+\)`},
			`firewall rule|conntrack`}, {"explain", []string{`netfilter in r dropped`, `NAT of r has no free port for tcp to 10\.2\.0\.1:80`}, `a rule in r|firewall rule`}},
	},
	{
		name: "NAT without a free port, by legacy iptables, in IPv6", nodes: "a r b",
		build: func(w *world) {
			need.Programs(w.TB, "ip6tables-legacy:iptables")
			line6(w)
			w.Address("r", "eth1", "fd00:2::254/64")
			w.Address("b", "eth0", "fd00:2::1/64")
			w.sh("r", "ip6tables-legacy -t nat -A POSTROUTING -o eth1 -p tcp -j SNAT --to-source [fd00:2::254]:50000-50001")
			w.serve("b", "[fd00:2::1]:80")
		},
		symptom: portsUsedUp("[fd00:2::1]:80"),
		asks:    []ask{{"loss", []string{`\br\b`, `NAT of r has no free port for tcp to \[fd00:2::1\]:80 \(all 2 of fd00:2::254, 50000-50001, are in use: ip6tables nat POSTROUTING: rule 1\)`}, `conntrack`}},
	},
	{
		name: "macvlan and its parent", nodes: "h x c",
		build:   macvlanOnH,
		symptom: func(w *world) bool { return w.answers("h", "10.6.0.2") == 0 },
		asks:    []ask{{"loss", []string{`h dropped`, `NEIGH_FAILED`, `c/mv0 is a macvlan of h/eth0`}, ""}},
	},
	{
		name: "macvlan and its parent, which knows its MAC address", nodes: "h x c",
		build:   func(w *world) { macvlanOnH(w); w.knows("h", "eth0", "10.6.0.2", "c", "mv0") },
		symptom: func(w *world) bool { return w.answers("h", "10.6.0.2") == 0 },
		asks:    []ask{{"loss", []string{`\bx\b.*OTHERHOST`, `c/mv0 is a macvlan of h/eth0`}, ""}},
	},
	{
		name: "reverse path filter", nodes: "a r b",
		build: func(w *world) {
			line(w)
			w.wire("r/eth2", "10.3.0.254/24", "b/eth1", "10.3.0.1/24")
			w.sh("b", "ip addr add 10.9.0.9/32 dev lo; sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth1.rp_filter=1")
			w.sh("r", "ip route add 10.9.0.9 via 10.3.0.1")
		},
		symptom: silent("a", "10.9.0.9"),
		asks:    []ask{{"loss --after-delivery", []string{`\bb\b.*IP_RPFILTER`, `b's way back to 10\.1\.0\.1 is b/eth0`}, ""}},
	},
	{
		name: "route that prohibits", nodes: "a r b",
		build:   func(w *world) { line(w); w.sh("r", "ip route add prohibit 10.8.0.0/16") },
		symptom: silent("a", "10.8.0.8"),
		asks:    []ask{{"loss", []string{`\br\b`, `r's route to 10\.8\.0\.8 is: prohibit`}, ""}},
	},
	{
		name: "route that is a blackhole", nodes: "a r b",
		build:   func(w *world) { line(w); w.sh("r", "ip route add blackhole 10.8.0.0/16") },
		symptom: silent("a", "10.8.0.8"),
		asks:    []ask{{"loss", []string{`\br\b`, `r's route to 10\.8\.0\.8 is: blackhole`}, ""}},
	},
	{
		name: "no neighbour", nodes: "a r b",
		build:   line,
		symptom: silent("a", "10.1.0.77"),
		asks:    []ask{{"loss", []string{`a dropped`, `NEIGH_FAILED`, `no node of the domain has 10\.1\.0\.77`}, ""}},
	},
}

// portsUsedUp: r has no port for the last of more connections of a than it has ports. They stay open until the test ends.
func portsUsedUp(to string) func(*world) bool {
	return func(w *world) bool {
		var err error
		w.in("a", func() error {
			for range 5 {
				var conn net.Conn
				if conn, err = net.DialTimeout("tcp", to, time.Second); err != nil {
					return nil
				}
				w.Cleanup(func() { conn.Close() })
			}
			return nil
		})
		return err != nil
	}
}

// macvlanOnH: c has a macvlan of h/eth0, at whose other end x is.
func macvlanOnH(w *world) {
	w.wire("h/eth0", "10.6.0.1/24", "x/eth0", "10.6.0.254/24")
	w.sh("h", "ip link add mv0 link eth0 type macvlan mode bridge; ip link set mv0 netns "+w.Net.Name("c"))
	w.sh("c", "ip link set mv0 up; ip addr add 10.6.0.2/24 dev mv0")
}

// floods reports whether the bridge of a lan sends b what goes to a group that nobody has joined.
func (w *world) floods(conn net.PacketConn) bool {
	w.Helper()
	group := &net.UDPAddr{IP: net.IPv4(239, 1, 1, 1), Port: 5000}
	before := w.received("b")
	for range 10 {
		if _, err := conn.WriteTo([]byte("x"), group); err != nil {
			w.Fatal(err)
		}
	}
	return w.received("b") >= before+10
}

// received is how many packets came in by a node's port.
func (w *world) received(node string) int {
	w.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(w.sh(node, "awk '/eth0:/ {print $3}' /proc/thread-self/net/dev")))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// TestCauses: where the kernel has one reason for many faults, the answer has the fault's own words.
func TestCauses(t *testing.T) {
	for i := range causes {
		t.Run(causes[i].name, causes[i].run)
	}
}
