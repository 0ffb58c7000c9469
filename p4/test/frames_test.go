// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

var be = binary.BigEndian

// frame says what a frame is made of. Zero values are those of a plain IPv4 packet with UDP.
type frame struct {
	v       int    // 4 or 6
	proto   string // udp, tcp, or a number
	dst     string
	to      mac // 0: the first switch's
	sport   uint16
	dport   uint16
	dscp    byte
	ecn     byte
	ttl     byte
	id      uint16
	flags   uint16 // of IPv4, and the offset
	vlans   []uint16
	ipOpts  []byte
	tcpOpts []byte
	payload []byte
	trailer []byte // behind the packet, as Ethernet pads it
	noSum   bool   // UDP without a checksum
	damage  uint16 // is added to the checksum
	badIP   uint16 // is added to IPv4's checksum
	cut     int    // bytes that the frame lacks at its end
}

type mac [6]byte

func (m mac) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// ones is the sum in ones' complement.
func ones(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts { // all but the last have an even length
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(be.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

func protoNumber(s string) byte {
	switch s {
	case "", "udp":
		return 17
	case "tcp":
		return 6
	}
	var n byte
	fmt.Sscan(s, &n)
	return n
}

func (f *frame) addresses() (src, dst []byte) {
	from, to := hostAddr(f.version(), 1), hostAddr(f.version(), 2)
	if f.dst != "" {
		to = netip.MustParseAddr(f.dst)
	}
	return from.AsSlice(), to.AsSlice()
}

func (f *frame) version() int {
	if f.v == 6 {
		return 6
	}
	return 4
}

// pseudo is the pseudo header of an L4 checksum.
func pseudo(src, dst []byte, proto byte, length int) []byte {
	b := append(append([]byte{}, src...), dst...)
	return append(b, byte(length>>24), byte(length>>16), byte(length>>8), byte(length), 0, 0, 0, proto)
}

func (f *frame) l4(src, dst []byte) []byte {
	proto := protoNumber(f.proto)
	var b []byte
	at := 0 // of the checksum
	switch f.proto {
	case "", "udp":
		b = be.AppendUint16(be.AppendUint16(nil, f.sport), f.dport)
		b = append(be.AppendUint16(b, uint16(8+len(f.payload))), 0, 0)
		at = 6
	case "tcp":
		b = be.AppendUint16(be.AppendUint16(nil, f.sport), f.dport)
		b = be.AppendUint32(be.AppendUint32(b, 1000+uint32(f.id)), 5)
		b = append(b, byte(5+len(f.tcpOpts)/4)<<4, 0x18, 2, 0, 0, 0, 0, 0)
		b = append(b, f.tcpOpts...)
		at = 16
	default:
		return f.payload
	}
	b = append(b, f.payload...)
	sum := ^ones(pseudo(src, dst, proto, len(b)), b)
	if proto == 17 && sum == 0 {
		sum = 0xffff
	}
	sum += f.damage
	if f.noSum {
		sum = 0
	}
	be.PutUint16(b[at:], sum)
	return b
}

// bytes is the frame, from Ethernet on.
func (f *frame) bytes() []byte {
	src, dst := f.addresses()
	l4 := f.l4(src, dst)
	ttl := f.ttl
	if ttl == 0 {
		ttl = 64
	}
	to := f.to
	if to == (mac{}) {
		to = routerMAC(1, 1)
	}
	b := append(append([]byte{}, to[:]...), hostMAC(1)...)
	for i, tag := range f.vlans {
		kind := uint16(0x8100)
		if i < len(f.vlans)-1 {
			kind = 0x88a8
		}
		b = be.AppendUint16(be.AppendUint16(b, kind), tag)
	}
	if f.version() == 4 {
		flags := f.flags
		if flags == 0 {
			flags = 0x4000
		}
		b = be.AppendUint16(b, 0x0800)
		h := []byte{byte(0x45 + len(f.ipOpts)/4), f.dscp<<2 | f.ecn}
		h = be.AppendUint16(h, uint16(20+len(f.ipOpts)+len(l4)))
		h = be.AppendUint16(be.AppendUint16(h, f.id), flags)
		h = append(h, ttl, protoNumber(f.proto), 0, 0)
		h = append(append(append(h, src...), dst...), f.ipOpts...)
		be.PutUint16(h[10:], ^ones(h)+f.badIP)
		b = append(b, h...)
	} else {
		b = be.AppendUint16(b, 0x86dd)
		b = be.AppendUint32(b, 6<<28|uint32(f.dscp)<<22|uint32(f.ecn)<<20|0x12345)
		b = append(be.AppendUint16(b, uint16(len(l4))), protoNumber(f.proto), ttl)
		b = append(append(b, src...), dst...)
	}
	b = append(append(b, l4...), f.trailer...)
	return b[:len(b)-f.cut]
}
