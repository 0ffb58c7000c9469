// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
)

func mode(m bpfobj.IntIntMode, instructions uint16, words uint8) bpfobj.IntIntEntry {
	e := md(instructions, words)
	e.Mode = uint8(m)
	return e
}

// frame builds what h1 sends to h2 over r1: UDP or TCP with whole checksums.
func (c *chain) frame(proto byte, payload []byte, change func(ip []byte)) []byte {
	var mac []byte
	for _, at := range [][2]string{{"r1", "e0"}, {"h1", "e0"}} {
		l, err := c.Handle(at[0]).LinkByName(at[1])
		if err != nil {
			c.t.Fatal(err)
		}
		mac = append(mac, l.Attrs().HardwareAddr...)
	}
	l4 := []byte{0x30, 0x39, 0x13, 0x88, 0, 0, 0, 0}
	at := 6
	if proto == 6 {
		l4 = []byte{0x30, 0x39, 0x13, 0x88, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0}
		at = 16
	}
	l4 = append(l4, payload...)
	if proto == 17 {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	}
	ip := []byte{0x45, 0x28, 0, 0, 0x12, 0x34, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 3, 2}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(l4)))
	sum := uint32(sumOf(ip[12:], 0)) + uint32(proto) + uint32(len(l4))
	binary.BigEndian.PutUint16(l4[at:], ^sumOf(l4, sum))
	ip = append(ip, l4...)
	if change != nil {
		change(ip)
	}
	copy(ip[10:], []byte{0, 0})
	binary.BigEndian.PutUint16(ip[10:], ^sumOf(ip[:int(ip[0]&15)*4], 0))
	return append(append(mac, 8, 0), ip...)
}

// pass sends a frame from h1, and returns it on each link: from h1, between routers, at h2.
func (c *chain) pass(frame []byte) (list [4]decoded) {
	c.t.Helper()
	inNetns(c.t, c.Path("h1"), func() error { return nstest.SendFrame("e0", frame) })
	for i, at := range []*capture{c.sent, c.link1, c.link2, c.got} {
		list[i], _ = decode(await(c.t, at, 1)[0])
	}
	return list
}

// moved are the counters of a node that changed since the last call.
func moved(nd *node, before map[string]uint64) map[string]uint64 {
	now := nd.counts()
	for k, v := range before {
		if now[k] -= v; now[k] == 0 {
			delete(now, k)
		}
	}
	return now
}

func wantCounts(t testing.TB, nd *node, before, want map[string]uint64) {
	t.Helper()
	got := moved(nd, before)
	delete(got, "skip 4") // neighbour discovery
	delete(got, "skip 6")
	delete(got, "skip 3")
	if !maps.Equal(got, want) {
		t.Errorf("counters %v, want %v", got, want)
	}
}

// sameBut compares an IP packet with the one that h1 sent, after some routers.
func sameBut(t testing.TB, got, sent []byte, routers byte) {
	t.Helper()
	want := append([]byte(nil), sent...)
	want[8] -= routers
	copy(want[10:], []byte{0, 0})
	binary.BigEndian.PutUint16(want[10:], ^sumOf(want[:int(want[0]&15)*4], 0))
	sameBytes(t, "packet", got, want)
}

// testForms: each form of INT over TCP and UDP, on all links.
func testForms(t *testing.T, n *nstest.Net) {
	port := map[string]any{"cfg_dscp_mask": uint8(0), "cfg_port": uint16(9999)}
	for _, test := range []struct {
		name         string
		entry        bpfobj.IntIntEntry
		vars         map[string]any
		header, each int // bytes
		hops         bool
	}{
		{"INT-MD 2.1", mode(bpfobj.IntIntModeINT_MODE_MD, 0xfc00, 8), nil, 16, 32, true},
		{"INT-MD 1.0", mode(bpfobj.IntIntModeINT_MODE_MD10, 0xfc00, 6), nil, 12, 24, true},
		{"INT-MX", mode(bpfobj.IntIntModeINT_MODE_MX, 0xfc00, 8), nil, 16, 0, true},
		{"INT-XD", mode(bpfobj.IntIntModeINT_MODE_XD, 0xfc00, 8), nil, 0, 0, false},
		{"INT-MD by port", mode(bpfobj.IntIntModeINT_MODE_MD, 0xfc00, 8), port, 16, 32, true},
		{"unknown words", mode(bpfobj.IntIntModeINT_MODE_MD, 0x00ff, 8), nil, 16, 32, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(t, n, settings{entry: test.entry, vars: test.vars})
			for _, proto := range []byte{17, 6} {
				for _, options := range []bool{false, true} {
					checkForm(t, c, proto, options, test.vars != nil, test.header, test.each)
				}
			}
		})
	}
}

