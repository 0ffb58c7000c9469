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
	id := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, ip.id()))
	if s.Id != id || s.FirstId != id || s.Ttl != ip.ttl() || s.FirstTtl != ip.ttl() || s.Tos != ip.tos() || s.FirstTos != ip.tos() {
		d.Errorf("slot keeps id %#x/%#x ttl %d/%d tos %#x/%#x, packet %x", s.Id, s.FirstId, s.Ttl, s.FirstTtl, s.Tos, s.FirstTos, ip)
	}
	proto, _ := l4Of(orig, ipAt(orig))
	if want := uint16(ip.length()); s.Proto != proto || s.Len != want || s.TrainLen != uint32(want) || s.Segs != 1 || s.Seg != 0 || s.GsoSize != 0 {
		d.Errorf("slot: proto %d len %d/%d segment %d of %d size %d, packet %x", s.Proto, s.Len, s.TrainLen, s.Seg, s.Segs, s.GsoSize, ip)
	}
	d.wantAddresses(s, orig)
	d.wantPorts(s, orig)
	d.wantTCP(s, orig)
	d.wantStory(index, "out@0/FS")
	if s.State&^uint8(stIPv6) != 0 {
		d.Errorf("state %#x of a packet in flight", s.State)
	}
}

// wantAddresses checks what the slot holds of the IP header's other fields: addresses,
// fragment fields, the version.
func (d *domain) wantAddresses(s *slot, orig []byte) {
	d.Helper()
	ip := header(d, orig)
	if ip.v6() != (s.State&uint8(stIPv6) != 0) {
		d.Errorf("state %#x, IPv6: %v", s.State, ip.v6())
	}
	if ip.v6() {
		d.wantAddresses6(s, orig)
		return
	}
	if s.Saddr != binary.NativeEndian.Uint32(ip[12:]) || s.Daddr != binary.NativeEndian.Uint32(ip[16:]) || s.FragOff != binary.NativeEndian.Uint16(ip[6:]) {
		d.Errorf("slot: %x > %x flags %#x, packet %x", s.Saddr, s.Daddr, s.FragOff, ip)
	}
}

// wantAddresses6: first word, Identification, offset, addresses in the last cells.
func (d *domain) wantAddresses6(s *slot, orig []byte) {
	d.Helper()
	ip := orig[ipAt(orig):]
	frag := make([]byte, 8)
	if c := readChain(ip); c.frag != 0 {
		frag = ip[c.frag : c.frag+8]
	}
	if s.Saddr != binary.NativeEndian.Uint32(ip) || s.Daddr != binary.NativeEndian.Uint32(frag[4:]) || s.FragOff != binary.NativeEndian.Uint16(frag[2:]) {
		d.Errorf("slot: first word %x identification %x offset %x, packet %x", s.Saddr, s.Daddr, s.FragOff, ip[:56])
	}
	if got := s.raw[len(s.raw)-32:]; !bytes.Equal(got, ip[8:40]) {
		d.Errorf("slot: addresses %x, packet %x", got, ip[8:40])
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
	tos := ip.tos()&^ours | byte(index>>16)<<2&ours
	masked := bytes.Clone(want)
	setBits(d, masked, uint16(index), l.BandTop[index>>(16+l.DSCPBits)], tos)
	same(d, "on the wire", got, masked)
}

// wantTCP checks what the slot holds of a TCP header: 0 of other packets.
func (d *domain) wantTCP(s *slot, orig []byte) {
	d.Helper()
	at := ipAt(orig)
	proto, off := l4Of(orig, at)
	ack, rest, hdr := uint32(0), uint32(0), off-at+8
	_, later := isFragment(d, orig)
	switch l4 := orig[off:]; {
	case proto != 6:
	case later:
		hdr = int(s.Hdr) // there is no TCP header
	default:
		ack, rest, hdr = binary.NativeEndian.Uint32(l4[8:]), binary.NativeEndian.Uint32(l4[12:]), off-at+int(l4[12]>>4)*4
	}
	if s.TcpAck != ack || s.TcpRest != rest || int(s.Hdr) != hdr {
		d.Errorf("slot: acknowledgement %#x, rest %#x, %d bytes of headers; packet: %#x, %#x, %d", s.TcpAck, s.TcpRest, s.Hdr, ack, rest, hdr)
	}
}

// wantPorts checks ports, ICMP fields and the VLAN flag of a slot.
func (d *domain) wantPorts(s *slot, orig []byte) {
	d.Helper()
	at := ipAt(orig)
	proto, off := l4Of(orig, at)
	l4 := orig[off:]
	echo := [2]byte{0, 8}
	var sport, dport uint16
	var icmpType, icmpCode byte
	if header(d, orig).v6() {
		// ICMPv6's echoes; what says ICMP is none.
		echo = [2]byte{128, 129}
		switch proto {
		case 58:
			proto = 1
		case 1:
			proto = 255
		}
	}
	switch proto {
	case 6, 17, 132, 136:
		sport, dport = binary.NativeEndian.Uint16(l4), binary.NativeEndian.Uint16(l4[2:])
	case 1:
		icmpType, icmpCode = l4[0], l4[1]
		if icmpType == echo[0] || icmpType == echo[1] {
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

// TestPath: the path h1 - r1 - h2 with up to seven routers that we do not see
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
	if int(header(d, orig).ttl()) <= hidden[0]+hidden[1]+1 {
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
	if uint32(header(d, now).ttl()) < d.layout.TTLWidth {
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
	if s := d.slot(index); s.State&^uint8(stIPv6) != uint8(stDone) {
		d.Errorf("state %#x of a delivered packet", s.State)
	}
}

// TestTimes: the time of each event lies between the moments before and after its program ran.
func TestTimes(t *testing.T) {
	d := newDomain(t, config{carry: "mark"})
	orig := packet(d, byBits()[0])
	var moments []uint64 // before the first program, after it, after the next one, and so on
	step := func(f frame) frame {
		moments = append(moments, now(d))
		return f
	}
	f := step(frame{data: orig})
	f = step(d.send(f))
	index := d.guid(f.data)
	f = step(d.ingress(r1In, d.link(f, 0)))
	f = step(d.egress(r1Out, d.route(f, r1In)))
	step(d.deliver(f, 0))
	s := d.slot(index)
	events := s.events()
	if len(events) != len(moments)-1 {
		t.Fatalf("%d events of %d programs: %s", len(events), len(moments)-1, s.story())
	}
	for i, e := range events {
		if at := s.T0Ns + uint64(e.at); at < moments[i] || at > moments[i+1] {
			t.Errorf("event %d of %s at %d ns, but its program ran between %d and %d", i, s.story(), at, moments[i], moments[i+1])
		}
	}
}
