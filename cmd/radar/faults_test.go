// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// Of common faults "radar loss" says in plain words what they are, and where.
func TestFaultsInWords(t *testing.T) {
	w := newWorldOf(t, "chain", map[string]string{"N": "2"})
	w.radar(exitOK, append([]string{"attach", "-d"}, w.lab.AttachArgs()...)...)
	const h2 = "10.0.3.2"
	w.in("h1", "ping", "-q", "-c", "1", h2) // neighbours are known

	// A firewall rule.
	w.in("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 1001 drop")
	w.udpTo(h2, 1001)
	w.awaitLoss("loss", "r1", "firewall rule")
	// A full queue.
	w.in("r2", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1kbit", "burst", "1600", "limit", "1600")
	for range 8 {
		w.in("h1", "bash", "-c", "head -c 1200 /dev/zero > /dev/udp/"+h2+"/1002")
	}
	w.awaitLoss("loss", "r2", "queue", "tbf", "queue full")
	w.in("r2", "tc", "qdisc", "del", "dev", "eth1", "root")
	// Nobody has the address.
	w.udpTo("10.0.3.77", 1003)
	w.awaitLoss("loss", "r2", "no ARP answer")
	// An MTU black hole.
	w.in("r2", "ip", "link", "set", "eth0", "mtu", "1000")
	w.in("r1", "ip", "link", "set", "eth1", "mtu", "1000")
	w.fails("h1", "ping", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", "1200", h2)
	w.awaitLoss("loss", "r1", "too big (MTU)")
	// A full socket.
	w.in("h2", "python3", "-c", "import socket,subprocess\n"+
		"s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,1);s.bind(('"+h2+"',1004))\n"+
		"c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"+
		"subprocess.run(['nsenter','--net="+w.lab.NetNSPath("h1")+"','python3','-c','''import socket\n"+
		"c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"+
		"for i in range(50): c.sendto(b\"x\"*900,(\""+h2+"\",1004))'''],check=True)")
	w.awaitLoss("loss --local", "h2", "socket full")
	// A port that is down: its router finds no neighbour; one at the router, no route.
	w.in("h2", "ip", "link", "set", "eth0", "down")
	nstest.WaitFor(t, "r2 to notice", func() bool { return strings.Contains(w.in("r2", "ip", "link", "show", "eth1"), "NO-CARRIER") })
	w.udpTo(h2, 1005)
	w.awaitLoss("loss --dport 1005", "r2", "eth1", "no ARP answer")
	w.in("r2", "ip", "link", "set", "eth1", "down")
	w.udpTo(h2, 1006)
	w.awaitLoss("loss", "r2", "no route")
}

// awaitLoss waits for a row with all of these.
func (w *world) awaitLoss(args string, want ...string) {
	w.Helper()
	nstest.WaitFor(w.T, fmt.Sprintf("a row of radar %s with %q", args, want), func() bool {
		for line := range strings.Lines(w.radar(exitOK, strings.Fields(args)...)) {
			if !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(line, text) }) {
				return true
			}
		}
		return false
	})
}
