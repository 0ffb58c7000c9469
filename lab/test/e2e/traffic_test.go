// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// UDP ports of h2, and a protocol without ports.
const (
	portProbe  = 7000 // raw probes
	portFilter = 7001 // raw probes, of which the chain's r2 drops every 16th
	portPlain  = 7002 // ordinary sockets
	portBurst  = 7003 // more than the bottleneck can take
	portTrain  = 7004 // trains of UDP datagrams (UDP_SEGMENT) of trainSize bytes
	portClosed = 7009 // refused by h2
	portNft    = 9999 // dropped by the bottleneck's r1

	trainSize = 1200

	otherProtocol = 253 // for experiments (RFC 3692)
)

// expires is how many routers a probe of the expiring flow may pass, at most.
var expires = []uint8{1, 2, 3}

// ttlDrop explains probes whose TTL runs out on their path.
var ttlDrop = oracle.Drop{
	Name: "ttl", At: record.AtNode, Kernel: -1,
	Match: func(p *oracle.Packet) bool { return p.Dport == portProbe && p.Sport == sportExpires },
}

const sportExpires = 6400

// prepareChain makes r2 drop the probes whose sequence number ends in 3 (of 16).
func prepareChain(t *testing.T, n *network) func(*testing.T) []oracle.Drop {
	t.Helper()
	n.addIPv6(t)
	// Byte payloadSeq+3 of the UDP payload, behind 8 bytes of header: its low half.
	n.nft(t, "r2", `table ip filter_probes {
		chain forward {
			type filter hook forward priority 0;
			udp dport 7001 @th,124,4 3 counter drop
		}
	}`)
	// r1 cuts trains before they leave, GRO in r2 joins them again.
	n.run(t, "r1", "ethtool", "-K", "eth1", "tso", "off")
	n.run(t, "r2", "ethtool", "-K", "eth0", "gro", "on")
	n.sink(t, "h2", portProbe, portFilter, portPlain, portTrain)
	return func(t *testing.T) []oracle.Drop {
		return []oracle.Drop{{
			Name: "nft in r2", Node: "r2", At: record.AtNode, Reasons: []string{"NETFILTER_DROP"},
			Match: func(p *oracle.Packet) bool {
				b := p.Payload()
				return p.Dport == portFilter && len(b) > payloadSeq+3 && b[payloadSeq+3]&15 == 3
			},
			Kernel: n.droppedByNft(t, "r2", "filter_probes"),
		}, ttlDrop}
	}
}

// chainTraffic sends at least 10,000 packets of every kind from h1 to h2. It is
// paced: waits in softirq queues would say nothing about radar.
func chainTraffic(t *testing.T, n *network) []*sentLog {
	var sent []*sentLog
	raw := func(f rawFlow) {
		f.from, f.to = "h1", "h2"
		f.gap = 200 * time.Microsecond
		if f.sizes == nil {
			f.sizes = mixedSizes
		}
		sent = append(sent, n.sendRaw(t, f))
	}
	plain := func(f udpFlow) {
		f.from, f.to, f.dport = "h1", "h2", portPlain
		f.gap = 200 * time.Microsecond
		n.sendUDP(t, f)
	}
	n.ping(t, "h1", "h2", 500, 56)
	n.ping(t, "h2", "h1", 250, 1000)
	raw(rawFlow{sport: 6000, dport: portProbe, count: 4000})
	raw(rawFlow{sport: 6001, dport: portFilter, count: 1600})
	raw(rawFlow{sport: 6002, dport: portProbe, count: 400, options: true, sizes: []int{100, 700, 1480}})
	raw(rawFlow{sport: 6003, dport: portProbe, count: 400, mayFragment: true})
	raw(rawFlow{sport: 6004, count: 200, proto: otherProtocol})
	raw(rawFlow{sport: 6005, dport: portClosed, count: 50, ttls: []uint8{80, 64, 200}})
	raw(rawFlow{sport: sportExpires, dport: portProbe, count: 60, ttls: expires})
	plain(udpFlow{sport: 6500, count: 1000, connected: true, sizes: []int{18, 200, 1472}})
	plain(udpFlow{sport: 6501, count: 500, sizes: []int{22, 512, 1200}})
	plain(udpFlow{sport: 6502, count: 100, fragments: true, sizes: []int{3000, 1473, 8000}})
	trains := udpFlow{
		from: "h1", to: "h2", dport: portTrain, connected: true, train: trainSize,
		sizes: []int{8 * trainSize, 5*trainSize + 100, 700},
	}
	for _, df := range []bool{true, false} {
		trains.sport, trains.count, trains.gap, trains.dontFragment = trains.sport+3000, 50, 2*time.Millisecond, df
		n.sendUDP(t, trains)
	}
	n.iperf(t, "h1", "h2", "-n", "6M")
	n.iperf(t, "h1", "h2", "-n", "3M", "-R")
	sent = append(sent, n.sendRaw6(t, rawFlow{
		from: "h1", to: "h2", sport: sportExpires, dport: portProbe, count: 30, gap: time.Millisecond, sizes: mixedSizes[1:], ttls: expires,
	}))
	return append(sent, n.sixTraffic(t, "h1", "h2")...)
}

