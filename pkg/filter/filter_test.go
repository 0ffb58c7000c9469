// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nopcap

package filter

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

func mustCompile(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCompileErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "is empty"},
		{"udp prot 5", `filter expression "udp prot 5": can't parse filter expression: syntax error`},
		{"ether host 02:00:00:00:00:01", "instead of the link layer"},
		{"vlan 3", "no VLAN support for Raw IP (packets begin at the IP header here"},
		{"arp", "expression rejects all packets (packets begin"},
		{"inbound", "direction"},
		{"ip[-1] = 1", "negative offset"},
		{"ip protochain 6", "loop"},
		{"host 10.0.0.1 " + strings.Repeat("or host 10.0.0.1 ", 100) + "or", "...\": can't parse"},
		{"ip6 and ip", "expression rejects all packets"},
	}
	for _, tt := range tests {
		_, err := Compile(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// Expressions that records can answer, and whether flows can.
func TestHeld(t *testing.T) {
	tests := []struct {
		text string
		flow bool
	}{
		{"udp port 9999", true},
		{"host 10.0.0.1", true},
		{"src net 10.0.0.0/8 and not tcp port 22", true},
		{"tcp portrange 1000-2000 or icmp", true},
		{"port 53 or host 10.0.0.1", true},
		{"sctp dst port 5", true},
		{"ip proto 89", true},
		{"ip multicast", true},
		{"tcp[0:2] = 80", true},
		{"udp[2:2] > 1000", true},
		{"udp and ip[6:2] & 0x1fff != 0", true},
		{"ip", true},
		{"ip6 or tcp", true},
		{"ip[0] >> 4 = 4", true},
		{"ip[12:4] = 0x0a000001", true},
		{"ip6", true},
		{"icmp6 or net 2001:db8::/32", true},
		{"ip6 multicast", true},
		{"ip6 proto 89", true},
		{"ip6[6] = 17 and ip6[40:2] = 53", true},
		{"ip6[0] & 0xf0 = 0x60", true},
		{"host 2001:db8::1 and not port 22", true},
		{"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and host 10.0.0.1", false},
		{"tcp[4:4] = 1 and tcp[8:4] > 7", false},
		{"tcp[14:2] = 0", false},
		{"tcp[2:4] = 5", false},
		{"ip6[6] = 6 and ip6[53] & 2 != 0", false},
		{"icmp6[icmp6type] = icmp6-echo", false},
		{"ip6[0:4] & 0xfffff = 7", false},
		{"ip6[0] & 0xf = 1", false},
		{"ip6[4:2] > 1000", false},
		{"ip6[7] < 5", false},
		{"ip6[6] = 44 and ip6[42:2] & 0xfff8 != 0", false},
		{"ip6[6] = 44 and ip6[44:4] = 7", false},
		{"ip[6:2] & 0x1fff != 0", false},
		{"icmp and ip[6:2] & 0x1fff != 0", false},
		{"ip[6:2] & 0x3fff != 0", false},
		{"icmp[icmptype] = icmp-echo", false},
		{"icmp[4:2] = 5 and icmp[6:2] < 9", false},
		{"len > 1000", false},
		{"greater 1000", false},
		{"ip[8] < 5", false},
		{"ip[1] & 0xfc = 0xb8", false},
		{"ip[4:2] = 7", false},
		{"-ip[8] + 300 > 10", false},
		{"ip[2:2] > 100", false},
	}
	for _, tt := range tests {
		e := mustCompile(t, tt.text)
		if err := e.CheckRecords(); err != nil {
			t.Errorf("refused: %v", err)
		}
		if e.OnlyFlow() != tt.flow {
			t.Errorf("%q: answered by flows: %v, want %v", tt.text, e.OnlyFlow(), tt.flow)
		}
	}
}

func TestUnheld(t *testing.T) {
	tests := []struct{ text, want string }{
		{"tcp[16:2] = 0", "tcp[16:2] (TCP checksum) is not kept in records"},
		{"tcp[12:2] & 0x1ff = 2", "tcp[12:2] (TCP header length)"},
		{"tcp[20] = 2", "tcp[20] (payload)"},
		{"udp[4:2] > 100", "udp[4:2] (UDP length)"},
		{"udp[8:4] = 1", "udp[8:4] (payload)"},
		{"icmp[icmpcode] = 1", "icmp[1] (ICMP code)"},
		{"ip[0] & 0xf != 5", "ip[0] (header length)"},
		{"ip[0] & 0xf > 5 or port 5", "ip[0] (header length)"},
		{"ip[6] & 0x40 != 0", "ip[6] (flags DF and MF)"},
		{"ip[10:2] = 0", "ip[10:2] (checksum)"},
		{"ip[20:2] = 53", "ip[20:2] (options or payload)"},
		{"tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420", "tcp[12] (TCP header length)"},
		{"ip[ip[9]] = 3", "offset that is computed"},
		{"esp or ip proto 47 and ip[24] = 2", "ip[24]"},
		{"icmp6[icmp6code] = 1", "icmpv6[1] (ICMPv6 code)"},
		{"ip6[6] = 6 and ip6[56:2] & 2 != 0", "tcp[16:2] (TCP checksum)"},
		{"ip6[40] = 3", "transport header[0]"},
		{"ip6[6] = 44 and ip6[42:2] & 1 != 0", "ip6[42:2] (payload or extension headers)"},
		{"ip6[6] = 44 and ip6[48:2] = 53", "ip6[48:2]"},
		{"ip6[39:2] = 1", "ip6[39:2]"},
	}
	for _, tt := range tests {
		e := mustCompile(t, tt.text)
		err := e.CheckRecords()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
		if e.OnlyFlow() {
			t.Errorf("%q: flows cannot answer it", tt.text)
		}
	}
}

func addr(text string) packet.Addr { return netip.MustParseAddr(text).As16() }

// hop is one that has made a packet to bear that tuple.
func hop(from int16, t packet.Tuple, src, dst string, sport, dport uint16) packet.Hop {
	if src != "" {
		t.Src, t.SrcPort = addr(src), sport
	}
	if dst != "" {
		t.Dst, t.DstPort = addr(dst), dport
	}
	return packet.Hop{From: from, Changed: src != "" || dst != "", Tuple: t}
}

func udpPacket() *packet.Packet {
	p := &packet.Packet{
		HasTuple: true, Tuple: packet.Tuple{Src: addr("10.0.0.1"), Dst: addr("10.0.9.9"), SrcPort: 5000, DstPort: 9999}, Proto: record.ProtoUDP,
		Len: 100, Segs: 1, TTL: 64, TOS: 46<<2 | 1, ID: 0x1234,
	}
	p.Hops = []packet.Hop{{}, hop(0, p.Tuple, "192.0.2.7", "", 61000, 0), {}, {}}
	p.Hops[3] = hop(2, p.Hops[1].Tuple, "", "10.7.0.1", 0, 8080)
	return p
}

// branched has two copies: gw changes the source of one, lb and h3 the destination of the
// other.
func branched(p *packet.Packet) {
	p.Tree = true
	lb := hop(0, p.Tuple, "", "10.7.0.1", 0, 8080)
	p.Hops = []packet.Hop{{From: -1}, hop(0, p.Tuple, "192.0.2.7", "", 61000, 0), lb, {From: 1}, hop(2, lb.Tuple, "", "10.8.0.1", 0, 53)}
}

// later makes it a later fragment.
func later(p *packet.Packet) { p.SetFragment(1480, 1) }

func TestMatch(t *testing.T) {
	tests := []struct {
		text   string
		change func(*packet.Packet)
		want   bool
	}{
		{"udp port 9999", nil, true},
		{"udp port 9998", nil, false},
		{"src 192.0.2.7 and dst 10.0.9.9 and src port 61000 and dst port 9999", nil, true},
		{"src 192.0.2.7 and dst port 8080 and dst 10.7.0.1", nil, true},
		{"src 10.0.0.1 and dst port 8080", nil, false}, // never both at once
		{"ip[1] = 0xb9 and ip[8] = 64 and ip[4:2] = 0x1234 and ip[2:2] = 100", nil, true},
		{"greater 100 and less 100", nil, true},
		{"len > 100", nil, false},
		{"len > 90000", func(p *packet.Packet) { p.Len, p.Segs = 90001, 80 }, true},
		{"-ip[8] + 300 = 236", nil, true},
		{"ip[6:2] & 0x3fff != 0", nil, false},
		{"ip[6:2] & 0x3fff != 0", func(p *packet.Packet) { p.SetFragment(0, 1) }, true},
		{"ip[6:2] & 0x1fff = 185", later, true},
		{"udp port 9999", later, false},
		{"udp", later, true},
		{"udp and ip[6:2] & 0x1fff != 0", func(p *packet.Packet) { p.Later = true }, true},
		{"udp", func(p *packet.Packet) { p.HasTuple = false }, false},
		{"icmp[icmptype] = 8 and icmp[4:2] = 7 and icmp[6:2] = 3", echo, true},
		{"icmp[icmptype] = 8 and icmp[4:2] = 8", echo, false},
		{"icmp[icmptype] = 3", unreachable, true},
		{"icmp[4:2] = 0", unreachable, false},
		{"icmp[icmptype] = 8", cutEcho, true},
		{"icmp[4:2] = 7", cutEcho, false},
		{"udp port 9999", toIPv6, true},
		{"ip or udp port 9998", toIPv6, false},
		{"src 2001:db8::7 and src port 61000 and dst 2001:db8:9::9", toIPv6, true},
		{"src 2001:db8::7 and src port 5000", toIPv6, false},
		{"ip6 net 2001:db8::/32 and ip6[7] = 64 and ip6[4:2] = 60", toIPv6, true},
		{"ip6[0:4] = 0x6b9a1234", toIPv6, true},
		{"udp", func(p *packet.Packet) { toIPv6(p); p.SetFragment(0, 1); p.FragID = 7 }, true},
		{"udp port 9999", func(p *packet.Packet) { toIPv6(p); p.SetFragment(0, 1); p.FragID = 7 }, false}, // libpcap does not look there
		{"udp and ip6[6] = 44 and ip6[42:2] & 0xfff8 = 1448 and ip6[44:4] = 0xdeadbeef", func(p *packet.Packet) {
			toIPv6(p)
			p.SetFragment(1448, 1)
			p.FragID = 0xdeadbeef
		}, true},
		{"icmp6[icmp6type] = 128 and icmp6[4:2] = 7 and icmp6[6:2] = 3", echo6, true},
		{"icmp", echo6, false},
		// Each of two copies has the change of its own path, and never both.
		{"src 192.0.2.7 and dst 10.0.9.9", branched, true},
		{"src 192.0.2.7 and dst 10.8.0.1", branched, false},
		{"src 10.0.0.1 and dst 10.8.0.1 and dst port 53", branched, true},
		{"src 192.0.2.7 and dst 10.7.0.1", branched, false},
		{"ip proto 250", func(p *packet.Packet) { p.Proto = 250 }, true},
	}
	for _, tt := range tests {
		p := udpPacket()
		if tt.change != nil {
			tt.change(p)
		}
		e := mustCompile(t, tt.text)
		if err := e.CheckRecords(); err != nil {
			t.Errorf("refused: %v", err)
		}
		if got := e.Match(p); got != tt.want {
			t.Errorf("%q matches: %v, want %v", tt.text, got, tt.want)
		}
	}
}

func echo(p *packet.Packet) {
	*p = packet.Packet{
		HasTuple: true, Tuple: packet.Tuple{Src: addr("10.0.0.1"), Dst: addr("10.0.9.9"), SrcPort: 7, DstPort: 3},
		Proto: record.ProtoICMP, ICMP: [2]uint8{8, 0}, Len: 84,
	}
}

func toIPv6(p *packet.Packet) {
	p.IPv6, p.Src, p.Dst, p.ID, p.Label = true, addr("2001:db8::1"), addr("2001:db8:9::9"), 0, 0xa1234
	p.Hops[1] = hop(0, p.Tuple, "2001:db8::7", "", 61000, 0)
	p.Hops[3] = hop(2, p.Hops[1].Tuple, "", "2001:db8:7::1", 0, 8080)
}

func echo6(p *packet.Packet) {
	echo(p)
	p.IPv6, p.Src, p.Dst, p.Proto, p.ICMP[0], p.Len = true, addr("fe80::1"), addr("fe80::2"), record.ProtoICMPv6, 128, 104
}

func unreachable(p *packet.Packet) {
	echo(p)
	p.ICMP[0] = 3
}

// cutEcho is one whose quote ends before its numbers.
func cutEcho(p *packet.Packet) {
	echo(p)
	p.Cut = packet.CutAfterType
}

// Match looks at a million packets where a user waits.
func BenchmarkMatch(b *testing.B) {
	e := mustCompile(b, "udp and port 9998 and net 10.0.0.0/8")
	p := udpPacket()
	p.Hops = p.Hops[:1]
	b.ReportAllocs()
	for b.Loop() {
		if e.Match(p) {
			b.Fatal("it must not match")
		}
	}
}
