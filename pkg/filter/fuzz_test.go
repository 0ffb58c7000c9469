// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nopcap

package filter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// FuzzHeld: what CheckRecords lets through, a record answers as the packet does that
// it was made from. Expressions and packets are drawn at random; few values, so that
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
			p, r := g.both()
			if strings.HasPrefix(r.Proto, "icmp") && r.ICMPID == nil && strings.ContainsAny(text, "[") {
				continue // libpcap reads on where the record ends
			}
			n, err := e.vm.Run(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.MatchRecord(r); got != (n != 0) {
				t.Fatalf("%q: the record matches: %v, the packet: %v: %x", text, got, n != 0, p)
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

// both draws a packet of either version, and its record.
func (g generator) both() ([]byte, *record.Record) {
	if g.IntN(2) == 0 {
		p := g.packet6()
		return p, recordOf6(p)
	}
	p := g.packet()
	return p, recordOf(p)
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

// recordOf6 is recordOf an IPv6 packet.
func recordOf6(p []byte) *record.Record {
	be := func(b []byte) int { return int(binary.BigEndian.Uint16(b)) }
	first := int(binary.BigEndian.Uint32(p))
	class, label := first>>20&0xff, first&0xfffff
	r := &record.Record{
		IPVersion: 6, Src: netip.AddrFrom16([16]byte(p[8:])).String(), Dst: netip.AddrFrom16([16]byte(p[24:])).String(),
		Len: len(p), Segs: 1, TTL: int(p[7]), DSCP: class >> 2, ECN: class & 3, FlowLabel: &label,
	}
	proto, l4 := p[6], p[40:]
	if proto == record.ProtoFragment {
		proto = p[40]
		r.FragID = at(int(binary.BigEndian.Uint32(p[44:])))
		if off := be(p[42:]); off&^6 != 0 {
			r.FragOff = at(off &^ 7)
		}
		l4 = p[48:]
	}
	r.Proto = record.ProtoName(proto)
	if r.FragOff != nil && *r.FragOff > 0 {
		return r
	}
	switch proto {
	case record.ProtoTCP, record.ProtoUDP, record.ProtoSCTP:
		r.Sport, r.Dport = at(be(l4)), at(be(l4[2:]))
	case record.ProtoICMPv6:
		r.ICMPType = at(int(l4[0]))
		if l4[0] == 128 || l4[0] == 129 {
			r.ICMPID, r.ICMPSeq = at(be(l4[4:])), at(be(l4[6:]))
		}
	}
	return r
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

// recordOf is the record of a packet, by docs/data-model.md.
func recordOf(p []byte) *record.Record {
	be := func(b []byte) int { return int(binary.BigEndian.Uint16(b)) }
	l4 := p[int(p[0]&15)*4:]
	r := &record.Record{
		IPVersion: 4, Src: netip.AddrFrom4([4]byte(p[12:])).String(), Dst: netip.AddrFrom4([4]byte(p[16:])).String(),
		Proto: record.ProtoName(p[9]), Len: be(p[2:]), Segs: 1, TTL: int(p[8]), DSCP: int(p[1] >> 2), ECN: int(p[1] & 3), IPID: be(p[4:]),
	}
	frag := be(p[6:])
	if frag&0x3fff != 0 {
		r.FragOff = at(frag & 0x1fff * 8)
	}
	if frag&0x1fff != 0 {
		return r
	}
	switch p[9] {
	case record.ProtoTCP, record.ProtoUDP, record.ProtoSCTP:
		r.Sport, r.Dport = at(be(l4)), at(be(l4[2:]))
	case record.ProtoICMP:
		r.ICMPType = at(int(l4[0]))
		if l4[0] == icmpEcho || l4[0] == 0 {
			r.ICMPID, r.ICMPSeq = at(be(l4[4:])), at(be(l4[6:]))
		}
	}
	return r
}
