// SPDX-License-Identifier: Apache-2.0

package backpack

import "github.com/vnetradar/radar/pkg/record"

// What stands for an unknown number.
const (
	NoPort = 0xffff // no such port, or not known
	NoNode = 0xffff
	NoTime = -1
)

// Packet is one packet, or one train of segments while it stays together, as
// numbers. Times are ns since T0 unless said otherwise, NoTime where not known.
type Packet struct {
	Pos uint64 // ring position: unique within the domain
	T0  uint64 // first stamp, CLOCK_MONOTONIC ns

	State  record.State
	LastNs int64 // last event
	// LatencyNs is the time from first to last stamp; NoTime: there is only one.
	LatencyNs int64

	Tuple             // as the source saw it, if HasTuple
	HasTuple bool     // false: the head of the train was overwritten
	Proto    uint8    // IP protocol
	FragOff  uint16   // IP flags and fragment offset, as in the header
	ICMP     [2]uint8 // type, code
	Flags    uint16   // RDR_SF_*
	ID       uint16   // IP ID, TTL, TOS as the source saw them
	TTL, TOS uint8
	// SentTTL and SentTOS are those with which a node sent it last; as TTL and TOS
	// where that is not known.
	SentTTL, SentTOS uint8

	Len  uint32 // IP bytes of all segments
	Segs int    // packets that it stands for

	Hops      []Hop // one per node visited, in order
	Lost      bool  // Loss says where
	LocalDrop bool  // Loss says where it was freed after delivery
	Loss      Drop
	Truncated bool // some events are missing

	held bool // lost where a copy may live on: may be withdrawn later than others
	open bool // the last events are missing
}

// Tuple is addresses and ports; ports in host order, 0 where there are none. For
// ICMP echo SrcPort and DstPort are identifier and sequence number.
type Tuple struct {
	Src, Dst         [4]byte
	SrcPort, DstPort uint16
}

// Hop is one visit of one node.
type Hop struct {
	Node    uint16 // NoNode: the port is not in the domain's description
	In, Out uint16 // ports, NoPort where not seen
	InNs    int64
	OutNs   int64
	OnLink  bool // Out is a bridge's member, which packets pass without entering its node
	Changed bool // Tuple is what the packet left with
	Tuple   Tuple
}

// NodeNs is the time inside the node, NoTime if entry or exit was not seen.
func (h *Hop) NodeNs() int64 { return span(h.InNs, h.OutNs) }

// LinkNs is the time from the egress of hop i-1 to the ingress of hop i, with the
// queue between them; NoTime if one was not seen. Where a packet leaves the domain by
// a bridge's member, the link ends at that member's egress.
func (p *Packet) LinkNs(i int) int64 {
	if i == 0 {
		return NoTime
	}
	h := &p.Hops[i]
	if h.OnLink {
		return span(p.Hops[i-1].OutNs, h.OutNs)
	}
	return span(p.Hops[i-1].OutNs, h.InNs)
}

// StampNs is the egress of hop i, at the end of the way its ingress.
func (p *Packet) StampNs(i int) int64 {
	h := &p.Hops[i]
	if h.OutNs == NoTime && i == len(p.Hops)-1 {
		return h.InNs
	}
	return h.OutNs
}

// HopNs is the time from the stamp of hop i-1 to that of hop i.
func (p *Packet) HopNs(i int) int64 {
	if i == 0 {
		return NoTime
	}
	return span(p.Hops[i-1].OutNs, p.StampNs(i))
}

// span is the time between two stamps. Stamps of different CPUs in the wrong order
// would give a negative time: then it is not known.
func span(from, to int64) int64 {
	if from == NoTime || to == NoTime || to < from {
		return NoTime
	}
	return to - from
}

// Drop is where and why a packet was freed.
type Drop struct {
	Node, Port uint16 // NoNode, NoPort if not known
	At         record.At
	Reason     string // "" where the kernel gives none
	Qdisc      string // At == record.AtQueue only
	Function   string // "" if the address has no name
	AtNs       int64
	First      bool // first packet of the dropped skb
}
