// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"encoding/binary"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// hopBytes is the length of one hop in a path key; of a tree each is followed by
// treeBytes: the hop before, and whether it is a copy.
const (
	hopBytes  = 6
	treeBytes = 2
)

// What the first byte of a path key says. keyEnds: hops are missing, but the first and the
// last one are known.
const (
	keyTruncated = 1
	keyTree      = 2
	keyEnds      = 4
)

// maxGaps is how many hops of a path are known as those before which others are missing: their
// numbers stand behind the last hop, where there is no room for another one.
const maxGaps = hopBytes - 1

// keyHopBytes is the length of one hop in that path key.
func keyHopBytes(key string) int {
	if key[0]&keyTree != 0 {
		return hopBytes + treeBytes
	}
	return hopBytes
}

// path returns the path of a packet. Paths of packets with missing events are kept
// apart from those that are known in full.
func (a *Aggregates) path(p *packet.Packet) *path {
	a.key = append(a.key[:0], 0)
	if p.Truncated {
		a.key[0] |= keyTruncated
		if p.LatencyNs != packet.NoTime && !p.Tree {
			a.key[0] |= keyEnds
		}
	}
	if p.Tree {
		a.key[0] |= keyTree
	}
	for i := range p.Hops {
		h := &p.Hops[i]
		a.key = binary.LittleEndian.AppendUint16(a.key, h.Node)
		a.key = binary.LittleEndian.AppendUint16(a.key, h.In)
		a.key = binary.LittleEndian.AppendUint16(a.key, h.Out)
		if p.Tree {
			a.key = binary.LittleEndian.AppendUint16(a.key, treeKey(p.Prev(i), h.Copy))
		}
	}
	a.addGaps(p)
	if way, ok := a.paths[string(a.key)]; ok {
		return way
	}
	if len(a.paths) >= MaxPaths {
		a.totals.OverPaths += uint64(p.Segs)
		a.connect(&a.unlisted, string(a.key))
		return &a.unlisted
	}
	way := &path{id: uint32(len(a.paths)), latency: new(latency)}
	if p.Tree {
		way.ends = make([]Ends, len(p.Hops))
	}
	key := string(a.key)
	a.paths[key] = way
	a.connect(way, key)
	return way
}

// addGaps adds to a path key where hops are missing.
func (a *Aggregates) addGaps(p *packet.Packet) {
	gaps := 0
	for i := range p.Hops {
		if p.Hops[i].Gap && gaps < maxGaps && i <= 0xff {
			a.key = append(a.key, byte(i))
			gaps++
		}
	}
}

// pathHop is one hop of a path key.
type pathHop struct {
	node, in, out uint16
	prev          int // -1: it is the first
	copied        bool
	gap           bool // hops before it may be missing
}

// copyBit is what a copy adds to treeKey.
const copyBit = 1 << 15

// treeKey is what a path key has of the hop before.
func treeKey(prev int, copied bool) uint16 {
	k := uint16(prev + 1)
	if copied {
		k |= copyBit
	}
	return k
}

// keyHops takes a path key apart.
func keyHops(key string) []pathHop {
	size := keyHopBytes(key)
	hops := make([]pathHop, 0, len(key)/size)
	b := []byte(key[1:])
	for ; len(b) >= size; b = b[size:] {
		le := binary.LittleEndian
		h := pathHop{node: le.Uint16(b), in: le.Uint16(b[2:]), out: le.Uint16(b[4:]), prev: len(hops) - 1}
		if size > hopBytes {
			k := le.Uint16(b[hopBytes:])
			h.copied, h.prev = k&copyBit != 0, min(int(k&^copyBit)-1, len(hops)-1)
		}
		hops = append(hops, h)
	}
	for _, at := range b { // less than a hop: where some are missing
		if int(at) < len(hops) {
			hops[at].gap = true
		}
	}
	return hops
}

// connect finds what the hops of a path add to, once for all its packets.
func (a *Aggregates) connect(way *path, key string) {
	hops := keyHops(key)
	way.hops, way.pair, way.over = way.hops[:0], nil, false
	for i, h := range hops {
		var to hopSums
		if key[0] == keyTree && isEnd(hops, i) {
			to.end = get(a.pairs, nodePair{hops[0].node, h.node}, MaxPairs, &way.over)
		}
		if h.copied { // all but its way out was the first one's
			if h.out != packet.NoPort {
				to.out = get(a.ports, h.out, MaxPorts, &way.over)
			}
			way.hops = append(way.hops, to)
			continue
		}
		if h.node != packet.NoNode {
			to.node = get(a.nodes, h.node, MaxNodes, &way.over)
		}
		end := h.in
		if end == packet.NoPort && isEnd(hops, i) {
			end = h.out // left by a bridge's member, where the link ends
		}
		if h.prev >= 0 && !h.gap && hops[h.prev].out != packet.NoPort && end != packet.NoPort {
			to.link = get(a.links, ports{hops[h.prev].out, end}, MaxLinks, &way.over)
		}
		if h.in != packet.NoPort {
			to.in = get(a.ports, h.in, MaxPorts, &way.over)
		}
		if h.out != packet.NoPort {
			to.out = get(a.ports, h.out, MaxPorts, &way.over)
		}
		way.hops = append(way.hops, to)
	}
	if n := len(hops); n > 0 && (key[0] == 0 || key[0] == keyTruncated|keyEnds) {
		way.pair = get(a.pairs, nodePair{hops[0].node, hops[n-1].node}, MaxPairs, &way.over)
	}
}

// Ends counts packets of which a branch ended at one hop of a path.
type Ends struct{ Left, Expired uint64 }

// addEnds counts where branches of a tree ended; those lost are in the losses.
func (way *path) addEnds(p *packet.Packet) {
	if way.id == noPath {
		return
	}
	for i := range p.Hops {
		switch p.Hops[i].Outcome {
		case record.Left:
			way.ends[i].Left += uint64(p.Segs)
		case record.Expired:
			way.ends[i].Expired += uint64(p.Segs)
		}
	}
}

// isEnd says whether a path, or a branch, ends with hop i.
func isEnd(hops []pathHop, i int) bool {
	for _, h := range hops[i+1:] {
		if h.prev == i {
			return false
		}
	}
	return true
}
