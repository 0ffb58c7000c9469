// SPDX-License-Identifier: Apache-2.0

package int

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// testSample: one packet in four.
func testSample(t *testing.T, n *nstest.Net) {
	e := md(0xfc00, 8)
	e.Sample = 4
	c := newChain(t, n, settings{entry: e})
	for range 400 {
		inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", c.frame(17, payload(100), nil)) })
	}
	await(t, c.got, 400)
	if got := c.r1.counts()["done 0"]; got < 40 || got > 200 { // 100 in the mean, deviation 9
		t.Errorf("%d of 400 packets, one in four was wanted", got)
	}
	if got := c.r1.counts(); got["done 0"]+got["skip 2"] != 400 {
		t.Errorf("%v", got)
	}
}

// testXDSample: all nodes choose the same packets.
func testXDSample(t *testing.T, n *nstest.Net) {
	e := mode(bpfobj.INT_MODE_XD, 0xfc00, 8)
	e.Sample = 3
	c := newChain(t, n, settings{entry: e})
	for i := range 90 {
		f := c.frame(17, payload(60+i), func(ip []byte) { binary.BigEndian.PutUint16(ip[4:], uint16(i)) })
		inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
	}
	await(t, c.got, 90)
	chosen := c.r1.counts()["done 3"]
	if chosen < 10 || chosen > 60 {
		t.Errorf("%d of 90 packets, one in three was wanted", chosen)
	}
	seen := make(map[uint16]int)
	for _, r := range c.reports(int(3 * chosen)) {
		q := r.RawSample[64:]
		seen[binary.BigEndian.Uint16(q[4:])]++
	}
	for id, n := range seen {
		if n != 3 {
			t.Errorf("packet %d was reported by %d nodes", id, n)
		}
	}
}

// testXDHash: which packets they are the hash of the P4 nodes says (p4/include/int/source.p4), here made by another hand.
func testXDHash(t *testing.T, n *nstest.Net) {
	e := mode(bpfobj.INT_MODE_XD, 0xfc00, 8)
	e.Sample = 3
	c := newChain(t, n, settings{entry: e})
	for _, proto := range []byte{17, 6} {
		want := make(map[uint16]bool)
		for i := range uint16(40) {
			f := c.frame(proto, payload(60+int(i)), func(ip []byte) { binary.BigEndian.PutUint16(ip[4:], i) })
			ip := f[14:]
			var b [51]byte
			b[10], b[11], b[26], b[27] = 0xff, 0xff, 0xff, 0xff
			copy(b[12:], ip[12:16])
			copy(b[28:], ip[16:20])
			b[32] = proto
			copy(b[33:], ip[20:24])
			copy(b[37:], ip[4:6])
			if proto == 6 {
				copy(b[39:], ip[24:32])
				copy(b[47:], ip[36:38])
			} else {
				copy(b[49:], ip[26:28])
			}
			if crc32.ChecksumIEEE(b[:])%e.Sample == 0 {
				want[i] = true
			}
			inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
		}
		await(t, c.got, 40)
		if len(want) == 0 {
			t.Fatal("no packet is to be chosen")
		}
		got := make(map[uint16]bool)
		for _, r := range c.reports(3 * len(want)) {
			got[binary.BigEndian.Uint16(r.RawSample[64+4:])] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("protocol %d: packets %v were chosen, want %v", proto, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}
