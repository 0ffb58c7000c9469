// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// in runs f in a namespace of the network.
func (w *world) in(name string, f func() error) {
	w.Helper()
	ns, _, err := host.OpenNetns(w.Path(name))
	if err == nil {
		err = host.InNetns(ns, f)
		ns.Close()
	}
	if err != nil {
		w.Fatal(err)
	}
}

// tap is a capture at one end of a link: what its port has sent, and what has come in there.
type tap struct {
	t  testing.TB
	fd int
}

const vnetHeader = 10

// capture begins to capture at a port, behind all programs of what leaves and before all of what comes.
func (w *world) capture(name, port string) *tap {
	w.Helper()
	l := &tap{t: w.TB}
	index := w.Index(name, port)
	w.in(name, func() (err error) {
		if l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in the order of the network
		return errors.Join(unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptInt(l.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.Bind(l.fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: index}))
	})
	w.Cleanup(func() { unix.Close(l.fd) })
	return l
}

// packets are those of TCP and UDP that went out (or, with in, came in) since the last call.
func (l *tap) packets(in bool) (list []packet) {
	l.t.Helper()
	for _, f := range l.frames(in) {
		if p, ok := parse(f); ok {
			list = append(list, p)
		}
	}
	return list
}

func (l *tap) frames(in bool) (list [][]byte) {
	l.t.Helper()
	b := make([]byte, 1<<17)
	for {
		n, from, err := unix.Recvfrom(l.fd, b, 0)
		if errors.Is(err, unix.EAGAIN) {
			return list
		}
		if err != nil {
			l.t.Fatal(err)
		}
		out := from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING
		if out == in {
			continue
		}
		frame := append([]byte(nil), b[vnetHeader:n]...)
		if b[0]&1 != 0 { // the device is to write the checksum: VIRTIO_NET_HDR_F_NEEDS_CSUM
			start, at := binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint16(b[8:])
			c := ^fold(sum(frame[start:]))
			if c == 0 {
				c = 0xffff
			}
			binary.BigEndian.PutUint16(frame[int(start+at):], c)
		}
		list = append(list, frame)
	}
}

