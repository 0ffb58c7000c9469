// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
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
		d.put(bpfobj.TcMapNodes6, uint32(nodeH2), bpfobj.TcRdrNode{})
		for key := range localTable {
			d.put(bpfobj.TcMapLocals, key, uint8(1))
		}
	}
}

// run lets a script run through two of the domains, one with the mark and one with the header: its
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

// traveller is a packet in flight.
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
	frames  []frame // behind each hook
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
	w.forgetNotes()
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
		fixSum(*data, ipAt(*data))
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
	w.frames = append(w.frames, p.frame)
}

func (w *walk) onWire(p *traveller) {
	if !w.allowed(p.data, p.want) {
		w.Errorf("behind hook %d", p.at)
	}
	if p.mark != 0 && !w.hasEqual(p) {
		w.Errorf("mark %#x behind hook %d", p.mark, p.at)
	}
}

// hasEqual reports whether another packet has the same key, as no two in flight should (RFC 6864).
// One that is not measured because of that passes as the first, whose slot may be reused meanwhile.
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
// group only half of them behind a router (bpf/backpack/group.h).
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
