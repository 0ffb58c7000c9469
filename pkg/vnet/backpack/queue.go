// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// queueing are the disciplines that queue every packet. The others have TCQ_F_CAN_BYPASS, so that a
// packet which finds them empty passes them by, and the kernel reports nothing (__dev_xmit_skb());
// or it is not known of them.
var queueing = []string{"cake", "drr", "ets", "hfsc", "htb", "netem", "prio", "qfq", "red", "tbf"}

// queuedSince is portInfo.queued.
func queuedSince(p *domain.Port) uint64 {
	if p.Removed || !slices.Contains(queueing, p.Queue) {
		return 0
	}
	return p.QueueSince
}

// findUnseen finds the hops whose packet waited in a queue that nothing saw it leave, though it was
// seen behind it: the time on the link behind holds that wait.
func (d *Decoder) findUnseen(p *packet.Packet) {
	for i := range p.Hops {
		prev := p.Prev(i)
		if prev < 0 || p.LinkNs(i) == packet.NoTime {
			continue
		}
		h := &p.Hops[prev]
		if h.DequeueNs != packet.NoTime || int(h.Out) >= len(d.ports) {
			continue
		}
		since := d.ports[h.Out].queued
		h.QueueUnseen = since != 0 && int64(p.T0)+h.OutNs >= int64(since)
	}
}
