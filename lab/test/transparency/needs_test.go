// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// features are what a case may need beyond veth, bridge and nftables, with the command
// that shows whether this machine has it; it runs in a namespace of its own.
var features = map[string]string{
	"netem":    "tc qdisc add dev lo root netem delay 1ms",
	"fq_codel": "tc qdisc add dev lo root fq_codel",
	"fq":       "tc qdisc add dev lo root fq",
	"tbf":      "tc qdisc add dev lo root tbf rate 1mbit burst 10k limit 10k",
	"htb":      "tc qdisc add dev lo root htb",
	"u32":      "tc qdisc add dev lo root handle 1: htb && tc filter add dev lo parent 1: protocol ip u32 match ip tos 4 4 flowid 1:1",
	"cake":     "tc qdisc add dev lo root cake bandwidth 10mbit",
	"flower":   "tc qdisc add dev lo clsact && tc filter add dev lo ingress protocol ip flower ip_ttl 4 action skbedit priority 1:1",
	"mirred":   "tc qdisc add dev lo clsact && tc filter add dev lo ingress protocol all u32 match u32 0 0 action mirred egress redirect dev lo",
	"prio":     "tc qdisc add dev lo root prio",
	"vlan":     "ip link add name radar0 type veth peer name radar1 && ip link add link radar0 name radar2 type vlan id 5",
	"macvlan":  "ip link add name radar0 type veth peer name radar1 && ip link add link radar0 name radar2 type macvlan",
	// Filtering by VLAN in a bridge.
	"vlan-filter": "ip link add name radar0 type bridge vlan_filtering 1",
	"vxlan":       "ip link add name radar0 type vxlan id 1 dstport 4789",
	"geneve":      "ip link add name radar0 type geneve id 1 remote 10.0.0.1",
	"gre":         "ip link add name radar0 type gre local 127.0.0.1 remote 127.0.0.2",
	"gretap":      "ip link add name radar0 type gretap local 127.0.0.1 remote 127.0.0.2",
	"ip6gre":      "ip link add name radar0 type ip6gre local ::1 remote ::2",
	"ipip":        "ip link add name radar0 type ipip local 127.0.0.1 remote 127.0.0.2",
	"sit":         "ip link add name radar0 type sit local 127.0.0.1 remote 127.0.0.2",
	"ip6tnl":      "ip link add name radar0 type ip6tnl local ::1 remote ::2",
	"wireguard":   "ip link add name radar0 type wireguard && command -v wg",
	"vrf":         "ip link add name radar0 type vrf table 10",
	"tun":         "ip tuntap add dev t mode tap",
	"uml":         "command -v linux.uml",
	"dummy":       "ip link add name radar0 type dummy",
	"ifb":         "ip link add name radar0 type ifb",
	"nat":         "nft add table ip n && nft 'add chain ip n c { type nat hook prerouting priority 0; }'",
	"tproxy":      "nft add table ip t && nft 'add chain ip t c { type filter hook prerouting priority 0; }' && nft add rule ip t c udp dport 1 tproxy to :1",
	"local_in":    `[ "$(printf '6.4\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 6.4 ]`, // BPF at netfilter's hooks
	"iptables":    "iptables -t filter -L",
	"ip6tables":   "ip6tables -t filter -L",
	"ping":        "command -v ping",
	"ethtool":     "command -v ethtool",
	// Rules that replace options by NOPs (Linux 5.18), and links at TC (Linux 6.6).
	"tcp-reset": "nft add table ip t && nft 'add chain ip t c { type filter hook forward priority 0; }' && nft add rule ip t c reset tcp option timestamp",
	"tcx":       `[ "$(printf '6.6\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 6.6 ]`,
	// Packet sockets show trains of datagrams since Linux 6.2.
	"udp-gso": "uname -r | awk -F. '{ exit !($1 > 6 || $1 == 6 && $2 >= 2) }'",
}

var probed struct {
	sync.Mutex
	has map[string]bool
}

// lacking returns those of needs that this machine has not.
func lacking(t testing.TB, needs []string) (missing []string) {
	t.Helper()
	probed.Lock()
	defer probed.Unlock()
	if probed.has == nil {
		probed.has = make(map[string]bool)
	}
	for _, what := range needs {
		command, known := features[what]
		if !known {
			t.Fatalf("no feature %s: add it to needs_test.go", what)
		}
		if _, done := probed.has[what]; !done {
			n := nstest.New(t, "probe")
			said, err := exec.Command("nsenter", "--net="+n.Path("probe"), "sh", "-c", command).CombinedOutput()
			if probed.has[what] = err == nil; err != nil {
				t.Logf("no %s: %v\n%s", what, err, said)
			}
			n.Delete("probe")
		}
		if !probed.has[what] {
			missing = append(missing, what)
		}
	}
	return missing
}

func needsText(missing []string) string { return "needs " + strings.Join(missing, ", ") }

// TestLacking: every need of a case is known. With RADAR_LACKING it prints the cases that
// cannot run here, for lab/test/kernels/matrix.sh, which has other kernels run them.
func TestLacking(t *testing.T) {
	for i := range cases {
		for _, what := range cases[i].Needs {
			if features[what] == "" {
				t.Errorf("%s needs %s, which nobody knows: add it to needs_test.go", cases[i].Name, what)
			}
		}
	}
	if os.Getenv("RADAR_LACKING") == "" {
		return
	}
	need.AsRoot(t)
	for i := range cases {
		if missing := lacking(t, cases[i].Needs); len(missing) > 0 {
			fmt.Printf("lacking: %s %s\n", cases[i].Name, needsText(missing))
		}
	}
}
