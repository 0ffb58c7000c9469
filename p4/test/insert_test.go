// SPDX-License-Identifier: Apache-2.0

package p4test

import "slices"

// mark is how packets with INT are told from others: by bits of the DSCP, or by a port.
type mark struct {
	dscp, mask byte
	port       uint16
}

// header are the bytes of INT, as a source and transits write them.
func (t *inband) header() []byte {
	ml := uint32(hopWords(t.mode, t.bitmap))
	stack := slices.Concat(t.stack...)
	flags := uint32(0)
	bit := func(set bool, n int) {
		if set {
			flags |= 1 << n
		}
	}
	if t.mode == md10 {
		bit(t.e, 24)
		bit(t.m, 23)
		b := []byte{1, 0, byte(3 + len(stack)/4), byte(t.original << 2)}
		b = be.AppendUint32(b, 1<<28|flags|ml<<8|uint32(t.remaining))
		b = append(be.AppendUint16(b, t.bitmap), 0, 0)
		return append(b, stack...)
	}
	bit(t.d, 27)
	kind, original := byte(1), t.original
	if t.npt == 0 {
		original <<= 2
	}
	if t.mode == mx {
		kind = 3
	} else {
		bit(t.e, 26)
		bit(t.m, 25)
		flags |= ml<<8 | uint32(t.remaining)
	}
	b := be.AppendUint16([]byte{kind<<4 | t.npt<<2, byte(3 + len(stack)/4)}, original)
	b = be.AppendUint32(b, 2<<28|flags)
	b = be.AppendUint16(be.AppendUint16(b, t.bitmap), t.domain)
	return append(append(b, 0, 0, 0, 0), stack...)
}

// insert is a frame with INT in it. sport is that of a UDP header which the source has put in front
// of TCP. It computes every length and checksum itself.
func insert(frame []byte, t *inband, k mark, sport uint16) []byte {
	p := parse(frame)
	header := t.header()
	at := p.data
	right := p.rightSum()
	if t.npt == 2 {
		at = p.l4
		n := 8 + len(header) + p.end - p.l4
		header = append(append(be.AppendUint16(be.AppendUint16(be.AppendUint16(nil, sport), k.port), uint16(n)), 0, 0), header...)
	}
	b := slices.Concat(frame[:at], header, frame[at:])
	q := &packet{frame: b, l3: p.l3, l4: p.l4, end: p.end + len(header), v: p.v, proto: p.proto, sum: p.sum}
	q.setIP(len(header), t.npt, k)
	if t.npt == 2 {
		return b
	}
	if p.proto == 17 {
		be.PutUint16(b[p.l4+4:], uint16(p.end-p.l4+len(header)))
	}
	if t.npt == 1 {
		be.PutUint16(b[p.l4+2:], k.port)
	}
	was := be.Uint16(frame[p.sum:])
	if p.proto == 17 && was == 0 {
		return b
	}
	// Damage stays what it was.
	sum := q.rightSum()
	if was != right {
		sum = addOnes(sum, addOnes(was, ^right))
	}
	if p.proto == 17 && sum == 0 {
		sum = 0xffff
	}
	be.PutUint16(b[p.sum:], sum)
	return b
}

func addOnes(a, b uint16) uint16 {
	n := uint32(a) + uint32(b)
	return uint16(n) + uint16(n>>16)
}

// rightSum is the checksum that TCP or UDP ought to have.
func (p *packet) rightSum() uint16 {
	b := slices.Clone(p.frame[p.l4:p.end])
	b[p.sum-p.l4], b[p.sum-p.l4+1] = 0, 0
	sum := ^ones(pseudo(p.src(), p.dst(), p.proto, len(b)), b)
	if p.proto == 17 && sum == 0 {
		sum = 0xffff
	}
	return sum
}

// setIP writes length, mark and checksum of an IP header.
func (p *packet) setIP(more int, npt byte, k mark) {
	ip := p.frame[p.l3:]
	if npt == 0 {
		dscp := p.getDSCP()&^k.mask | k.dscp&k.mask
		if p.v == 4 {
			ip[1] = dscp<<2 | ip[1]&3
		} else {
			be.PutUint16(ip, be.Uint16(ip)&0xf03f|uint16(dscp)<<6)
		}
	}
	if p.v == 6 {
		be.PutUint16(ip[4:], be.Uint16(ip[4:])+uint16(more))
		if npt == 2 {
			ip[6] = 17
		}
		return
	}
	be.PutUint16(ip[2:], be.Uint16(ip[2:])+uint16(more))
	if npt == 2 {
		ip[9] = 17
	}
	h := ip[:int(ip[0]&15)*4]
	h[10], h[11] = 0, 0
	be.PutUint16(h[10:], ^ones(h))
}

func (p *packet) getDSCP() byte {
	ip := p.frame[p.l3:]
	if p.v == 4 {
		return ip[1] >> 2
	}
	return byte(be.Uint16(ip)>>6) & 63
}
