// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"
)

// Truth is what really happened, by the captures. Its Check methods compare
// things with it; they change nothing and may be called in any order.
type Truth struct {
	topo     *Topology
	journeys []*journey
	caps     *Captures
	// What belongs to no journey: seen by a hook, a socket or a sender only.
	strays []*unit
}

// Reconstruct works out the way of every packet. The collection must not be
// added to afterwards.
func (c *Captures) Reconstruct() *Truth {
	t := &Truth{topo: c.topo, caps: c}
	wires := map[key][]*unit{}
	others := map[key][]*unit{}
	for _, f := range c.frames {
		f.cut(c.sizes, c.udp)
		for _, u := range f.units() {
			k := u.key()
			if f.place.kind == wire {
				wires[k] = append(wires[k], u)
			} else {
				others[k] = append(others[k], u)
			}
		}
	}
	byKey := map[key][]*journey{}
	for k, us := range wires {
		byTime(us)
		byKey[k] = assemble(c.topo, k, us)
		for _, j := range byKey[k] {
			j.alike = len(byKey[k]) > 1
		}
		t.journeys = append(t.journeys, byKey[k]...)
	}
	slices.SortFunc(t.journeys, func(a, b *journey) int {
		return cmp.Or(cmp.Compare(a.first().at, b.first().at), cmp.Compare(a.first().seg, b.first().seg))
	})
	for k, us := range others {
		t.join(byKey[k], us)
	}
	return t
}

// join gives the sightings of hooks, sockets and senders to their journeys. All
// have equal content; the n-th one of a place is the n-th journey there.
func (t *Truth) join(js []*journey, us []*unit) {
	byPlace := map[*place][]*unit{}
	for _, u := range us {
		byPlace[u.place] = append(byPlace[u.place], u)
	}
	for p, seen := range byPlace {
		passing := passingBy(t.topo, p, js)
		for i, u := range seen {
			if i >= len(passing) {
				t.strays = append(t.strays, u)
				continue
			}
			switch p.kind {
			case hook:
				passing[i].hooks[p.node] = u
			case socket:
				passing[i].socket = u
			case sent:
				passing[i].sent = u
			}
		}
	}
}

// passingBy are the journeys that that place must have seen, in order.
func passingBy(t *Topology, p *place, js []*journey) []*journey {
	type passing struct {
		j  *journey
		at int64
	}
	var ps []passing
	for _, j := range js {
		for _, v := range j.visits() {
			if v.node != p.node {
				continue
			}
			starts, ends := v.in == nil, v.out == nil && v.in != nil && t.owns(v.node, v.in.Dst)
			switch {
			case p.out && starts:
				ps = append(ps, passing{j, v.out.at})
			case p.kind == hook && !p.out && !starts:
				ps = append(ps, passing{j, v.in.at})
			case p.kind == socket && ends:
				ps = append(ps, passing{j, v.in.at})
			}
		}
	}
	slices.SortStableFunc(ps, func(a, b passing) int { return cmp.Compare(a.at, b.at) })
	js = js[:0:0]
	for _, p := range ps {
		js = append(js, p.j)
	}
	return js
}

// Packets is how many packets left their sender, with the segments of trains
// counted one by one.
func (t *Truth) Packets() int { return len(t.journeys) }

// origin is the packet as its sender made it: what was handed over, else what
// the sender's own output hook saw, else the first wire if that is outside the
// domain. Of a fragment it is the first wire anyway: radar must not change a bit
// of it, and CheckSockets compares the datagram. nil if nobody saw the true
// header.
func (t *Truth) origin(j *journey, d Domain) *unit {
	start := j.first()
	switch {
	case j.sent != nil:
		return j.sent
	case start.place.out && j.hooks[start.place.node] != nil:
		return j.hooks[start.place.node]
	case d.outside(t.topo, start.place), start.place.out && start.fragment():
		return start
	}
	return nil
}

// describe names a packet in findings.
func describe(j *journey) string {
	u := j.first()
	s := u.Packet.String()
	if u.segs > 1 {
		s += fmt.Sprintf(", segment %d of %d", u.seg+1, u.segs)
	}
	return s
}
