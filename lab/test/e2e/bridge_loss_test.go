// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// bridgeRules drop in the bridge what goes to a port, and count it.
const bridgeRules = `table bridge drops {
	chain forward { type filter hook forward priority 0; udp dport 7777 counter drop; }
}`

// TestBridgeLoss: what is lost in a bridge between nodes is placed there, also where
// no program is: at the host's end of a node that is attached.
func TestBridgeLoss(t *testing.T) {
	need.Nightly(t) // lab/test/transparency has such losses, too (bridges/rules, bridges/queue)
	b := newBridged(t, false)
	b.attach("a", "b")
	b.nft("host", bridgeRules)
	const n = 20
	send := func(to, port, text string) {
		b.Run("a", "bash", "-c", "for i in $(seq 20); do echo "+text+" $i > /dev/udp/"+to+"/"+port+"; done")
	}
	send(addrB, "7777", "to_an_attached_container")
	send(addrU, "7777", "to_another_one")
	nstest.WaitFor(t, "40 packets that nft drops", func() bool { // softirqs may be late
		return strings.Contains(b.Run("host", "nft", "list", "table", "bridge", "drops"), "counter packets 40 ")
	})
	// A queue at the host's end of b that lets nothing of that size pass.
	b.Run("host", "tc", "qdisc", "add", "dev", "vb", "root", "tbf", "rate", "1mbit", "burst", "1000", "limit", "500")
	b.Try("a", "ping", "-q", "-n", "-c", "20", "-i", "0.005", "-W", "0.2", "-s", "1200", "-M", "do", addrB)
	b.settle(t)
	host := b.Name("host")
	wanted := []oracle.Losses{
		{Node: host, Port: "vb", At: record.AtNode, Reason: "NETFILTER_DROP", Packets: n},
		{Node: host, Port: "vu", At: record.AtNode, Reason: "NETFILTER_DROP", Packets: n},
		{Node: host, Port: "vb", At: record.AtQueue, Reason: "QDISC_DROP", Packets: n},
	}
	var got map[oracle.Losses]bool
	for end := time.Now().Add(nstest.Patience); ; time.Sleep(100 * time.Millisecond) { // losses are final after 2 s, and the agent may lag
		got = make(map[oracle.Losses]bool)
		for _, l := range b.losses(t) {
			l.Skbs = 0
			got[l] = true
		}
		missing := slices.ContainsFunc(wanted, func(l oracle.Losses) bool { return !got[l] })
		if !missing || time.Now().After(end) {
			break
		}
	}
	for _, want := range wanted {
		if !got[want] {
			t.Errorf("no loss %+v in %+v", want, got)
		}
	}
}

// TestBridgeFloods: a bridge that learns nothing hands every frame to every port. A
// packet that was delivered is delivered, whatever becomes of the copies.
func TestBridgeFloods(t *testing.T) {
	need.Nightly(t) // lab/test/transparency has floods, too (groups/bridge, bridges/hairpin)
	b := newBridged(t, false)
	b.Run("host", "ip", "link", "set", "br0", "type", "bridge", "ageing_time", "0")
	b.addNode("c")
	b.container("c", "10.9.0.5")
	b.attach("a", "b", "c")
	b.Run("host", "ip", "link", "set", "br0", "promisc", "on") // as tcpdump does
	u, w := b.listen("u", "eth0"), b.listen("host", "vu")
	for _, df := range []string{"do", "dont"} {
		b.Run("a", "ping", "-q", "-n", "-c", "50", "-i", "0.005", "-M", df, addrB)
	}
	b.tcp("a", "b", addrB, "5201")
	b.carried()
	for _, d := range []*tcpdump{u, w} {
		if err := d.stop(); err != nil {
			t.Fatal(err)
		}
		if seen, leaked, _ := wireBits(t, d.file); seen < 200 || leaked > 0 {
			t.Errorf("%s: %d packets, %d with rewritten bits", d.file, seen, leaked)
		}
	}
	b.settle(t)
	states := make(map[record.State]int)
	drops := 0
	for _, r := range b.records(t) {
		if r.Dst != addrB && r.Src != addrB {
			continue
		}
		states[r.State]++
		if r.LocalDrop != nil && r.Proto == "icmp" {
			drops++
		}
		if len(r.Hops) == 0 || r.Hops[0].Node != "a" && r.Hops[0].Node != "b" {
			t.Errorf("a story begins elsewhere: %s", story(&r))
		}
	}
	if len(states) != 1 || states[record.Delivered] < 200 || drops > 0 {
		t.Errorf("states %v, %d dropped after delivery", states, drops)
	}
	s := b.status(t)
	t.Log(s.notable())
	// c's stack drops what is not for it: that is no loss, not even for a moment. (What
	// iperf3 leaves in its sockets is a drop after delivery.)
	for _, c := range s.Counters {
		if c.Value > 0 && (c.Name == "loss_event" || c.Name == "loss_withdrawn") || c.Name == "local_drop" && c.Value > 50 {
			t.Errorf("counter %s is %d", c.Name, c.Value)
		}
	}
}
