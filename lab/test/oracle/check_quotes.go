// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"fmt"

	"github.com/gopacket/gopacket/layers"
)

// icmpHeaderLen is what stands before the quote in an ICMP error.
const icmpHeaderLen = 8

// CheckQuotes checks the ICMP errors outside the domain and at sockets: each must
// quote a packet that was sent, byte for byte, with the TTL that it had where the
// error was made.
func (t *Truth) CheckQuotes(d Domain) *Row {
	row := &Row{Check: "packets quoted in ICMP errors"}
	byID := t.originsByID(d)
	for _, path := range t.paths {
		for _, pkt := range append(path.wire[:len(path.wire):len(path.wire)], path.socket) {
			if pkt == nil || !isICMPError(pkt.Packet) || pkt.place.kind == wire && !d.outside(t.topo, pkt.place) {
				continue
			}
			row.Compared++
			if s := t.checkQuote(byID, pkt.Packet); s != "" {
				row.bad("%s at %s: %s", describe(path), pkt.place.ref(), s)
			}
		}
	}
	return row
}

func isICMPError(p *Packet) bool {
	if p.isIPv6() {
		return p.ICMPType >= 0 && p.ICMPType < 128 // RFC 4443, 2.1
	}
	switch p.ICMPType {
	case layers.ICMPv4TypeDestinationUnreachable, layers.ICMPv4TypeTimeExceeded,
		layers.ICMPv4TypeParameterProblem, layers.ICMPv4TypeRedirect:
		return true
	}
	return false
}

// originsByID finds packets by what a quote must show of them.
func (t *Truth) originsByID(d Domain) map[joinKey][]sentPacket {
	m := map[joinKey][]sentPacket{}
	for _, path := range t.paths {
		if o := t.origin(path, d); o != nil {
			m[keyOfPacket(o)] = append(m[keyOfPacket(o)], sentPacket{o, path})
		}
	}
	return m
}

type sentPacket struct {
	pkt  *packet
	path *packetPath
}

func (t *Truth) checkQuote(byID map[joinKey][]sentPacket, p *Packet) string {
	inner, err := decode(p.ip[p.hdrLen+icmpHeaderLen:])
	if err != nil {
		return fmt.Sprintf("what it quotes is no packet: %v", err)
	}
	pkt := &packet{&frame{Packet: inner, segs: 1}, 0}
	candidates := byID[keyOfPacket(pkt)]
	if len(candidates) == 0 {
		return fmt.Sprintf("quotes a packet that nobody sent: %s, ip id %d", inner, inner.ID)
	}
	problem := ""
	for _, c := range candidates {
		if problem = t.compareQuote(c, pkt, p); problem == "" {
			return ""
		}
	}
	return problem
}

// prohibited reports whether the error comes from a rule of a firewall.
func prohibited(p *Packet) bool {
	if p.isIPv6() {
		return p.ICMPType == layers.ICMPv6TypeDestinationUnreachable && p.ip[p.hdrLen+1] == layers.ICMPv6CodeAdminProhibited
	}
	if p.ICMPType != layers.ICMPv4TypeDestinationUnreachable {
		return false
	}
	switch p.ip[p.hdrLen+1] {
	case layers.ICMPv4CodeNetAdminProhibited, layers.ICMPv4CodeHostAdminProhibited, layers.ICMPv4CodeCommAdminProhibited:
		return true
	}
	return false
}

// compareQuote compares the quote with the packet as the node that made the error
// received it. Rules for forwarded packets see the TTL already lowered.
func (t *Truth) compareQuote(c sentPacket, quote *packet, outer *Packet) string {
	last := c.path.last()
	ttl := int(c.pkt.TTL) - c.path.forwards(len(c.path.wire)-1)
	if prohibited(outer) && !t.topo.owns(last.place.node, c.pkt.Dst) {
		ttl--
	}
	switch {
	case last.place.out:
		return "the quoted packet went on from " + last.place.ref().String()
	case int(quote.TTL) != ttl:
		return diffText("the quoted ttl", int(quote.TTL), ttl)
	case quote.TOS != c.pkt.TOS:
		return diffText("the quoted tos", int(quote.TOS), int(c.pkt.TOS))
	case !quote.headerSumOK():
		return "the quoted header's checksum is wrong"
	}
	a, b := c.pkt.bytes(false), quote.bytes(false)
	n := min(len(a), len(b))
	if !bytes.Equal(a[:n], b[:n]) {
		return fmt.Sprintf("the quote in the error from %s differs from what was sent", outer.Src)
	}
	return ""
}
