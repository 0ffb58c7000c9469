// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// keyCount is the number of entries in the map of keys.
func (d *domain) keyCount() int {
	d.Helper()
	var key bpfobj.TcRdrKey
	var pos uint64
	n := 0
	it := d.Maps[bpfobj.TcMapKeys].Iterate()
	for it.Next(&key, &pos) {
		n++
	}
	if err := it.Err(); err != nil {
		d.Fatal(err)
	}
	return n
}

// TestKeyed: packets with DF clear, fragments and nearly dead packets are followed
// without one changed bit, under both ways of carrying the index in a node.
func TestKeyed(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byKey() {
			t.Run(carry+"/"+name, func(t *testing.T) { testKeyed(d.in(t), name) })
		}
	}
}

func testKeyed(d *domain, name string) {
	orig := packet(d, name)
	ttl := header(d, orig).ttl()
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	w1 := d.send(frame{data: orig})
	same(d, "on the wire", w1.data, orig)
	d.counted(tally{cSeen: 1, cMarked: 1})
	s := d.slot(index)
	if _, later := isFragment(d, orig); later != (s.Flags&1 != 0) {
		d.Errorf("slot flags %#x, later fragment: %v", s.Flags, later)
	}
	if ttl == 1 {
		same(d, "inside r1", d.ingress(r1In, d.link(w1, 0)).data, orig)
		d.wantStory(index, "out@0/FSK in@1/FK")
		d.age(index, time.Minute) // its key would be in the way of the next
		return
	}
	inside, w2 := d.transit(w1, 0)
	same(d, "inside r1", inside.data, orig)
	same(d, "behind r1", w2.data, lowered(d, orig, 1))
	end := d.deliver(w2, 0)
	same(d, "at h2", end.data, lowered(d, orig, 1))
	d.counted(nil)
	d.wantStory(index, "out@0/FSK in@1/FK out@2/FK deliver@3/FK")
	if s := d.slot(index); s.State&^uint8(stIPv6) != uint8(stDone) {
		d.Errorf("state %#x of a delivered packet", s.State)
	}
	for _, e := range d.keyList() {
		if strings.HasSuffix(e, fmt.Sprint(s.Pos)) {
			d.Errorf("key left behind: %s", e)
		}
	}
}

// nextPos is the position that this CPU gives to the next lone packet, if it is free.
func (d *domain) nextPos() uint64 {
	d.Helper()
	for _, a := range d.allocs() {
		if a.Next < a.End {
			return a.Next
		}
	}
	return d.cursor()
}

// allocs is what each CPU holds of the ring.
func (d *domain) allocs() []bpfobj.TcRdrAlloc {
	d.Helper()
	var perCPU []bpfobj.TcRdrAlloc
	if err := d.Maps[bpfobj.TcMapAlloc].Lookup(uint32(0), &perCPU); err != nil {
		d.Fatal(err)
	}
	return perCPU
}

// keyList spells the entries of the map of keys out.
func (d *domain) keyList() []string {
	d.Helper()
	var key bpfobj.TcRdrKey
	var pos uint64
	var out []string
	it := d.Maps[bpfobj.TcMapKeys].Iterate()
	for it.Next(&key, &pos) {
		out = append(out, fmt.Sprintf("%+v %d", key, pos))
	}
	return out
}

// TestKeyInFlight: a key is unique only while one packet has it. A second one is
// not measured; when the first has arrived, has left or has expired, it is.
func TestKeyInFlight(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-reply")
	first := d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	second := bytes.Clone(orig)
	second[len(second)-1] ^= 1 // nothing that radar looks at
	same(t, "second", d.send(frame{data: second}).data, second)
	d.counted(tally{cSeen: 1, cKeyInFlight: 1})

	d.deliver(first, 0)
	third := d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.egress(r1Edge, d.route(d.ingress(r1In, d.link(third, 0)), r1In))
	d.counted(nil)

	pos := d.nextPos()
	d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.age(uint32(pos)&(d.layout.Slots-1), time.Minute)
	d.send(frame{data: second})
	d.counted(tally{cSeen: 1, cMarked: 1})
}

// TestKeyEqualAgain: a host sends the same packet again, when the first one is further on,
// or is lost. The first one's story has nothing of it.
func TestKeyEqualAgain(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lost %v", carry, lost), func(t *testing.T) {
				d := newDomain(t, config{carry: carry})
				orig := packet(t, "clear-udp")
				first := uint32(d.nextPos()) & (d.layout.Slots - 1)
				d.transit(d.send(frame{data: orig}), 0)
				d.counted(tally{cSeen: 1, cMarked: 1})
				want := "out@0/FSK in@1/FK out@2/FK"
				if lost {
					d.lose(first)
					want += " loss@2/F"
				}
				d.send(frame{data: orig})
				if lost {
					d.counted(tally{cSeen: 1, cMarked: 1})
				} else {
					d.counted(tally{cSeen: 1, cKeyInFlight: 1})
				}
				d.wantStory(first, want)
			})
		}
	}
}

