// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"container/heap"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// direction is one of a flow's two.
type direction uint8

const (
	forth direction = iota
	back
)

// fate is what became of a packet.
type fate uint8

const (
	unknown fate = iota // it is under way, or nobody can say
	arrived             // at the other end, or at the edge of the domain
	lost
	dropped // after delivery, by the receiver's node
)

// sent is what is kept of a record for as long as its flow can still depend on it.
type sent struct {
	id      string
	dir     direction
	at      int64 // when its source sent it, Unix ns
	arrival int64 // when it came to the other end; -1: it did not, or that is not known
	fate    fate
	loss    *record.Loss
	flow    Flow // as it was where it was lost, or seen last; later fragments have no ports

	tcp        bool // the fields of TCP's header are known
	seq, end   int64
	ack        int64 // -1: none
	flags      int
	window     int
	payload    int
	segs, size int // size in bytes of IP of all
	ce         bool
	parts      []partTime
	resent     bool // its bytes were sent before
	again      bool // its bytes were sent again
	overtaken  bool // something that was sent later came first
	from       string

	pending bool   // it has not ended: lost is what it is taken for
	outside bool   // it came from nodes that are not attached
	leftBy  string // NODE/PORT by which it left the attached nodes; "": it did not
	joined  int    // packets of it that have come back to attached nodes
	alike   bool   // a datagram with the same key was awaited beside it: which of them comes back, nobody can tell
	forgot  bool   // it is awaited no more, since there was no room
	noted   bool   // that its source sends it
	ipv4    bool
	ipID    int
	route   *route
}

// partTime is the time that a packet spent in one part of its way.
type partTime struct {
	part *part
	ns   int64
}

// longest is what a packet may take, ns: what claims more is no time.
const longest = int64(1e14)

// newSent is what is kept of a record. It keeps nothing of the record itself.
func newSent(r *record.Record, dir direction) *sent {
	p := &sent{id: r.ID, dir: dir, at: r.TNs, arrival: -1, ack: -1, segs: max(r.Segs, 1), size: r.Len,
		ce: r.ECN == 3 || r.ECNSent != nil && *r.ECNSent == 3, ipv4: r.IPVersion == 4, ipID: r.IPID}
	if n := len(r.Hops); n > 0 {
		p.from, p.outside = r.Hops[0].Node, r.Hops[0].InPort != ""
		if last := &r.Hops[n-1]; r.State == record.Left {
			p.leftBy = place(last.Node, cmp.Or(last.Port, last.InPort))
		}
	}
	switch r.State {
	case record.Delivered, record.Left:
		p.fate = arrived
		if r.LatencyNs != nil && *r.LatencyNs >= 0 && *r.LatencyNs < longest {
			p.arrival = r.TNs + *r.LatencyNs
		}
	case record.Lost:
		p.fate, p.loss = lost, copyLoss(r.Loss)
	case record.Expired:
		if r.Loss != nil {
			p.fate, p.loss = lost, copyLoss(r.Loss)
		}
	}
	if p.fate == lost && p.loss == nil {
		p.loss = &record.Loss{}
	}
	if d := r.LocalDrop; d != nil && p.fate == arrived {
		place := aggregate.LossPlace{Reason: d.Reason, Function: d.Function}
		if !place.FreedByTCP() {
			p.fate, p.loss = dropped, copyLoss(d)
		}
	}
	node := ""
	if p.loss != nil {
		node = p.loss.Node
	}
	p.flow = flowAt(r, node)
	p.addTCP(r)
	return p
}

// flowAt is the flow of a packet as nodes had changed it when it left the last hop at a node, or, without one there, the last
// of all.
func flowAt(r *record.Record, node string) Flow {
	f := Flow{Proto: r.Proto, Src: Endpoint{Addr: r.Src}, Dst: Endpoint{Addr: r.Dst}}
	if r.Sport != nil && r.Dport != nil {
		f.Src.Port, f.Dst.Port = *r.Sport, *r.Dport
	}
	end := len(r.Hops)
	for i := range r.Hops {
		if r.Hops[i].Node == node {
			end = i + 1
		}
	}
	for i := range r.Hops[:end] {
		h := &r.Hops[i]
		f.Src.Addr, f.Dst.Addr = cmp.Or(h.Src, f.Src.Addr), cmp.Or(h.Dst, f.Dst.Addr)
		if h.Sport != nil {
			f.Src.Port = *h.Sport
		}
		if h.Dport != nil {
			f.Dst.Port = *h.Dport
		}
	}
	return f
}

func (p *sent) addTCP(r *record.Record) {
	if r.TCPSeq == nil || r.TCPFlags == nil {
		return
	}
	p.tcp, p.seq, p.flags = true, int64(uint32(*r.TCPSeq)), *r.TCPFlags
	if r.TCPAck != nil && p.flags&packet.TCPAck != 0 {
		p.ack = int64(uint32(*r.TCPAck))
	}
	if r.TCPWindow != nil {
		p.window = *r.TCPWindow & 0xffff
	}
	if r.TCPPayload != nil {
		p.payload = max(0, min(*r.TCPPayload, maxPayload))
	}
}

// maxPayload is more than a train can have (BIG TCP).
const maxPayload = 1 << 20

// bytes is how much of the sequence space the packet takes.
func (p *sent) bytes() int64 {
	n := int64(p.payload)
	for _, flag := range []int{packet.TCPSyn, packet.TCPFin} {
		if p.flags&flag != 0 {
			n++
		}
	}
	return n
}

func copyLoss(l *record.Loss) *record.Loss {
	if l == nil {
		return nil
	}
	c := *l
	return &c
}

// unwrap is the number nearest to ref whose last 32 bits are v.
func unwrap(ref, v int64) int64 { return ref + int64(int32(uint32(v)-uint32(ref))) }

// event is a packet that its source sends, or that arrives.
type event struct {
	at      int64
	order   uint64 // as they came, for those of the same time
	arrives bool
	of      *sent
	conn    *conn
}

// events are those to come, the next one first.
type events []event

// maxEvents is how many packets may be under way. Beyond that the oldest are taken as they are.
const maxEvents = 1 << 17

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

var _ heap.Interface = (*events)(nil)
