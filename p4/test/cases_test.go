// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"fmt"
	"slices"
)

// cases are all that is run. Frames of a case differ in their ports, so that both ways are taken.
func cases() []*testcase {
	var all []*testcase
	all = append(all, modeCases()...)
	all = append(all, markCases()...)
	all = append(all, limitCases()...)
	all = append(all, sampleCases()...)
	all = append(all, dropCases()...)
	all = append(all, queueCases()...)
	all = append(all, strangerCases()...)
	for n, c := range all {
		c.setDefaults()
		for i := range c.frames {
			f := &c.frames[i].frame
			if f.sport == 0 {
				f.sport = uint16(2000 + 100*n + i)
			}
			if f.dport == 0 {
				f.dport = 2222
			}
			f.id = uint16(256*n + i)
		}
		for i := range c.frames {
			c.frames[i].raise(c.mark)
		}
	}
	return all
}

// raise makes the bytes of a frame that is sent with INT.
func (s *sent) raise(k mark) {
	if s.born != nil {
		s.born.size = len(s.born.header())
		s.raw = insert(s.frame.bytes(), s.born, k, 50000)
	}
}

// data is a payload that begins like no INT.
func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(0x70 + i)
	}
	return b
}

var timestamps = []byte{1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0}

// both are packets of UDP and TCP.
func both(v int) []sent {
	return []sent{
		{frame: frame{v: v, payload: data(40)}},
		{frame: frame{v: v, payload: data(37), dscp: 10, ecn: 1}},
		{frame: frame{v: v, proto: "tcp", payload: data(60), tcpOpts: timestamps}},
		{frame: frame{v: v, proto: "tcp"}},
	}
}

// pair are one packet of UDP over IPv4 and one of TCP over IPv6, or the reverse.
func pair(udp, tcp int) []sent {
	return []sent{{frame: frame{v: udp, payload: data(44)}}, {frame: frame{v: tcp, proto: "tcp", payload: data(52)}}}
}

// four are all of them.
func four() []sent { return slices.Concat(pair(4, 6), pair(6, 4)) }

func modeCases() (all []*testcase) {
	for _, mode := range []string{md, md10, mx, xd} {
		for _, v := range []int{4, 6} {
			all = append(all, &testcase{name: fmt.Sprintf("%s, IPv%d", mode, v), mode: mode, frames: both(v)})
		}
	}
	for _, mode := range []string{md, md10, mx, xd} {
		all = append(all, &testcase{name: mode + ", report 1.0", mode: mode, tr10: true, frames: pair(4, 6)})
	}
	return append(all,
		&testcase{name: "md, all instructions", mode: md, bitmap: 0xffff, domain: 0x1234, frames: pair(4, 6)},
		&testcase{name: "md10, all instructions", mode: md10, bitmap: 0xffff, frames: pair(4, 6)},
		&testcase{name: "mx, all instructions", mode: mx, bitmap: 0xffff, domain: 0x1234, frames: pair(6, 4)},
		&testcase{name: "md, node and utilisation", mode: md, bitmap: 0x8100, frames: pair(4, 6)},
		&testcase{name: "md, queue only", mode: md, bitmap: 0x1000, frames: pair(6, 4)},
		&testcase{name: "md, what surrounds INT", mode: md, frames: []sent{
			{frame: frame{payload: data(30), vlans: []uint16{5}}},
			{frame: frame{v: 6, proto: "tcp", payload: data(30), vlans: []uint16{5, 6}}},
			{frame: frame{payload: data(33), ipOpts: []byte{0x94, 4, 0, 0, 1, 1, 1, 1}}},
			{frame: frame{proto: "tcp", payload: data(9), ipOpts: []byte{1, 1, 1, 1}, tcpOpts: slices.Repeat([]byte{1}, 40)}},
			{frame: frame{payload: data(2), trailer: make([]byte, 16)}},
			{frame: frame{payload: data(50), noSum: true}},
			{frame: frame{payload: data(50), damage: 77}},
			{frame: frame{v: 6, proto: "tcp", payload: data(50), damage: 0x8000}},
			{frame: frame{payload: data(21), dscp: 0x17}},
			{frame: frame{v: 6}},
			{frame: frame{proto: "tcp", payload: data(1), dscp: 46}},
		}})
}

func markCases() []*testcase {
	port, bit := mark{port: 5000}, mark{dscp: 0x20, mask: 0x20}
	return []*testcase{
		{name: "md, marked by port", mode: md, mark: port, frames: append(four(),
			sent{frame: frame{proto: "tcp", payload: data(8), tcpOpts: timestamps, dscp: 3}},
			sent{frame: frame{payload: data(8), noSum: true}})},
		{name: "mx, marked by port", mode: mx, mark: port, frames: four()},
		{name: "md, marked by a bit", mode: md, mark: bit, frames: []sent{
			{frame: frame{payload: data(8), dscp: 10}}, {frame: frame{v: 6, proto: "tcp", payload: data(8), dscp: 0x1f}},
		}},
		{name: "md10, marked by a bit", mode: md10, mark: bit, frames: pair(6, 4)},
	}
}

