// SPDX-License-Identifier: Apache-2.0

package pcapng

import (
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// takePayload takes the first one of a sight off the list; nil: there is none. A packet that passes a port twice has
// two, in the order of time, as sights are.
func takePayload(list *[]Payload, s *sight) *Payload {
	if s.direction == lost {
		return nil
	}
	i := slices.IndexFunc(*list, func(p Payload) bool { return p.Node == s.node && p.Port == s.port && p.Out == (s.direction == out) })
	if i < 0 {
		return nil
	}
	taken := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return &taken
}

// withPayload puts payload behind the headers in b, which are a packet's that has so many bytes. Where they do not
// have the whole transport header, the captured one takes its place.
func withPayload(b []byte, r *record.Record, h *header, length int, p *Payload) []byte {
	proto, _ := record.ParseProto(r.Proto)
	s := sizesOf(r, proto)
	if len(b) < s.ip {
		return b
	}
	if isWholeTransport(proto, len(b)-s.ip, &s, p) {
		b = append(b, p.Data[p.Header:]...)
	} else {
		b = append(b[:s.ip], p.Data...)
	}
	b = b[:min(len(b), length)]
	hasSum := (proto == record.ProtoTCP || proto == record.ProtoUDP) && p.Header > 0
	if hasSum && len(b) == length && len(p.Data) == p.Length && r.FragOff == nil && max(r.Segs, 1) == 1 {
		setChecksum(b[s.ip:], h, proto, p)
	}
	return b
}

// isWholeTransport reports whether so many bytes are the transport header that lies before the payload.
func isWholeTransport(proto uint8, size int, s *sizes, p *Payload) bool {
	if p.Header == 0 || p.Header > len(p.Data) {
		return false
	}
	switch proto {
	case record.ProtoTCP:
		return s.transport > 0 && size == s.transport
	case record.ProtoUDP:
		return size == p.Header
	}
	return false // of ICMP the captured one has what no record has
}

// setChecksum puts the checksum into a transport header with all of its payload.
func setChecksum(b []byte, h *header, proto uint8, p *Payload) {
	at := checksumTCP
	if proto == record.ProtoUDP {
		at = checksumUDP
	}
	if len(b) < at+2 || len(p.Data) < at+2 { // somebody has forged its length
		return
	}
	if proto == record.ProtoUDP && be.Uint16(p.Data[at:]) == 0 {
		return // it has none
	}
	be.PutUint16(b[at:], 0)
	sum := h.pseudo(proto, len(b))
	if len(b)%2 != 0 {
		sum += uint32(b[len(b)-1]) << 8
	}
	value := ^sumOf(b[:len(b)&^1], sum)
	if value == 0 && proto == record.ProtoUDP {
		value = 0xffff // 0: none
	}
	be.PutUint16(b[at:], value)
}
