// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// Of common faults "radar loss" says in plain words what they are, and where.
func TestFaultsInWords(t *testing.T) {
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "2"})
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	const h2 = "10.0.3.2"
	w.In("h1", "ping", "-q", "-c", "1", h2) // neighbours are known

	// A firewall rule.
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 1001 drop")
	w.UDPTo(h2, 1001)
	awaitLoss(w, "loss", "r1", "firewall rule")
	// A full queue.
	w.In("r2", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1kbit", "burst", "1600", "limit", "1600")
	for range 8 {
		w.In("h1", "bash", "-c", "head -c 1200 /dev/zero > /dev/udp/"+h2+"/1002")
	}
	awaitLoss(w, "loss", "r2", "queue", "tbf", "queue full")
	w.In("r2", "tc", "qdisc", "del", "dev", "eth1", "root")
	// Nobody has the address.
	w.UDPTo("10.0.3.77", 1003)
	awaitLoss(w, "loss", "r2", "no ARP answer")
	// An MTU black hole.
	w.In("r2", "ip", "link", "set", "eth0", "mtu", "1000")
	w.In("r1", "ip", "link", "set", "eth1", "mtu", "1000")
	w.Fails("h1", "ping", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", "1200", h2)
	awaitLoss(w, "loss", "r1", "too big (MTU)")
	// A full socket.
	w.In("h2", "python3", "-c", "import socket,subprocess\n"+
		"s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,1);s.bind(('"+h2+"',1004))\n"+
		"c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"+
		"subprocess.run(['nsenter','--net="+w.Lab.NetNSPath("h1")+"','python3','-c','''import socket\n"+
		"c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"+
		"for i in range(50): c.sendto(b\"x\"*900,(\""+h2+"\",1004))'''],check=True)")
	awaitLoss(w, "loss --after-delivery", "h2", "socket full")
	// A port that is down: its router finds no neighbour; one at the router, no route.
	w.In("h2", "ip", "link", "set", "eth0", "down")
	nstest.WaitFor(t, "r2 to notice", func() bool { return strings.Contains(w.In("r2", "ip", "link", "show", "eth1"), "NO-CARRIER") })
	w.UDPTo(h2, 1005)
	awaitLoss(w, "loss --dport 1005", "r2", "eth1", "no ARP answer")
	w.In("r2", "ip", "link", "set", "eth1", "down")
	w.UDPTo(h2, 1006)
	awaitLoss(w, "loss", "r2", "no route")
}

// awaitLoss waits for a row with all of these.
func awaitLoss(w *clitest.World, args string, want ...string) {
	w.Helper()
	nstest.WaitFor(w.T, fmt.Sprintf("a row of radar %s with %q", args, want), func() bool {
		for line := range strings.Lines(w.Radar(kit.ExitOK, strings.Fields(args)...)) {
			if !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(line, text) }) {
				return true
			}
		}
		return false
	})
}
