// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"slices"
)

// journey is the way of one packet through the network, from captures alone.
type journey struct {
	key  key
	wire []*unit // in the order of time; out of one port, into its peer, ...
	// How others saw it. sent: what the sender handed over. hooks: node -> what
	// its stack saw. socket: what a raw socket at the destination received.
	sent   *unit
	hooks  map[string]*unit
	socket *unit
	// alike: other packets have the same content.
	alike bool
}

// visit is one node on a journey.
type visit struct {
	node    string
	in, out *unit // nil: not seen to enter, to leave
}

func (v visit) inPort() string  { return portOf(v.in) }
func (v visit) outPort() string { return portOf(v.out) }

func portOf(u *unit) string {
	if u == nil {
		return ""
	}
	return u.place.port
}

func (j *journey) first() *unit { return j.wire[0] }
func (j *journey) last() *unit  { return j.wire[len(j.wire)-1] }

// visits groups what the wires showed by node.
func (j *journey) visits() []visit {
	var vs []visit
	for _, u := range j.wire {
		if u.place.out && len(vs) > 0 && vs[len(vs)-1].out == nil {
			vs[len(vs)-1].out = u
			continue
		}
		v := visit{node: u.place.node}
		if u.place.out {
			v.out = u
		} else {
			v.in = u
		}
		vs = append(vs, v)
	}
	return vs
}

// forwards is how many routers lowered the TTL before sighting i of the wire.
func (j *journey) forwards(i int) int {
	n := 0
	for k := 1; k <= i; k++ {
		if j.wire[k].place.out {
			n++
		}
	}
	return n
}

// assemble links sightings of equal content to journeys. They come sorted by
// time. What arrives is the earliest packet that left the peer and has not yet
// arrived; what leaves is the earliest that arrived and has not yet left, or
// one that the node itself sends. Captures with microseconds often show two
// steps at the same time: of those, the one that continues a journey comes first.
func assemble(t *Topology, k key, sightings []*unit) []*journey {
	var js []*journey
	for len(sightings) > 0 {
		n := 1
		for n < len(sightings) && sightings[n].at == sightings[0].at {
			n++
		}
		for ties := slices.Clone(sightings[:n]); len(ties) > 0; {
			i, j := next(t, js, ties)
			if j == nil {
				j = &journey{key: k, hooks: map[string]*unit{}}
				js = append(js, j)
			}
			j.wire = append(j.wire, ties[i])
			ties = slices.Delete(ties, i, i+1)
		}
		sightings = sightings[n:]
	}
	return js
}

// next picks from sightings of the same time one that continues a journey, and
// that journey; else the first that starts one by leaving a node; else any.
func next(t *Topology, js []*journey, ties []*unit) (int, *journey) {
	for i, u := range ties {
		for _, j := range js {
			if continues(t, j.last(), u) {
				return i, j
			}
		}
	}
	return max(slices.IndexFunc(ties, func(u *unit) bool { return u.place.out }), 0), nil
}

// continues says whether a packet last seen there can be seen next at u.
func continues(t *Topology, last, u *unit) bool {
	if last.place.out == u.place.out {
		return false
	}
	if u.place.out {
		return last.place.node == u.place.node
	}
	return last.place.ref() == t.port(u.place.ref()).Peer
}

// byTime sorts what one place saw as it saw it.
func byTime(us []*unit) {
	slices.SortStableFunc(us, func(a, b *unit) int { return cmp.Compare(a.at, b.at) })
}
