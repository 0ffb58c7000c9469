// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// PacketRecorder makes the records of packets.
type PacketRecorder interface {
	Record(*packet.Packet) *record.Record
	UnixNs(*packet.Packet) int64 // when it was sent
}

// AddPacket is Add for the record of a packet. The lines of most packets differ in times and lengths
// only: these are written from the cache, and no record is made. This keeps packets -f below 10 % of
// a CPU (docs/performance.md).
func (p *PacketPrinter) AddPacket(pk *packet.Packet, of PacketRecorder) error {
	if p.format != FormatTable || pk.Tree {
		return p.Add(of.Record(pk))
	}
	if p.cachedFor != p.Shown {
		clear(p.cache[:])
		p.cachedFor = p.Shown
	}
	key := keyOf(pk)
	place := &p.cache[key.place(pk.Hops)]
	t := *place
	switch {
	case t != nil && t.key == key && sameHops(t.hops, pk.Hops):
		t.again = true
	case t != nil && t.again:
		t.again = false // it was of use: the next one may have its place
		return p.Add(of.Record(pk))
	default: // another one: rows that are kept may need the one before
		t = &cachedLine{key: key, hops: slices.Clone(pk.Hops)}
		p.addCells(&t.line, p.Shown.Record(of.Record(pk)))
		*place = t
	}
	r, unixNs := &p.table.rows, of.UnixNs(pk)
	p.addTime(r, unixNs)
	r.addInt(int(pk.Len))
	latency := pk.LatencyNs
	if pk.IsLost() {
		latency = packet.NoTime
	}
	addLatency(r, latency)
	r.endRow(unixNs)
	r.list[len(r.list)-1].cached = t
	return nil
}

// cachedLine is the line of packets with one key.
type cachedLine struct {
	key   lineKey
	hops  []packet.Hop
	again bool // it was used again
	line  rows // the cells of the first packet's line

	// What stands in a line before each cell of ownCells, and behind the last, in columns of these widths.
	between [len(ownCells) + 1][]byte
	widths  []int
}

// ownCells are those of a table's line that each packet has for itself.
var ownCells = [...]int{0, 3, 6} // TIME, LEN, LATENCY

// layOut sets what stands between a packet's own cells.
func (l *cachedLine) layOut(t *Table) {
	if slices.Equal(l.widths, t.widths) {
		return
	}
	l.widths = append(l.widths[:0], t.widths...)
	part, text := 0, l.line.text
	for i := range l.between {
		l.between[i] = l.between[i][:0]
	}
	for i, c := range l.line.cells {
		content := text[:c.bytes]
		text = text[c.bytes:]
		if part < len(ownCells) && i == ownCells[part] {
			part++
			continue
		}
		l.between[part] = t.appendCell(l.between[part], i, content, int(c.runes))
	}
}

// appendCached appends the cached line with these cells of its own.
func (t *Table) appendCached(b []byte, l *cachedLine, text []byte, cells []cell) []byte {
	l.layOut(t)
	for i, c := range cells {
		b = append(b, l.between[i]...)
		b = t.appendCell(b, ownCells[i], text[:c.bytes], int(c.runes))
		text = text[c.bytes:]
	}
	return append(b, l.between[len(cells)]...)
}

// widen makes columns as wide as the line of packets needs them, but for their own cells.
func (l *cachedLine) widen(widths []int) {
	part := 0
	for i, c := range l.line.cells {
		if part < len(ownCells) && i == ownCells[part] {
			part++
			continue
		}
		widths[i] = max(widths[i], int(c.runes))
	}
}

// cachePlaces is how many lines the cache has room for: a power of two.
const cachePlaces = 1 << 10

// lineKey is all that a table's line depends on, but for hops, and for the cells that are written
// anew.
type lineKey struct {
	state record.State
	tuple packet.Tuple
	proto uint8
	cut   packet.Cut
	ttl   [2]uint8 // as it came and as it was sent, see words.TTLEnd
	icmp  [2]uint8

	fragOff uint16
	segs    int
	loss    packet.Drop

	hasTuple, ipv6, later, lost, localDrop, missing, truncated bool
}

func keyOf(p *packet.Packet) lineKey {
	key := lineKey{
		state: p.State, tuple: p.Tuple, proto: p.Proto, cut: p.Cut, ttl: [2]uint8{p.TTL, p.SentTTL}, icmp: p.ICMP,
		fragOff: p.FragOff, segs: p.Segs, loss: p.Loss,
		hasTuple: p.HasTuple, ipv6: p.IPv6, later: p.Later, lost: p.Lost, localDrop: p.LocalDrop, missing: p.Missing, truncated: p.Truncated,
	}
	key.loss.AtNs = 0
	return key
}

// place is where the cache has the line of a packet.
func (k *lineKey) place(hops []packet.Hop) int {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: each bit moves the upper ones
	h := uint64(k.tuple.SrcPort)<<16 | uint64(k.tuple.DstPort) | uint64(k.proto)<<32 | uint64(len(k.state))<<40 | uint64(k.loss.Node)<<48
	for _, addr := range []*packet.Addr{&k.tuple.Src, &k.tuple.Dst} {
		h = h*odd ^ uint64(addr[12])<<24 ^ uint64(addr[13])<<16 ^ uint64(addr[14])<<8 ^ uint64(addr[15])
	}
	for i := range hops {
		h = h*odd ^ uint64(hops[i].Node)
	}
	return int((h * odd >> 32) % cachePlaces)
}

// sameHops reports whether the hops of two packets that have no copies have the same cells.
func sameHops(a, b []packet.Hop) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a, b := &a[i], &b[i]; a.Node != b.Node || a.In != b.In || a.Out != b.Out || a.Gap != b.Gap || a.Copy != b.Copy || a.Outcome != b.Outcome {
			return false
		}
	}
	return true
}
