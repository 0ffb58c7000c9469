// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Select says which packets are asked for; nil fields refuse none. Cheap checks come first:
// most packets that a filter refuses need not even be decoded.
type Select struct {
	// Flow reports whether packets with these addresses, protocol and ports may be asked
	// for. The answer must hold for all of them, and is remembered.
	Flow func(*packet.Packet) bool
	// States are those that are asked for.
	States []record.State
	// Match decides; it must refuse what the others refuse.
	Match func(*packet.Packet, packet.Scope) bool
}

// selector applies a Select. Packets that it passes on are valid during the call only.
type selector struct {
	Select
	dec    *Decoder
	flows  map[flowID]bool // answers of Flow
	recent [recentFlows]recentFlow
	packet packet.Packet
}

// recentFlow is what refuses has said of the IPv4 packets whose slots have these bits.
type recentFlow struct {
	key            recentKey
	known, refused bool
}

// recentKey is all that the answer depends on, as it stands in the slot.
type recentKey struct {
	saddr, daddr uint32
	sport, dport uint16
	fragOff      uint16
	flags        uint8
	proto        uint8
}

// recentFlows is how many are remembered: a power of two.
const recentFlows = 1 << 8

// place is where an answer is remembered.
func (k recentKey) place() int {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: each bit moves the upper ones
	h := (uint64(k.saddr)<<32 | uint64(k.daddr)) * odd
	h = (h ^ h>>32 ^ uint64(k.sport)<<24 ^ uint64(k.dport)<<8 ^ uint64(k.proto)) * odd
	return int((h >> 32) % recentFlows)
}

func newSelector(s Select, dec *Decoder) selector {
	return selector{Select: s, dec: dec, flows: make(map[flowID]bool)}
}

// flowID is what Flow's answer depends on.
type flowID struct {
	src, dst     packet.Addr
	sport, dport uint16
	proto        uint8
	ipv6         bool
}

// refuses reports whether Flow refuses the packet, or the whole train, of head. It is false
// if the addresses have changed, or may have changed where the log is not complete.
func (s *selector) refuses(head *slot, log brief) bool {
	f := head.fields()
	switch {
	case s.Flow == nil || !log.complete || log.readdressed:
		return false
	case f.State&stIPv6 != 0:
		return s.refusesFlow(head)
	}
	key := recentKey{f.Saddr, f.Daddr, f.Sport, f.Dport, f.FragOff, f.Flags, f.Proto}
	r := &s.recent[key.place()]
	if !r.known || r.key != key {
		*r = recentFlow{key, true, s.refusesFlow(head)}
	}
	return r.refused
}

// refusesFlow reports whether Flow refuses the packet of head with the addresses that it was sent
// with.
func (s *selector) refusesFlow(head *slot) bool {
	f, p := head.fields(), &s.packet
	p.IPv6, p.Proto, p.FragID = f.State&stIPv6 != 0, f.Proto, 0
	s.dec.fillSource(p, head, 0)
	if _, fragment := p.Offset(); fragment || p.FragID != 0 {
		return false // only the first fragment has ports
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

// wants reports whether a packet is asked for.
func (s *selector) wants(p *packet.Packet) bool {
	if s.States != nil && !slices.Contains(s.States, p.State) {
		return false
	}
	return s.Match == nil || s.Match(p, s.dec)
}