// TestKeyEqualEnters: the same where it comes from outside. What is over, wherever it came
// from, has no say there.
func TestKeyEqualEnters(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	enter := func() {
		d.egress(r1Out, d.route(d.ingress(r1Edge, frame{data: orig}), r1Edge))
	}
	first := uint32(d.nextPos()) & (d.layout.Slots - 1)
	enter()
	d.counted(tally{cSeen: 1, cMarked: 1})
	enter()
	d.counted(tally{cSeen: 1, cKeyInFlight: 1})
	d.wantStory(first, "in@4/FS out@2/FK")
	d.age(first, time.Minute)

	again := uint32(d.nextPos()) & (d.layout.Slots - 1)
	d.transit(d.send(frame{data: orig}), 0)
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.lose(again)
	enter()
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.wantStory(again, "out@0/FSK in@1/FK out@2/FK loss@2/F")
}

// lose makes the slot's packet one that the queue of r1Out has dropped.
func (d *domain) lose(index uint32) {
	d.Helper()
	s := d.slot(index)
	for i, cell := range []uint64{
		uint64(bpfobj.TcRdrEventRDR_EV_LOSS)<<60 | 1<<56 | r1Out<<40 | uint64(time.Second), 0x1234, 0x5678,
	} {
		binary.NativeEndian.PutUint64(s.raw[cellAt(int(s.Nev)+i):], cell)
	}
	d.put(bpfobj.TcMapRing, index, s.raw)
	s = d.slot(index)
	s.Nev += 3
	s.State |= uint8(stDone | stLost)
	d.write(s)
}

// TestKeyContent: a packet that shares the key but not the content is another.
func TestKeyContent(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	other := bytes.Clone(orig)
	other[etherHeader+20+8] ^= 1
	in := d.ingress(r1In, frame{data: other})
	same(t, "other", in.data, other)
	if in.mark != 0 {
		t.Errorf("mark %#x on a packet that is not ours", in.mark)
	}
	d.counted(tally{cPassed: 1})
}

// TestKeyFlow: neither is one of another flow with the same ID, addresses and content. It has
// a key of its own.
func TestKeyFlow(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	first := uint32(d.nextPos()) & (d.layout.Slots - 1)
	d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	other := bytes.Clone(orig)
	other[etherHeader+20] ^= 1 // source port
	in := d.ingress(r1In, frame{data: other})
	same(t, "other, at r1", in.data, other)
	if in.mark != 0 {
		t.Errorf("mark %#x on a packet that is not ours", in.mark)
	}
	d.counted(tally{cPassed: 1})
	_, w := d.transit(d.send(frame{data: other}), 0)
	same(t, "other, at h2", d.deliver(w, 0).data, lowered(t, other, 1))
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.wantStory(first, "out@0/FSK")
	d.wantStory(first+1, "out@0/FSK in@1/FK out@2/FK deliver@3/FK")
}

// TestKeyFlowChosen: not even where somebody has chosen address and port so that the keys are equal.
func TestKeyFlowChosen(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "clear-udp")
	other := bytes.Clone(orig)
	other[etherHeader+20] ^= 1
	hash := func(data []byte) uint32 {
		return uint32(uint64(binary.NativeEndian.Uint32(data[etherHeader+20:])) * d.hashKeys()[2] >> 32)
	}
	saddr := other[etherHeader+12:]
	binary.NativeEndian.PutUint32(saddr, binary.NativeEndian.Uint32(saddr)^hash(orig)^hash(other))
	fixSum(other, etherHeader)
	first := uint32(d.nextPos()) & (d.layout.Slots - 1)
	d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	same(t, "other", d.send(frame{data: other}).data, other)
	d.counted(tally{cSeen: 1, cKeyInFlight: 1})
	in := d.ingress(r1In, frame{data: other})
	same(t, "other, at r1", in.data, other)
	if in.mark != 0 {
		t.Errorf("mark %#x on a packet that is not ours", in.mark)
	}
	d.counted(tally{cPassed: 1})
	d.wantStory(first, "out@0/FSK")
}

// TestKeySharedID: of packets that may have any ID (DF set) many have the same at once, and some
// senders give it to all. Content and ports tell them apart, one by one and as segments of a train.
func TestKeySharedID(t *testing.T) {
	for _, name := range []string{"ttl-7", "clear-udp", "clear-tcp", "clear-reply", "fragment-first", "fragment-middle"} {
		for _, by := range []string{"content", "port", "later content"} {
			if by == "port" && (name == "clear-reply" || name == "fragment-middle") ||
				by == "later content" && name != "clear-udp" {
				continue // it has none
			}
			t.Run(name+"/"+by, func(t *testing.T) { testKeySharedID(t, name, by) })
		}
	}
}

