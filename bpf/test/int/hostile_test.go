// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// foreignINT is INT-MD 2.1 with one hop of 8 words, and 20 bytes.
func foreignINT() []byte {
	b := make([]byte, 48, 68)
	binary.BigEndian.PutUint32(b, 1<<28|11<<16|10<<2)
	binary.BigEndian.PutUint32(b[4:], 2<<28|8<<8|5)
	binary.BigEndian.PutUint32(b[8:], 0xfc00<<16)
	return append(b, payload(20)...)
}

func marked(ip []byte) { ip[1] = 0x17 << 2 }

// testForeign: INT that comes from outside passes under a cover: no node adds to it, none is told, and it is as it was
// at h2.
func testForeign(t *testing.T, n *nstest.Net) {
	empty := foreignINT()[:16:16] // as a cover is
	empty[1], empty[7] = 3, 0
	for name, b := range map[string][]byte{"INT": foreignINT(), "a cover": append(empty, payload(20)...)} {
		t.Run(name, func(t *testing.T) { checkForeign(t, n, b) })
	}
}

func checkForeign(t *testing.T, n *nstest.Net, b []byte) {
	t.Helper()
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	p := c.pass(c.frame(17, b, marked))
	for i := 1; i <= 2; i++ {
		if wrong := p[i].wrong(); wrong != "" || p[i].dscp != 0x17 {
			t.Errorf("link %d: %s is wrong, DSCP %#x", i, wrong, p[i].dscp)
		}
		st := readStack(t, p[i].payload)
		if len(st.hops) != 0 || st.first&0xff != 0 {
			t.Errorf("link %d: % x", i, p[i].payload)
		}
		sameBytes(t, "INT of others", st.rest, b)
	}
	sameBut(t, p[3].ip, p[0].ip, 3)
	wantCounts(t, c.r1, nil, map[string]uint64{"skip 11": 1, "done 12": 1})
	wantCounts(t, c.r2, nil, map[string]uint64{"skip 11": 1})
	wantCounts(t, c.r3, nil, map[string]uint64{"done 13": 1})
	c.reports(0)
}

// testForeignOutside: what does not go inside stays as it is.
func testForeignOutside(t *testing.T, n *nstest.Net) {
	s := newShared(t)
	r1 := s.attach(t, n, "r1", 1, map[string]uint32{"e0": edge, "e1": edge}, settings{entry: md(0xfc00, 8)})
	c := &chain{Net: n, t: t, r1: r1, sent: newCapture(t, n, "r1", "e0"), link1: newCapture(t, n, "r2", "e0"), link2: newCapture(t, n, "r3", "e0"), got: newCapture(t, n, "h2", "e0")}
	p := c.pass(c.frame(17, foreignINT(), marked))
	sameBut(t, p[1].ip, p[0].ip, 1)
	wantCounts(t, r1, nil, map[string]uint64{"skip 11": 1})
}

// testForeignWithoutRoom: what a cover has no room for is dropped, and counted. A lease matters not.
func testForeignWithoutRoom(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	c.shared.lease(1)
	p := c.pass(c.frame(17, append(foreignINT(), payload(1500-28-16-68)...), marked))
	sameBut(t, p[3].ip, p[0].ip, 3)
	before := c.r1.counts()
	f := c.frame(17, append(foreignINT(), payload(1500-28-15-68)...), marked)
	inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
	nstest.WaitFor(t, "the drop", func() bool { return c.r1.counts()["done 10"] == 1 })
	wantCounts(t, c.r1, before, map[string]uint64{"skip 11": 1, "skip 13": 1, "done 10": 1})
}

// testForeignTrain: a train of which one segment will be INT is dropped, wherever that is. Others pass, though they bear
// the mark.
func testForeignTrain(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	const each = 16
	for _, count := range []int{2, 40, 63, 64, 65, 128} {
		for _, at := range []int{-1, 0, count / 2, count - 1} {
			b := bytes.Repeat([]byte{0xaa}, count*each)
			if at >= 0 {
				copy(b[at*each:], shortINT())
			}
			c.passTrain(fmt.Sprintf("%d segments, INT in %d", count, at), "h1", b, each, at < 0)
		}
	}
}

