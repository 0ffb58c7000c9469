// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
)

// testMTUOld: the same with INT 1.0, whose M is another bit.
func testMTUOld(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: mode(bpfobj.INT_MODE_MD10, 0xfc00, 6)})
	p := c.pass(c.frame(17, payload(1500-28-36), nil)) // fits exactly; not the next hop
	if first := binary.BigEndian.Uint32(p[2].payload[4:]); first != 1<<28|1<<23|6<<8|7 {
		t.Errorf("behind a transit without room: %#x, want M and 7 hops left", first)
	}
	if wrong := p[2].wrong(); wrong != "" {
		t.Error(wrong)
	}
	sameBut(t, p[3].ip, p[0].ip, 3)
	wantCounts(t, c.r2, nil, map[string]uint64{"skip 13": 1})
}

// testFull: a stack gets as many words as its length can say, and no more.
func testFull(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xf000, 4)})
	for hops, want := range map[int]map[string]uint64{62: {"done 1": 1}, 63: {"skip 16": 1}} {
		b := make([]byte, 16+hops*16, 16+hops*16+20)
		binary.BigEndian.PutUint32(b, 1<<28|uint32(3+hops*4)<<16|10<<2)
		binary.BigEndian.PutUint32(b[4:], 2<<28|4<<8|5)
		binary.BigEndian.PutUint32(b[8:], 0xf000<<16)
		before := c.r2.counts()
		c.inject(append(b, payload(20)...))
		two, _ := decode(await(t, c.link2, 1)[0])
		if st := readStack(t, two.payload); len(st.hops) != 63 {
			t.Errorf("%d hops behind a transit that got %d, want 63", len(st.hops), hops)
		}
		got, _ := decode(await(t, c.got, 1)[0])
		sameBytes(t, "payload", got.payload, payload(20))
		wantCounts(t, c.r2, before, want)
	}
}

// testFragments: the first fragment has a TCP header, and gets no INT all the same: the others would no longer fit behind it.
func testFragments(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	first := c.frame(6, payload(76), func(ip []byte) { ip[6] = 0x20 })         // 96 bytes
	last := c.frame(6, payload(4), func(ip []byte) { ip[6], ip[7] = 0, 96/8 }) // or h2 would report the first
	for _, f := range [][]byte{first, last} {
		p := c.pass(f)
		for i := 1; i <= 3; i++ {
			sameBut(t, p[i].ip, p[0].ip, byte(i))
		}
	}
	wantCounts(t, c.r1, nil, map[string]uint64{"skip 5": 2})
}

// testPaced: a packet has a time of delivery that is still to come. That is not when it came.
func testPaced(t *testing.T, n *nstest.Net) {
	if known(t)["cfg_times"] == uint8(0) {
		t.Log("this kernel carries no times through a node (Linux 5.18)")
		return
	}
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	later := uint64(clock.Monotonic()) + uint64(time.Hour)
	inNetns(t, c.Path("h1"), func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		// struct sock_txtime: clockid, flags
		option := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, unix.CLOCK_MONOTONIC), 0)
		if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(option)); err != nil {
			return err
		}
		cmsg := make([]byte, unix.CmsgSpace(8))
		h := (*unix.Cmsghdr)(unsafe.Pointer(&cmsg[0]))
		h.Level, h.Type = unix.SOL_SOCKET, unix.SO_TXTIME
		h.SetLen(unix.CmsgLen(8))
		binary.NativeEndian.PutUint64(cmsg[unix.CmsgLen(0):], later)
		return unix.Sendmsg(fd, payload(100), cmsg, &unix.SockaddrInet4{Port: 5000, Addr: [4]byte{10, 0, 3, 2}}, 0)
	})
	p, _ := decode(await(t, c.link2, 1)[0])
	for _, h := range readStack(t, p.payload).hops {
		if !bytes.Equal(h[8:12], bytes.Repeat([]byte{255}, 4)) || !bytes.Equal(h[16:24], bytes.Repeat([]byte{255}, 8)) {
			t.Errorf("node %d says when a packet came in that has another time: % x", h[3], h)
		}
	}
	await(t, c.got, 1)
	if n := c.r2.counts()["done 11"]; n != 1 {
		t.Errorf("%d hops without latency are counted, want 1", n)
	}
}

// testL2Ports: a port that has a level-2 number is reported, though the other one has none.
func testL2Ports(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: mode(bpfobj.INT_MODE_XD, 0x8200, 3)})
	none := ^uint32(0)
	number := func(nd *node, name, port string, l2 uint32) {
		index := uint32(c.Index(name, port)) & 255
		var p bpfobj.IntPort
		if err := nd.objs.Ports.Lookup(index, &p); err != nil {
			t.Fatal(err)
		}
		p.L2 = l2
		if err := nd.objs.Ports.Put(index, p); err != nil {
			t.Fatal(err)
		}
	}
	number(c.r1, "r1", "e0", 77)
	number(c.r2, "r2", "e1", 88)
	want := map[uint32][3]uint32{1: {77, none, 0x8200}, 2: {none, 88, 0x8200}, 3: {none, none, 0x8000}}
	c.pass(c.frame(17, payload(50), nil))
	for _, raw := range c.reports(3) {
		var r bpfobj.IntReport
		if _, err := binary.Decode(raw.RawSample, binary.NativeEndian, &r); err != nil {
			t.Fatal(err)
		}
		if got := [3]uint32{r.L2In, r.L2Out, uint32(r.Bits)}; got != want[r.Node] {
			t.Errorf("node %d: level-2 ports and bits %#x, want %#x", r.Node, got, want[r.Node])
		}
	}
}
