// SPDX-License-Identifier: Apache-2.0

package int

import (
	"encoding/binary"
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

// testForeign: INT that comes from outside passes, and is not measured.
func testForeign(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	p := c.pass(c.frame(17, foreignINT(), marked))
	sameBut(t, p[1].ip, p[0].ip, 1)
	wantCounts(t, c.r1, nil, map[string]uint64{"skip 11": 1})
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
	inNetns(c.t, c.Path("r1"), func() error { return sendBypassing("e1", f) })
	await(c.t, c.link1, 1)
}

// sendBypassing sends a frame without the qdisc and the hooks of TC.
func sendBypassing(port string, frame []byte) error {
	link, err := net.InterfaceByName(port)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return err
	}
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index, Protocol: htons(unix.ETH_P_IP)})
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
