// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// frame is one captured buffer.
type frame struct {
	*Packet
	place *place
	at    int64 // Unix ns
	segs  int   // packets that it stands for
	size  int   // payload bytes of each of them but the last, if segs > 1
}

// packet is one packet as one place saw it: a frame, or a segment of a train.
type packet struct {
	*frame
	seg int
}

// key identifies a packet by what radar must not touch.
type key [16]byte

// prefixBytes behind the IP header are part of the key of packets other than
// TCP: enough for the sequence numbers of the senders here, and short enough for
// captures that hold headers only.
const prefixBytes = 64

// flow is one direction of a TCP connection.
type flow struct {
	src, dst     netip.Addr
	sport, dport int
}

func (p *Packet) flow() flow {
	return flow{p.Src, p.Dst, p.Sport, p.Dport}
}

func (f flow) reverse() flow { return flow{f.dst, f.src, f.dport, f.sport} }

// segmentSizes learns from the SYNs how many payload bytes a segment has.
type segmentSizes map[flow]tcpFields

func (s segmentSizes) learn(p *Packet) {
	if p.tcp.flags&tcpSYN != 0 {
		s[p.flow()] = p.tcp
	}
}

// size of a full segment of that flow; 0 if its SYNs were not seen. Time stamps
// (12 bytes with padding) are taken from the segment.
func (s segmentSizes) size(f flow) int {
	a, okA := s[f]
	b, okB := s[f.reverse()]
	if !okA || !okB {
		return 0
	}
	size := min(a.mss, b.mss)
	if a.stamps && b.stamps {
		size -= 12
	}
	return size
}

// cut works out how many packets the frame stands for. udp holds the segment
// size of UDP trains by destination port.
func (f *frame) cut(tcp segmentSizes, udp map[int]int) {
	f.segs = 1
	size := 0
	switch {
	case f.fragment():
	case f.isTCP():
		size = tcp.size(f.flow())
	case f.isUDP():
		size = udp[f.Dport]
	}
	if payload := f.Len - f.hdrLen - f.l4Len; size > 0 && payload > size {
		f.segs, f.size = (payload+size-1)/size, size
	}
}

func (f *frame) packets() []*packet {
	pkts := make([]*packet, f.segs)
	for i := range pkts {
		pkts[i] = &packet{f, i}
	}
	return pkts
}

// id is the IP ID of this segment: the kernel counts up from the train's. For IPv6
// it is the Identification of the fragment header.
func (pkt *packet) id() uint32 {
	if pkt.isIPv6() {
		return pkt.ID
	}
	return uint32(uint16(pkt.ID) + uint16(pkt.seg))
}

// length is the IP bytes of this packet alone.
func (pkt *packet) length() int {
	if pkt.segs == 1 {
		return pkt.Len
	}
	head := pkt.hdrLen + pkt.l4Len
	return head + min(pkt.size, pkt.Len-head-pkt.seg*pkt.size)
}

// bytes is the packet as it is on the wire by itself, with TTL and header
// checksum 0; if noSum, the TCP or UDP checksum is 0 too. It ends where the capture
// ends.
func (pkt *packet) bytes(noSum bool) []byte {
	n := pkt.length()
	head := pkt.hdrLen + pkt.l4Len
	b := make([]byte, 0, n)
	if pkt.segs == 1 {
		b = append(b, pkt.ip[:min(n, len(pkt.ip))]...)
	} else {
		b = append(b, pkt.ip[:head]...)
		from := head + pkt.seg*pkt.size
		if from < len(pkt.ip) {
			b = append(b, pkt.ip[from:min(from+n-head, len(pkt.ip))]...)
		}
		pkt.segmentHeader(b, n)
	}
	if pkt.isIPv6() {
		b[7] = 0
	} else {
		b[8], b[10], b[11] = 0, 0, 0
	}
	if noSum && pkt.l4Len > 0 {
		at := pkt.hdrLen + pkt.sumAt()
		b[at], b[at+1] = 0, 0
	}
	return b
}

// segmentHeader turns the train's headers into those of the segment, by the
// rules of inet_gso_segment, tcp_gso_segment and __udp_gso_segment.
func (pkt *packet) segmentHeader(b []byte, length int) {
	pkt.setLength(b, length)
	if !pkt.isIPv6() {
		binary.BigEndian.PutUint16(b[4:], uint16(pkt.id()))
	}
	if pkt.isUDP() {
		binary.BigEndian.PutUint16(b[pkt.hdrLen+4:], uint16(length-pkt.hdrLen))
		return
	}
	tcp := b[pkt.hdrLen:]
	seq := binary.BigEndian.Uint32(tcp[4:])
	binary.BigEndian.PutUint32(tcp[4:], seq+uint32(pkt.seg*pkt.size))
	if pkt.seg > 0 {
		tcp[13] &^= tcpCWR
	}
	if pkt.seg < pkt.segs-1 {
		tcp[13] &^= tcpFIN | tcpPSH
	}
}

// key of the packet; it needs the headers only.
func (pkt *packet) key() key {
	b := pkt.bytes(true)
	if pkt.isIPv6() { // class and label
		b[0], b[1], b[2], b[3] = 0x60, 0, 0, 0
	} else {
		b[1], b[4], b[5] = 0, 0, 0
	}
	end := pkt.hdrLen + pkt.l4Len
	if !pkt.isTCP() {
		end = pkt.hdrLen + prefixBytes
	}
	sum := sha256.Sum256(b[:min(end, len(b))])
	return key(sum[:16])
}

// sameExtent reports whether both saw the packet in the same buffer, cut alike:
// then the TCP or UDP checksum must be the same too.
func sameExtent(a, b *packet) bool {
	return a.segs == b.segs && a.seg == b.seg && a.Len == b.Len
}

// difference describes how the packet that was seen, after forwards routers lowered
// its TTL, differs from the one that was sent; "": it does not. Payloads are compared
// as far as the shorter capture has them.
func difference(sent, seen *packet, forwards int) string {
	if want := int(sent.TTL) - forwards; int(seen.TTL) != want {
		return diffText("ttl", int(seen.TTL), want)
	}
	if seen.id() != sent.id() {
		return diffText("ip id", int(seen.id()), int(sent.id()))
	}
	if seen.Label != sent.Label {
		return diffText("flow label", int(seen.Label), int(sent.Label))
	}
	if seen.TOS != sent.TOS {
		return diffText("tos", int(seen.TOS), int(sent.TOS))
	}
	if !seen.headerSumOK() {
		return "the IP header checksum is wrong"
	}
	noSum := !sameExtent(sent, seen)
	if noSum && !seen.l4SumOK() {
		return "the TCP or UDP checksum is wrong"
	}
	if sent.length() != seen.length() {
		return diffText("length", seen.length(), sent.length())
	}
	a, b := sent.bytes(noSum), seen.bytes(noSum)
	n := min(len(a), len(b))
	if !bytes.Equal(a[:n], b[:n]) {
		i := 0
		for a[i] == b[i] {
			i++
		}
		return diffText("byte "+itoa(i), int(b[i]), int(a[i]))
	}
	return ""
}
