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

// dropCounters are the counters of what a node drops that came to it, and the reasons with which radar sees the same.
// Many of such drops it does not see: those that come later than a packet is final, and those that the kernel frees as
// it frees what it needs no longer, such as a connection's first packet for a listener that is full.
var dropCounters = []struct {
	name    string
	reasons []string
}{
	{"TcpExtListenOverflows", []string{"TCP_LISTEN_OVERFLOW"}},
	{"TcpExtTCPReqQFullDrop", nil},
	{"TcpExtTCPBacklogDrop", []string{"SOCKET_BACKLOG"}},
	{"TcpExtTCPRcvQDrop", []string{"SOCKET_RCVBUFF", "PROTO_MEM"}},
	{"TcpExtTCPOFODrop", []string{"TCP_OFO_DROP", "PROTO_MEM"}},
	{"TcpExtRcvPruned", []string{"SOCKET_RCVBUFF", "PROTO_MEM"}},
	{"TcpExtTCPZeroWindowDrop", []string{"TCP_ZEROWINDOW"}},
	{"TcpExtPFMemallocDrop", []string{"PFMEMALLOC"}},
	{"TcpExtTCPMinTTLDrop", []string{"TCP_MINTTL"}},
	{"TcpInCsumErrors", []string{"TCP_CSUM"}},
	{"UdpRcvbufErrors", []string{"SOCKET_RCVBUFF", "PROTO_MEM"}},
	{"UdpMemErrors", []string{"PROTO_MEM"}},
	{"UdpInCsumErrors", []string{"UDP_CSUM"}},
	{"UdpNoPorts", []string{"NO_SOCKET"}},
	{"Udp6RcvbufErrors", []string{"SOCKET_RCVBUFF", "PROTO_MEM"}},
	{"Udp6MemErrors", []string{"PROTO_MEM"}},
	{"Udp6InCsumErrors", []string{"UDP_CSUM"}},
	{"Udp6NoPorts", []string{"NO_SOCKET"}},
	{"IpReasmFails", []string{"FRAG_REASM_TIMEOUT", "DUP_FRAG", "FRAG_TOO_FAR"}},
	{"Ip6ReasmFails", []string{"FRAG_REASM_TIMEOUT", "DUP_FRAG", "FRAG_TOO_FAR"}},
	{"IpInDiscards", nil},
	{"Ip6InDiscards", nil},
}

// Drops are what a node itself counts of drops after delivery.
type Drops struct {
	Node        string
	Counters    []Counter
	SinceAttach bool // else since the node began
}

// Drops are those of nodes that count more than rows of drops after delivery have. agree reports whether all nodes could
// be asked, and none counts more.
func (l *Links) Drops(rows []aggregate.LossRow) (list []Drops, agree bool) {
	if l == nil || l.nodes == nil {
		return nil, false
	}
	agree = true
	for _, node := range l.of.Chosen() {
		counts := l.nodes.count(node.Name)
		if counts.counters == nil {
			agree = false
			continue
		}
		if more := moreThanSeen(counts.counters, rows, node.Name); len(more) > 0 {
			list, agree = append(list, Drops{node.Name, more, counts.sinceAttach}), false
		}
	}
	return list, agree
}

// moreThanSeen are a node's counters that count more than its rows have.
func moreThanSeen(counters map[string]uint64, rows []aggregate.LossRow, node string) (list []Counter) {
	for _, of := range dropCounters {
		seen := uint64(0)
		for i := range rows {
			// An old kernel gives no reasons: any row may be these.
			if rows[i].Node == node && (rows[i].Reason == "" || slices.Contains(of.reasons, rows[i].Reason)) {
				seen += rows[i].Packets
			}
		}
		if n := counters[of.name]; n > seen {
			list = append(list, Counter{of.name, n})
		}
	}
	return list
}
