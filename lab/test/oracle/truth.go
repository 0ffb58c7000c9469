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
	topo  *Topology
	paths []*packetPath
	caps  *Captures
	// Seen by a hook, a socket or a sender only, so on no path.
	strays []*packet
}

// Reconstruct works out the path of every packet. Nothing may be added to the
// captures afterwards.
func (c *Captures) Reconstruct() *Truth {
	t := &Truth{topo: c.topo, caps: c}
	wires := map[key][]*packet{}
	others := map[key][]*packet{}
	for _, f := range c.frames {
		f.cut(c.sizes, c.udp)
		for _, pkt := range f.packets() {
			k := pkt.key()
			if f.place.kind == wire {
				wires[k] = append(wires[k], pkt)
			} else {
				others[k] = append(others[k], pkt)
			}
		}
	}
	byKey := map[key][]*packetPath{}
	for k, pkts := range wires {
		byTime(pkts)
		byKey[k] = assemble(c.topo, k, pkts)
		for _, path := range byKey[k] {
			path.alike = len(byKey[k]) > 1
		}
		t.paths = append(t.paths, byKey[k]...)
	}
	slices.SortFunc(t.paths, func(a, b *packetPath) int {
		return cmp.Or(cmp.Compare(a.first().at, b.first().at), cmp.Compare(a.first().seg, b.first().seg))
	})
	for k, pkts := range others {
		t.join(byKey[k], pkts)
	}
	return t
}

// join adds what hooks, sockets and senders saw to the paths. All have equal
// content: the n-th packet at a place belongs to the n-th path past it.
func (t *Truth) join(paths []*packetPath, pkts []*packet) {
	byPlace := map[*place][]*packet{}
	for _, pkt := range pkts {
		byPlace[pkt.place] = append(byPlace[pkt.place], pkt)
	}
	for p, seen := range byPlace {
		passing := pathsPast(t.topo, p, paths)
		for i, pkt := range seen {
			if i >= len(passing) {
				t.strays = append(t.strays, pkt)
				continue
			}
			switch p.kind {
			case hook:
				passing[i].hooks[p.node] = pkt
			case socket:
				passing[i].socket = pkt
			case sent:
				passing[i].sent = pkt
			}
		}
	}
}

// pathsPast returns the paths of the packets that place p must have seen, in order.
func pathsPast(t *Topology, p *place, paths []*packetPath) []*packetPath {
	type passing struct {
		path *packetPath
		at   int64
	}
	var ps []passing
	for _, path := range paths {
		for _, h := range path.hops() {
			if h.node != p.node {
				continue
			}
			starts, ends := h.in == nil, h.out == nil && h.in != nil && t.owns(h.node, h.in.Dst)
			switch {
			case p.out && starts:
				ps = append(ps, passing{path, h.out.at})
			case p.kind == hook && !p.out && !starts:
				ps = append(ps, passing{path, h.in.at})
			case p.kind == socket && ends:
				ps = append(ps, passing{path, h.in.at})
			}
		}
	}
	slices.SortStableFunc(ps, func(a, b passing) int { return cmp.Compare(a.at, b.at) })
	paths = paths[:0:0]
	for _, p := range ps {
		paths = append(paths, p.path)
	}
	return paths
}

// Packets is how many packets left their sender, with the segments of trains
// counted one by one.
func (t *Truth) Packets() int { return len(t.paths) }

// origin is the packet as its sender made it: what the sender handed over, else
// what its output hook saw, else what the first wire showed, if that is outside
// the domain. For a fragment the first wire is always right: radar must not change
// a bit of it, and CheckSockets compares the datagram. nil: nobody saw the true
// header.
func (t *Truth) origin(path *packetPath, d Domain) *packet {
	start := path.first()
	switch {
	case path.sent != nil:
		return path.sent
	case start.place.out && path.hooks[start.place.node] != nil:
		return path.hooks[start.place.node]
	case d.outside(t.topo, start.place), start.place.out && start.fragment():
		return start
	}
	return nil
}

// describe names a packet in findings.
func describe(path *packetPath) string {
	pkt := path.first()
	s := pkt.Packet.String()
	if pkt.segs > 1 {
		s += fmt.Sprintf(", segment %d of %d", pkt.seg+1, pkt.segs)
	}
	return s
}