// payload of a packet that has so many bytes from IP on.
func fill(f frame, size int) frame {
	f.payload = nil
	f.payload = data(size - parse(f.bytes()).end + parse(f.bytes()).l3)
	return f
}

func limitCases() (all []*testcase) {
	type edge struct {
		mode      string
		more, hop int
	}
	for _, e := range []edge{{md, 48, 32}, {md10, 36, 24}, {mx, 16, 0}} {
		c := &testcase{name: e.mode + ", MTU at the source", mode: e.mode, mtu: 200}
		d := &testcase{name: e.mode + ", MTU at a transit", mode: e.mode, mtuNext: 200}
		for _, f := range []frame{{}, {v: 6, proto: "tcp"}} {
			c.frames = append(c.frames, sent{frame: fill(f, 200-e.more)}, sent{frame: fill(f, 201-e.more), skip: skipMTU})
			d.frames = append(d.frames, sent{frame: fill(f, 200-e.more-e.hop)}, sent{frame: fill(f, 201-e.more-e.hop), next: skipMTU})
		}
		if all = append(all, c); e.mode != mx {
			all = append(all, d)
		}
	}
	all = append(all, &testcase{name: "md, MTU of 1500", mode: md, frames: []sent{
		{frame: fill(frame{}, 1420)}, {frame: fill(frame{v: 6, proto: "tcp"}, 1452), next: skipMTU}, {frame: fill(frame{proto: "tcp"}, 1453), skip: skipMTU},
	}})
	for _, mode := range []string{md, md10} {
		exhausted, zero := four(), pair(4, 6)
		for i := range exhausted {
			exhausted[i].next = skipHops
		}
		for i := range zero {
			zero[i].skip = skipHops
		}
		all = append(all,
			&testcase{name: mode + ", one hop may add", mode: mode, remaining: 1, frames: exhausted},
			&testcase{name: mode + ", no hop may add", mode: mode, remaining: none, frames: zero})
	}
	return all
}

func sampleCases() (all []*testcase) {
	for _, mode := range []string{md, xd} {
		c := &testcase{name: mode + ", one in 3", mode: mode, sample: 3}
		for i := range 12 {
			f := frame{payload: data(10 + i)}
			if i%2 == 1 {
				f.v, f.proto = 6, "tcp"
			}
			c.frames = append(c.frames, sent{frame: f})
		}
		all = append(all, c)
	}
	for n, mode := range []string{md, mx, xd} { // a flow that one of them has seen is not new to the next
		c := &testcase{name: mode + ", what does not change", mode: mode, suppress: true}
		for i := range 6 {
			c.frames = append(c.frames, sent{frame: frame{sport: uint16(900 + 2*n + i%2), payload: data(12 + i)}})
		}
		all = append(all, c)
	}
	return all
}

const denied = 99 // a port that s2 and s3 drop

func dropCases() []*testcase {
	deny := fmt.Sprintf("table_add forward.acl forward.deny 0&&&0 0&&&0 0&&&0 0&&&0 0&&&0 %d&&&0xffff => 10\n", denied)
	acl := map[int]string{2: deny, 3: deny}
	frames := func() []sent {
		return []sent{
			{frame: frame{payload: data(40), dport: denied}, lost: 2, why: dropACL},
			{frame: frame{v: 6, proto: "tcp", payload: data(40), dport: denied}, lost: 2, why: dropACL},
			{frame: frame{payload: data(20), ttl: 1}, lost: 1, why: dropTTL},
			{frame: frame{v: 6, payload: data(20), ttl: 1}, lost: 1, why: dropTTL},
			{frame: frame{proto: "tcp", payload: data(20), ttl: 2}, lost: 2, why: dropTTL},
			{frame: frame{v: 6, payload: data(20), ttl: 3}, lost: 4, why: dropTTL},
			{frame: frame{payload: data(20), dst: "10.7.7.7"}, lost: 1, why: dropIPv4Miss},
			{frame: frame{v: 6, proto: "tcp", payload: data(20), dst: "fd07::7"}, lost: 1, why: dropIPv6Miss},
			{frame: frame{payload: data(20), dst: "10.9.9.9"}, lost: 1, why: dropBlackhole},
			{frame: frame{payload: data(20), dst: "10.7.7.7", dport: port}, skip: skipReport, all: true, lost: 1, why: dropIPv4Miss, quiet: true},
			{frame: frame{payload: data(20)}},
		}
	}
	var many []sent
	for i := range 4 {
		many = append(many, sent{frame: frame{sport: 777, payload: data(20), dst: "10.7.7.7"}, lost: 1, why: dropIPv4Miss, quiet: i > 0})
	}
	return []*testcase{
		{name: "md, drops", mode: md, extra: acl, frames: frames()},
		{name: "mx, drops", mode: mx, extra: acl, frames: frames()},
		{name: "xd, drops, report 1.0", mode: xd, tr10: true, extra: acl, frames: frames()},
		{name: "md, drops that are not reported", mode: md, noDrops: true, extra: acl, frames: frames()},
		{name: "md, drops of one flow", mode: md, once: true, frames: many},
	}
}

