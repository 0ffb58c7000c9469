// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// Bounds of a time-sequence diagram.
const (
	MostPassages = 500 // records: more of them are one black area
	MostLanes    = 64  // nodes
)

// Hops are packets on their way: when each came to each node, left it, and left the queue behind it. A record that stands for
// many packets, a train, is one of Records.
type Hops struct {
	Records   []*record.Record // the first ones
	Packets   uint64           // that these are
	More      uint64           // later packets, that are not shown
	Placeless uint64           // without a hop, so that there is nothing to show
	Laneless  uint64           // at nodes that there was no room for

	nodes map[string]bool
}

// Add takes a record, which it keeps. They come oldest first.
func (h *Hops) Add(r *record.Record) {
	n := packets(r)
	switch {
	case len(r.Hops) == 0:
		h.Placeless += n
	case len(h.Records) >= MostPassages:
		h.More += n
	case !h.room(r):
		h.Laneless += n
	default:
		h.Records = append(h.Records, r)
		h.Packets += n
	}
}

// packets is how many a record stands for.
func packets(r *record.Record) uint64 { return uint64(max(r.Segs, 1)) }

// room reports whether there is a lane for each node of a record.
func (h *Hops) room(r *record.Record) bool {
	var others []string
	for i := range r.Hops {
		if node := r.Hops[i].Node; !h.nodes[node] && !slices.Contains(others, node) {
			if others = append(others, node); len(h.nodes)+len(others) > MostLanes {
				return false
			}
		}
	}
	if h.nodes == nil {
		h.nodes = make(map[string]bool)
	}
	for _, node := range others {
		h.nodes[node] = true
	}
	return true
}

// Unknown is how many of Packets have no times of their hops.
func (h *Hops) Unknown() (n uint64) {
	for _, r := range h.Records {
		known := false
		for _, v := range Visits(r) {
			known = known || v.First() != nil
		}
		if !known {
			n += packets(r)
		}
	}
	return n
}

// Visit is a packet at one node. Times are Unix time, ns; what is not known is absent.
type Visit struct {
	ID        string       `json:"id"`
	Hop       int          `json:"hop"` // index
	Node      string       `json:"node"`
	InPort    string       `json:"in_port,omitempty"`
	Port      string       `json:"port,omitempty"`
	Prev      int          `json:"prev"` // the hop that it came from; -1: none
	InNs      *int64       `json:"in_ns,omitempty"`
	OutNs     *int64       `json:"out_ns,omitempty"`
	DequeueNs *int64       `json:"dequeue_ns,omitempty"` // it left the queue
	State     record.State `json:"state"`                // of the packet
	Outcome   record.State `json:"outcome,omitempty"`    // of the copy that ends here
	Lost      bool         `json:"lost,omitempty"`       // here, or behind it
	LostNs    *int64       `json:"lost_ns,omitempty"`    // about when
	Reason    string       `json:"reason,omitempty"`
}

// Visits are those of one packet.
func Visits(r *record.Record) []Visit {
	list := make([]Visit, len(r.Hops))
	for i := range r.Hops {
		h := &r.Hops[i]
		v := Visit{ID: r.ID, Hop: i, Node: h.Node, InPort: h.InPort, Port: h.Port, Prev: r.PrevOf(i), State: r.State, Outcome: h.Outcome}
		at := since(r, h.AtNs)
		if h.Port == "" {
			v.InNs = at
		} else {
			v.OutNs = at
		}
		if v.OutNs != nil && h.NodeNs != nil {
			v.InNs = plus(*v.OutNs, -*h.NodeNs)
		}
		if v.OutNs != nil && h.QueueNs != nil {
			v.DequeueNs = plus(*v.OutNs, *h.QueueNs)
		}
		if v.InNs == nil && h.LinkNs != nil && v.Prev >= 0 {
			if sent := list[v.Prev].sent(); sent != nil {
				v.InNs = plus(*sent, *h.LinkNs)
			}
		}
		list[i] = v
	}
	if r.Loss != nil {
		lostAt(r, list, r.Loss, -1)
	}
	for i := range r.Losses {
		if l := &r.Losses[i]; !l.AfterDelivery {
			lostAt(r, list, &l.Loss, l.Hop)
		}
	}
	return list
}

// lostAt notes a loss at the hop of its node; hop is that index if it is known, else -1.
func lostAt(r *record.Record, list []Visit, l *record.Loss, hop int) {
	if len(list) == 0 {
		return
	}
	if hop < 0 || hop >= len(list) {
		hop = len(list) - 1
		for i := range list {
			if list[i].Node == l.Node {
				hop = i
			}
		}
	}
	v := &list[hop]
	v.Lost, v.Reason = true, l.Reason
	if v.LostNs = since(r, l.AtNs); v.LostNs == nil {
		v.LostNs = v.Last()
	}
}

// sent is when it went onto the link.
func (v *Visit) sent() *int64 {
	if v.DequeueNs != nil {
		return v.DequeueNs
	}
	return v.OutNs
}

// Last is the last time that is known; nil: none is.
func (v *Visit) Last() *int64 {
	if at := v.sent(); at != nil {
		return at
	}
	return v.InNs
}

// First is the first time that is known; nil: none is.
func (v *Visit) First() *int64 {
	if v.InNs != nil {
		return v.InNs
	}
	return v.OutNs
}

func since(r *record.Record, ns *int64) *int64 {
	if ns == nil {
		return nil
	}
	return plus(r.TNs, *ns)
}

func plus(a, b int64) *int64 {
	sum := a + b
	return &sum
}

// nextLane is the lane of the first of these hops that has one.
func nextLane(lanes []string, hops []record.Hop) int {
	for i := range hops {
		if at := slices.Index(lanes, hops[i].Node); at >= 0 {
			return at
		}
	}
	return len(lanes)
}

// Lanes are the nodes in an order in which most packets go forth or back by one.
func (h *Hops) Lanes() (lanes []string) {
	for _, r := range h.Records {
		after := -1
		for i := range r.Hops {
			node := r.Hops[i].Node
			at := slices.Index(lanes, node)
			if at < 0 {
				if at = after + 1; nextLane(lanes, r.Hops[i+1:]) < after && after >= 0 {
					at = after // the packet goes the other way
				}
				lanes = slices.Insert(lanes, at, node)
			}
			after = at
		}
	}
	return lanes
}
