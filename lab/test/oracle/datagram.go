// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// datagram is a packet that travelled in fragments: hooks of the sender and
// sockets of the receiver see it whole.
type datagram struct {
	sent, seen *packet
	forwards   int
}

type datagramKey struct {
	src, dst netip.Addr
	proto    uint8
	id       uint32
}

// datagrams pairs what hooks and sockets saw whole with the fragments on the
// wires. strays have no such fragments.
func (t *Truth) datagrams(d Domain) (pairs []datagram, strays []*packet) {
	if len(t.strays) == 0 {
		return nil, nil
	}
	groups := map[datagramKey][]*packetPath{}
	for _, path := range t.paths {
		if o := t.origin(path, d); o != nil && o.fragment() {
			k := datagramKey{o.Src, o.Dst, o.Proto, o.ID}
			groups[k] = append(groups[k], path)
		}
	}
	whole := map[key][]datagram{}
	for _, paths := range groups {
		if pkt := t.reassemble(paths, d); pkt != nil {
			last := paths[0]
			k := pkt.key()
			whole[k] = append(whole[k], datagram{sent: pkt, forwards: last.forwards(len(last.wire) - 1)})
		}
	}
	for _, pkt := range t.strays {
		g, ok := whole[pkt.key()]
		if !ok {
			strays = append(strays, pkt)
			continue
		}
		pair := g[0]
		pair.seen = pkt
		if pkt.place.kind != socket {
			pair.forwards = 0
		}
		pairs = append(pairs, pair)
	}
	return pairs, strays
}

// reassemble joins the fragments of one datagram as they were sent; nil if one is
// missing.
func (t *Truth) reassemble(paths []*packetPath, d Domain) *packet {
	parts := make([]*packet, len(paths))
	for i, path := range paths {
		parts[i] = t.origin(path, d)
	}
	slices.SortFunc(parts, func(a, b *packet) int {
		return cmp.Compare(a.Frag&maskOffset, b.Frag&maskOffset)
	})
	head := parts[0]
	ip := head.whole()
	begin := len(ip)
	for i, p := range parts {
		if len(ip)-begin != int(p.Frag&maskOffset)*8 || !p.complete() {
			return nil
		}
		if more := p.Frag&flagMF != 0; more == (i == len(parts)-1) {
			return nil
		}
		ip = append(ip, p.ip[p.hdrLen:p.Len]...)
	}
	head.setLength(ip, len(ip))
	if !head.isIPv6() {
		binary.BigEndian.PutUint16(ip[6:], 0)
	}
	p, err := decode(ip)
	if err != nil {
		return nil
	}
	return &packet{&frame{Packet: p, place: head.place, at: head.at, segs: 1}, 0}
}
