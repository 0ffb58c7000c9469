// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
)

// Counter is one of nstat's: what a node has dropped that came to it.
type Counter struct {
	Name  string
	Count uint64
}

// dropCounters are the counters of what a node drops that came to it, of which packets they are, and the reasons with
// which radar sees the same. One drop can be in several of them. Many it does not see: those that come later than a
// packet is final, and those that the kernel frees as it frees what it needs no longer, such as a connection's first
// packet for a listener that is full.
var dropCounters = []struct {
	name    string
	proto   string // "": any
	version int    // of IP, 0: any
	reasons []string
}{
	{"TcpExtListenOverflows", "tcp", 0, []string{"TCP_LISTEN_OVERFLOW"}},
	{"TcpExtTCPReqQFullDrop", "tcp", 0, nil},
	{"TcpExtTCPBacklogDrop", "tcp", 0, []string{"SOCKET_BACKLOG"}},
	{"TcpExtTCPRcvQDrop", "tcp", 0, []string{"SOCKET_RCVBUFF", "PROTO_MEM"}},
	{"TcpExtTCPOFODrop", "tcp", 0, []string{"TCP_OFO_DROP", "PROTO_MEM"}},
	{"TcpExtRcvPruned", "tcp", 0, []string{"SOCKET_RCVBUFF", "PROTO_MEM"}},
	{"TcpExtTCPZeroWindowDrop", "tcp", 0, []string{"TCP_ZEROWINDOW"}},
	{"TcpExtPFMemallocDrop", "tcp", 0, []string{"PFMEMALLOC"}},
	{"TcpExtTCPMinTTLDrop", "tcp", 0, []string{"TCP_MINTTL"}},
	{"TcpInCsumErrors", "tcp", 0, []string{"TCP_CSUM"}},
	{"UdpRcvbufErrors", "udp", 4, []string{"SOCKET_RCVBUFF"}},
	{"UdpMemErrors", "udp", 4, []string{"PROTO_MEM"}},
	{"UdpInCsumErrors", "udp", 4, []string{"UDP_CSUM"}},
	{"UdpNoPorts", "udp", 4, []string{"NO_SOCKET"}},
	{"Udp6RcvbufErrors", "udp", 6, []string{"SOCKET_RCVBUFF"}},
	{"Udp6MemErrors", "udp", 6, []string{"PROTO_MEM"}},
	{"Udp6InCsumErrors", "udp", 6, []string{"UDP_CSUM"}},
	{"Udp6NoPorts", "udp", 6, []string{"NO_SOCKET"}},
	{"IpReasmFails", "", 4, []string{"FRAG_REASM_TIMEOUT", "DUP_FRAG", "FRAG_TOO_FAR"}},
	{"Ip6ReasmFails", "", 6, []string{"FRAG_REASM_TIMEOUT", "DUP_FRAG", "FRAG_TOO_FAR"}},
	{"IpInDiscards", "", 4, nil},
	{"Ip6InDiscards", "", 6, nil},
}

// Drops are what a node itself counts of drops after delivery.
type Drops struct {
	Node        string
	Counters    []Counter
	SinceAttach bool // else since the node began
}

// Drops are those of nodes that count more than rows of drops after delivery have; flows are the same drops by flow.
// agree reports whether all nodes could be asked, and none counts more.
func (l *Links) Drops(rows []aggregate.LossRow, flows []aggregate.LossFlowRow) (list []Drops, agree bool) {
	if l == nil || l.nodes == nil {
		return nil, false
	}
	agree = true
	var names []string
	for _, node := range l.of.Chosen() {
		names = append(names, node.Name)
	}
	l.nodes.count(names...)
	seen := seenDrops(rows, flows)
	for _, name := range names {
		counts := l.nodes.counts[name]
		if counts.counters == nil {
			agree = false
			continue
		}
		if more := moreThanSeen(counts.counters, seen, name); len(more) > 0 {
			list, agree = append(list, Drops{name, more, counts.sinceAttach}), false
		}
	}
	return list, agree
}

// drop is what a drop has to do with counters.
type drop struct {
	node, reason string
	proto        string // "": not known
	version      int    // of IP, 0: not known
}

// seenDrops are how many packets were seen to be dropped. Of those that are of no flow the protocol is not known.
func seenDrops(rows []aggregate.LossRow, flows []aggregate.LossFlowRow) map[drop]uint64 {
	seen := make(map[drop]uint64)
	for i := range rows {
		seen[drop{node: rows[i].Node, reason: rows[i].Reason}] += rows[i].Packets
	}
	for i := range flows {
		f, any := &flows[i], drop{node: flows[i].Node, reason: flows[i].Reason}
		seen[drop{f.Node, f.Reason, f.Proto, f.IPVersion}] += f.Packets
		seen[any] -= min(f.Packets, seen[any])
	}
	return seen
}

// moreThanSeen are a node's counters that count more than was seen there.
func moreThanSeen(counters map[string]uint64, seen map[drop]uint64, node string) (list []Counter) {
	for _, of := range dropCounters {
		n := uint64(0)
		for d, packets := range seen {
			switch {
			case d.node != node:
			case d.proto != "" && of.proto != "" && d.proto != of.proto:
			case d.version != 0 && of.version != 0 && d.version != of.version:
			case d.reason == "", slices.Contains(of.reasons, d.reason): // an old kernel gives no reasons: any drop may be these
				n += packets
			}
		}
		if counters[of.name] > n {
			list = append(list, Counter{of.name, counters[of.name]})
		}
	}
	return list
}
