// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Packet is what a capture shows of one packet or GSO train.
type Packet struct {
	Src, Dst netip.Addr
	Proto    uint8
	// Sport and Dport are -1 where the protocol has none, or in a fragment that
	// is not the first.
	Sport, Dport int
	// ICMPType is -1 unless this is ICMP or ICMPv6; ICMPID and ICMPSeq unless it is
	// an echo.
	ICMPType, ICMPID, ICMPSeq int

	ID       uint32 // of IPv6 the Identification of its fragment header, 0 without
	Label    uint32 // flow label, IPv6 only
	TTL, TOS uint8  // of IPv6 hop limit and traffic class
	Frag     uint16 // flags and fragment offset as in an IPv4 header
	Len      int    // IP bytes, by the header

	hdrLen int // IP header with options or extension headers, bytes
	l4Len  int // TCP or UDP header, bytes; 0 in others and in later fragments
	tcp    tcpFields
	ip     []byte // captured bytes from the IP header on; may end early
}

type tcpFields struct {
	flags  uint8
	mss    int // option of a SYN; 0: none
	stamps bool
}

// Bits of Packet.Frag and of the TCP flags.
const (
	flagDF     = 0x4000
	flagMF     = 0x2000
	maskOffset = 0x1fff

	tcpFIN = 0x01
	tcpSYN = 0x02
	tcpPSH = 0x08
	tcpACK = 0x10
	tcpCWR = 0x80

	udpHeaderLen = 8
)

// fragment reports whether this is a fragment.
func (p *Packet) fragment() bool { return p.Frag&(flagMF|maskOffset) != 0 }

// complete reports whether the capture holds every byte of the packet.
func (p *Packet) complete() bool { return len(p.ip) >= p.Len }

// Payload is what follows the UDP header, or the IP header of anything but TCP
// and UDP, as far as it was captured; nil in fragments and TCP.
func (p *Packet) Payload() []byte {
	if p.fragment() || p.isTCP() {
		return nil
	}
	return p.ip[p.hdrLen+p.l4Len:]
}

func (p *Packet) isTCP() bool {
	return layers.IPProtocol(p.Proto) == layers.IPProtocolTCP && p.l4Len > 0
}

func (p *Packet) isUDP() bool {
	return layers.IPProtocol(p.Proto) == layers.IPProtocolUDP && p.l4Len > 0
}

func (p *Packet) String() string {
	s := fmt.Sprintf("%s > %s proto %d", p.Src, p.Dst, p.Proto)
	switch {
	case p.Sport >= 0:
		s = fmt.Sprintf("%s:%d > %s:%d %s", p.Src, p.Sport, p.Dst, p.Dport, protoName(p.Proto))
	case p.ICMPType >= 0:
		s = fmt.Sprintf("%s > %s icmp type %d", p.Src, p.Dst, p.ICMPType)
		if p.ICMPSeq >= 0 {
			s += fmt.Sprintf(" id %d seq %d", p.ICMPID, p.ICMPSeq)
		}
	}
	if p.fragment() {
		s += fmt.Sprintf(" fragment at %d", int(p.Frag&maskOffset)*8)
	}
	return fmt.Sprintf("%s len %d", s, p.Len)
}

func protoName(proto uint8) string {
	switch layers.IPProtocol(proto) {
	case layers.IPProtocolTCP:
		return "tcp"
	case layers.IPProtocolUDP:
		return "udp"
	case layers.IPProtocolICMPv4:
		return "icmp"
	case layers.IPProtocolICMPv6:
		return "icmpv6"
	}
	return fmt.Sprint(proto)
}

