// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// chain is h1 - r1 - r2 - r3 - h2, IPv4 and IPv6.
type chain struct {
	*nstest.Net
	t          testing.TB
	sent       *capture // as h1 sent it, at its port
	link1      *capture // r1 to r2
	link2      *capture // r2 to r3
	got        *capture // at h2
	r1, r2, r3 *node
	shared     *shared
}

func newNet(t testing.TB) *nstest.Net {
	n := nstest.New(t, "h1", "r1", "r2", "r3", "h2")
	names := []string{"h1", "r1", "r2", "r3", "h2"}
	for i := range 4 {
		a, b := "e1", "e0"
		if i == 0 {
			a = "e0"
		}
		n.Veth(names[i], a, names[i+1], b)
		for _, family := range []string{"10.0.%d.%d/24", "fd00:%d::%d/64"} {
			n.Address(names[i], a, fmt.Sprintf(family, i, 1))
			n.Address(names[i+1], b, fmt.Sprintf(family, i, 2))
		}
	}
	for _, r := range names[1:4] {
		n.Run(r, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	}
	for i, name := range names {
		for j := range 4 {
			for _, v := range []struct{ net, via string }{{"10.0.%d.0/24", "10.0.%d.%d"}, {"fd00:%d::/64", "fd00:%d::%d"}} {
				if j > i && i < 4 {
					n.Run(name, "ip", "route", "add", fmt.Sprintf(v.net, j), "via", fmt.Sprintf(v.via, i, 2))
				}
				if j < i-1 {
					n.Run(name, "ip", "route", "add", fmt.Sprintf(v.net, j), "via", fmt.Sprintf(v.via, i-1, 1))
				}
			}
		}
	}
	inNetns(t, n.Path("h2"), func() error {
		s, err := net.ListenPacket("udp", ":5000")
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return err
	})
	n.Run("h1", "ping", "-c1", "-W5", "10.0.3.2")
	n.Run("h1", "ping", "-c1", "-W5", "fd00:3::2")
	return n
}

// newChain attaches the routers of a net until the test ends.
func newChain(t testing.TB, n *nstest.Net, set settings) *chain {
	c := &chain{Net: n, t: t, shared: newShared(t)}
	c.r1 = c.shared.attach(t, n, "r1", 1, map[string]uint32{"e0": edge, "e1": inside}, set)
	c.r2 = c.shared.attach(t, n, "r2", 2, map[string]uint32{"e0": inside, "e1": inside}, set)
	c.r3 = c.shared.attach(t, n, "r3", 3, map[string]uint32{"e0": inside, "e1": edge}, set)
	c.sent = newCapture(t, n, "r1", "e0")
	c.link1 = newCapture(t, n, "r2", "e0")
	c.link2 = newCapture(t, n, "r3", "e0")
	c.got = newCapture(t, n, "h2", "e0")
	return c
}

// offloads switches checksum offload of what a port sends on or off.
func (c *chain) offload(node, port, state string) {
	c.Run(node, "ethtool", "-K", port, "tx", state)
}

// send lets h1 send datagrams of these payloads to h2.
func (c *chain) send(v6 bool, payloads ...[]byte) {
	c.t.Helper()
	to := &net.UDPAddr{IP: net.ParseIP("10.0.3.2"), Port: 5000}
	if v6 {
		to.IP = net.ParseIP("fd00:3::2")
	}
	inNetns(c.t, c.Path("h1"), func() error {
		s, err := net.DialUDP("udp", nil, to)
		if err != nil {
			return err
		}
		defer s.Close()
		raw, err := s.SyscallConn()
		if err != nil {
			return err
		}
		// DSCP 10 and ECT(1): both must come back.
		_ = raw.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, 10<<2|1),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 10<<2|1))
		})
		if !v6 {
			_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, 10<<2|1) })
		}
		for _, b := range payloads {
			if _, e := s.Write(b); e != nil {
				return e
			}
		}
		return err
	})
}

