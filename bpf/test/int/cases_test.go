// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

func mode(m bpfobj.IntMode, instructions uint16, words uint8) bpfobj.IntEntry {
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
		entry        bpfobj.IntEntry
		vars         map[string]any
		header, each int // bytes
		hops         bool
	}{
		{"INT-MD 2.1", mode(bpfobj.INT_MODE_MD, 0xfc00, 8), nil, 16, 32, true},
		{"INT-MD 1.0", mode(bpfobj.INT_MODE_MD10, 0xfc00, 6), nil, 12, 24, true},
		{"INT-MX", mode(bpfobj.INT_MODE_MX, 0xfc00, 8), nil, 16, 0, true},
		{"INT-XD", mode(bpfobj.INT_MODE_XD, 0xfc00, 8), nil, 0, 0, false},
		{"INT-MD by port", mode(bpfobj.INT_MODE_MD, 0xfc00, 8), port, 16, 32, true},
		{"unknown words", mode(bpfobj.INT_MODE_MD, 0x00ff, 8), nil, 16, 32, true},
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

// testHosts: the hosts themselves are source and sink.
func testHosts(t *testing.T, n *nstest.Net) {
	s := newShared(t)
	entry := md(0xfc00, 8)
	h1 := s.attach(t, n, "h1", 11, map[string]uint32{"e0": inside}, settings{entry: entry, vars: map[string]any{"cfg_host_source": uint8(1)}})
	r2 := s.attach(t, n, "r2", 2, map[string]uint32{"e0": inside, "e1": inside}, settings{entry: entry})
	h2 := s.attach(t, n, "h2", 12, map[string]uint32{"e0": inside | uint32(bpfobj.INT_PORT_HOST)}, settings{entry: entry})
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
	var p bpfobj.IntPort
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
