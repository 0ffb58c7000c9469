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
	sent, seen *unit
	forwards   int
}

type datagramKey struct {
	src, dst netip.Addr
	proto    uint8
	id       uint32
}

// datagrams pairs what hooks and sockets saw whole with the fragments on the
// wires. strays are the sightings that belong to nothing.
func (t *Truth) datagrams(d Domain) (pairs []datagram, strays []*unit) {
	if len(t.strays) == 0 {
		return nil, nil
	}
	groups := map[datagramKey][]*journey{}
	for _, j := range t.journeys {
		if o := t.origin(j, d); o != nil && o.fragment() {
			k := datagramKey{o.Src, o.Dst, o.Proto, o.ID}
			groups[k] = append(groups[k], j)
		}
	}
	whole := map[key][]datagram{}
	for _, js := range groups {
		if u := t.reassemble(js, d); u != nil {
			last := js[0]
			k := u.key()
			whole[k] = append(whole[k], datagram{sent: u, forwards: last.forwards(len(last.wire) - 1)})
		}
	}
	for _, u := range t.strays {
		g, ok := whole[u.key()]
		if !ok {
			strays = append(strays, u)
			continue
		}
		pair := g[0]
		pair.seen = u
		if u.place.kind != socket {
			pair.forwards = 0
		}
		pairs = append(pairs, pair)
	}
	return pairs, strays
}

// reassemble puts the fragments of one datagram together as they were sent; nil
// if one is missing.
func (t *Truth) reassemble(js []*journey, d Domain) *unit {
	parts := make([]*unit, len(js))
	for i, j := range js {
		parts[i] = t.origin(j, d)
	}
	slices.SortFunc(parts, func(a, b *unit) int {
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
	return &unit{&frame{Packet: p, place: head.place, at: head.at, segs: 1}, 0}
}