// testLongestTrain: all segments are looked at of a train that has as many as can bear INT. Who hands one over need not
// have counted them, as a socket at the node itself or a tap.
func testLongestTrain(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	const least = 12 // bytes of INT 1.0 without any metadata
	for _, from := range []string{"h1", "r1"} {
		for _, test := range []struct{ each, size, at int }{
			{least, longest, -1}, {least, longest, 0}, {least, longest, 64 * least}, {least, longest, (longest - least) / least * least},
			{least + 1, 2*(least+1) + least, 2 * (least + 1)}, // in a short last one
			{least - 1, 100 * least, 22 * (least - 1)},        // cut in two
			{1, longest, -1},
		} {
			b := bytes.Repeat([]byte{0xaa}, test.size)
			if test.at >= 0 {
				copy(b[test.at:], shortINT())
			}
			c.passTrain(fmt.Sprintf("from %s: %+v", from, test), from, b, test.each, test.at < 0 || test.each < least)
		}
	}
}

// longest is how much TCP payload a train of a veth can have: from 64 KiB on the kernel cuts it.
const longest = 1<<16 - 1 - 14 - 20 - 20

// shortINT is INT-MD 1.0 with no hop yet: the shortest INT that there is.
func shortINT() []byte {
	b := make([]byte, 12)
	binary.BigEndian.PutUint32(b, 1<<24|3<<8|10<<2)
	binary.BigEndian.PutUint32(b[4:], 1<<28|1<<8|5)
	binary.BigEndian.PutUint32(b[8:], 0x8000<<16)
	return b
}

// passTrain sends a train of TCP segments from h1, or from r1's own port inside. It wants it to come to r3, or to be
// dropped at r1.
func (c *chain) passTrain(what, from string, b []byte, each int, passes bool) {
	c.t.Helper()
	one, three := c.r1.counts(), c.r3.counts()
	f := c.frame(6, b, marked)
	port := "e0"
	if from == "r1" {
		port = "e1"
		c.between(f, "r2", "r1")
	}
	// The field has the pseudo header's sum.
	binary.BigEndian.PutUint16(f[14+20+16:], sumOf(f[14+12:14+20], uint32(6+20+len(b))))
	inNetns(c.t, c.Path(from), func() error {
		err := sendOffloaded(port, f, vnet{gsoTCP, 14 + 20 + 20, each, 14 + 20, 16}, false)
		if errors.Is(err, unix.ENOBUFS) { // a program of this port has dropped it
			return nil
		}
		return err
	})
	nstest.WaitFor(c.t, what+": the train, or its drop", func() bool {
		return moved(c.r3, three)["skip 21"] > 0 || moved(c.r1, one)["done 10"] > 0
	})
	if n := moved(c.r1, one)["done 10"]; (n == 0) != passes {
		c.t.Errorf("%s: %d trains are dropped; it is to pass: %v", what, n, passes)
	}
}

// between gives a frame the addresses of the link from one router to the one before or behind it.
func (c *chain) between(f []byte, to, from string) {
	c.t.Helper()
	toPort, fromPort := "e0", "e1"
	if to < from {
		toPort, fromPort = "e1", "e0"
	}
	for i, at := range [][2]string{{to, toPort}, {from, fromPort}} {
		l, err := c.Handle(at[0]).LinkByName(at[1])
		if err != nil {
			c.t.Fatal(err)
		}
		copy(f[i*6:], l.Attrs().HardwareAddr)
	}
}

// testLies: a header inside the domain that contradicts itself, its mark or the packet is not
// believed.
func testLies(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	for name, lie := range map[string]func([]byte){
		"length beyond the packet": func(b []byte) { b[1] = 200 },
		"length 0":                 func(b []byte) { b[1] = 0 },
		"half a hop":               func(b []byte) { b[1] = 12 },
		"Hop ML 0":                 func(b []byte) { b[6] = 0 },
		"Hop ML of another bitmap": func(b []byte) { b[6] = 9 },
		"version 3":                func(b []byte) { b[4] = 0x30 },
		"NPT 3":                    func(b []byte) { b[0] |= 0x0c },
		"NPT 1":                    func(b []byte) { b[0] |= 0x04 },
		"type 2":                   func(b []byte) { b[0] = 0x20 },
	} {
		b := foreignINT()
		lie(b)
		before := c.r2.counts()
		c.inject(b)
		two, _ := decode(await(t, c.link2, 1)[0])
		got, _ := decode(await(t, c.got, 1)[0])
		sameBytes(t, name, two.payload, b)
		sameBytes(t, name, got.payload, b)
		wantCounts(t, c.r2, before, map[string]uint64{"skip 12": 1})
	}
}

