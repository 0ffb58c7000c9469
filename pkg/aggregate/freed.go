// SPDX-License-Identifier: Apache-2.0

package aggregate

import "slices"

// tcpFrees are the reasons, and functions where a reason alone does not tell, with
// which TCP frees what it no longer needs in the course of every connection. Their
// packets arrived and were understood: nobody need look for a fault. Reasons are
// those of enum skb_drop_reason; "" stands for any function.
var tcpFrees = map[string][]string{
	"TCP_OLD_DATA":         {""}, // sent again, and received already
	"TCP_OLD_SEQUENCE":     {""},
	"TCP_OLD_ACK":          {""}, // overtaken by a newer one
	"TCP_RFC7323_PAWS_ACK": {""},
	"TCP_OFOMERGE":         {""},                      // its data came in with another packet
	"QUEUE_PURGE":          {"sk_stream_kill_queues"}, // still queued as the connection was closed
	"NOT_SPECIFIED":        {"tcp_v4_rcv"},            // the last ACKs, in TIME_WAIT
}

// FreedByTCP says whether what was freed there after delivery is no fault.
func (p *LossPlace) FreedByTCP() bool {
	functions := tcpFrees[p.Reason]
	return slices.Contains(functions, "") || p.Function != "" && slices.Contains(functions, p.Function)
}

// freedByFlow is how many packets of each flow TCP has freed itself after delivery.
func (a *Aggregates) freedByFlow() map[*flow]uint64 {
	freed := make(map[*flow]uint64)
	for k, t := range a.localDrops {
		named := LossPlace{Reason: k.Reason, Function: k.Function}
		if !named.FreedByTCP() {
			continue
		}
		for f, h := range t.flows {
			freed[f] += h.packets
		}
	}
	return freed
}
