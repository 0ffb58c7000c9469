// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// UDP ports of the firewall lab.
const (
	portDropped  = 7001 // by fw, forward
	portRejected = 7002 // by fw, forward, with an ICMP error
)

// The other labs that captures can follow: none of them changes addresses or has a
// bridge. Their flags are not nil, so that times are not checked: the rounds of the
// chain and the bottleneck do that.
func init() {
	defaults := []string{}
	rounds = append(
		rounds,
		round{"ecmp, all nodes attached", "ecmp", everyNode, defaults, true, false},
		round{"firewall, all nodes attached", "firewall", everyNode, defaults, true, false},
	)
	scenes["ecmp"] = scene{prepareECMP, ecmpTraffic}
	scenes["firewall"] = scene{prepareFirewall, firewallTraffic}
}

// prepareECMP: nothing drops, but what has no hops left.
func prepareECMP(t *testing.T, n *network) func(*testing.T) []oracle.Drop {
	t.Helper()
	for _, port := range []string{"eth1", "eth2", "eth3", "eth4"} {
		n.run(t, "s1", "ethtool", "-K", port, "tso", "off")
	}
	n.sink(t, "h2", portProbe, portPlain)
	return func(*testing.T) []oracle.Drop { return []oracle.Drop{ttlDrop} }
}

// ecmpTraffic sends flows from many ports, so that all paths have some, both ways.
func ecmpTraffic(t *testing.T, n *network) []*sentLog {
	var sent []*sentLog
	const gap = 200 * time.Microsecond
	n.ping(t, "h1", "h2", 100, 56)
	for i := range 16 {
		sent = append(sent, n.sendRaw(t, rawFlow{
			from: "h1", to: "h2", sport: 6000 + i, dport: portProbe, count: 100, gap: gap, sizes: mixedSizes,
		}))
		n.sendUDP(t, udpFlow{
			from: "h1", to: "h2", sport: 6500 + i, dport: portPlain, count: 30, gap: gap, connected: true, sizes: []int{18, 200, 1472},
		})
	}
	sent = append(sent, n.sendRaw(t, rawFlow{
		from: "h1", to: "h2", sport: sportExpires, dport: portProbe, count: 30, gap: gap, sizes: mixedSizes, ttls: expires,
	}))
	n.iperf(t, "h1", "h2", "-n", "2M", "-P", "4")
	n.iperf(t, "h1", "h2", "-n", "2M", "-P", "4", "-R")
	return sent
}

// prepareFirewall: fw has its rules, which count.
func prepareFirewall(t *testing.T, n *network) func(*testing.T) []oracle.Drop {
	t.Helper()
	n.run(t, "fw", "ethtool", "-K", "eth1", "tso", "off") // it cuts trains
	n.sink(t, "h2", portProbe)
	return func(t *testing.T) []oracle.Drop {
		counts := n.nftCounts(t, "fw", "lab")
		// One entry: radar counts what a node drops by reason, not by rule.
		return []oracle.Drop{{
			Name: "nft in fw", Node: "fw", At: record.AtNode, Reasons: []string{"NETFILTER_DROP"},
			Match: func(p *oracle.Packet) bool {
				return p.Proto == 17 && (p.Dport == portDropped || p.Dport == portRejected)
			},
			Kernel: counts[0] + counts[1],
		}}
	}
}

// firewallTraffic has what passes and what does not.
func firewallTraffic(t *testing.T, n *network) []*sentLog {
	var sent []*sentLog
	n.ping(t, "h1", "h2", 100, 56)
	n.ping(t, "h2", "h1", 50, 1000)
	for i, dport := range []int{portProbe, portDropped, portRejected} {
		sent = append(sent, n.sendRaw(t, rawFlow{
			from: "h1", to: "h2", sport: 6000 + i, dport: dport, count: 500, gap: 200 * time.Microsecond, sizes: mixedSizes,
		}))
	}
	n.iperf(t, "h1", "h2", "-n", "2M")
	n.iperf(t, "h1", "h2", "-n", "2M", "-R")
	return sent
}

// nftCounts are the counts of the rules of a table, in their order.
func (n *network) nftCounts(t *testing.T, node, table string) []int64 {
	t.Helper()
	var counts []int64
	for _, m := range nftCounter.FindAllStringSubmatch(n.run(t, node, "nft", "list", "table", "ip", table), -1) {
		v, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatalf("nft in %s: %v", node, err)
		}
		counts = append(counts, v)
	}
	return counts
}
