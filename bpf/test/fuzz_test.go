// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// FuzzPackets lets packets of packets.py, some of their fields changed, travel
// h1 - r1 - h2 in any order, many at a time, through a ring that is too small for
// them, with trains cut, routers hidden and the lease coming and going. Between
// nodes only ID, TTL, our DSCP bits and the checksum of a packet may differ from
// the true ones; inside nodes and at the end nothing.
//
// The input is a script, see walk.step. TestRandomPackets makes millions of them.
func FuzzPackets(f *testing.F) {
	_, names := fixtures()
	for i := range names {
		f.Add([]byte{0, opNew, byte(i), byte(i >> 8), 0, opMove, 0, 3})
		f.Add([]byte{1, opNew, byte(i), byte(i >> 8), 2, fieldTTL, 9, fieldID, 3, opCut, 0, opMove, 1, 2, opMove, 2, 5})
	}
	f.Add(append([]byte{0}, bytes.Repeat([]byte{opNew, 5, 0, 0, opMove, 0, 1}, 40)...))
	f.Add(append([]byte{0, opNew, 5, 0, 0, opLease, opNew, 6, 0, 0}, bytes.Repeat([]byte{opMove, 0, 1}, 6)...))
	domains := newFuzzDomains(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		pinCPU(t, 0)
		domains.run(t, script)
		domains.checkSums(t)
	})
}

// fuzzDomains are those that scripts run through.
type fuzzDomains []*domain

// newFuzzDomains has both ways to carry the GUID, with bits of the DSCP and without.
func newFuzzDomains(t testing.TB) fuzzDomains {
	var ds fuzzDomains
	for _, c := range []config{{}, {carry: "header", guid: "22"}, {guid: "22"}, {carry: "header"}} {
		c.slots, c.block = 64, 16
		ds = append(ds, newDomain(t, c))
	}
	ds.prepare()
	return ds
}

// prepare gives the maps what scripts begin with.
func (ds fuzzDomains) prepare() {
	for _, d := range ds {
		d.reset()
		d.put(bpfobj.TcMapNodes, uint32(nodeH2), bpfobj.TcRdrNode{}) // it gets too many: see own
		for key := range localTable {
			d.put(bpfobj.TcMapLocals, key, uint8(1))
		}
	}
}

// run lets a script run through two of the domains, one of each way to carry the GUID: its
// first byte says which two. It returns how many packets there were, and how many hooks they
// went through.
func (ds fuzzDomains) run(t testing.TB, script []byte) (packets, hooks int) {
	if len(script) == 0 {
		return 0, 0
	}
	pair := int(script[0]) % 2 * 2
	script = script[1:]
	for _, d := range ds[pair : pair+2] {
		in := *d
		in.TB = t
		w := walk{domain: &in, script: script, leased: true}
		for w.step() {
		}
		w.finish()
		w.clean()
		packets, hooks = packets+len(w.packets), hooks+w.hooks
	}
	return packets, hooks
}

// checkSums does what domain.checkSum does, for all of them.
func (ds fuzzDomains) checkSums(t testing.TB) {
	for _, d := range ds {
		in := *d
		in.TB = t
		in.checkSum()
	}
}