func testKeySharedID(t *testing.T, name, by string) {
	d := newDomain(t, config{})
	var orig [4][]byte
	var wire [4]frame
	first := uint32(d.nextPos()) & (d.layout.Slots - 1)
	for k := range orig {
		orig[k] = packet(t, name)
		setBits(t, orig[k], 0, header(t, orig[k]).ttl(), 0)
		orig[k][len(orig[k])-1] = byte(k)
		l4 := ipAt(orig[k]) + 20
		at := l4 + 3 // destination port
		switch {
		case by == "port":
		case by == "later content":
			at = l4 + 8 + 20
		case name == "fragment-middle":
			at = l4
		case orig[k][etherHeader+9] == 17:
			at = l4 + 8
		default:
			at = l4 + 7
		}
		orig[k][at] ^= byte(k) // in the tag
		wire[k] = d.send(frame{data: orig[k]})
	}
	d.counted(tally{cSeen: 4, cMarked: 4})
	if n := d.keyCount(); n != 4 {
		t.Errorf("%d keys for 4 packets: %v", n, d.keyList())
	}
	for k := len(orig) - 1; k >= 0; k-- {
		_, w2 := d.transit(wire[k], 0)
		same(t, "at h2", d.deliver(w2, 0).data, lowered(t, orig[k], 1))
		d.wantStory(first+uint32(k), "out@0/FSK in@1/FK out@2/FK deliver@3/FK")
	}
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys left: %v", n, d.keyList())
	}
	d.counted(nil)
}

// TestKeySharedByEquals: packets equal in every bit cannot be told apart: the second
// one is not measured.
func TestKeySharedByEquals(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "ttl-7")
	w := d.send(frame{data: orig})
	same(t, "the second", d.send(frame{data: orig}).data, orig)
	d.counted(tally{cSeen: 2, cMarked: 1, cKeyInFlight: 1})
	d.deliver(w, 0)
	d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
}

// TestKeyLength: ICMP errors have little content to tell them apart; two that share
// a key differ in length.
func TestKeyLength(t *testing.T) {
	d := newDomain(t, config{})
	d.send(frame{data: packet(t, "error-tcp-data")})
	d.counted(tally{cSeen: 1, cMarked: 1})
	other := packet(t, "error-icmp-echo.8") // of the same type, code and IP ID
	if in := d.ingress(r1In, frame{data: other}); in.mark != 0 {
		t.Errorf("mark %#x on a packet that is not ours", in.mark)
	}
	d.counted(tally{cPassed: 1})
}

// TestKeysFull: no room in the map of keys, no measurement.
func TestKeysFull(t *testing.T) {
	d := newDomain(t, config{keys: 2})
	var full uint64
	for i := range 200 {
		p := packet(t, "clear-udp")
		setBits(t, p, uint16(1000+i), 64, 0)
		same(t, "unchanged", d.send(frame{data: p}).data, p)
		full = d.counters()[cKeysFull]
	}
	if marked := d.counters()[cMarked]; full == 0 || full+marked != 200 {
		t.Errorf("%d of 200 packets found the map full, %d got in", full, marked)
	}
	if n := d.keyCount(); n > 2 {
		t.Errorf("%d keys in a map of 2", n)
	}
}

// TestLowTTL: hidden routers may end a packet that travels by its key: it is found
// whatever they made of its TTL.
func TestLowTTL(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "ttl-7")
	for hidden := range 6 {
		end := d.deliver(d.send(frame{data: orig}), hidden)
		same(t, "at h2", end.data, lowered(t, orig, hidden))
		d.counted(tally{cSeen: 1, cMarked: 1})
	}
}

// TestKeyEqualBehind: the same packet again, which nobody measures, comes to the nodes behind the
// first one. It adds nothing to the story of that, which may well go round in circles.
func TestKeyEqualBehind(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		t.Run(carry, func(t *testing.T) {
			d := newDomain(t, config{carry: carry})
			d.towards(h1Out, nodeR1)
			d.towards(r1Out, nodeH2)
			orig := packet(t, "clear-udp")
			first := uint32(d.nextPos()) & (d.layout.Slots - 1)
			w := d.send(frame{data: orig})
			again := d.send(frame{data: orig})
			_, w = d.transit(w, 0)
			for range 2 {
				inside, out := d.transit(again, 0)
				if inside.mark != 0 {
					t.Errorf("mark %#x on a packet that is not measured", inside.mark)
				}
				same(t, "behind r1", out.data, lowered(t, orig, 1))
			}
			d.wantStory(first, "out@0/FSK in@1/FK out@2/FK")
			d.towards(r1Out, nodeR1) // as if its link led back
			_, w = d.transit(w, 0)
			d.wantStory(first, "out@0/FSK in@1/FK out@2/FK in@1/FK out@2/FK")
			d.towards(r1Out, nodeH2)
			d.deliver(w, 0)
			d.wantStory(first, "out@0/FSK in@1/FK out@2/FK in@1/FK out@2/FK deliver@3/FK")
		})
	}
}