func sum(b []byte) (s uint32) {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		s += uint32(b[len(b)-1]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// packet is one of TCP or UDP.
type packet struct {
	frame        []byte
	v6           bool
	proto        byte
	dscp, ecn    byte
	ttl          byte
	sport, dport uint16
	src, dst     string
	head, l4     []byte // IP header; TCP or UDP with all that follows
	payload      []byte
}

func parse(f []byte) (p packet, ok bool) {
	p.frame = f
	if len(f) < 42 { // Ethernet, IPv4, UDP
		return p, false
	}
	ip := f[14:]
	switch f[12] {
	case 0x08:
		if f[13] != 0 {
			return p, false
		}
		ip = ip[:binary.BigEndian.Uint16(ip[2:])]
		n := int(ip[0]&15) * 4
		p.head, p.l4, p.proto, p.dscp, p.ecn, p.ttl = ip[:n], ip[n:], ip[9], ip[1]>>2, ip[1]&3, ip[8]
		p.src, p.dst = fmt.Sprint(ip[12:16]), fmt.Sprint(ip[16:20])
	case 0x86:
		if len(ip) < 48 {
			return p, false
		}
		ip = ip[:40+int(binary.BigEndian.Uint16(ip[4:]))]
		p.v6, p.head, p.l4, p.proto, p.ttl = true, ip[:40], ip[40:], ip[6], ip[7]
		class := byte(binary.BigEndian.Uint16(ip) >> 4)
		p.dscp, p.ecn, p.src, p.dst = class>>2, class&3, fmt.Sprint(ip[8:24]), fmt.Sprint(ip[24:40])
	default:
		return p, false
	}
	switch p.proto {
	case 17:
		p.payload = p.l4[8:]
	case 6:
		p.payload = p.l4[int(p.l4[12]>>4)*4:]
	default:
		return p, false
	}
	p.sport, p.dport = binary.BigEndian.Uint16(p.l4), binary.BigEndian.Uint16(p.l4[2:])
	return p, true
}

// check wants lengths and checksums to be right.
func (p *packet) check() error {
	if !p.v6 && fold(sum(p.head)) != 0xffff {
		return errors.New("the IP checksum is wrong")
	}
	if p.proto == 17 && int(binary.BigEndian.Uint16(p.l4[4:])) != len(p.l4) {
		return errors.New("the UDP length is wrong")
	}
	addresses := p.head[12:20]
	if p.v6 {
		addresses = p.head[8:40]
	}
	if s := fold(sum(addresses) + uint32(p.proto) + uint32(len(p.l4)) + sum(p.l4)); s != 0xffff {
		return fmt.Errorf("the checksum of protocol %d is wrong by %#x", p.proto, ^s)
	}
	return nil
}

// hop is what a node has written, as bitmap 0xfc00 asks for.
type hop struct {
	node       uint32
	in, out    uint16
	latency    uint32
	queue      uint32
	came, left uint64
}

// stack is INT-MD 2.1 or 1.0 between the L4 header and the payload.
type stack struct {
	first, remaining byte
	dscp             byte // the original one
	bitmap           uint16
	hops             []hop // newest first
	rest             []byte
}

// readStack reads it by the text of the specification.
func readStack(b []byte) (s stack, err error) {
	if len(b) < 12 {
		return s, fmt.Errorf("%d bytes are no INT", len(b))
	}
	v10 := b[4]>>4 == 1
	words, head := int(b[1]), 16 // of the shim: type, length in words without the shim
	if v10 {
		words, head = int(b[2])-1, 12 // of the whole
	}
	end := 4 + 4*words
	if b[0]>>4 != 1 && !v10 || len(b) < end || end < head {
		return s, fmt.Errorf("no INT-MD: % x", b[:min(len(b), 16)])
	}
	s.dscp, s.first, s.remaining = b[3]>>2, b[4], b[7]
	s.bitmap = binary.BigEndian.Uint16(b[8:])
	s.rest = b[end:]
	each := int(b[6]&31) * 4
	for at := head; at < end; at += each {
		if at+each > end || each == 0 {
			return s, fmt.Errorf("a stack of %d bytes, hops of %d", end-head, each)
		}
		s.hops = append(s.hops, readHop(b[at:at+each], s.bitmap, v10))
	}
	return s, nil
}

func readHop(b []byte, bitmap uint16, v10 bool) (h hop) {
	word := func() (v uint32) {
		v, b = binary.BigEndian.Uint32(b), b[4:]
		return v
	}
	time := func() uint64 {
		if v10 {
			return uint64(word())
		}
		high := word()
		return uint64(high)<<32 | uint64(word())
	}
	if bitmap&0x8000 != 0 {
		h.node = word()
	}
	if bitmap&0x4000 != 0 {
		v := word()
		h.in, h.out = uint16(v>>16), uint16(v)
	}
	if bitmap&0x2000 != 0 {
		h.latency = word()
	}
	if bitmap&0x1000 != 0 {
		h.queue = word()
	}
	if bitmap&0x0800 != 0 {
		h.came = time()
	}
	if bitmap&0x0400 != 0 {
		h.left = time()
	}
	return h
}

// single is one report of a group of TR 2.0.
type single struct {
	node     uint32
	sequence uint32
	flags    byte
	inner    byte
	bits     uint16
	domain   uint16
	values   []byte
	quote    []byte
}

// readGroup reads a datagram of TR 2.0 by the text of the specification.
func readGroup(b []byte) (list []single, err error) {
	if len(b) < 8 || b[0]>>4 != 2 {
		return nil, fmt.Errorf("no TR 2.0: % x", b[:min(len(b), 8)])
	}
	w := binary.BigEndian.Uint32(b)
	if w>>22&63 != 0 {
		return nil, fmt.Errorf("hw id %d", w>>22&63)
	}
	node, sequence := binary.BigEndian.Uint32(b[4:]), w&0x3fffff
	for b = b[8:]; len(b) > 0; {
		if len(b) < 12 {
			return nil, fmt.Errorf("%d bytes are left", len(b))
		}
		size := 4 + 4*int(b[1])
		if b[1] == 255 {
			size = len(b)
		}
		if size > len(b) || b[0]>>4 != 1 {
			return nil, fmt.Errorf("type %d, %d bytes of %d", b[0]>>4, size, len(b))
		}
		s := single{node: node, sequence: sequence, inner: b[0] & 15, flags: b[3]}
		s.bits, s.domain = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
		md := 12 + 4*int(b[2])
		s.values, s.quote = b[12:md], b[md:size]
		list, b = append(list, s), b[size:]
	}
	return list, nil
}
