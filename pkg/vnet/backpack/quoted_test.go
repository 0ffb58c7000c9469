// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// TestFindQuoted: a number counts only for the packet that was in flight then, with that flow, length
// and content.
func TestFindQuoted(t *testing.T) {
	const offTags = 20 // in a slot
	b := newFindBench(t, udp)
	b.t0 -= second // when the last packet was sent
	b.Put(b.pos, offTags, 'r', 'a', 'd', 'a')
	b.Put(b.pos, offTags+4, 'r', ' ', '-', ' ')
	b.Translate(b.pos, rt.First, r1e1, [4]byte{192, 0, 2, 1}, udp.Dst, 61000, 53, b.t0+1500)
	b.See(b.pos, rt.Egress, rt.First, r1e1, b.t0+2000)
	dec := backpack.NewDecoder(testDomain(64), names{})
	good := backpack.Quoted{
		Index: b.pos & 63, Proto: 17, Len: 106, At: b.t0 + 5000, L4: append(make([]byte, 8), "radar - more"...),
		Tuple: packet.Tuple{Src: packet.AddrFrom4(udp.Src), Dst: packet.AddrFrom4(udp.Dst), SrcPort: 4000, DstPort: 53},
	}
	for name, c := range map[string]struct {
		change func(*backpack.Quoted)
		want   backpack.Mismatch
	}{
		"true":               {func(*backpack.Quoted) {}, backpack.Matches},
		"behind NAT":         {func(q *backpack.Quoted) { q.Src, q.SrcPort = packet.AddrFrom4([4]byte{192, 0, 2, 1}), 61000 }, backpack.Matches},
		"half behind NAT":    {func(q *backpack.Quoted) { q.SrcPort = 61000 }, backpack.Foreign},
		"before it was sent": {func(q *backpack.Quoted) { q.At = b.t0 - 1 }, backpack.Stale},
		"long after":         {func(q *backpack.Quoted) { q.At = b.t0 + 12*second }, backpack.Stale},
		"unused slot":        {func(q *backpack.Quoted) { q.Index++ }, backpack.Stale},
		"no slot":            {func(q *backpack.Quoted) { q.Index = 64 }, backpack.Foreign},
		"another protocol":   {func(q *backpack.Quoted) { q.Proto = 6 }, backpack.Foreign},
		"another length":     {func(q *backpack.Quoted) { q.Len = 107 }, backpack.Foreign},
		"another port":       {func(q *backpack.Quoted) { q.DstPort = 54 }, backpack.Foreign},
		"other content":      {func(q *backpack.Quoted) { q.L4 = append(make([]byte, 8), "radar - more"[1:]...) }, backpack.Foreign},
		"cut":                {func(q *backpack.Quoted) { q.L4 = q.L4[:15] }, backpack.Unproven},
	} {
		q := good
		c.change(&q)
		pos, why := backpack.FindQuoted(b, dec, &q, b.t0+6000)
		if why != c.want || why == backpack.Matches && pos != b.pos || why != backpack.Matches && pos != 0 {
			t.Errorf("%s: position %d, %d; want %d", name, pos, why, c.want)
		}
	}
	at := backpack.Position{Epoch: testEpoch, Pos: b.pos}
	if _, _, err := backpack.FindAt(b, dec, at, b.t0+6000); err != nil {
		t.Error(err)
	}
	at.Epoch++
	if _, _, err := backpack.FindAt(b, dec, at, b.t0+6000); err == nil {
		t.Error("found under another attach's epoch")
	}
}

// TestFindQuotedEcho: of an echo its ID and sequence number count, and the first eight bytes of its data where it has so many.
func TestFindQuotedEcho(t *testing.T) {
	const offTags = 20 // in a slot
	l4 := []byte{8, 0, 0x12, 0x34, 0, 7, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8}
	for size, tag2 := range map[int]uint32{15: 0, 16: 0x04030201 ^ 0x08070605*0x9e3779b1&0xffffffff, 24: 0x04030201 ^ 0x08070605*0x9e3779b1&0xffffffff} {
		echo := rt.Packet{Proto: 1, Src: udp.Src, Dst: udp.Dst, Sport: 7, Dport: 9, ICMPType: 8, TTL: 64, Frag: 0x4000, Len: uint16(20 + size)}
		b := newFindBench(t, echo)
		b.t0 -= second // when the last packet was sent
		b.Put(b.pos, offTags, 8, 0, 0, 9)
		b.Put(b.pos, offTags+4, byte(tag2), byte(tag2>>8), byte(tag2>>16), byte(tag2>>24))
		q := backpack.Quoted{
			Index: b.pos & 63, Proto: 1, Len: 20 + size, At: b.t0 + 5000, L4: append(l4[:16:16], make([]byte, 8)...)[:size],
			Tuple: packet.Tuple{Src: packet.AddrFrom4(udp.Src), Dst: packet.AddrFrom4(udp.Dst), SrcPort: 7, DstPort: 9},
		}
		dec := backpack.NewDecoder(testDomain(64), names{})
		if pos, why := backpack.FindQuoted(b, dec, &q, b.t0+6000); why != backpack.Matches || pos != b.pos {
			t.Errorf("%d bytes behind the IP header: position %d, %d", size, pos, why)
		}
		if size >= 16 {
			q.L4[15]++
			if _, why := backpack.FindQuoted(b, dec, &q, b.t0+6000); why != backpack.Foreign {
				t.Errorf("%d bytes, of other data: %d, want %d", size, why, backpack.Foreign)
			}
		}
	}
}
