// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/rules"
)

// lossKey is a place of losses, with the reason.
type lossKey struct {
	node, port    string
	at            record.At
	reason        string
	qdisc         string
	function      string // "": of several, see lossPlace.functions
	afterDelivery bool
}

// lossPlace is what was lost there.
type lossPlace struct {
	lossKey
	flow                Flow // of the first one
	packets, data, syns uint64
	bytes               uint64 // of IP
	smallest            int    // IP bytes of the smallest packet with data, of the largest ones of each train
	sizes               sizes
	first               int64 // when it was sent
	pending             uint64
	functions           map[string]uint64 // packets by the function that dropped them, where the key has none
}

// dropper is the function that dropped them, of several the one that dropped most.
func (p *lossPlace) dropper() string {
	most := p.function
	for name, n := range p.functions {
		if p.functions[most] < n || p.functions[most] == n && name < most {
			most = name
		}
	}
	return most
}

// sizes are those of packets with data that were lost at a place.
type sizes struct {
	at      int64 // when the newest train was sent
	largest int   // of its packets
	exact   bool  // largest is that of a packet, not of several that a record has together
	before  int   // smallest, without the newest train
	sure    bool  // before is exact
}

// add takes a packet, or several that a record has together, and returns the smallest size that is lost. What is too large
// for a link is refused as a train, with its last segment, which would have passed alone: the largest of each train counts.
func (s *sizes) add(p *sent) int {
	if p.at != s.at {
		if n, exact := s.smallest(); n > 0 {
			s.before, s.sure = n, exact
		}
		s.at, s.largest, s.exact = p.at, 0, false
	}
	s.largest = max(s.largest, p.perPacket())
	s.exact = s.exact || p.segs == 1
	n, _ := s.smallest()
	return n
}

func (s *sizes) smallest() (n int, exact bool) {
	switch {
	case s.before == 0 || s.exact && !s.sure:
		return s.largest, s.exact
	case s.sure && !s.exact:
		return s.before, true
	}
	return min(s.before, s.largest), s.exact
}

// lossTable has the places of losses of one direction.
type lossTable struct {
	all  map[lossKey]*lossPlace
	more uint64 // packets lost at places that there was no room for
}

// maxPlaces is how many are told apart, maxFunctions how many functions of each.
const maxPlaces, maxFunctions = 256, 8

func (t *lossTable) add(p *sent) {
	l := p.loss
	key := lossKey{l.Node, l.Port, l.At, l.Reason, l.Qdisc, l.Function, p.fate == dropped}
	// The receiver drops for one reason in several functions: TCP's wrong checksums in one for sockets that somebody uses
	// just then, in another for the rest. They are one cause. Of netfilter only the function tells a rule from the rest.
	several := key.afterDelivery && key.reason != "" && key.reason != record.NotSpecified && key.reason != "NETFILTER_DROP" &&
		!slices.Contains(defragFunctions, key.function)
	if several {
		key.function = ""
	}
	one := t.all[key]
	if one == nil {
		if len(t.all) == maxPlaces {
			t.more += uint64(p.segs)
			return
		}
		if t.all == nil {
			t.all = make(map[lossKey]*lossPlace)
		}
		one = &lossPlace{lossKey: key, flow: p.flow}
		t.all[key] = one
		if several {
			one.functions = make(map[string]uint64)
		}
	}
	if _, known := one.functions[l.Function]; several && (known || len(one.functions) < maxFunctions) {
		one.functions[l.Function] += uint64(p.segs)
	}
	one.packets += uint64(p.segs)
	one.bytes += uint64(max(p.size, 0))
	if p.pending {
		one.pending += uint64(p.segs)
	}
	if one.first == 0 || p.at < one.first {
		one.first = p.at
	}
	if p.flags&packet.TCPSyn != 0 {
		one.syns++
	}
	if p.payload > 0 {
		one.data += uint64(p.segs)
		one.smallest = one.sizes.add(p)
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
	byHook                   // netfilter refuses packets: a rule, NAT, or conntrack
	bySize                   // packets are larger than a link takes
	bySocket                 // the receiver has no room
	byAge                    // TCP refuses what later packets have overtaken
	byEnd                    // the receiver's socket was gone, or had been reset
	byPieces                 // other fragments of the datagram are missing
)

// ruleReasons are the kernel's reasons of packets that somebody has refused on purpose.
var ruleReasons = []string{"NETFILTER_DROP", "TC_INGRESS", "TC_EGRESS", "XDP", "XFRM_POLICY", "SOCKET_FILTER", "BPF_CGROUP_EGRESS", "SECURITY_HOOK"}

// socketReasons are those of a receiver without room.
var socketReasons = []string{"SOCKET_RCVBUFF", "SOCKET_BACKLOG", "PROTO_MEM", "TCP_ZEROWINDOW", "TCP_OFO_QUEUE_PRUNE", "TCP_OFO_DROP", "TCP_OVERWINDOW"}

// ageReasons are those of packets with an old time stamp: others, which were sent later, came first.
var ageReasons = []string{"TCP_RFC7323_PAWS", "TCP_RFC7323_PAWS_ACK", "TCP_RFC7323_TSECR"}

// endReasons are those of packets for a connection that is over.
var endReasons = []string{"TCP_FLAGS", "NO_SOCKET", "TCP_CLOSE", "TCP_RESET", "TCP_ABORT_ON_DATA", "TCP_ABORT_ON_CLOSE", "TCP_ABORT_ON_LINGER"}

// defragFunctions put fragments together, and free those of which others are missing.
var defragFunctions = []string{"ip_defrag", "ip_expire", "ip_frag_queue", "ipv6_frag_rcv", "ip6_expire_frag_queue", "inet_frag_rbtree_purge", "nf_ct_frag6_gather"}

// isOver reports whether the receiver dropped data of TCP because its connection was over.
func (p *sent) isOver() bool { return slices.Contains(endReasons, p.loss.Reason) }

// ofHook reports whether netfilter's hooks have freed packets themselves: the kernel does not say then who refused them.
func (p *lossPlace) ofHook() bool {
	switch p.reason {
	case "NETFILTER_DROP":
		return p.function == "" || p.function == rules.Hook
	case "", record.NotSpecified:
		return p.function == rules.Hook
	}
	return false
}

// isRule reports whether only a rule can have refused packets, by what the node says.
func (l *LossRow) isRule() bool {
	n := l.Netfilter
	return l.of.kind() == byRule ||
		n != nil && n.Rules && n.ConntrackDrops == 0 && !n.ConntrackUnknown && len(n.NoFreePort) == 0
}

// kind says what the losses at a place mean.
func (p *lossPlace) kind() lossKind {
	switch {
	case p.ofHook():
		return byHook
	case slices.Contains(ruleReasons, p.reason):
		return byRule
	case p.reason == "PKT_TOO_BIG":
		return bySize
	case slices.Contains(ageReasons, p.reason):
		return byAge
	case p.afterDelivery && (strings.HasPrefix(p.reason, "FRAG_") || slices.Contains(defragFunctions, p.function)):
		return byPieces
	case p.afterDelivery && p.data > 0 && slices.Contains(endReasons, p.reason):
		return byEnd
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
