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
// one that the node itself sends.
func assemble(t *Topology, k key, sightings []*unit) []*journey {
	var js []*journey
	for _, u := range sightings {
		want := func(last *unit) bool { return !last.place.out && last.place.node == u.place.node }
		if !u.place.out {
			peer := t.port(u.place.ref()).Peer
			want = func(last *unit) bool { return last.place.out && last.place.ref() == peer }
		}
		i := slices.IndexFunc(js, func(j *journey) bool { return want(j.last()) })
		if i < 0 {
			js = append(js, &journey{key: k, hooks: map[string]*unit{}})
			i = len(js) - 1
		}
		js[i].wire = append(js[i].wire, u)
	}
	return js
}

// byTime sorts what one place saw as it saw it.
func byTime(us []*unit) {
	slices.SortStableFunc(us, func(a, b *unit) int { return cmp.Compare(a.at, b.at) })
}
