// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// lossKey is a place of losses, with the reason.
type lossKey struct {
	node, port    string
	at            record.At
	reason        string
	qdisc         string
	function      string
	afterDelivery bool
}

// lossPlace is what was lost there.
type lossPlace struct {
	lossKey
	packets, data, syns uint64
	smallest            int   // IP bytes of the smallest packet with data
	first               int64 // when it was sent
}

// lossTable has the places of losses of one direction.
type lossTable struct {
	all  map[lossKey]*lossPlace
	more uint64 // packets lost at places that there was no room for
}

// maxPlaces is how many are told apart.
const maxPlaces = 256

func (t *lossTable) add(p *sent) {
	l := p.loss
	key := lossKey{l.Node, l.Port, l.At, l.Reason, l.Qdisc, l.Function, p.fate == dropped}
	one := t.all[key]
	if one == nil {
		if len(t.all) == maxPlaces {
			t.more += uint64(p.segs)
			return
		}
		if t.all == nil {
			t.all = make(map[lossKey]*lossPlace)
		}
		one = &lossPlace{lossKey: key}
		t.all[key] = one
	}
	one.packets += uint64(p.segs)
	if one.first == 0 || p.at < one.first {
		one.first = p.at
	}
	if p.flags&packet.TCPSyn != 0 {
		one.syns++
	}
	if p.payload > 0 {
		one.data += uint64(p.segs)
		if size := p.perPacket(); one.smallest == 0 || size < one.smallest {
			one.smallest = size
		}
	}
}

// list returns the places, those with most packets first.
func (t *lossTable) list() (list []*lossPlace) {
	for _, p := range t.all {
		list = append(list, p)
	}
	slices.SortFunc(list, func(x, y *lossPlace) int {
		return cmp.Or(cmp.Compare(y.packets, x.packets), cmp.Compare(x.node, y.node), cmp.Compare(x.port, y.port), cmp.Compare(x.reason, y.reason), cmp.Compare(x.function, y.function))
	})
	return list
}

// lossKind is what a place of losses means for a flow.
type lossKind uint8

const (
	onWay    lossKind = iota // a link, or a node, loses packets
	byQueue                  // a queue was full, or was said to signal congestion
	byRule                   // a rule refuses packets
	bySize                   // packets are larger than a link takes
	bySocket                 // the receiver has no room
	byAge                    // TCP refuses what later packets have overtaken
)

// ruleReasons are the kernel's reasons of packets that somebody has refused on purpose.
var ruleReasons = []string{"NETFILTER_DROP", "TC_INGRESS", "TC_EGRESS", "XDP", "XFRM_POLICY", "SOCKET_FILTER", "BPF_CGROUP_EGRESS", "SECURITY_HOOK"}

// socketReasons are those of a receiver without room.
var socketReasons = []string{"SOCKET_RCVBUFF", "SOCKET_BACKLOG", "PROTO_MEM", "TCP_ZEROWINDOW", "TCP_OFO_QUEUE_PRUNE", "TCP_OFO_DROP", "TCP_OVERWINDOW"}

// ageReasons are those of packets with an old time stamp: others, which were sent later, came first.
var ageReasons = []string{"TCP_RFC7323_PAWS", "TCP_RFC7323_PAWS_ACK", "TCP_RFC7323_TSECR"}

// kind says what the losses at a place mean.
func (p *lossPlace) kind() lossKind {
	switch {
	case slices.Contains(ruleReasons, p.reason), (p.reason == "" || p.reason == record.NotSpecified) && p.function == "nf_hook_slow":
		return byRule
	case p.reason == "PKT_TOO_BIG":
		return bySize
	case slices.Contains(ageReasons, p.reason):
		return byAge
	case slices.Contains(socketReasons, p.reason):
		return bySocket
	case p.at == record.AtQueue && p.function != netemLoss:
		return byQueue
	}
	return onWay
}

// netemLoss is the function in which netem loses packets on purpose.
const netemLoss = "netem_enqueue"

// refusedBySize reports whether the other end of a link may have refused packets for their size.
func (p *lossPlace) refusedBySize() bool {
	return p.reason == record.NotSeen || (p.reason == "" || p.reason == record.NotSpecified) && strings.Contains(p.function, "dev_forward_skb")
}