func checkForm(t *testing.T, c *chain, proto byte, options, byPort bool, header, each int) {
	t.Helper()
	data := payload(77)
	frame := c.frame(proto, data, nil)
	if options { // of IPv4: a no-operation four times
		frame = append(frame[:34:34], append([]byte{1, 1, 1, 1}, frame[34:]...)...)
		ip := frame[14:]
		ip[0] = 0x46
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		copy(ip[10:], []byte{0, 0})
		binary.BigEndian.PutUint16(ip[10:], ^sumOf(ip[:24], 0))
	}
	p := c.pass(frame)
	for i := range p {
		if wrong := p[i].wrong(); wrong != "" {
			t.Errorf("link %d, protocol %d: %s is wrong", i, proto, wrong)
		}
	}
	sameBut(t, p[3].ip, p[0].ip, 3)
	for i := 1; i <= 2; i++ {
		body := p[i].l4[8:]
		switch {
		case header == 0:
			sameBut(t, p[i].ip, p[0].ip, byte(i))
			continue
		case byPort && proto == 6:
			if p[i].proto != 17 || p[i].dport != 9999 {
				t.Fatalf("TCP: protocol %d, port %d", p[i].proto, p[i].dport)
			}
			sameBytes(t, "TCP header and payload", body[header+i*each:], p[0].l4)
			continue
		case byPort && p[i].dport != 9999, !byPort && p[i].dscp != 0x17:
			t.Errorf("not marked: port %d, DSCP %#x", p[i].dport, p[i].dscp)
		}
		sameBytes(t, "payload", p[i].payload[header+i*each:], data)
	}
	if each == 32 && c.r1.counts()["done 0"] > 0 && p[1].payload != nil && proto == 17 {
		if w := binary.BigEndian.Uint16(p[1].payload[8:]); w == 0xff {
			sameBytes(t, "unknown words", p[1].payload[16:48], bytes.Repeat([]byte{0xff}, 32))
		}
	}
	c.t = t
	want := 1
	if header == 0 || header == 16 && each == 0 {
		want = 3 // each node of INT-XD and INT-MX
	}
	c.reports(want)
}

// testTCP: connections carry data through a domain that marks each segment, IPv4 and IPv6, both
// ways, with checksums computed here and there.
func testTCP(t *testing.T, n *nstest.Net) {
	for name, vars := range map[string]map[string]any{
		"by DSCP": nil, "by port": {"cfg_dscp_mask": uint8(0), "cfg_port": uint16(9999)},
	} {
		t.Run(name, func(t *testing.T) { checkTCP(t, newChain(t, n, settings{entry: md(0xfc00, 8), vars: vars})) })
	}
}

func checkTCP(t *testing.T, c *chain) {
	t.Helper()
	for _, node := range []string{"h1", "h2"} {
		c.Run(node, "ethtool", "-K", "e0", "tso", "off", "gso", "off")
		c.Run(node, "ip", "link", "set", "e0", "mtu", "1300")
		defer c.Run(node, "ethtool", "-K", "e0", "tx", "on", "tso", "on", "gso", "on")
		defer c.Run(node, "ip", "link", "set", "e0", "mtu", "1500")
	}
	for _, tx := range []string{"on", "off"} {
		for _, node := range []string{"h1", "h2"} {
			c.offload(node, "e0", tx)
		}
		for _, address := range []string{"10.0.3.2", "fd00:3::2"} {
			before := c.r3.counts()
			if got, want := c.connection(address), uint64(200_000); got != want {
				t.Errorf("%d bytes came, want %d", got, want)
			}
			if n := moved(c.r3, before)["done 2"]; n < 150 {
				t.Errorf("the sink took INT from %d packets", n)
			}
		}
	}
	for _, nd := range []*node{c.r1, c.r2, c.r3} {
		for k := range nd.counts() {
			if k == "skip 12" || k == "skip 8" || k == "skip 9" {
				t.Error(k, nd.counts())
			}
		}
	}
}

