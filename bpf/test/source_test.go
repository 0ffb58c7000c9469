// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestSource: a packet that h1 sends gets a slot, and nothing of it changes but
// ID, TTL, our DSCP bits and the checksum, which stays right.
func TestSource(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range byBits() {
		t.Run(name, func(t *testing.T) { testSource(d.in(t), name) })
	}
}

func testSource(d *domain, name string) {
	orig := packet(d, name)
	before := now(d)
	out := d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.wantMarked(out.data, orig)
	if out.mark != 0 {
		d.Errorf("mark %#x left on the packet", out.mark)
	}
	index := d.guid(out.data)
	s, ip := d.slot(index), header(d, orig)
	if s.Pos&uint64(d.layout.Slots-1) != uint64(index) || s.Pos < uint64(d.layout.Slots) {
		d.Errorf("slot %d has position %d", index, s.Pos)
	}
	if s.T0Ns < before || s.T0Ns > now(d) {
		d.Errorf("t0 %d does not lie in the test", s.T0Ns)
	}
	id := binary.NativeEndian.Uint16(ip[4:])
	if s.Id != id || s.FirstId != id || s.Ttl != ip[8] || s.FirstTtl != ip[8] || s.Tos != ip[1] || s.FirstTos != ip[1] {
		d.Errorf("slot keeps id %#x/%#x ttl %d/%d tos %#x/%#x, packet %x", s.Id, s.FirstId, s.Ttl, s.FirstTtl, s.Tos, s.FirstTos, ip)
	}
	if want := binary.BigEndian.Uint16(ip[2:]); s.Proto != ip[9] || s.Len != want || s.TrainLen != uint32(want) || s.Segs != 1 || s.Seg != 0 || s.GsoSize != 0 {
		d.Errorf("slot: proto %d len %d/%d segment %d of %d size %d, packet %x", s.Proto, s.Len, s.TrainLen, s.Seg, s.Segs, s.GsoSize, ip)
	}
	if s.Saddr != binary.NativeEndian.Uint32(ip[12:]) || s.Daddr != binary.NativeEndian.Uint32(ip[16:]) || s.FragOff != binary.NativeEndian.Uint16(ip[6:]) {
		d.Errorf("slot: %x > %x flags %#x, packet %x", s.Saddr, s.Daddr, s.FragOff, ip)
	}
	d.wantPorts(s, orig)
	d.wantStory(index, "out@0/FS")
	if s.State != 0 {
		d.Errorf("state %#x of a packet in flight", s.State)
	}
}

// wantMarked compares a packet between two nodes with its true bytes: only the
// bits of a GUID may differ.
func (d *domain) wantMarked(got, want []byte) {
	d.Helper()
	if !validChecksum(d, got) {
		d.Errorf("wrong IP checksum behind the source: %x", header(d, got))
	}
	index := d.guid(got)
	l := d.layout
	ip := header(d, want)
	ours := byte(1<<l.DSCPBits-1) << 2
	tos := ip[1]&^ours | byte(index>>16)<<2&ours
	masked := bytes.Clone(want)
	setBits(d, masked, uint16(index), l.BandTop[index>>(16+l.DSCPBits)], tos)
	same(d, "on the wire", got, masked)
}

// wantPorts checks ports, ICMP fields and the VLAN flag of a slot.
func (d *domain) wantPorts(s *slot, orig []byte) {
	d.Helper()
	at := ipAt(orig)
	l4 := orig[at+headerLen(orig[at:]):]
	var sport, dport uint16
	var icmpType, icmpCode byte
	switch proto := orig[at+9]; proto {
	case 6, 17, 132, 136:
		sport, dport = binary.NativeEndian.Uint16(l4), binary.NativeEndian.Uint16(l4[2:])
	case 1:
		icmpType, icmpCode = l4[0], l4[1]
		if icmpType == 0 || icmpType == 8 {
			sport, dport = binary.NativeEndian.Uint16(l4[4:]), binary.NativeEndian.Uint16(l4[6:])
		}
	}
	if s.Sport != sport || s.Dport != dport || s.IcmpType != icmpType || s.IcmpCode != icmpCode {
		d.Errorf("slot: ports %#x %#x icmp %d/%d, want %#x %#x %d/%d", s.Sport, s.Dport, s.IcmpType, s.IcmpCode, sport, dport, icmpType, icmpCode)
	}
	if vlan := at > etherHeader; vlan != (s.Flags&2 != 0) {
		d.Errorf("slot flags %#x, VLAN tag: %v", s.Flags, vlan)
	}
}

// TestPath: the way h1 - r1 - h2 with up to seven routers that we do not see
// between two of our ports. Inside nodes and at the end every byte is true.
func TestPath(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byBits() {
			for _, hidden := range [][2]int{{0, 0}, {3, 2}, {7, 0}, {0, 7}, {6, 6}} {
				t.Run(carry+"/"+name, func(t *testing.T) { testPath(d.in(t), name, hidden) })
			}
		}
	}
}

func testPath(d *domain, name string, hidden [2]int) {
	orig := packet(d, name)
	if int(header(d, orig)[8]) <= hidden[0]+hidden[1]+1 {
		return // it would end on the way
	}
	w1 := d.send(frame{data: orig})
	index := d.guid(w1.data)
	inside, w2 := d.transit(w1, hidden[0])
	if d.layout.MarkMask != 0 {
		same(d, "inside r1", inside.data, lowered(d, orig, hidden[0]))
		if got := d.markIndex(inside.mark); got != index {
			d.Errorf("mark says slot %d, want %d", got, index)
		}
	} else if got := d.guid(inside.data); got != index || !d.allowed(inside.data, lowered(d, orig, hidden[0])) {
		d.Errorf("inside r1 the header says slot %d, want %d", got, index)
	}
	if w2.mark != 0 {
		d.Errorf("mark %#x left on the packet", w2.mark)
	}
	// Near its end a packet travels with its own bits: in a band it would outlive
	// routers that must end it.
	keyed := ""
	now := lowered(d, orig, hidden[0]+1)
	if uint32(header(d, now)[8]) < d.layout.TTLWidth {
		keyed = "K"
		same(d, "behind r1", w2.data, now)
	} else {
		d.wantMarked(w2.data, now)
		if got := d.guid(w2.data); got != index {
			d.Errorf("r1 sent slot %d on as %d", index, got)
		}
	}
	end := d.deliver(w2, hidden[1])
	same(d, "at h2", end.data, lowered(d, orig, hidden[0]+1+hidden[1]))
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.wantStory(index, "out@0/FS in@1/F out@2/F"+keyed+" deliver@3/F"+keyed)
	if s := d.slot(index); s.State != uint8(stDone) {
		d.Errorf("state %#x of a delivered packet", s.State)
	}
}
