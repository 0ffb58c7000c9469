// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// nat rewrites source address and port, as masquerading does: checksums are right
// again afterwards (the UDP checksum is left out).
func nat(t testing.TB, data []byte) []byte {
	t.Helper()
	data = bytes.Clone(data)
	ip := header(t, data)
	copy(ip[12:], []byte{10, 0, 3, 3})
	at := ipAt(data)
	l4 := data[at+headerLen(ip):]
	switch ip[9] {
	case 6, 132, 136:
		binary.BigEndian.PutUint16(l4, 33333)
	case 17:
		binary.BigEndian.PutUint16(l4, 33333)
		l4[6], l4[7] = 0, 0
	case 1:
		binary.BigEndian.PutUint16(l4[4:], 33333)
	}
	fixSum(data, at)
	return data
}

// TestKeyBehindNAT: NAT changes the key; the packet is keyed anew and the old
// entry goes.
func TestKeyBehindNAT(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	w1 := d.send(frame{data: orig})
	inside := d.ingress(r1In, d.link(w1, 0))
	routed := d.route(inside, r1In)
	routed.data = nat(t, routed.data)
	w2 := d.egress(r1Out, routed)
	same(t, "behind r1", w2.data, nat(t, lowered(t, orig, 1)))
	if n := d.keyCount(); n != 1 {
		t.Errorf("%d keys, want the one behind NAT: %v", n, d.keyList())
	}
	d.deliver(w2, 0)
	d.wantStory(index, "out@0/FSK in@1/FK addr@2/F out@2/FK deliver@3/FK")
	d.counted(tally{cSeen: 1, cMarked: 1})
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys left: %v", n, d.keyList())
	}
}

// setID sets the IP ID, as a rule of nf_tables does.
func setID(t testing.TB, data []byte, id uint16) []byte {
	t.Helper()
	data = bytes.Clone(data)
	binary.BigEndian.PutUint16(header(t, data)[4:], id)
	fixSum(data, ipAt(data))
	return data
}

// TestKeyBehindID: a rule that sets the ID changes the key; the packet is keyed anew, and the old entry goes.
func TestKeyBehindID(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	routed := d.route(d.ingress(r1In, d.link(d.send(frame{data: orig}), 0)), r1In)
	routed.data = setID(t, routed.data, 4242)
	w2 := d.egress(r1Out, routed)
	same(t, "behind r1", w2.data, setID(t, lowered(t, orig, 1), 4242))
	if n := d.keyCount(); n != 1 {
		t.Errorf("%d keys, want the one with the new ID: %v", n, d.keyList())
	}
	d.deliver(w2, 0)
	d.wantStory(index, "out@0/FSK in@1/FK out@2/FK deliver@3/FK")
	d.counted(tally{cSeen: 1, cMarked: 1})
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys left: %v", n, d.keyList())
	}
}

// TestKeyLost: behind NAT the key is another packet's. The story ends, no byte does.
func TestKeyLost(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	other := nat(t, orig)
	d.send(frame{data: other})
	w1 := d.send(frame{data: orig})
	d.counted(tally{cSeen: 2, cMarked: 2})
	routed := d.route(d.ingress(r1In, d.link(w1, 0)), r1In)
	routed.data = nat(t, routed.data)
	w2 := d.egress(r1Out, routed)
	same(t, "behind r1", w2.data, nat(t, lowered(t, orig, 1)))
	d.counted(tally{cKeyLost: 1})
}

// TestFragmentsTogether: the fragments of one packet, in flight at the same time,
// have a story each.
func TestFragmentsTogether(t *testing.T) {
	d := newDomain(t, config{})
	names := []string{"fragment-first", "fragment-middle", "fragment-last"}
	first := uint32(d.nextPos()) & (d.layout.Slots - 1)
	var wire []frame
	for _, name := range names {
		wire = append(wire, d.send(frame{data: packet(t, name)}))
	}
	d.counted(tally{cSeen: 3, cMarked: 3})
	for k := len(wire) - 1; k >= 0; k-- {
		same(t, names[k], d.deliver(wire[k], 3).data, lowered(t, packet(t, names[k]), 3))
	}
	for k := range uint32(3) {
		d.wantStory(first+k, "out@0/FSK deliver@3/FK")
	}
	d.counted(nil)
}

// TestFragmentedInside: r1 fragments a packet. Its first fragment keeps the story,
// the others are measured from there on.
func TestFragmentedInside(t *testing.T) {
	d := newDomain(t, config{})
	whole := packet(t, "clear-whole")
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	inside := d.ingress(r1In, d.link(d.send(frame{data: whole}), 0))
	d.counted(tally{cSeen: 1, cMarked: 1})
	for i, name := range []string{"fragment-first", "fragment-middle", "fragment-last"} {
		piece := frame{data: packet(t, name), mark: inside.mark} // ip_copy_metadata()
		out := d.egress(r1Out, d.route(piece, r1In))
		same(t, name, out.data, lowered(t, piece.data, 1))
		end := d.deliver(out, 0)
		same(t, name, end.data, lowered(t, piece.data, 1))
		if i == 0 {
			d.counted(nil)
		} else {
			d.counted(tally{cSeen: 1, cMarked: 1})
		}
	}
	d.wantStory(index, "out@0/FSK in@1/FK out@2/FK deliver@3/FK")
}