// connection sends 200,000 bytes from h1 to h2 and back; it returns how many were right.
func (c *chain) connection(address string) (right uint64) {
	c.t.Helper()
	var l net.Listener
	inNetns(c.t, c.Path("h2"), func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	defer l.Close()
	go func() {
		s, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(s, s)
			s.Close()
		}
	}()
	data := payload(200_000)
	inNetns(c.t, c.Path("h1"), func() error {
		s, err := net.DialTimeout("tcp", l.Addr().String(), nstest.Patience)
		if err != nil {
			return err
		}
		defer s.Close()
		_ = s.SetDeadline(time.Now().Add(nstest.Patience))
		go func() { _, _ = s.Write(data) }()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(s, got); err != nil {
			return err
		}
		if bytes.Equal(got, data) {
			right = uint64(len(got))
		}
		return nil
	})
	return right
}

// testMTU: what does not fit goes on untouched.
func testMTU(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	p := c.pass(c.frame(17, payload(1500-28-48), nil)) // fits exactly; not the next hop
	if len(p[1].ip) != 1500 || len(p[2].ip) != 1500 {
		t.Errorf("%d bytes behind the source, %d behind the transit", len(p[1].ip), len(p[2].ip))
	}
	if first := binary.BigEndian.Uint32(p[2].payload[4:]); first>>25&1 != 1 || first&0xff != 7 {
		t.Errorf("no M behind a transit without room: %#x", first)
	}
	if wrong := p[2].wrong(); wrong != "" {
		t.Error(wrong)
	}
	sameBut(t, p[3].ip, p[0].ip, 3)
	wantCounts(t, c.r2, nil, map[string]uint64{"skip 13": 1})
	before := c.r1.counts()
	p = c.pass(c.frame(17, payload(1500-28-47), nil))
	sameBut(t, p[1].ip, p[0].ip, 1)
	wantCounts(t, c.r1, before, map[string]uint64{"skip 13": 1})
}

// testMTUOld: the same with INT 1.0, whose M is another bit.
func testMTUOld(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: mode(bpfobj.IntIntModeINT_MODE_MD10, 0xfc00, 6)})
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
	c := newChain(t, n, settings{entry: mode(bpfobj.IntIntModeINT_MODE_XD, 0x8200, 3)})
	none := ^uint32(0)
	number := func(nd *node, name, port string, l2 uint32) {
		index := uint32(c.Index(name, port)) & 255
		var p bpfobj.IntIntPort
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
		var r bpfobj.IntIntReport
		if _, err := binary.Decode(raw.RawSample, binary.NativeEndian, &r); err != nil {
			t.Fatal(err)
		}
		if got := [3]uint32{r.L2In, r.L2Out, uint32(r.Bits)}; got != want[r.Node] {
			t.Errorf("node %d: level-2 ports and bits %#x, want %#x", r.Node, got, want[r.Node])
		}
	}
}

// testHops: no hops are left.
func testHops(t *testing.T, n *nstest.Net) {
	e := md(0xfc00, 8)
	e.Remaining = 1
	c := newChain(t, n, settings{entry: e})
	p := c.pass(c.frame(17, payload(100), nil))
	if first := binary.BigEndian.Uint32(p[2].payload[4:]); first>>26&1 != 1 || first&0xff != 0 {
		t.Errorf("no E: %#x", first)
	}
	if wrong := p[2].wrong(); wrong != "" {
		t.Error(wrong)
	}
	sameBut(t, p[3].ip, p[0].ip, 3)
	wantCounts(t, c.r2, nil, map[string]uint64{"skip 14": 1})
	wantCounts(t, c.r3, nil, map[string]uint64{"done 2": 1, "done 3": 1, "done 7": 1})
}

// testLease: without a lease nothing is marked.
func testLease(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	c.shared.lease(1)
	p := c.pass(c.frame(17, payload(100), nil))
	sameBut(t, p[1].ip, p[0].ip, 1)
	wantCounts(t, c.r1, nil, map[string]uint64{"skip 22": 1})
}

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

// testReports: telemetry reports are not measured.
func testReports(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8), vars: map[string]any{"cfg_report_port": uint16(5000)}})
	p := c.pass(c.frame(17, payload(100), nil))
	sameBut(t, p[1].ip, p[0].ip, 1)
	wantCounts(t, c.r1, nil, map[string]uint64{"skip 10": 1})
}

// testGSO: a GSO packet passes unmarked.
func testGSO(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	if got := c.connection("10.0.3.2"); got != 200_000 {
		t.Errorf("%d bytes came", got)
	}
	if got := c.r1.counts(); got["skip 21"] == 0 {
		t.Errorf("no GSO packet was counted: %v", got)
	}
}

