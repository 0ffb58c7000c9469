// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// A header's checksum of zero has two spellings, 0 and 0xffff. These tests make headers whose
// sum is just that, on the wire and in the true header, and change them as Linux does.

// change is something that changes a header between two of our hooks.
type change func(data []byte)

// setCE is what a queue does: IP_ECN_set_ce(). It writes 0xffff for zero.
func setCE(data []byte) {
	ip := data[etherHeader:]
	ecn := (uint32(ip[1]) + 1) & 3
	if ecn&2 == 0 {
		return // not capable of ECN, or marked
	}
	sum := uint32(binary.BigEndian.Uint16(ip[10:])) + 0xfffb + ecn
	binary.BigEndian.PutUint16(ip[10:], uint16(sum+sum>>16))
	ip[1] |= 3
}

// setDSCP is what nftables does: nft_payload_set() with nft_csum_replace(). It writes 0xffff
// for zero.
func setDSCP(dscp byte) change {
	return func(data []byte) {
		ip := data[etherHeader:]
		old := binary.BigEndian.Uint16(ip)
		ip[1] = ip[1]&3 | dscp<<2
		sum := uint32(^binary.BigEndian.Uint16(ip[10:])) + uint32(^old) + uint32(binary.BigEndian.Uint16(ip))
		for sum > 0xffff {
			sum = sum&0xffff + sum>>16
		}
		if sum == 0xffff {
			sum = 0
		}
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	}
}

// sumTo writes into the word at off of the packet's IP header what makes its checksum sum.
func sumTo(data []byte, off int, sum uint16) {
	word := data[etherHeader+off:]
	word[0], word[1] = 0, 0
	fixSum(data, etherHeader)
	rest := uint32(binary.BigEndian.Uint16(data[etherHeader+10:]))
	binary.BigEndian.PutUint16(word, uint16((rest+0xffff-uint32(sum))%0xffff))
	fixSum(data, etherHeader)
}

// The words of an IP header that the tests choose.
const (
	idWord    = 4
	saddrWord = 14 // lower half of the source address
)

// wireSum gives the packet the address with which its checksum is sum on the wire of the
// slot at index, and the ID with which it is truth in the true header.
func (d *domain) wireSum(data []byte, index uint32, sum, truth uint16) {
	d.Helper()
	h := header(d, data)
	ttl, tos := h.ttl(), h.tos()
	h.set(uint16(index), d.layout.BandTop[index>>(16+d.layout.DSCPBits)], tos)
	sumTo(data, saddrWord, sum)
	h.set(0, ttl, tos)
	sumTo(data, idWord, truth)
}

// sumCase is what changes a packet on the path h1 - r1 - h2.
type sumCase struct {
	name             string
	tos              byte // of the packet
	link1, in, link2 []change
	zero             bool // without radar, what arrives has 0xffff for zero
}

func sumCases(t *testing.T) []sumCase {
	lower := func(data []byte) { decrement(t, data) }
	const ect0, ect1 = 2, 1
	return []sumCase{
		{name: "nothing"},
		{name: "CE on a link", tos: ect0, link1: []change{setCE}},
		{name: "CE on a link, ECT(1)", tos: ect1, link2: []change{setCE}, zero: true},
		{name: "CE behind a hidden router", tos: ect0, link2: []change{lower, setCE}, zero: true},
		{name: "hidden routers", tos: ect0, link1: []change{lower}, link2: []change{lower, lower}},
		{name: "nftables in a bridge", link1: []change{setDSCP(46)}},
		{name: "nftables in a bridge behind a hidden router", link2: []change{lower, setDSCP(46)}, zero: true},
		{name: "nftables in an attached router", in: []change{setDSCP(46)}, zero: true},
		{name: "nftables in an attached router, CE behind it", tos: ect0, in: []change{setDSCP(10)}, link2: []change{setCE}, zero: true},
		{name: "CE on a link, nftables on the next", tos: ect0, link1: []change{setCE}, link2: []change{setDSCP(10)}, zero: true},
	}
}

func changed(f frame, list []change) frame {
	f.data = bytes.Clone(f.data)
	for _, c := range list {
		c(f.data)
	}
	return f
}

// traverse takes the packet over h1 - r1 - h2 and returns what arrives, and the same without radar.
func (d *domain) traverse(c *sumCase, orig []byte) (got, want []byte) {
	d.Helper()
	route := []change{func(data []byte) { decrement(d, data) }}
	f := changed(frame{data: orig}, nil)
	for _, list := range [][]change{c.link1, route, c.in, c.link2} {
		f = changed(f, list)
	}
	want = f.data

	w := d.link(changed(d.send(frame{data: orig}), c.link1), 0)
	inside := changed(d.route(d.ingress(r1In, w), r1In), c.in)
	w = d.link(changed(d.egress(r1Out, inside), c.link2), 0)
	return d.ingress(h2In, w).data, want
}

