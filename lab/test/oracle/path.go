// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"slices"
)

// packetPath is the path of one packet through the network, from captures alone.
type packetPath struct {
	key  key
	wire []*packet // in the order of time; out of one port, into its peer, ...
	// sent: what the sender handed over. hooks: node -> what its stack saw.
	// socket: what a raw socket at the destination received.
	sent   *packet
	hooks  map[string]*packet
	socket *packet
	// alike: other packets have the same content.
	alike bool
}

// hop is one node on a path.
type hop struct {
	node    string
	in, out *packet // nil: not seen to enter, to leave
}

func (h hop) inPort() string  { return portOf(h.in) }
func (h hop) outPort() string { return portOf(h.out) }

func portOf(pkt *packet) string {
	if pkt == nil {
		return ""
	}
	return pkt.place.port
}

func (path *packetPath) first() *packet { return path.wire[0] }
func (path *packetPath) last() *packet  { return path.wire[len(path.wire)-1] }

// hops groups what the wires showed by node.
func (path *packetPath) hops() []hop {
	var hops []hop
	for _, pkt := range path.wire {
		if pkt.place.out && len(hops) > 0 && hops[len(hops)-1].out == nil {
			hops[len(hops)-1].out = pkt
			continue
		}
		h := hop{node: pkt.place.node}
		if pkt.place.out {
			h.out = pkt
		} else {
			h.in = pkt
		}
		hops = append(hops, h)
	}
	return hops
}

// forwards is how many routers lowered the TTL before sighting i of the wire.
func (path *packetPath) forwards(i int) int {
	n := 0
	for k := 1; k <= i; k++ {
		if path.wire[k].place.out {
			n++
		}
	}
	return n
}

// assemble links sightings of equal content, sorted by time, to paths. A packet
// that arrives is the earliest that left the peer and has not yet arrived. One that
// leaves is the earliest that arrived and has not yet left, or the node itself sends
// it. Captures with microseconds often show two steps at the same time: the one that
// continues a path comes first.
func assemble(t *Topology, k key, sightings []*packet) []*packetPath {
	var paths []*packetPath
	for len(sightings) > 0 {
		n := 1
		for n < len(sightings) && sightings[n].at == sightings[0].at {
			n++
		}
		for ties := slices.Clone(sightings[:n]); len(ties) > 0; {
			i, path := next(t, paths, ties)
			if path == nil {
				path = &packetPath{key: k, hooks: map[string]*packet{}}
				paths = append(paths, path)
			}
			path.wire = append(path.wire, ties[i])
			ties = slices.Delete(ties, i, i+1)
		}
		sightings = sightings[n:]
	}
	return paths
}

// next picks, from sightings of the same time, one that continues a path, and that
// path; else the first that leaves a node and so starts a path; else any.
func next(t *Topology, paths []*packetPath, ties []*packet) (int, *packetPath) {
	for i, pkt := range ties {
		for _, path := range paths {
			if continues(t, path.last(), pkt) {
				return i, path
			}
		}
	}
	return max(slices.IndexFunc(ties, func(pkt *packet) bool { return pkt.place.out }), 0), nil
}

// continues reports whether a packet seen as last can be seen next as pkt.
func continues(t *Topology, last, pkt *packet) bool {
	if last.place.out == pkt.place.out {
		return false
	}
	if pkt.place.out {
		return last.place.node == pkt.place.node
	}
	return last.place.ref() == t.port(pkt.place.ref()).Peer
}

// byTime sorts what one place saw as it saw it.
func byTime(pkts []*packet) {
	slices.SortStableFunc(pkts, func(a, b *packet) int { return cmp.Compare(a.at, b.at) })
}
