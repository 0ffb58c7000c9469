// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// FuzzPackets lets packets of packets.py, some of their fields changed, travel
// h1 - r1 - h2 in any order, many at a time, through a ring that is too small for
// them, with trains cut, routers hidden and the lease coming and going. Between
// nodes only ID, TTL, our DSCP bits and the checksum of a packet may differ from
// the true ones; inside nodes and at the end nothing.
//
// The input is a script, see walk.step.
func FuzzPackets(f *testing.F) {
	_, names := fixtures()
	for i := range names {
		f.Add([]byte{opNew, byte(i), byte(i >> 8), 0, opMove, 0, 3})
		f.Add([]byte{opNew, byte(i), byte(i >> 8), 2, fieldTTL, 9, fieldID, 3, opCut, 0, opMove, 1, 2, opMove, 2, 5})
	}
	f.Add(bytes.Repeat([]byte{opNew, 5, 0, 0, opMove, 0, 1}, 40))
	f.Add(append([]byte{opNew, 5, 0, 0, opLease, opNew, 6, 0, 0}, bytes.Repeat([]byte{opMove, 0, 1}, 6)...))
	domains := []*domain{
		newDomain(f, config{slots: 64, block: 16}),
		newDomain(f, config{slots: 64, block: 16, carry: "header"}),
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		for _, d := range domains {
			w := walk{domain: d.in(t), script: script, leased: true}
			w.reset()
			w.put(bpfobj.TcMapNodes, uint32(nodeH2), bpfobj.TcRdrNode{}) // its addresses: see own
			w.last = nil
			for w.step() {
			}
			w.finish()
		}
	})
}

// What a script can say, each followed by its arguments, a byte each.
const (
	opNew   = iota // a packet: 2 bytes name it, 1 says how many fields change: field, value
	opMove         // packet, hidden routers: one hook further
	opCut          // packet: a queue cuts the train
	opLease        // the lease ends, or comes back
	opDrop         // packet: it is gone
	nOps
)

// What of a packet can be changed.
const (
	fieldID = iota
	fieldTTL
	fieldTOS
	fieldFlags
	fieldProto
	fieldIHL
	fieldLength
	fieldChecksum
	fieldL4    // a byte behind the IP header: the value says which
	fieldCut   // the frame ends early
	fieldEther // a byte of the Ethernet header
	fieldMend  // makes the IP checksum right
	fieldSegs  // GSO segments
	fieldSize  // GSO size
	nFields
)

// traveller is a packet under way.
type traveller struct {
	frame
	want  []byte // its true bytes
	at    int    // hooks behind it: h1 egress, r1 ingress, r1 egress, h2 ingress
	train *trainOf
	gone  bool
}

// walk is one run of a script.
type walk struct {
	*domain
	script  []byte
	packets []*traveller
	leased  bool
}

func (w *walk) next() int {
	if len(w.script) == 0 {
		return 0
	}
	b := w.script[0]
	w.script = w.script[1:]
	return int(b)
}

// step carries out one line of the script and says whether there are more.
func (w *walk) step() bool {
	if len(w.script) == 0 {
		return false
	}
	switch w.next() % nOps {
	case opNew:
		w.create()
	case opMove:
		if p := w.pick(); p != nil {
			w.move(p, w.next())
		}
	case opCut:
		if p := w.pick(); p != nil {
			w.cut(p)
		}
	case opLease:
		w.leased = !w.leased
		w.lease(w.leased)
	case opDrop:
		if p := w.pick(); p != nil {
			p.gone = true
		}
	}
	return !w.Failed()
}

func (w *walk) pick() *traveller {
	if len(w.packets) == 0 {
		return nil
	}
	return w.packets[w.next()%len(w.packets)]
}

// finish brings everybody home.
func (w *walk) finish() {
	for i := 0; i < len(w.packets); i++ {
		for p := w.packets[i]; !p.gone && p.at < 4 && !w.Failed(); {
			w.move(p, i)
		}
	}
}

const maxTravellers = 200

