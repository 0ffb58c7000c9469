// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/record"
)

// Kind is what a part of a round trip is.
type Kind string

// The kinds of parts. End is the time that the receiver took, from data that came to the acknowledgement that left. Gap
// is what lies between two attached nodes and is not attached.
const (
	Gap   Kind = "gap"
	Link  Kind = "link"
	Queue Kind = "queue"
	Node  Kind = "node"
	End   Kind = "end"
)

// part is one of a round trip.
type part struct {
	dir   direction
	kind  Kind
	name  string
	order int // on the way
	times aggregate.Distribution
}

// partKey finds one.
type partKey struct {
	dir  direction
	kind Kind
	a, b string // node/port, or both ends of a link
}

// parts are those of a flow's round trips.
type parts struct {
	all  map[partKey]*part
	more uint64 // times of parts that there was no room for
}

// maxParts is how many parts are told apart: ten paths of twenty nodes.
const maxParts = 512

func (ps *parts) get(key partKey, name func() string) *part {
	if p := ps.all[key]; p != nil {
		return p
	}
	if ps.all == nil {
		ps.all = make(map[partKey]*part)
	}
	if len(ps.all) == maxParts {
		ps.more++
		return nil
	}
	p := &part{dir: key.dir, kind: key.kind, name: name(), order: len(ps.all)}
	ps.all[key] = p
	return p
}

// of splits the way of a record into parts.
func (ps *parts) of(r *record.Record, dir direction) []partTime {
	list := make([]partTime, 0, 3*len(r.Hops))
	add := func(key partKey, ns *int64, name func() string) {
		if ns == nil || *ns < 0 || *ns >= longest {
			return
		}
		if p := ps.get(key, name); p != nil {
			list = append(list, partTime{p, *ns})
		}
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		if prev := r.PrevOf(i); prev >= 0 {
			from, to := place(r.Hops[prev].Node, r.Hops[prev].Port), place(h.Node, h.InPort)
			add(partKey{dir, Link, from, to}, h.LinkNs, func() string { return from + " > " + to })
		}
		add(partKey{dir, Node, h.Node, ""}, h.NodeNs, func() string { return h.Node })
		if h.QueueNs != nil {
			at := place(h.Node, h.Port)
			add(partKey{dir, Queue, at, ""}, h.QueueNs, func() string { return at })
		}
	}
	return list
}

// place is NODE/PORT, or NODE.
func place(node, port string) string {
	if port == "" {
		return node
	}
	return node + "/" + port
}