// prepareBottleneck: the scenario has the drops already.
func prepareBottleneck(t *testing.T, n *network) func(*testing.T) []oracle.Drop {
	t.Helper()
	n.addIPv6(t)
	// tbf with burst 16kb takes trains of up to ten full segments as a whole.
	n.setQueue("r2", "eth1", &oracle.Queue{Kind: "tbf", MaxBytes: 16 << 10})
	n.sink(t, "h2", portProbe, portPlain, portBurst, portTrain, portNft)
	return func(t *testing.T) []oracle.Drop {
		return []oracle.Drop{{
			Name: "nft in r1", Node: "r1", At: record.AtNode, Reasons: []string{"NETFILTER_DROP"},
			Match:  func(p *oracle.Packet) bool { return p.Dport == portNft && p.Proto == 17 },
			Kernel: n.droppedByNft(t, "r1", "lab"),
		}, {
			Name: "tbf at r2/eth1", Node: "r2", Port: "eth1", At: record.AtQueue, Reasons: []string{"QDISC_DROP"},
			Kernel: n.droppedByQdisc(t, "r2", "eth1"), Skbs: true,
		}}
	}
}

// bottleneckTraffic sends at least 10,000 packets, more than 20 Mbit/s can take.
func bottleneckTraffic(t *testing.T, n *network) []*sentLog {
	var sent []*sentLog
	raw := func(f rawFlow) { f.to = "h2"; sent = append(sent, n.sendRaw(t, f)) }
	n.ping(t, "h1", "h2", 250, 56)
	raw(rawFlow{from: "h1", sport: 6000, dport: portProbe, count: 1000, gap: 800 * time.Microsecond, sizes: mixedSizes})
	raw(rawFlow{from: "h3", sport: 6001, dport: portNft, count: 500, gap: 100 * time.Microsecond, sizes: mixedSizes})
	raw(rawFlow{from: "h3", sport: 6002, dport: portBurst, count: 4000, gap: 200 * time.Microsecond, sizes: []int{1000, 300, 1500}})
	done := make(chan *sentLog, 1)
	go func() {
		defer close(done) // sendRaw does not return if it fails
		done <- n.sendRaw(t, rawFlow{
			from: "h3", to: "h2", sport: 6003, dport: portProbe, count: 1500, gap: time.Millisecond, sizes: mixedSizes,
		})
	}()
	trains := udpFlow{
		from: "h1", to: "h2", dport: portTrain, connected: true, train: trainSize,
		sizes: []int{18 * trainSize, 5*trainSize + 100, 700},
	}
	trains.sport, trains.count, trains.gap, trains.dontFragment = 6503, 60, 10*time.Millisecond, true
	n.sendUDP(t, trains)
	// IDs of trains overlap; without DF only one of them can be in flight.
	trains.sport, trains.count, trains.gap, trains.dontFragment = 6504, 20, 50*time.Millisecond, false
	n.sendUDP(t, trains)
	n.iperf(t, "h1", "h2", "-n", "5M")
	if s, ok := <-done; ok {
		sent = append(sent, s)
	}
	raw(rawFlow{from: "h1", sport: 6005, dport: portClosed, count: 30, gap: 2 * time.Millisecond, sizes: []int{200}})
	n.iperf(t, "h3", "h2", "-n", "2M", "-R")
	n.iperf(t, "h1", "h2", "-n", "1M", "-P", "2")
	return append(sent, n.sixTraffic(t, "h3", "h2")...)
}