// udp are the frames that a capture has of datagrams to port 5000, after n have come.
func await(t testing.TB, c *capture, n int) (list [][]byte) {
	t.Helper()
	nstest.WaitFor(t, fmt.Sprint(n, " packets at ", c.name), func() bool {
		list = append(list, c.frames(unix.PACKET_HOST)...)
		return len(list) >= n
	})
	return list
}

func payload(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + size)
	}
	return b
}

// reports takes those about packets to h2: what it answers is reported, too.
func (c *chain) reports(n int) (list []ringbuf.Record) {
	c.t.Helper()
	c.shared.reader.SetDeadline(time.Now())
	for {
		r, err := c.shared.reader.Read()
		if err != nil {
			break
		}
		// 10.0.3.2 or fd00:3::2
		if q := r.RawSample[unsafe.Sizeof(bpfobj.IntReport{}):]; q[0]>>4 == 4 && q[18] == 3 || q[0]>>4 == 6 && q[27] == 3 {
			list = append(list, r)
		}
	}
	if len(list) != n {
		c.t.Errorf("%d reports, want %d", len(list), n)
	}
	return list
}

const all = 0xff00 // all metadata that a node may know

// checkChain sends datagrams of many sizes and compares all links, byte by byte.
func checkChain(t *testing.T, c *chain, v6 bool) {
	t.Helper()
	var payloads [][]byte
	for _, size := range []int{0, 1, 2, 3, 12, 18, 100, 511, 512, 513, 1000, 1200} {
		payloads = append(payloads, payload(size))
	}
	c.send(v6, payloads...)
	n := len(payloads)
	sent, one, two, got := await(t, c.sent, n), await(t, c.link1, n), await(t, c.link2, n), await(t, c.got, n)
	reports := c.reports(n)
	for i := range n {
		s, _ := decode(sent[i])
		g, _ := decode(got[i])
		for at, f := range map[string][]byte{"sent": sent[i], "link1": one[i], "link2": two[i], "got": got[i]} {
			p, _ := decode(f)
			if wrong := p.wrong(); wrong != "" {
				t.Errorf("%s, %d bytes: %s is wrong:\n% x", at, len(payloads[i]), wrong, f)
			}
		}
		// But for the hops taken the packet is the same, its checksum too.
		want := append([]byte(nil), s.ip...)
		if v6 {
			want[7] -= 3
		} else {
			want[8] -= 3
			copy(want[10:], []byte{0, 0})
			binary.BigEndian.PutUint16(want[10:], ^sumOf(want[:20], 0))
		}
		sameBytes(t, fmt.Sprint("packet of ", len(payloads[i])), g.ip, want)
		for hops, f := range map[int][]byte{1: one[i], 2: two[i]} {
			p, _ := decode(f)
			if p.dscp != 0x17 || p.ip[1]&3 != s.ip[1]&3 && !v6 {
				t.Errorf("link %d: DSCP %#x", hops, p.dscp)
			}
			st := readStack(t, p.payload)
			sameBytes(t, "payload", st.rest, payloads[i])
			if len(st.hops) != hops {
				t.Fatalf("%d hops on link %d", len(st.hops), hops)
			}
			if st.shim>>2&0x3f != 10 {
				t.Errorf("original DSCP in the shim: %#x", st.shim)
			}
			if left := st.first & 0xff; left != uint32(8-hops) {
				t.Errorf("link %d: %d hops left", hops, left)
			}
			checkHops(t, c, st)
		}
		checkReport(t, reports[i].RawSample, two[i])
	}
}

