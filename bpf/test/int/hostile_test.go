// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
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

// testForeignTrain: a train of which one segment will be INT is dropped. Others pass, though they bear the mark.
func testForeignTrain(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	const each = 200
	for _, at := range []int{-1, 0, 2, 39} {
		b := bytes.Repeat([]byte{0xaa}, 40*each-7)
		if at >= 0 {
			copy(b[at*each:], foreignINT())
		}
		before := c.r1.counts()
		c.train(b, each)
		if at < 0 {
			nstest.WaitFor(t, "the train", func() bool { return c.r3.counts()["skip 21"] == 1 })
			continue
		}
		nstest.WaitFor(t, "the drop", func() bool { return moved(c.r1, before)["done 10"] == 1 })
	}
}

// train sends a train of datagrams, which bear the mark, from h1.
func (c *chain) train(b []byte, each int) {
	c.t.Helper()
	inNetns(c.t, c.Path("h1"), func() error {
		s, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(10, 0, 3, 2), Port: 5000})
		if err != nil {
			return err
		}
		defer s.Close()
		raw, err := s.SyscallConn()
		if err != nil {
			return err
		}
		_ = raw.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, 0x17<<2),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, each))
		})
		if err == nil {
			_, err = s.Write(b)
		}
		return err
	})
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
	for i, at := range [][2]string{{"r2", "e0"}, {"r1", "e1"}} {
		l, err := c.Handle(at[0]).LinkByName(at[1])
		if err != nil {
			c.t.Fatal(err)
		}
		copy(f[i*6:], l.Attrs().HardwareAddr)
	}
	// Past the programs of r1's port, as another node would send it.
	inNetns(c.t, c.Path("r1"), func() error { return nstest.SendFrameBypassing("e1", f) })
	await(c.t, c.link1, 1)
}

// testDropForeign: at an edge that is set so, foreign INT goes no further.
func testDropForeign(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	var p bpfobj.IntIntPort
	index := uint32(c.Index("r1", "e0")) & 255
	if err := c.r1.objs.Ports.Lookup(index, &p); err != nil {
		t.Fatal(err)
	}
	p.Flags |= uint32(bpfobj.IntIntPortFlagINT_PORT_DROP_FOREIGN)
	if err := c.r1.objs.Ports.Put(index, p); err != nil {
		t.Fatal(err)
	}
	f := c.frame(17, foreignINT(), marked)
	inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
	nstest.WaitFor(t, "the drop", func() bool { return c.r1.counts()["done 10"] == 1 })
	c.frames()
	// The mark alone is no INT.
	q := c.pass(c.frame(17, payload(60), marked))
	sameBut(t, q[3].ip, q[0].ip, 3)
}