// What a script can say, each followed by its arguments, a byte each.
const (
	opNew   = iota // a packet: 2 bytes name it, 1 says how many fields change: field, value
	opMove         // packet, hidden routers: one hook further
	opCut          // packet: a queue cuts the train
	opLease        // the lease ends, or comes back
	opDrop         // packet: it is gone
	opTwice        // packet, hidden routers: the last link delivers it twice
	opCE           // packet: a link's queue marks congestion
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
	fieldGUID  // the bits of a slot, which is another packet's or nobody's
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
	owned   []any // addresses that h2 has got
	leased  bool
	hooks   int
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
	case opCE:
		if p := w.pick(); p != nil {
			w.congest(p)
		}
	case opTwice:
		if p := w.pick(); p != nil {
			w.arriveTwice(p, w.next())
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

// clean makes the maps again what domain.reset has made of them, but for the counters: what
// holds of them holds of their sums. To write everything anew would take longer than a script.
func (w *walk) clean() {
	if _, err := w.ring.WriteAt(noSlots[:w.layout.Slots*w.layout.SlotBytes], 0); err != nil {
		w.Fatal(err)
	}
	w.empty(bpfobj.TcMapKeys)
	for _, key := range w.owned {
		name := bpfobj.TcMapLocals
		if _, six := key.(bpfobj.TcRdrLocal6); six {
			name = bpfobj.TcMapLocals6
		}
		if err := w.Maps[name].Delete(key); err != nil {
			w.Fatal(err)
		}
	}
	w.startAt(uint64(w.layout.Slots))
	w.lease(true)
}

var noSlots [64 << 10]byte

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

// own makes h2, where every packet's way ends, the one that it is for.
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

// arriveTwice lets the last link deliver a packet and a copy of it, at once: a slot whose
// packet has arrived may be used again. Without a lease copies must follow within 2 ms
// (LATE_COPY_NS), which a busy machine may miss.
func (w *walk) arriveTwice(p *traveller, hidden int) {
	if p.gone || p.at != 3 || !w.leased {
		return
	}
	twin := *p
	w.move(&twin, hidden)
	w.move(p, hidden)
}

// congest sets CE, where the sender allows it.
func (w *walk) congest(p *traveller) {
	if p.gone || p.train != nil || p.at != 1 && p.at != 3 || !w.lowers(p) || !validChecksum(w, p.want) {
		return
	}
	for _, data := range []*[]byte{&p.data, &p.want} {
		h := header(w, *data)
		if ect := h.tos() & 3; ect != 1 && ect != 2 {
			return
		}
		*data = bytes.Clone(*data)
		h = header(w, *data)
		h.set(h.id(), h.ttl(), h.tos()|3)
		mend(*data, ipAt(*data))
	}
}

// move takes a packet through the next hook.
func (w *walk) move(p *traveller, hidden int) {
	if p.gone {
		return
	}
	w.hooks++
	switch p.at {
	case 0:
		p.frame = w.send(p.frame)
		w.onWire(p)
	case 1, 3:
		w.cross(p, hidden)
		p.frame = w.ingress(uint32(p.at), p.frame)
		if w.layout.MarkMask != 0 || p.at == 3 {
			same(w, "inside the node", p.data, p.want)
		} else {
			w.onWire(p) // r1 carries the header
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
	if p.mark != 0 && !w.hasEqual(p) {
		w.Errorf("mark %#x behind hook %d", p.mark, p.at)
	}
}

// hasEqual says whether another packet has the same key, as no two under way should (RFC 6864).
// What is not measured for that passes as the first, whose slot may be used again meanwhile.
func (w *walk) hasEqual(p *traveller) bool {
	key := keyOf(w, p.want)
	return slices.ContainsFunc(w.packets, func(q *traveller) bool {
		return q != p && key != nil && bytes.Equal(keyOf(w, q.want), key)
	})
}

// keyOf is what a packet that may be fragmented, or is a fragment, is found by; nil: it is none.
func keyOf(t testing.TB, data []byte) []byte {
	at := ipAt(data)
	if at < 0 {
		return nil
	}
	h := headerAt(data, at)
	fragment, _ := isFragment(t, data)
	switch {
	case h.v6() && fragment:
		c := readChain(data[at:])
		return slices.Concat(h[8:40], data[at+c.frag:at+c.frag+8])
	case h.v6() || !fragment && h[6]&0x40 != 0:
		return nil
	}
	return slices.Concat(h[4:6], []byte{h[6] & 0x1f, h[7]}, h[9:10], h[12:20]) // without the flags
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

// isGroup says whether a packet is for a group, by its frame or by its address.
func isGroup(data []byte) bool {
	at := ipAt(data)
	return data[0]&1 != 0 || at >= 0 && !headerAt(data, at).v6() && data[at+16] >= 224
}

// cross takes the packet over a link with as many hidden routers as its TTL allows; for a
// group only half of them behind a router (bpf/radar/group.h).
func (w *walk) cross(p *traveller, hidden int) {
	hidden %= int(w.layout.TTLWidth)
	if isGroup(p.data) && p.at == 3 {
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