// decode reads an IP packet. The bytes are kept, not copied. A capture that ends
// early is no error as long as the headers are there.
func decode(ip []byte) (*Packet, error) {
	if len(ip) > 0 && ip[0]>>4 == 6 {
		return decode6(ip)
	}
	var v4 layers.IPv4
	if err := v4.DecodeFromBytes(ip, gopacket.NilDecodeFeedback); err != nil {
		return nil, fmt.Errorf("decode IPv4 header: %w", err)
	}
	src, _ := netip.AddrFromSlice(v4.SrcIP.To4())
	dst, _ := netip.AddrFromSlice(v4.DstIP.To4())
	p := &Packet{
		Src: src, Dst: dst, Proto: uint8(v4.Protocol),
		Sport: -1, Dport: -1, ICMPType: -1, ICMPID: -1, ICMPSeq: -1,
		ID: uint32(v4.Id), TTL: v4.TTL, TOS: v4.TOS,
		Frag: binary.BigEndian.Uint16(ip[6:8]), Len: int(v4.Length),
		hdrLen: int(v4.IHL) * 4, ip: ip[:min(int(v4.Length), len(ip))], // without padding
	}
	if p.Frag&maskOffset != 0 {
		return p, nil
	}
	return p, p.decodeL4(v4.Protocol, ip[p.hdrLen:])
}

func (p *Packet) decodeL4(proto layers.IPProtocol, l4 []byte) error {
	switch proto {
	case layers.IPProtocolTCP:
		var tcp layers.TCP
		if err := tcp.DecodeFromBytes(l4, gopacket.NilDecodeFeedback); err != nil {
			return fmt.Errorf("decode TCP header: %w", err)
		}
		p.Sport, p.Dport = int(tcp.SrcPort), int(tcp.DstPort)
		p.l4Len = int(tcp.DataOffset) * 4
		p.tcp = tcpInfo(&tcp, l4)
	case layers.IPProtocolUDP:
		if len(l4) < udpHeaderLen {
			return fmt.Errorf("decode UDP header: only %d bytes", len(l4))
		}
		p.l4Len = udpHeaderLen
		p.Sport = int(binary.BigEndian.Uint16(l4))
		p.Dport = int(binary.BigEndian.Uint16(l4[2:]))
	case layers.IPProtocolICMPv4:
		var icmp layers.ICMPv4
		if err := icmp.DecodeFromBytes(l4, gopacket.NilDecodeFeedback); err != nil {
			return fmt.Errorf("decode ICMP header: %w", err)
		}
		p.ICMPType = int(icmp.TypeCode.Type())
		if p.ICMPType == layers.ICMPv4TypeEchoRequest || p.ICMPType == layers.ICMPv4TypeEchoReply {
			p.ICMPID, p.ICMPSeq = int(icmp.Id), int(icmp.Seq)
		}
	case layers.IPProtocolICMPv6:
		return p.decodeICMPv6(l4)
	}
	return nil
}

func tcpInfo(tcp *layers.TCP, l4 []byte) tcpFields {
	f := tcpFields{flags: l4[13]}
	for _, o := range tcp.Options {
		switch {
		case o.OptionType == layers.TCPOptionKindMSS && len(o.OptionData) == 2:
			f.mss = int(binary.BigEndian.Uint16(o.OptionData))
		case o.OptionType == layers.TCPOptionKindTimestamps:
			f.stamps = true
		}
	}
	return f
}

// checksum is the Internet checksum of b (RFC 1071), to be stored as it is.
// Over bytes that hold their correct checksum it is 0.
func checksum(b []byte, sum uint32) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// headerSumOK reports whether the header's checksum is right. IPv6 has none.
func (p *Packet) headerSumOK() bool { return p.isIPv6() || checksum(p.ip[:p.hdrLen], 0) == 0 }

// sumAt is where the TCP or UDP checksum stands behind the IP header.
func (p *Packet) sumAt() int {
	if p.isTCP() {
		return 16
	}
	return 6
}

// l4SumOK reports whether the TCP or UDP checksum is right, or holds the sum of the
// pseudo-header only: the kernel leaves that where a device is to complete it.
func (p *Packet) l4SumOK() bool {
	if p.l4Len == 0 || !p.complete() || p.fragment() {
		return true
	}
	l4 := p.ip[p.hdrLen:p.Len]
	var pseudo uint32
	addrs, end := 12, 20
	if p.isIPv6() {
		addrs, end = 8, 40
	}
	for i := addrs; i < end; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p.ip[i:]))
	}
	pseudo += uint32(p.Proto) + uint32(len(l4))
	sum := binary.BigEndian.Uint16(l4[p.sumAt():])
	return checksum(l4, pseudo) == 0 || sum == ^checksum(nil, pseudo) || p.isUDP() && sum == 0 && !p.isIPv6()
}
