// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/system"
)

// Meaning names a counter of the programs and says what it counts. Every number that the programs know has
// one: a test fails without it.
type Meaning struct {
	Name string // of JSON, and of other faces
	Help string
}

// Skipped says why a packet at a port with a role got nothing from a node: by bpfobj.IntSkip.
var Skipped = [...]Meaning{
	bpfobj.INT_SKIP_NONE:           {"none", "no reason is known"},
	bpfobj.INT_SKIP_NOT_WATCHED:    {"not_watched", "the watchlist does not ask for it"},
	bpfobj.INT_SKIP_NOT_SAMPLED:    {"not_sampled", "it is not the one in N"},
	bpfobj.INT_SKIP_NOT_IP:         {"not_ip", "neither IPv4 nor IPv6"},
	bpfobj.INT_SKIP_NOT_TCP_UDP:    {"not_tcp_udp", "neither TCP nor UDP"},
	bpfobj.INT_SKIP_FRAGMENT:       {"fragment", "a fragment"},
	bpfobj.INT_SKIP_EXTENSION:      {"extension", "IPv6 with extension headers"},
	bpfobj.INT_SKIP_TOO_SHORT:      {"too_short", "shorter than its headers"},
	bpfobj.INT_SKIP_BAD_LENGTH:     {"bad_length", "its lengths do not agree"},
	bpfobj.INT_SKIP_BAD_CHECKSUM:   {"bad_checksum", "UDP whose checksum is wrong, or 0 where it must not be"},
	bpfobj.INT_SKIP_REPORT:         {"report", "a telemetry report: these never get INT"},
	bpfobj.INT_SKIP_FOREIGN:        {"foreign", "it came from outside with INT"},
	bpfobj.INT_SKIP_NOT_INT:        {"not_int", "it bears the mark, and no INT of a form that is known"},
	bpfobj.INT_SKIP_MTU:            {"mtu", "it would be longer than the MTU"},
	bpfobj.INT_SKIP_HOPS:           {"hops", "as many nodes as may have added something already (‹hops›)"},
	bpfobj.INT_SKIP_HOP_ML:         {"hop_ml", "hops in it have another length than its bitmap says"},
	bpfobj.INT_SKIP_STACK_FULL:     {"stack_full", "its stack has no room for another hop"},
	bpfobj.INT_SKIP_NO_ROLE:        {"no_role", "it came by a port without a role"},
	bpfobj.INT_SKIP_NOT_SOURCE:     {"not_source", "it came without INT by a port that is no source"},
	bpfobj.INT_SKIP_NO_INSTRUCTION: {"no_instruction", "its entry of the watchlist asks for nothing"},
	bpfobj.INT_SKIP_NO_DSCP:        {"no_dscp", "its DSCP is the mark already"},
	bpfobj.INT_SKIP_GSO:            {"gso", "a train of packets in one buffer (‹no-gso› cuts them before)"},
	bpfobj.INT_SKIP_LEASE:          {"lease", "nobody renewed the lease: no agent lived"},
	bpfobj.INT_SKIP_NO_ROOM:        {"no_room", "the kernel could not make it longer or shorter"},
	bpfobj.INT_SKIP_LONG:           {"long", "it has more bytes than can be moved"},
	bpfobj.INT_SKIP_TCP_PORT:       {"tcp_port", "TCP, which a port cannot mark"},
	bpfobj.INT_SKIP_QUOTE:          {"quote", "an ICMP error that quotes too little of a packet with INT to take INT out"},
}

// Done says what a node did: by bpfobj.IntDone.
var Done = [...]Meaning{
	bpfobj.INT_DONE_SOURCE:          {"source", "packets that got INT"},
	bpfobj.INT_DONE_TRANSIT:         {"transit", "packets with INT to which it added its own"},
	bpfobj.INT_DONE_SINK:            {"sink", "packets from which it took INT"},
	bpfobj.INT_DONE_FLOW:            {"flow_reports", "reports about packets"},
	bpfobj.INT_DONE_QUEUE:           {"queue_reports", "reports of queues that were too long"},
	bpfobj.INT_DONE_SUPPRESSED:      {"suppressed", "reports that would have said nothing new"},
	bpfobj.INT_DONE_DISCARDED:       {"discarded", "packets that ended at the sink, as their INT header demands (D)"},
	bpfobj.INT_DONE_SENT:            {"reports", "reports handed to the agent"},
	bpfobj.INT_DONE_NO_COLLECTOR:    {"no_collector", "reports that nobody wanted"},
	bpfobj.INT_DONE_REPORT_LOST:     {"reports_lost", "reports that the agent did not take in time"},
	bpfobj.INT_DONE_FOREIGN_DROPPED: {"foreign_dropped", "packets that came from outside with INT, and were dropped (‹foreign› drop, or no room for a cover)"},
	bpfobj.INT_DONE_NO_TIME:         {"no_time", "hops without a latency: when the packet came in is not known"},
	bpfobj.INT_DONE_COVERED:         {"covered", "packets that came from outside with INT, and got a cover: no node adds to it"},
	bpfobj.INT_DONE_UNCOVERED:       {"uncovered", "packets from which it took the cover"},
	bpfobj.INT_DONE_QUOTE:           {"quotes", "ICMP errors from whose quote it took INT"},
}

// Counters are those of one node, of all CPUs together.
func (d *Domain) Counters(n *Node) (sum bpfobj.IntCounters, err error) {
	m, err := Kind.OpenMap(d.Name, mapOf(bpfobj.IntMapCounters, n.Index))
	if errors.Is(err, system.ErrNoPin) {
		return sum, nil
	}
	if err != nil {
		return sum, err
	}
	defer m.Close()
	var each []bpfobj.IntCounters
	if err := m.Lookup(uint32(0), &each); err != nil {
		return sum, fmt.Errorf("read counters of node %s: %w", n.Name, err)
	}
	for c := range each {
		for i, v := range each[c].Skipped {
			sum.Skipped[i] += v
		}
		for i, v := range each[c].Done {
			sum.Done[i] += v
		}
	}
	return sum, nil
}