// testXDSample: all nodes choose the same packets.
func testXDSample(t *testing.T, n *nstest.Net) {
	e := mode(bpfobj.IntIntModeINT_MODE_XD, 0xfc00, 8)
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
	e := mode(bpfobj.IntIntModeINT_MODE_XD, 0xfc00, 8)
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

// testHosts: the hosts themselves are source and sink.
func testHosts(t *testing.T, n *nstest.Net) {
	s := newShared(t)
	entry := md(0xfc00, 8)
	h1 := s.attach(t, n, "h1", 11, map[string]uint32{"e0": inside}, settings{entry: entry, vars: map[string]any{"cfg_host_source": uint8(1)}})
	r2 := s.attach(t, n, "r2", 2, map[string]uint32{"e0": inside, "e1": inside}, settings{entry: entry})
	h2 := s.attach(t, n, "h2", 12, map[string]uint32{"e0": inside | uint32(bpfobj.IntIntPortFlagINT_PORT_HOST)}, settings{entry: entry})
	last := newCapture(t, n, "h2", "e0")
	for _, address := range []string{"10.0.3.2", "fd00:3::2"} {
		var l net.PacketConn
		inNetns(t, n.Path("h2"), func() (err error) {
			l, err = net.ListenPacket("udp", net.JoinHostPort(address, "0"))
			return err
		})
		defer l.Close()
		data := payload(333)
		inNetns(t, n.Path("h1"), func() error {
			c, err := net.Dial("udp", l.LocalAddr().String())
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(data)
			return err
		})
		got := make([]byte, 2000)
		_ = l.SetReadDeadline(time.Now().Add(nstest.Patience))
		size, _, err := l.ReadFrom(got)
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "datagram", got[:size], data)
		p, _ := decode(await(t, last, 1)[0])
		st := readStack(t, p.payload)
		if len(st.hops) != 2 || binary.BigEndian.Uint32(st.hops[0]) != 2 || binary.BigEndian.Uint32(st.hops[1]) != 11 {
			t.Errorf("hops % x", st.hops)
		}
		// The source does not know when its own packet began.
		if l := binary.BigEndian.Uint32(st.hops[1][8:]); l != ^uint32(0) {
			t.Errorf("latency %d of a packet that never came in", l)
		}
	}
	t.Log(h1.counts(), r2.counts(), h2.counts())
	if h2.counts()["done 2"] != 2 {
		t.Error(h2.counts())
	}
}

// testQueue: the occupancy is that of the qdisc, and congestion is reported.
func testQueue(t *testing.T, n *nstest.Net) {
	if known(t)["cfg_queues"] == uint8(0) {
		t.Log("this kernel shows programs no queue (Linux 6.2)")
		return
	}
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	c.Run("r2", "tc", "qdisc", "add", "dev", "e1", "root", "tbf", "rate", "80kbit", "burst", "2000", "limit", "100000")
	index := uint32(c.Index("r2", "e1"))
	var p bpfobj.IntIntPort
	if err := c.r2.objs.Ports.Lookup(index&255, &p); err != nil {
		t.Fatal(err)
	}
	p.CongestedAt = 5
	if err := c.r2.objs.Ports.Put(index&255, p); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", c.frame(17, payload(600), nil)) })
	}
	nstest.WaitFor(t, "20 packets in the transit", func() bool { return c.r2.counts()["done 1"] == 20 })
	c.Run("r2", "tc", "qdisc", "change", "dev", "e1", "root", "tbf", "rate", "1gbit", "burst", "2000", "limit", "100000")
	last := -1
	for i, f := range await(t, c.link2, 20) {
		q, _ := decode(f)
		st := readStack(t, q.payload)
		n := int(binary.BigEndian.Uint32(st.hops[0][12:]))
		if i == 0 && n != 0 || n > i || n < last && i < 10 {
			t.Errorf("packet %d found %d in the queue, the one before %d", i, n, last)
		}
		last = n
	}
	if last == 0 {
		t.Error("nothing was in the queue")
	}
	if n := c.r2.counts(); n["done 4"] == 0 {
		t.Errorf("no report of congestion: %v", n)
	}
	await(t, c.got, 20)
	// It has ended: when it comes again, that is news, however soon.
	inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", c.frame(17, payload(600), nil)) })
	await(t, c.got, 1)
	if err := c.r2.objs.Ports.Lookup(index&255, &p); err != nil {
		t.Fatal(err)
	}
	if p.QueueReportNs != 0 {
		t.Error("the queue is empty, and new congestion would not be reported for a while")
	}
}
