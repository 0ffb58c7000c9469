// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A snapshot file: header, then the payload (see payload).
//
//	magic "radaragg" | version u32 | epoch u32 | CRC-32C of the payload u32
//
// Numbers of the header are little-endian.
const (
	magic           = "radaragg"
	snapshotVersion = 12
	headerBytes     = len(magic) + 4 + 4 + 4
)

// Why a snapshot cannot be continued.
var (
	ErrForeign = errors.New("snapshot is of another domain or another version of radar")
	ErrDamaged = errors.New("snapshot is damaged")
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// encode makes a snapshot of a and of a Follower's state, valid until the next but
// one. It is made every second: flows that have not changed are copied from the last
// one (BenchmarkSnapshot).
func (a *Aggregates) encode(epoch uint32, follower []byte) (chunks [][]byte) {
	e := newEncoder(a.spare)
	e.b = append(e.b, make([]byte, headerBytes)...)
	e.uints(uint64(len(follower)))
	e.b = append(e.b, follower...)
	a.encodeTotals(e)
	a.encodePaths(e)
	a.encodePlaces(e)
	a.encodeFlows(e)
	for _, table := range []map[place]*tally{a.losses, a.localDrops} {
		encodeTallies(e, table)
	}
	a.encodeSums(e)
	chunks = e.chunks()
	a.written, a.spare = chunks, a.written
	crc := crc32.Checksum(chunks[0][headerBytes:], crcTable)
	for _, b := range chunks[1:] {
		crc = crc32.Update(crc, crcTable, b)
	}
	head := append(chunks[0][:0], magic...)
	head = binary.LittleEndian.AppendUint32(head, snapshotVersion)
	head = binary.LittleEndian.AppendUint32(head, epoch)
	binary.LittleEndian.AppendUint32(head, crc)
	return chunks
}

// decode reads a snapshot. It returns ErrForeign or ErrDamaged.
func decode(b []byte, epoch uint32) (a *Aggregates, follower []byte, err error) {
	if len(b) < headerBytes || string(b[:len(magic)]) != magic {
		return nil, nil, ErrDamaged
	}
	head, payload := b[len(magic):headerBytes], b[headerBytes:]
	if binary.LittleEndian.Uint32(head) != snapshotVersion || binary.LittleEndian.Uint32(head[4:]) != epoch {
		return nil, nil, ErrForeign
	}
	if binary.LittleEndian.Uint32(head[8:]) != crc32.Checksum(payload, crcTable) {
		return nil, nil, ErrDamaged
	}
	d := decoder{b: payload}
	a = New(0)
	follower = []byte(d.text())
	d.totals(a)
	d.paths(a)
	d.places(a)
	flows := d.flows(a)
	for _, table := range []map[place]*tally{a.losses, a.localDrops} {
		d.tallies(a, table, flows)
	}
	d.sums(a)
	if d.bad || len(d.b) > 0 {
		return nil, nil, fmt.Errorf("%w: it does not end where it should", ErrDamaged)
	}
	for key, way := range a.paths {
		a.connect(way, key)
	}
	return a, follower, nil
}

// fields are the totals that Add counts, in the order of the snapshot.
func (t *Totals) fields() []*uint64 {
	return []*uint64{
		&t.Packets, &t.Bytes, &t.Delivered, &t.Left, &t.Lost, &t.Expired, &t.Ignored, &t.Moved, &t.LocalDrops, &t.Truncated, &t.QueueUnseen,
		&t.OverPaths, &t.OverFlows, &t.OverLinks, &t.OverLosses, &t.NoFlow, &t.OverOrder, &t.OverSums,
	}
}

func (a *Aggregates) encodeTotals(e *encoder) {
	for _, v := range a.totals.fields() {
		e.uints(*v)
	}
	a.all.encode(e)
	a.whole.encode(e)
}

func (d *decoder) totals(a *Aggregates) {
	d.uints(a.totals.fields()...)
	*a.all = d.latency()
	a.whole = d.meter(&a.seconds)
}

func (a *Aggregates) encodePaths(e *encoder) {
	e.uints(uint64(len(a.paths)))
	for key, p := range a.paths {
		e.boundary()
		e.text(key)
		e.uints(uint64(p.id), p.overFlows, p.delivered, p.left, p.lost, p.expired, p.ignored)
		p.sums.encode(e)
		p.latency.encode(e)
		for _, end := range p.ends {
			e.uints(end.Left, end.Expired)
		}
	}
}

func (d *decoder) paths(a *Aggregates) {
	for range d.count(10) {
		key := d.text()
		if key == "" || (len(key)-1)%keyHopBytes(key) > maxGaps {
			d.bad = true
			return
		}
		p := &path{id: uint32(d.below(MaxPaths))}
		d.uints(&p.overFlows, &p.delivered, &p.left, &p.lost, &p.expired, &p.ignored)
		p.sums = d.meter(&a.seconds)
		l := d.latency()
		p.latency = &l
		if key[0]&keyTree != 0 {
			p.ends = make([]Ends, (len(key)-1)/keyHopBytes(key))
			for i := range p.ends {
				d.uints(&p.ends[i].Left, &p.ends[i].Expired)
			}
		}
		a.paths[key] = p
	}
}

func (a *Aggregates) encodePlaces(e *encoder) {
	e.uints(uint64(len(a.nodes)))
	for k, n := range a.nodes {
		e.boundary()
		e.uints(uint64(k))
		n.times.encode(e)
		n.visits.encode(e)
	}
	e.uints(uint64(len(a.ports)))
	for k, p := range a.ports {
		e.boundary()
		e.uints(uint64(k))
		p.in.encode(e)
		p.out.encode(e)
		p.queue.encode(e)
	}
	e.uints(uint64(len(a.links)))
	for k, l := range a.links {
		e.boundary()
		e.uints(uint64(k.From), uint64(k.To))
		l.times.encode(e)
		l.passed.encode(e)
	}
	e.uints(uint64(len(a.pairs)))
	for k, l := range a.pairs {
		e.boundary()
		e.uints(uint64(k.From), uint64(k.To))
		l.encode(e)
	}
}

func (d *decoder) places(a *Aggregates) {
	for range d.count(9) {
		a.nodes[uint16(d.uint())] = &nodeSums{d.latency(), d.meter(&a.seconds)}
	}
	for range d.count(16) {
		a.ports[uint16(d.uint())] = &portSums{d.meter(&a.seconds), d.meter(&a.seconds), d.latency()}
	}
	for range d.count(10) {
		k := ports{uint16(d.uint()), uint16(d.uint())}
		a.links[k] = &linkSums{d.latency(), d.meter(&a.seconds)}
	}
	for range d.count(3) {
		k := nodePair{uint16(d.uint()), uint16(d.uint())}
		l := d.latency()
		a.pairs[k] = &l
	}
}