// testDiscard: a sink drops what its header tells it to (D).
func testDiscard(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	b := foreignINT()
	b[4] |= 8
	c.inject(b)
	await(t, c.link2, 1)
	nstest.WaitFor(t, "the sink", func() bool { return c.r3.counts()["done 6"] == 1 })
	if f := c.got.frames(unix.PACKET_HOST); len(f) != 0 {
		t.Errorf("the discarded packet came: % x", f)
	}
	// In INT 1.0 the bit is one of Rep.
	old := make([]byte, 36, 56)
	binary.BigEndian.PutUint32(old, 1<<24|9<<8|10<<2)
	binary.BigEndian.PutUint32(old[4:], 1<<28|2<<26|6<<8|5)
	binary.BigEndian.PutUint32(old[8:], 0xfc00<<16)
	c.link2.frames(unix.PACKET_HOST)
	c.inject(append(old, payload(20)...))
	nstest.WaitFor(t, "the sink", func() bool { return c.r3.counts()["done 2"] == 2 })
	if n := c.r3.counts()["done 6"]; n != 1 {
		t.Fatalf("%d packets were discarded, want that of INT 2.1 alone", n)
	}
	got, _ := decode(await(t, c.got, 1)[0])
	sameBytes(t, "INT 1.0 with Rep", got.payload, payload(20))
}

// frames forgets what the captures have seen.
func (c *chain) frames() {
	for _, x := range []*capture{c.sent, c.link1, c.link2, c.got} {
		x.frames(unix.PACKET_HOST)
	}
}

// inject sends a marked packet with this payload into the domain, at the port of r1 inside.
func (c *chain) inject(payload []byte) {
	c.t.Helper()
	f := c.frame(17, payload, marked)
	c.between(f, "r2", "r1")
	// Past the programs of r1's port, as another node would send it.
	inNetns(c.t, c.Path("r1"), func() error { return nstest.SendFrameBypassing("e1", f) })
	await(c.t, c.link1, 1)
}

// testUncut: a sender can say that a device is to put a checksum at the packet's very end, so that the kernel refuses to make
// it shorter. The packet stays as it is, INT among it, and is counted.
func testUncut(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	b := append(foreignINT(), payload(333)...)
	f := c.frame(17, b, marked)
	c.between(f, "r3", "r2")
	inNetns(t, c.Path("r2"), func() error { return sendOffloaded("e1", f, atEnd(f), true) })
	got, _ := decode(await(t, c.got, 1)[0])
	sameBytes(t, "payload", got.payload[:len(b)-2], b[:len(b)-2])
	wantCounts(t, c.r3, nil, map[string]uint64{"skip 23": 1})
}

// atEnd asks for a checksum in the last two bytes of a frame.
func atEnd(f []byte) vnet { return vnet{start: len(f) - 2} }

// testDropForeign: at an edge that is set so, foreign INT goes no further.
func testDropForeign(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	var p bpfobj.IntPort
	index := uint32(c.Index("r1", "e0")) & 255
	if err := c.r1.objs.Ports.Lookup(index, &p); err != nil {
		t.Fatal(err)
	}
	p.Flags |= uint32(bpfobj.INT_PORT_DROP_FOREIGN)
	if err := c.r1.objs.Ports.Put(index, p); err != nil {
		t.Fatal(err)
	}
	f := c.frame(17, foreignINT(), marked)
	inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
	nstest.WaitFor(t, "the drop", func() bool { return c.r1.counts()["done 10"] == 1 })
	before := c.r1.counts()
	b := bytes.Repeat([]byte{0xaa}, 40*16)
	copy(b[20*16:], shortINT())
	c.passTrain("INT in a train", "h1", b, 16, false)
	wantCounts(t, c.r1, before, map[string]uint64{"done 10": 1}) // not by a port that it leaves
	c.frames()
	// The mark alone is no INT.
	q := c.pass(c.frame(17, payload(60), marked))
	sameBut(t, q[3].ip, q[0].ip, 3)
}
