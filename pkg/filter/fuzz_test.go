// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nopcap

package filter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// FuzzHeld: what CheckRecords lets through, a packet's numbers answer as the bytes do that
// they were made from. Expressions and packets are drawn at random; few values, so that
// many comparisons hold.
func FuzzHeld(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		text := g.expression()
		e, err := Compile(text)
		if err != nil {
			return // rejects all packets
		}
		if e.CheckRecords() != nil {
			return
		}
		for range 50 {
			p, of := g.both()
			if (of.Proto == record.ProtoICMP || of.Proto == record.ProtoICMPv6) && !of.IsEcho() && strings.ContainsAny(text, "[") {
				continue // libpcap reads on where the numbers end
			}
			if of.IPv6 && p[6] == record.ProtoFragment && of.FragOff&^6 == 0 && of.FragID == 0 {
				continue // only its number shows a whole packet in a fragment's header
			}
			n, err := e.vm.Run(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Match(of); got != (n != 0) {
				t.Fatalf("%q: the numbers match: %v, the bytes: %v: %x", text, got, n != 0, p)
			}
		}
	})
}

type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) expression() string {
	text := g.term()
	for range g.IntN(3) {
		text = fmt.Sprintf("(%s) %s %s", text, g.one("and", "or", "and not"), g.term())
	}
	return text
}

func (g generator) term() string {
	switch g.IntN(4) {
	case 0:
		return g.one("ip6", "icmp6", "host fe80::1", "src net fe80::/64", "ip6 proto 6", "not ip6", "tcp", "udp", "icmp", "sctp", "ip", "port 2", "udp port 3", "src port 1 and tcp", "host 10.0.0.1",
			"src net 10.0.0.0/31", "ip proto 89", "portrange 1-2", "dst host 10.0.0.2")
	case 1:
		return fmt.Sprintf("%s %s %d", g.one("len", "ip[2:2]"), g.one("<", "=", ">"), 30+g.IntN(40))
	}
	size := 1 << g.IntN(3)
	load := fmt.Sprintf("%s[%d:%d]", g.one("ip", "ip", "tcp", "udp", "icmp"), g.IntN(24), size)
	if g.IntN(3) == 0 {
		load = fmt.Sprintf("%s[%d:%d]", g.one("ip6", "ip6", "icmp6"), g.IntN(52), size)
	}
	if g.IntN(2) == 0 {
		load += g.one(" & 0xf0", " & 0x1fff", " & 0x3fff", " & 0x3f", " >> 4", " << 1", " + 1", " & 0x2000", " * 2", " & 0xffff")
	}
	return fmt.Sprintf("%s %s %s", load, g.one("=", "!=", "<", ">="), g.one("0", "1", "2", "3", "4", "0x40", "0x0a000001", "185", "44", "6", "17", "0x60"))
}

// both draws a packet of either version, and its numbers.
func (g generator) both() ([]byte, *packet.Packet) {
	if g.IntN(2) == 0 {
		p := g.packet6()
		return p, numbersOf6(p)
	}
	p := g.packet()
	return p, numbersOf(p)
}

// packet6 is an IPv6 packet, whose fields have few values.
func (g generator) packet6() []byte {
	p := make([]byte, 40, 100)
	for i := range p {
		p[i] = byte(g.IntN(4))
	}
	p[0] |= 0x60
	proto := []byte{record.ProtoTCP, record.ProtoUDP, record.ProtoICMPv6, record.ProtoSCTP, 89}[g.IntN(5)]
	p[6] = proto
	for _, at := range []int{8, 24} {
		copy(p[at:], []byte{0xfe, 0x80, 15: byte(g.IntN(3))})
	}
	if g.IntN(3) == 0 {
		p[6] = record.ProtoFragment
		p = append(p, proto, byte(g.IntN(4)), 0, []byte{0, 1, 8, 9, 6}[g.IntN(5)], 0, 0, 0, byte(g.IntN(4)))
	}
	begin := len(p)
	for range 20 + g.IntN(10) {
		p = append(p, byte(g.IntN(4)))
	}
	if proto == record.ProtoICMPv6 && g.IntN(2) == 0 {
		p[begin] = 128
	}
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
	return p
}

// numbersOf6 is numbersOf an IPv6 packet.
func numbersOf6(b []byte) *packet.Packet {
	first := binary.BigEndian.Uint32(b)
	p := &packet.Packet{
		IPv6: true, HasTuple: true, Tuple: packet.Tuple{Src: packet.Addr(b[8:]), Dst: packet.Addr(b[24:])},
		Len: uint32(len(b)), Segs: 1, TTL: b[7], TOS: uint8(first >> 20), Label: first & 0xfffff,
	}
	proto, l4 := b[6], b[40:]
	if proto == record.ProtoFragment {
		proto = b[40]
		p.FragID = binary.BigEndian.Uint32(b[44:])
		p.FragOff = binary.BigEndian.Uint16(b[42:])
		l4 = b[48:]
	}
	p.Proto, p.Later = proto, p.FragOff>>3 > 0
	setL4(p, l4)
	return p
}

// setL4 sets what a packet's transport header says, if it is there.
func setL4(p *packet.Packet, l4 []byte) {
	be := binary.BigEndian
	switch {
	case p.Later:
	case p.Proto == record.ProtoICMP, p.Proto == record.ProtoICMPv6:
		p.ICMP = [2]uint8{l4[0], l4[1]}
		p.SrcPort, p.DstPort = be.Uint16(l4[4:]), be.Uint16(l4[6:])
	default:
		p.SrcPort, p.DstPort = be.Uint16(l4), be.Uint16(l4[2:])
		if p.Proto == record.ProtoTCP {
			p.HasTCP = true
			p.TCP = packet.TCP{Seq: be.Uint32(l4[4:]), Ack: be.Uint32(l4[8:]), Flags: uint16(l4[13]), Window: be.Uint16(l4[14:])}
		}
	}
}

// packet is an IPv4 packet, whose fields have few values.
func (g generator) packet() []byte {
	p := make([]byte, 20+4*g.IntN(3))
	for i := range p {
		p[i] = byte(g.IntN(4))
	}
	p[0] = 0x40 | byte(len(p)/4)
	binary.BigEndian.PutUint16(p[6:], []uint16{0, 0x4000, 0x2000, 185, 0x2000 | 185}[g.IntN(5)])
	p[9] = []byte{record.ProtoTCP, record.ProtoUDP, record.ProtoICMP, record.ProtoSCTP, 89}[g.IntN(5)]
	copy(p[12:], []byte{10, 0, 0, byte(g.IntN(3)), 10, 0, 0, byte(g.IntN(3))})
	for range 20 + g.IntN(10) {
		p = append(p, byte(g.IntN(4)))
	}
	if p[9] == record.ProtoICMP && g.IntN(2) == 0 {
		p[int(p[0]&15)*4] = icmpEcho
	}
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	return p
}

const icmpEcho = 8

// numbersOf are a packet's, by the fields of its headers.
func numbersOf(b []byte) *packet.Packet {
	be := binary.BigEndian
	p := &packet.Packet{
		HasTuple: true, Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte(b[12:])), Dst: packet.AddrFrom4([4]byte(b[16:]))},
		Proto: b[9], Len: uint32(be.Uint16(b[2:])), Segs: 1, TTL: b[8], TOS: b[1], ID: be.Uint16(b[4:]), FragOff: be.Uint16(b[6:]),
	}
	p.Later = p.FragOff&0x1fff != 0
	setL4(p, b[int(b[0]&15)*4:])
	return p
}