// checkHops looks at the metadata of each hop.
func checkHops(t *testing.T, c *chain, st stack) {
	t.Helper()
	last := ^uint64(0)
	for j, h := range st.hops {
		id := uint32(len(st.hops) - j)
		if got := binary.BigEndian.Uint32(h); got != id {
			t.Errorf("node %d, want %d", got, id)
		}
		name := fmt.Sprint("r", id)
		ports := uint32(c.Index(name, "e0")&0xffff)<<16 | uint32(c.Index(name, "e1")&0xffff)
		if got := binary.BigEndian.Uint32(h[4:]); got != ports {
			t.Errorf("ports %#x, want %#x", got, ports)
		}
		if known(t)["cfg_times"] == uint8(0) {
			if !bytes.Equal(h[8:12], []byte{255, 255, 255, 255}) || !bytes.Equal(h[16:24], bytes.Repeat([]byte{255}, 8)) {
				t.Errorf("times that cannot be known: % x", h)
			}
			continue
		}
		latency := binary.BigEndian.Uint32(h[8:])
		in, out := binary.BigEndian.Uint64(h[16:]), binary.BigEndian.Uint64(h[24:])
		if uint64(latency) != out-in || latency == 0 || out >= last {
			t.Errorf("latency %d, times %d %d, next %d", latency, in, out, last)
		}
		last = in
	}
}

// checkReport: the sink's report quotes the packet as it came.
func checkReport(t *testing.T, b, frame []byte) {
	t.Helper()
	p, _ := decode(frame)
	const head = int(unsafe.Sizeof(bpfobj.IntReport{}))
	if id := binary.NativeEndian.Uint32(b[16:]); id != 3 {
		t.Errorf("report of node %d", id)
	}
	size := min(len(p.ip), len(p.ip)-len(readStack(t, p.payload).rest)+128)
	// The router that reports has lowered the TTL, and the checksum may still be a part of one.
	want := append([]byte(nil), p.ip[:size]...)
	got := append([]byte(nil), b[head:]...)
	for _, q := range [][]byte{want, got} {
		if p.v6 {
			q[7], q[46], q[47] = 0, 0, 0
		} else {
			q[8], q[10], q[11], q[26], q[27] = 0, 0, 0, 0, 0
		}
	}
	sameBytes(t, "quote", got[:min(size, len(got))], want)
}

func md(instructions uint16, words uint8) bpfobj.IntEntry {
	return bpfobj.IntEntry{Instructions: instructions, Domain: 7, Mode: uint8(bpfobj.INT_MODE_MD), Remaining: 8, Words: words}
}

// TestNode runs all tests in one net: to make one takes seconds.
func TestNode(t *testing.T) {
	n := newNet(t)
	for _, test := range []struct {
		name string
		f    func(*testing.T, *nstest.Net)
	}{
		{"chain", testChain}, {"forms", testForms}, {"TCP", testTCP}, {"MTU", testMTU}, {"MTU, 1.0", testMTUOld}, {"hops", testHops},
		{"full", testFull}, {"fragments", testFragments}, {"paced", testPaced}, {"L2 ports", testL2Ports},
		{"lease", testLease}, {"sample", testSample}, {"XD sample", testXDSample}, {"XD hash", testXDHash}, {"reports", testReports},
		{"GSO", testGSO}, {"lies", testLies}, {"discard", testDiscard}, {"foreign", testForeign},
		{"foreign outside", testForeignOutside}, {"foreign, no room", testForeignWithoutRoom}, {"foreign train", testForeignTrain},
		{"longest train", testLongestTrain},
		{"quotes", testQuotes}, {"quotes of others", testQuotesOfOthers},
		{"uncut", testUncut},
		{"drop foreign", testDropForeign}, {"hosts", testHosts}, {"queue", testQueue}, {"P4", testP4},
	} {
		t.Run(test.name, func(t *testing.T) { test.f(t, n) })
	}
}

// testChain: source, transit and sink with INT-MD, wherever a checksum is computed.
func testChain(t *testing.T, n *nstest.Net) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint("old ", old), func(t *testing.T) {
			c := newChain(t, n, settings{entry: md(all, 11), noKfun: old})
			for _, where := range []string{"nowhere", "h1/e0", "r1/e1", "r2/e1", "r3/e1"} {
				if where != "nowhere" {
					c.offload(where[:2], where[3:], "off")
				}
				for _, v6 := range []bool{false, true} {
					t.Run(fmt.Sprintf("complete from %s, IPv6 %v", where, v6), func(t *testing.T) {
						c.t = t
						checkChain(t, c, v6)
					})
				}
				if where != "nowhere" {
					c.offload(where[:2], where[3:], "on")
				}
			}
		})
	}
}