func queueCases() []*testcase {
	flood := func(dport uint16, skip int) (all []sent) {
		for i := range 24 {
			all = append(all, sent{frame: frame{sport: 888, dport: dport, payload: data(20 + i)}, skip: skip})
		}
		return all
	}
	return []*testcase{
		{name: "md, congestion", mode: md, congested: 1, frames: flood(0, 0)},
		{name: "congestion without INT", mode: md, congested: 1, frames: flood(unwatched, skipNotWatched)},
	}
}

// hopOf is a hop of a stack that somebody else has written.
func hopOf(words int) []byte {
	b := make([]byte, 0, 4*words)
	for i := range words {
		b = be.AppendUint32(b, uint32(0x99000000+i))
	}
	return b
}

func strangerCases() []*testcase {
	known := func(remaining byte) *inband {
		return &inband{mode: md, bitmap: 0xfc00, remaining: remaining, stack: [][]byte{hopOf(8)}}
	}
	other := (&inband{mode: md, bitmap: 0xfc00, remaining: 5, stack: [][]byte{hopOf(8)}}).header()
	strangers := func(lost, why int) []sent {
		return []sent{
			{frame: frame{dscp: 0x2a, payload: append(slices.Clone(other), data(8)...)}, skip: skipForeign, all: true},
			{frame: frame{v: 6, proto: "tcp", dscp: 0x2a, payload: append(slices.Clone(other), data(9)...)}, skip: skipForeign, all: true},
			{frame: frame{dscp: 0x17, payload: append(slices.Clone(other), data(10)...)}, skip: skipForeign, all: true, lost: lost, why: why},
		}
	}
	return []*testcase{
		{name: "md, INT of another source", mode: md, inside: true, frames: []sent{
			{frame: frame{payload: data(30)}, born: known(5)},
			{frame: frame{v: 6, proto: "tcp", payload: data(30)}, born: known(5)},
			{frame: frame{proto: "tcp", payload: data(30), dscp: 9}, born: &inband{mode: md, bitmap: 0xfc00, remaining: 2, original: 9}},
			{frame: frame{v: 6, payload: data(30)}, born: known(0), next: skipHops},
			{frame: frame{payload: data(30)}, born: &inband{mode: md, bitmap: 0xfc00, remaining: 5, d: true}, gone: true},
		}},
		{name: "INT from outside passes", mode: md, frames: strangers(0, 0)[:2]},
		{name: "INT from outside is dropped", mode: md, foreign: true, frames: strangers(1, dropACL)},
		{name: "INT that lies", mode: md, inside: true, frames: lies()},
		{name: "what cannot bear INT", mode: md, frames: []sent{
			{frame: frame{proto: "1", payload: append([]byte{8, 0, 0, 0}, data(20)...)}, skip: skipNotTCPUDP, all: true},
			{frame: frame{flags: 0x2000, payload: data(24)}, skip: skipFragment, all: true},
			{frame: frame{flags: 0x0064, payload: data(24)}, skip: skipFragment, all: true},
			{frame: frame{v: 6, proto: "44", payload: append([]byte{17, 0, 0, 1, 0, 0, 0, 7}, data(24)...)}, skip: skipFragment, all: true},
			{frame: frame{v: 6, proto: "0", payload: append([]byte{17, 0, 1, 4, 0, 0, 0, 0}, data(24)...)}, skip: skipExtension, all: true},
			{frame: frame{payload: data(24), cut: 6}, skip: skipTooShort, all: true},
			{frame: frame{proto: "17", payload: append([]byte{9, 9, 9, 9, 0, 60, 0, 0}, data(24)...)}, skip: skipBadLength, all: true},
			{frame: frame{dport: port, payload: data(24)}, skip: skipReport, all: true},
			{frame: frame{dport: unwatched, payload: data(24)}, skip: skipNotWatched},
		}},
	}
}

// lies are packets that bear the domain's mark, and INT that contradicts itself or the packet.
func lies() (all []sent) {
	right := (&inband{mode: md, bitmap: 0xfc00, remaining: 5, stack: [][]byte{hopOf(8)}}).header()
	change := func(at int, b byte) []byte {
		c := slices.Clone(right)
		c[at] = b
		return append(c, data(8)...)
	}
	for i, load := range [][]byte{
		change(0, 0x20),       // a type that nobody has
		change(0, 0x14),       // marked by port, it says
		change(0, 0x1c),       // NPT 3
		change(1, 200),        // longer than the packet
		change(1, 2),          // shorter than its header
		change(1, 10),         // ends within a hop
		change(4, 0x00),       // version 0
		change(4, 0x30),       // version 3
		change(6, 7),          // Hop ML is not what the bitmap says
		change(6, 0),          // Hop ML 0
		change(8, 0xfe),       // the bitmap is not what Hop ML says
		right[:3], right[:10], // cut
		data(40), {}, // no INT at all
	} {
		f := frame{dscp: 0x17, payload: load}
		if i%2 == 1 {
			f.v, f.proto = 6, "tcp"
		}
		all = append(all, sent{frame: f, skip: skipNotINT, all: true})
	}
	return all
}
