// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Packet is what a case sends. Zero values are what an ordinary host would send.
type Packet struct {
	Src, Dst netip.Addr
	Proto    uint8
	TTL      uint8  // or hop limit; 0: 64
	TOS      uint8  // or traffic class
	ID       uint16 // IPv4; 0: from the token
	MayFrag  bool   // IPv4: DF clear
	More     bool   // more fragments follow
	FragOff  int    // bytes
	Options  []byte // IPv4, a multiple of 4
	Label    uint32 // IPv6: flow label
	// Extensions are IPv6 headers between the header and L4, complete but for their
	// first byte, which names the next one; Next are the numbers of them.
	Extensions [][]byte
	Next       []uint8

	Sport, Dport       uint16
	Flags              uint8 // TCP
	Seq, Ack           uint32
	TCPOptions         []byte // a multiple of 4
	ICMPType, ICMPCode uint8
	EchoID, EchoSeq    uint16
	Payload            []byte
	NoSum              bool // UDP without a checksum

	Token uint32
}

// TCP's flags.
const (
	FIN = 1
	SYN = 2
	RST = 4
	ACK = 16
)

// Payload is size bytes that hold the token as often as there is room: every fragment
// or segment of it has the token in it.
func Payload(token uint32, size int) []byte {
	b := make([]byte, 0, size+8)
	for len(b) < size {
		b = binary.BigEndian.AppendUint32(append(b, tokenMark...), token)
	}
	return b[:size]
}

// first port of packets with ports of their own; below those that kernels choose.
const firstPort = 10000

// Token returns a number that no other packet of the run has.
func (w *World) Token() uint32 {
	w.serial++
	return w.serial
}

// packet begins one with a new token.
func (w *World) packet(src, dst string, proto uint8, size int) *Packet {
	w.T.Helper()
	token := w.Token()
	return &Packet{
		Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Proto: proto, Token: token,
		// A permutation: neighbours differ in both bytes, none is 0. Cases share domains,
		// where what one has lost must not be like what the next one sends.
		ID:      uint16(token*40503+w.salt) | 1,
		Payload: Payload(token, size),
	}
}

// UDP is a datagram to port 7 with size bytes of payload, from a port that no other
// packet has.
func (w *World) UDP(src, dst string, size int) *Packet {
	w.T.Helper()
	p := w.packet(src, dst, unix.IPPROTO_UDP, size)
	p.Sport, p.Dport = firstPort+uint16(p.Token), 7
	return p
}

// TCP is a segment to port 7 with flags, from a port that no other packet has.
func (w *World) TCP(src, dst string, flags uint8, size int) *Packet {
	w.T.Helper()
	p := w.packet(src, dst, unix.IPPROTO_TCP, size)
	p.Sport, p.Dport, p.Flags, p.Seq = firstPort+uint16(p.Token), 7, flags, p.Token*7919
	return p
}

// Echo is an echo request, of either version, with a sequence number of its own.
func (w *World) Echo(src, dst string, size int) *Packet {
	w.T.Helper()
	p := w.packet(src, dst, unix.IPPROTO_ICMP, size)
	p.ICMPType, p.EchoID, p.EchoSeq = 8, 0x7274, uint16(p.Token)
	if p.Src.Is6() {
		p.Proto, p.ICMPType = unix.IPPROTO_ICMPV6, 128
	}
	return p
}

// Bytes is the packet from the IP header on, with lengths and checksums.
func (p *Packet) Bytes() []byte {
	b := p.header()
	l4 := len(b)
	body := append(p.transport(), p.Payload...)
	if p.FragOff > 0 {
		body = p.Payload
	}
	b = append(b, body...)
	if p.Src.Is4() {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		sumIPv4(b)
	} else {
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	}
	if p.FragOff == 0 && !p.More {
		p.sum(b, l4)
	}
	return b
}

func (p *Packet) header() []byte {
	ttl := p.TTL
	if ttl == 0 {
		ttl = 64
	}
	if p.Src.Is6() {
		b := make([]byte, 40)
		binary.BigEndian.PutUint32(b, 6<<28|uint32(p.TOS)<<20|p.Label&0xfffff)
		b[6], b[7] = p.Proto, ttl
		src, dst := p.Src.As16(), p.Dst.As16()
		copy(b[8:], src[:])
		copy(b[24:], dst[:])
		next := &b[6]
		for i, ext := range p.Extensions {
			*next = p.Next[i]
			at := len(b)
			b = append(b, ext...)
			next = &b[at]
		}
		*next = p.Proto
		return b
	}
	b := make([]byte, 20, 20+len(p.Options))
	b = append(b, p.Options...)
	b[0], b[1] = 0x40|uint8(len(b)/4), p.TOS
	binary.BigEndian.PutUint16(b[4:], p.ID)
	frag := uint16(p.FragOff / 8)
	if p.More {
		frag |= 0x2000
	}
	if !p.MayFrag && frag == 0 {
		frag |= 0x4000
	}
	binary.BigEndian.PutUint16(b[6:], frag)
	b[8], b[9] = ttl, p.Proto
	src, dst := p.Src.As4(), p.Dst.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	return b
}

// transport is the L4 header, sums not yet filled in.
func (p *Packet) transport() []byte {
	switch p.Proto {
	case unix.IPPROTO_UDP:
		b := make([]byte, 8)
		binary.BigEndian.PutUint16(b, p.Sport)
		binary.BigEndian.PutUint16(b[2:], p.Dport)
		binary.BigEndian.PutUint16(b[4:], uint16(8+len(p.Payload)))
		return b
	case unix.IPPROTO_TCP:
		b := append(make([]byte, 20), p.TCPOptions...)
		binary.BigEndian.PutUint16(b, p.Sport)
		binary.BigEndian.PutUint16(b[2:], p.Dport)
		binary.BigEndian.PutUint32(b[4:], p.Seq)
		binary.BigEndian.PutUint32(b[8:], p.Ack)
		b[12], b[13] = uint8(len(b)/4)<<4, p.Flags
		binary.BigEndian.PutUint16(b[14:], 64240)
		return b
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		b := make([]byte, 8)
		b[0], b[1] = p.ICMPType, p.ICMPCode
		binary.BigEndian.PutUint16(b[4:], p.EchoID)
		binary.BigEndian.PutUint16(b[6:], p.EchoSeq)
		return b
	}
	return nil
}

// sum fills in the checksum of the L4 header at l4.
func (p *Packet) sum(b []byte, l4 int) {
	switch {
	case p.Proto == unix.IPPROTO_UDP && !p.NoSum:
		sum := sumL4(b, b[l4:], p.Proto)
		if sum == 0 {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(b[l4+6:], sum)
	case p.Proto == unix.IPPROTO_TCP:
		binary.BigEndian.PutUint16(b[l4+16:], sumL4(b, b[l4:], p.Proto))
	case p.Proto == unix.IPPROTO_ICMP:
		binary.BigEndian.PutUint16(b[l4+2:], checksum(b[l4:]))
	case p.Proto == unix.IPPROTO_ICMPV6:
		binary.BigEndian.PutUint16(b[l4+2:], sumL4(b, b[l4:], p.Proto))
	}
}
