// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

const maxTravellers = 200

// create makes a packet and sends it.
func (w *walk) create() {
	_, names := fixtures()
	name := names[(w.next()|w.next()<<8)%len(names)]
	p := &traveller{frame: frame{data: packet(w, name)}}
	changes := w.next() % 8
	if isTrain(name) {
		tr := loadTrain(w, name)
		p.train, p.frame = &tr, tr.whole
		w.stampTrain(&tr, p)
	} else {
		for range changes {
			w.change(p, w.next()%nFields, w.next())
		}
		if len(p.data) < etherHeader+60+int(p.size) {
			p.size, p.segs = 0, 0 // the kernel runs no train that is shorter than one segment
		}
		w.stamp(p)
	}
	if !runnable(p.data) || len(w.packets) >= maxTravellers {
		return
	}
	w.own(p.data)
	p.want = bytes.Clone(p.data)
	w.packets = append(w.packets, p)
	w.move(p, 0)
}

// own makes h2, where the path of every packet ends, the one that it is for.
func (w *walk) own(data []byte) {
	at := ipAt(data)
	if at < 0 {
		return
	}
	h := headerAt(data, at)
	if h.v6() {
		key := bpfobj.TcRdrLocal6{Node: nodeH2, Addr: [16]uint8(h[24:])}
		if local6Table[key] == 0 && !slices.Contains(w.owned, any(key)) {
			w.put(bpfobj.TcMapLocals6, key, uint8(1))
			w.owned = append(w.owned, key)
		}
		return
	}
	key := bpfobj.TcRdrLocal{Node: nodeH2, Addr: binary.NativeEndian.Uint32(h[16:])}
	if localTable[key] == 0 && !slices.Contains(w.owned, any(key)) {
		w.put(bpfobj.TcMapLocals, key, uint8(1))
		w.owned = append(w.owned, key)
	}
}

// change writes one field.
func (w *walk) change(p *traveller, field, value int) {
	at := ipAt(p.data)
	switch {
	case field == fieldCut && value < 128: // counted from the front, else from the end
		p.data = p.data[:min(etherHeader+1+value, len(p.data))]
	case field == fieldCut:
		p.data = p.data[:max(etherHeader+1, len(p.data)+127-value)]
	case field == fieldEther:
		p.data[value%etherHeader] ^= byte(value)
	case field == fieldSegs:
		p.segs = uint32(value)
	case field == fieldSize:
		p.size = uint32(value)
	case at < 0:
	case field == fieldGUID:
		slot, ttl := uint16(value)%uint16(w.layout.Slots), w.layout.BandTop[0]-byte(value>>6)
		headerAt(p.data, at).set(slot, ttl, headerAt(p.data, at).tos()&^0x0c)
		w.change(p, fieldMend, 0)
	case field == fieldL4:
		if l4 := at + len(headerAt(p.data, at)) + value%64; l4 < len(p.data) {
			p.data[l4] ^= byte(value)
		}
	case headerAt(p.data, at).v6():
		byteOf := map[int]int{fieldID: 3, fieldTTL: 7, fieldTOS: 1, fieldFlags: 2, fieldProto: 6, fieldIHL: 0, fieldLength: 5}
		if i, ok := byteOf[field]; ok {
			p.data[at+i] = byte(value)
		}
	case field == fieldMend:
		if headerLen(p.data[at:]) >= 20 && at+headerLen(p.data[at:]) <= len(p.data) {
			fixSum(p.data, at)
		}
	default:
		byteOf := map[int]int{fieldID: 5, fieldTTL: 8, fieldTOS: 1, fieldFlags: 6, fieldProto: 9, fieldIHL: 0, fieldLength: 3, fieldChecksum: 11}
		p.data[at+byteOf[field]] = byte(value)
	}
}

// stamp gives the packet a content of its own. radar tells packets apart by it, so
// a packet that has none must not pretend to be marked.
func (w *walk) stamp(p *traveller) {
	at := ipAt(p.data)
	if at < 0 {
		return
	}
	n := byte(len(w.packets) + 1)
	h := headerAt(p.data, at)
	proto, l4 := l4Of(p.data, at)
	icmp := byte(1)
	if h.v6() {
		icmp = 58
	}
	i := map[byte]int{6: 7, 17: 8, 136: 8, icmp: 7}[proto]
	if _, later := isFragment(w, p.data); later || i == 0 {
		i = 3
	}
	long := l4+32 <= min(len(p.data), at+h.length()) // what is behind the packet is no content of it
	if long {
		p.data[l4+i] ^= n
	}
	icmpError := proto == icmp
	if !long || icmpError || proto == 132 || w.isRepeated(p.data) {
		*h.ttlByte() = min(h.ttl(), 64)
		quoted := l4 + 8 + 8
		if h.v6() {
			quoted--
		}
		if icmpError && quoted < len(p.data) {
			p.data[quoted] = min(p.data[quoted], 64)
		}
	}
}

// isRepeated says whether a packet begins as an earlier one does, in spite of its stamp:
// other changes may have undone that.
func (w *walk) isRepeated(data []byte) bool {
	begin := func(data []byte) []byte {
		at := ipAt(data)
		if at < 0 {
			return nil
		}
		proto, l4 := l4Of(data, at)
		if proto == 6 {
			return data[min(l4+4, len(data)):min(l4+8, len(data))] // the sequence number
		}
		return data[min(l4+8, len(data)):min(l4+16, len(data))]
	}
	return slices.ContainsFunc(w.packets, func(q *traveller) bool { return bytes.Equal(begin(data), begin(q.want)) })
}

// stampTrain does the same for a train; its segments' checksums are not looked at.
func (w *walk) stampTrain(tr *trainOf, p *traveller) {
	proto, l4 := l4Of(p.data, ipAt(p.data))
	if proto != 6 {
		return
	}
	all := append([][]byte{p.data}, tr.segments...)
	for _, data := range all {
		seq := data[l4+4:]
		binary.BigEndian.PutUint32(seq, binary.BigEndian.Uint32(seq)+uint32(len(w.packets)+1)<<12)
	}
}
