// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"fmt"

	"github.com/gopacket/gopacket/layers"
)

// icmpHeaderLen is what stands before the quote in an ICMP error.
const icmpHeaderLen = 8

// CheckQuotes looks into the ICMP errors outside the domain and at sockets: the
// packet that each quotes must be one that was sent, byte for byte, with the TTL
// that it had where the error was made.
func (t *Truth) CheckQuotes(d Domain) *Row {
	row := &Row{Check: "packets quoted in ICMP errors"}
	byID := t.originsByID(d)
	for _, j := range t.journeys {
		for _, u := range append(j.wire[:len(j.wire):len(j.wire)], j.socket) {
			if u == nil || !isICMPError(u.Packet) || u.place.kind == wire && !d.outside(t.topo, u.place) {
				continue
			}
			row.Compared++
			if s := t.checkQuote(byID, u.Packet); s != "" {
				row.bad("%s at %s: %s", describe(j), u.place.ref(), s)
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
	for _, j := range t.journeys {
		if o := t.origin(j, d); o != nil {
			m[keyOfUnit(o)] = append(m[keyOfUnit(o)], sentPacket{o, j})
		}
	}
	return m
}

type sentPacket struct {
	u *unit
	j *journey
}

func (t *Truth) checkQuote(byID map[joinKey][]sentPacket, p *Packet) string {
	inner, err := decode(p.ip[p.hdrLen+icmpHeaderLen:])
	if err != nil {
		return fmt.Sprintf("what it quotes is no packet: %v", err)
	}
	u := &unit{&frame{Packet: inner, segs: 1}, 0}
	candidates := byID[keyOfUnit(u)]
	if len(candidates) == 0 {
		return fmt.Sprintf("quotes a packet that nobody sent: %s, ip id %d", inner, inner.ID)
	}
	problem := ""
	for _, c := range candidates {
		if problem = t.compareQuote(c, u, p); problem == "" {
			return ""
		}
	}
	return problem
}

// prohibited says whether the error comes from a rule of a firewall.
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

// compareQuote compares with the packet as the maker of the error received it.
// Rules for what is forwarded see it when the TTL has been lowered.
func (t *Truth) compareQuote(c sentPacket, quote *unit, outer *Packet) string {
	last := c.j.last()
	ttl := int(c.u.TTL) - c.j.forwards(len(c.j.wire)-1)
	if prohibited(outer) && !t.topo.owns(last.place.node, c.u.Dst) {
		ttl--
	}
	switch {
	case last.place.out:
		return "the quoted packet went on from " + last.place.ref().String()
	case int(quote.TTL) != ttl:
		return diffText("the quoted ttl", int(quote.TTL), ttl)
	case quote.TOS != c.u.TOS:
		return diffText("the quoted tos", int(quote.TOS), int(c.u.TOS))
	case !quote.headerSumOK():
		return "the quoted header's checksum is wrong"
	}
	a, b := c.u.bytes(false), quote.bytes(false)
	n := min(len(a), len(b))
	if !bytes.Equal(a[:n], b[:n]) {
		return fmt.Sprintf("the quote in the error from %s differs from what was sent", outer.Src)
	}
	return ""
}