// create makes a packet and sends it.
func (w *walk) create() {
	_, names := fixtures()
	name := names[(w.next()|w.next()<<8)%len(names)]
	p := &traveller{frame: frame{data: packet(w, name)}}
	changes := w.next() % 8
	if packets, _ := fixtures(); packets[name+".0"] != nil {
		tr := loadTrain(w, name)
		p.train, p.frame = &tr, tr.whole
		w.stampTrain(&tr, p)
	} else {
		for range changes {
			p.change(w.next()%nFields, w.next())
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

// own makes h2, where every packet's way ends, the one that it is for.
func (w *walk) own(data []byte) {
	at := ipAt(data)
	if at < 0 {
		return
	}
	if h := headerAt(data, at); h.v6() {
		w.put(bpfobj.TcMapLocals6, bpfobj.TcRdrLocal6{Node: nodeH2, Addr: [16]uint8(h[24:])}, uint8(1))
	} else {
		dst := binary.NativeEndian.Uint32(h[16:])
		w.put(bpfobj.TcMapLocals, bpfobj.TcRdrLocal{Node: nodeH2, Addr: dst}, uint8(1))
	}
}

// change writes one field.
func (p *traveller) change(field, value int) {
	at := ipAt(p.data)
	switch {
	case field == fieldCut:
		p.data = p.data[:max(etherHeader+1, len(p.data)-value)]
	case field == fieldEther:
		p.data[value%etherHeader] ^= byte(value)
	case field == fieldSegs:
		p.segs = uint32(value)
	case field == fieldSize:
		p.size = uint32(value)
	case at < 0:
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
			mend(p.data, at)
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
	i := map[byte]int{6: 7, 17: 8, icmp: 7}[proto]
	if _, later := isFragment(w, p.data); later || i == 0 {
		i = 3
	}
	long := l4+32 <= len(p.data)
	if long {
		p.data[l4+i] ^= n
	}
	icmpError := proto == icmp
	if !long || icmpError || proto == 132 {
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

// cut replaces a train by its segments, wherever it is on a link.
func (w *walk) cut(p *traveller) {
	if p.train == nil || p.gone || p.at != 1 && p.at != 3 {
		return
	}
	p.gone = true
	for k, seg := range p.train.cut(w, p.frame) {
		want := bytes.Clone(p.train.segments[k])
		for header(w, want).ttl() > header(w, p.want).ttl() {
			decrement(w, want)
		}
		w.packets = append(w.packets, &traveller{frame: seg, want: want, at: p.at})
	}
}

// move takes a packet through the next hook.
func (w *walk) move(p *traveller, hidden int) {
	if p.gone {
		return
	}
	switch p.at {
	case 0:
		p.frame = w.send(p.frame)
		w.onWire(p)
	case 1, 3:
		w.cross(p, hidden)
		p.frame = w.ingress(uint32(p.at), p.frame)
		if w.layout.MarkMask != 0 || p.at == 3 {
			same(w, "inside the node", p.data, p.want)
		}
	case 2:
		if w.lowers(p) {
			if header(w, p.want).ttl() <= 1 {
				p.gone = true
				return
			}
			p.data = lowered(w, p.data, 1)
			p.want = lowered(w, p.want, 1)
		}
		p.from = ifindex(r1In)
		p.frame = w.egress(r1Out, p.frame)
		w.onWire(p)
	case 4:
		p.gone = true
	}
	p.at++
}

func (w *walk) onWire(p *traveller) {
	if !w.allowed(p.data, p.want) {
		w.Errorf("behind hook %d", p.at)
	}
	if p.mark != 0 {
		w.Errorf("mark %#x behind hook %d", p.mark, p.at)
	}
}

// lowers says whether a router would take the packet at all.
func (w *walk) lowers(p *traveller) bool {
	at := ipAt(p.want)
	if at < 0 {
		return false
	}
	ip := p.want[at:]
	if headerAt(p.want, at).v6() {
		return ip[0]>>4 == 6
	}
	return ip[0]>>4 == 4 && headerLen(ip) >= 20 && headerLen(ip) <= len(ip)
}

// cross takes the packet over a link with as many hidden routers as its TTL allows; for a
// group only half of them behind a router (bpf/radar/group.h).
func (w *walk) cross(p *traveller, hidden int) {
	hidden %= int(w.layout.TTLWidth)
	if p.data[0]&1 != 0 && p.at == 3 {
		hidden %= int(w.layout.TTLWidth)/2 + 1
	}
	if !w.lowers(p) {
		hidden = 0
	} else {
		hidden = max(0, min(hidden, int(header(w, p.want).ttl())-1))
	}
	p.frame = w.link(p.frame, hidden)
	p.want = lowered(w, p.want, hidden)
}
