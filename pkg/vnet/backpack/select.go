// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Select says which packets are asked for. What is cheap to say is asked first: most
// packets that a filter refuses need not even be decoded. nil asks for nothing.
type Select struct {
	// Flow says whether packets with these addresses, protocol and ports can be asked
	// for at all. The answer must hold for all that have them, and is remembered.
	Flow func(*packet.Packet) bool
	// States are those that are asked for.
	States []record.State
	// Match has the last word; it must refuse what the others refuse.
	Match func(*packet.Packet, packet.Scope) bool
}

// selector puts the questions of a Select. Packets that it shows are valid during the
// call only.
type selector struct {
	Select
	dec    *Decoder
	flows  map[flowID]bool // answers of Flow
	packet packet.Packet
}

func newSelector(s Select, dec *Decoder) selector {
	return selector{Select: s, dec: dec, flows: make(map[flowID]bool)}
}

// flowID is what packets have in common of which Flow says the same.
type flowID struct {
	src, dst     packet.Addr
	sport, dport uint16
	proto        uint8
	ipv6         bool
}

// refuses says that Flow refuses the packet, or the whole train, of head. It does not say
// so of one whose addresses have changed, or may have in what its log lacks.
func (s *selector) refuses(head *slot, log brief) bool {
	if s.Flow == nil || !log.complete || log.readdressed {
		return false
	}
	f, p := head.fields(), &s.packet
	p.IPv6, p.Proto, p.FragID = f.State&stIPv6 != 0, f.Proto, 0
	s.dec.fillSource(p, head, 0)
	if _, fragment := p.Offset(); fragment || p.FragID != 0 {
		return false // what its ports are, depends on who is asked
	}
	id := flowID{src: p.Src, dst: p.Dst, proto: p.Proto, ipv6: p.IPv6}
	if p.HasPorts() {
		id.sport, id.dport = p.SrcPort, p.DstPort
	}
	wanted, known := s.flows[id]
	if !known {
		wanted = s.Flow(p)
		if len(s.flows) < maxNames {
			s.flows[id] = wanted
		}
	}
	return !wanted
}

// wants has the last word on a packet.
func (s *selector) wants(p *packet.Packet) bool {
	if s.States != nil && !slices.Contains(s.States, p.State) {
		return false
	}
	return s.Match == nil || s.Match(p, s.dec)
}