// TestSumSpelling: whatever changes a header on the path, and whatever its checksum is before
// and after that: the packet is known again, and arrives byte for byte as without radar.
func TestSumSpelling(t *testing.T) {
	// Around those of which the changes make zero: a DSCP takes from the checksum, a router adds.
	var sums []uint16
	for _, dscp := range []int{0, 46 << 2, 10 << 2} {
		for routers := range 5 {
			for k := -6; k <= 6; k++ {
				sums = append(sums, uint16((0xffff+dscp-routers<<8+k)%0xffff))
			}
		}
	}
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, c := range sumCases(t) {
			t.Run(carry+"/"+c.name, func(t *testing.T) {
				d := d.in(t)
				before := d.counters()[cMarked]
				n := uint64(0)
				spelled := make(map[uint16]bool)
				for i, sum := range sums {
					for _, wire := range []bool{true, false} {
						index := uint32(d.nextPos()) & (d.layout.Slots - 1)
						orig := packet(t, "udp-64")
						setBits(t, orig, 0, 64, c.tos)
						if wire {
							d.wireSum(orig, index, sum, uint16(i*251))
						} else {
							sumTo(orig, idWord, sum)
						}
						n++
						got, want := d.traverse(&c, orig)
						same(t, fmt.Sprintf("sum %#x (on the wire: %v), at h2", sum, wire), got, want)
						spelled[binary.BigEndian.Uint16(want[etherHeader+10:])] = true
						if d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F"); t.Failed() {
							return
						}
					}
				}
				if d.counters()[cMarked]-before != n {
					t.Errorf("%d packets, counters %v", n, tally(d.counters()))
				}
				if spelled[0xffff] != c.zero { // else the test is not about what it says
					t.Errorf("0xffff arrives without radar: %v", spelled[0xffff])
				}
			})
		}
	}
}

// TestSumsOnWire: all 65,536 checksums that a header can have on the wire, when a queue sets CE
// there.
func TestSumsOnWire(t *testing.T) {
	d := newDomain(t, config{})
	c := sumCase{tos: 2, link1: []change{setCE}}
	pos := d.nextPos()
	for sum := range 1 << 16 {
		orig := packet(t, "udp-64")
		setBits(t, orig, 0, 64, c.tos)
		d.wireSum(orig, uint32(pos)&(d.layout.Slots-1), uint16(sum), uint16(sum*3))
		w := changed(d.send(frame{data: orig}), c.link1)
		end := d.ingress(h2In, d.link(w, 0))
		if want := changed(frame{data: orig}, c.link1).data; !bytes.Equal(end.data, want) {
			same(t, fmt.Sprintf("sum %#x", sum), end.data, want)
			return
		}
		pos++
	}
	if n := d.counters(); n[cMarked] != 1<<16 || n[cForeign] != 0 {
		t.Errorf("counters %v", tally(n))
	}
	if pos != d.nextPos() {
		t.Errorf("the ring is at %d, not at %d: sums were not those that the test wanted", d.nextPos(), pos)
	}
}

// TestSumsQuoted: the same for headers that ICMP errors quote. The quoted header has any sum, or a
// queue has set CE and spelled zero 0xffff.
func TestSumsQuoted(t *testing.T) {
	d := newDomain(t, config{})
	for sum := range 1 << 16 {
		orig := packet(t, "udp-64")
		setBits(t, orig, 0, 64, 2)
		index := uint32(d.nextPos()) & (d.layout.Slots - 1)
		d.wireSum(orig, index, uint16(sum), uint16(sum*5))
		var list []change
		if sum%2 == 1 {
			list = []change{setCE}
		}
		w := changed(d.send(frame{data: orig}), list)
		bad, want := quoting(t, "error-udp-64", w.data), wantQuote(t, "error-udp-64", changed(frame{data: orig}, list).data)
		if got := d.ingress(r1In, frame{data: bad}).data; !bytes.Equal(got, want) {
			same(t, fmt.Sprintf("quote of a header with sum %#x", sum), got, want)
			return
		}
		d.ingress(h2In, d.link(w, 0)) // frees the slot
	}
}

// TestSumsQuoted6: an ICMPv6 error's own checksum, with all 65,536 values that a quoted flow
// label can give it.
func TestSumsQuoted6(t *testing.T) {
	d := newDomain(t, config{})
	for label := range 1 << 16 {
		orig := packet(t, "six-udp-64")
		setBits(t, orig, uint16(label), 64, header(t, orig).tos())
		w := d.link(d.send(frame{data: orig}), 0)
		bad, want := quoting6(t, "error-six-udp-64", w.data), quoting6(t, "error-six-udp-64", orig)
		if got := d.ingress(r1In, frame{data: bad}).data; !bytes.Equal(got, want) {
			same(t, fmt.Sprintf("quote of label %#x", label), got, want)
			return
		}
		d.ingress(h2In, w)
	}
}
