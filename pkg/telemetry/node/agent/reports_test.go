// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
	"unsafe"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

const wall = 1_000_000_000_000

// sampleOf is what a program tells.
func sampleOf(r bpfobj.IntReport, quote []byte) []byte {
	r.QuoteLen = uint16(len(quote))
	return append(bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), headBytes)), quote...)
}

func full(id uint32) bpfobj.IntReport {
	return bpfobj.IntReport{
		IngressNs: 1000, EgressNs: 3000, Node: id, Latency: 2000, Queue: 3<<24 | 7, L2In: 11, L2Out: 12, Utilisation: 99,
		PortIn: 1, PortOut: 2, Bits: 0xff00, Domain: 0x1234, Flags: 0x20, Mode: uint8(node.MD), Ip: 4,
	}
}

// collected is an assembler, and what it emits.
func collected(version string) (a *assembler, sent *[][]byte) {
	sent = new([][]byte)
	a = newAssembler(version, func(b []byte) { *sent = append(*sent, bytes.Clone(b)) })
	a.wall = wall
	return a, sent
}

// TestReport20 compares with bytes written by hand, from the text of TR 2.0.
func TestReport20(t *testing.T) {
	a, sent := collected(node.Report20)
	now := time.Now()
	quote := []byte{0x45, 1, 2, 3, 4, 5}
	six := full(9)
	six.Ip, six.Flags, six.Bits, six.Domain = 6, 0x60, 0x0400, 0
	for _, sample := range [][]byte{sampleOf(full(9), quote), sampleOf(six, []byte{0x60, 0, 0, 0})} {
		if err := a.add(sample, now); err != nil {
			t.Fatal(err)
		}
	}
	if len(*sent) > 0 {
		t.Error("sent before it is full or old")
	}
	a.flushUntil(now) // none is older
	a.flushUntil(now.Add(1))
	time := func(ns uint64) []byte { return binary.BigEndian.AppendUint64(nil, wall+ns) }
	want := bytes.Join([][]byte{
		{0x20, 0, 0, 0}, {0, 0, 0, 9}, // group: version 2, hw id 0, number 0; node 9
		{0x14, 14, 10, 0x20}, {0x7f, 0, 0x12, 0x34}, {0, 0, 0, 0}, // type 1 of IPv4, 14 words behind, 10 of metadata; bits, domain
		{0, 1, 0, 2}, {0, 0, 7, 208}, {3, 0, 0, 7}, time(1000), time(3000), {0, 0, 0, 11}, {0, 0, 0, 12}, {0, 0, 0, 99},
		{0x45, 1, 2, 3, 4, 5, 0, 0},
		{0x15, 5, 2, 0x60}, {0x04, 0, 0, 0}, {0, 0, 0, 0}, time(3000), {0x60, 0, 0, 0},
	}, nil)
	if len(*sent) != 1 || !bytes.Equal((*sent)[0], want) {
		t.Errorf("sent\n% x\nwant\n% x", *sent, want)
	}
	if a.count != 2 {
		t.Errorf("%d reports", a.count)
	}
}

// TestGroups: a datagram is about one node, has at most 1,400 bytes, and numbers count by node.
func TestGroups(t *testing.T) {
	a, sent := collected(node.Report20)
	now := time.Now()
	for range 30 {
		for _, id := range []uint32{1, 2} {
			if err := a.add(sampleOf(full(id), bytes.Repeat([]byte{0x45}, 200)), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.flushAll()
	next := make(map[uint32]uint32)
	reports := 0
	for _, b := range *sent {
		id, number := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b)&0x3fffff
		if len(b) > 1400 || number != next[id] {
			t.Errorf("%d bytes, number %d of node %d, want %d", len(b), number, id, next[id])
		}
		next[id]++
		for at := 8; at < len(b); at += 4 + 4*int(b[at+1]) {
			reports++
		}
	}
	if reports != 60 || len(*sent) != 2*6 { // 252 bytes each: five in a datagram
		t.Errorf("%d reports in %d datagrams", reports, len(*sent))
	}
	// The number has 22 bits.
	a.next[1] = 1<<22 - 1
	*sent = nil
	for range 2 {
		if err := a.add(sampleOf(full(1), nil), now); err != nil {
			t.Fatal(err)
		}
		a.flushAll()
	}
	if len(*sent) != 2 || binary.BigEndian.Uint32((*sent)[0]) != 2<<28|0x3fffff || binary.BigEndian.Uint32((*sent)[1]) != 2<<28 {
		t.Errorf("% x", *sent)
	}
}

// TestUnknown: what is not known is left out, level-2 ports of which one is not known among it.
func TestUnknown(t *testing.T) {
	for _, c := range []struct {
		change func(*bpfobj.IntReport)
		bits   uint16
		words  byte
	}{
		{func(r *bpfobj.IntReport) { r.Bits = 0xffff }, 0x7f00, 10},
		{func(r *bpfobj.IntReport) { r.Bits = 0 }, 0, 0},
		{func(r *bpfobj.IntReport) { r.L2In = 0xffffffff }, 0x7d00, 8},
		{func(r *bpfobj.IntReport) { r.Bits = 0x4800 }, 0x4800, 3},
	} {
		a, sent := collected(node.Report20)
		r := full(1)
		c.change(&r)
		if err := a.add(sampleOf(r, []byte{0x45}), time.Now()); err != nil {
			t.Fatal(err)
		}
		a.flushAll()
		if b := (*sent)[0]; binary.BigEndian.Uint16(b[12:]) != c.bits || b[10] != c.words {
			t.Errorf("bits %#x: % x", r.Bits, b)
		}
	}
}

// TestReport10 compares with bytes written by hand, from the text of TR 1.0.
func TestReport10(t *testing.T) {
	a, sent := collected(node.Report10)
	for range 2 {
		if err := a.add(sampleOf(full(9), []byte{0x45, 1}), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	short := func(ns uint64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(wall+ns)) }
	want := bytes.Join([][]byte{
		{0x19, 0x3e, 0x80, 0x40}, {0, 0, 0, 9}, {0, 0, 0, 1}, short(1000), // version 1, 9 words, IPv4, bits 111101, F; node, number, ingress
		{0, 1, 0, 2}, {0, 0, 7, 208}, {3, 0, 0, 7}, short(3000), {0, 0, 0, 99}, {0x45, 1},
	}, nil)
	if len(*sent) != 2 || !bytes.Equal((*sent)[1], want) {
		t.Errorf("sent\n% x\nwant\n% x", *sent, want)
	}
}

// TestCut: a report that is shorter than it says is none.
func TestCut(t *testing.T) {
	a, sent := collected(node.Report20)
	whole := sampleOf(full(1), []byte{0x45, 2, 3, 4})
	for n := range whole {
		if err := a.add(whole[:n], time.Now()); err == nil {
			t.Errorf("%d bytes of %d are taken", n, len(whole))
		}
	}
	if a.flushAll(); len(*sent) > 0 {
		t.Errorf("% x", *sent)
	}
}
