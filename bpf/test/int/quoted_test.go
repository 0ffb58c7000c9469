// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// isError reports whether an IP packet is an ICMP error, and where its quote begins.
func isError(ip []byte) (quote int, is bool) {
	if len(ip) > 28 && ip[0]>>4 == 4 && ip[9] == 1 {
		at := int(ip[0]&15) * 4
		return at + 8, ip[at] == 3 || ip[at] == 11
	}
	if len(ip) > 48 && ip[0]>>4 == 6 && ip[6] == 58 {
		return 48, ip[40] < 128
	}
	return 0, false
}

// errorTo waits for an ICMP error at the port to h1. Its ID is 0, as that of no two is the same.
func (c *chain) errorTo() []byte {
	c.t.Helper()
	var list [][]byte
	nstest.WaitFor(c.t, "an ICMP error", func() bool {
		b := make([]byte, 1<<16)
		for {
			size, from, err := unix.Recvfrom(c.sent.fd, b, 0)
			if err != nil {
				return len(list) > 0
			}
			p, ok := decode(b[vnetHeader:size])
			if _, is := isError(p.ip); ok && is && from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
				list = append(list, bytes.Clone(p.ip))
			}
		}
	})
	if len(list) != 1 {
		c.t.Fatalf("%d ICMP errors", len(list))
	}
	ip := list[0]
	checkError(c.t, ip)
	if ip[0]>>4 == 4 {
		copy(ip[4:], []byte{0, 0})
		copy(ip[10:], []byte{0, 0})
	}
	return ip
}

// checkError wants the sums of an ICMP error to be right.
func checkError(t testing.TB, ip []byte) {
	t.Helper()
	if ip[0]>>4 == 6 {
		if int(binary.BigEndian.Uint16(ip[4:])) != len(ip)-40 || sumOf(ip[40:], uint32(sumOf(ip[8:40], 0))+58+uint32(len(ip)-40)) != 0xffff {
			t.Errorf("length or checksum of ICMPv6 is wrong: % x", ip)
		}
		return
	}
	if sumOf(ip[:20], 0) != 0xffff || sumOf(ip[20:], 0) != 0xffff {
		t.Errorf("checksum of IP or ICMP is wrong: % x", ip)
	}
}

// frame6 is what frame is, of UDP over IPv6.
func (c *chain) frame6(payload []byte, hops byte) []byte {
	f := c.frame(17, payload, nil)
	l4 := bytes.Clone(f[34:])
	ip := append([]byte{0x62, 0x81, 0x23, 0x45, 0, 0, 17, hops}, make([]byte, 32)...)
	binary.BigEndian.PutUint16(ip[4:], uint16(len(l4)))
	ip[8], ip[9], ip[23] = 0xfd, 0, 1
	ip[24], ip[25], ip[27], ip[39] = 0xfd, 0, 3, 2
	copy(l4[6:], []byte{0, 0})
	binary.BigEndian.PutUint16(l4[6:], ^sumOf(l4, uint32(sumOf(ip[8:], 0))+17+uint32(len(l4))))
	return append(append(f[:12:12], 0x86, 0xdd), append(ip, l4...)...)
}

// expiring are packets that end at r2.
func (c *chain) expiring() map[string][]byte {
	ttl := func(ip []byte) { ip[8] = 2 }
	list := map[string][]byte{"IPv6": c.frame6(payload(77), 2), "IPv6, long": c.frame6(payload(1240), 2)}
	for _, proto := range []byte{6, 17} {
		for _, size := range []int{3, 77, 700} {
			list[fmt.Sprintf("protocol %d, %d bytes", proto, size)] = c.frame(proto, payload(size), ttl)
		}
	}
	list["no checksum"] = c.frame(17, payload(50), func(ip []byte) { ttl(ip); ip[26], ip[27] = 0, 0 })
	list["foreign"] = c.frame(17, foreignINT(), func(ip []byte) { ttl(ip); marked(ip) })
	return list
}

// testQuotes: an ICMP error about a packet with INT is for its sender what it is without INT.
func testQuotes(t *testing.T, n *nstest.Net) {
	n.Run("r2", "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	plain := &chain{Net: n, t: t, sent: newCapture(t, n, "r1", "e0")}
	want := make(map[string][]byte)
	for name, f := range plain.expiring() {
		inNetns(t, n.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
		want[name] = plain.errorTo()
	}
	port := map[string]any{"cfg_dscp_mask": uint8(0), "cfg_port": uint16(9999)}
	for _, test := range []struct {
		name  string
		entry bpfobj.IntEntry
		vars  map[string]any
		more  int // bytes in front of the payload between r1 and r2
	}{
		{"INT-MD 2.1", mode(bpfobj.INT_MODE_MD, 0xfc00, 8), nil, 48},
		{"INT-MD 1.0", mode(bpfobj.INT_MODE_MD10, 0xfc00, 6), nil, 36},
		{"INT-MX", mode(bpfobj.INT_MODE_MX, 0xfc00, 8), nil, 16},
		{"by port", mode(bpfobj.INT_MODE_MD, 0xfc00, 8), port, 48},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(t, n, settings{entry: test.entry, vars: test.vars})
			for name, f := range c.expiring() {
				before := c.r1.counts()
				inNetns(t, c.Path("h1"), func() error { return nstest.SendFrame("e0", f) })
				inside, _ := decode(await(t, c.link1, 1)[0])
				if name == "foreign" && test.vars != nil {
					c.errorTo() // it has no mark here
					continue
				}
				sameQuote(t, test.name+", "+name, c.errorTo(), want[name], test.more)
				if n := moved(c.r1, before)["done 14"]; n != 1 {
					t.Errorf("%s: %d quotes restored; inside % x", name, n, inside.ip)
				}
			}
		})
	}
}

// sameQuote compares two ICMP errors. Of a long packet the one may quote less, since it had INT in it.
func sameQuote(t testing.TB, name string, got, want []byte, more int) {
	t.Helper()
	quote, _ := isError(want)
	whole := len(want)-quote == int(binary.BigEndian.Uint16(want[quote+2:])) || want[0]>>4 == 6 && len(want)-quote == 40+int(binary.BigEndian.Uint16(want[quote+4:]))
	if whole && len(got) == len(want) {
		sameBytes(t, name, got, want)
		return
	}
	if len(got) < len(want)-more-8 || len(got) > len(want) {
		t.Errorf("%s: an error of %d bytes, %d without INT", name, len(got), len(want))
	}
	sameBytes(t, name+", quote", got[quote:], want[quote:len(got)])
	if got[0]>>4 == 4 && got[1] != want[1] {
		t.Errorf("%s: TOS %#x, want %#x", name, got[1], want[1])
	}
}

// errorAbout is an ICMP error that r2 sends to h1. It quotes so many bytes of a packet, and extensions follow it.
func (c *chain) errorAbout(packet, extension []byte, size int) []byte {
	quote := append(bytes.Clone(packet), make([]byte, 200)...)[:size]
	f := c.frame(17, append(quote, extension...), func(ip []byte) { ip[9] = 1 })
	for i, at := range [][2]string{{"r1", "e1"}, {"r2", "e0"}} {
		l, err := c.Handle(at[0]).LinkByName(at[1])
		if err != nil {
			c.t.Fatal(err)
		}
		copy(f[i*6:], l.Attrs().HardwareAddr)
	}
	ip := f[14:]
	copy(ip[12:], []byte{10, 0, 1, 2, 10, 0, 0, 1})
	copy(ip[20:], []byte{11, 0, 0, 0, 0, 0, 0, 0})
	if len(extension) > 0 {
		ip[25] = byte(size / 4)
	}
	binary.BigEndian.PutUint16(ip[22:], ^sumOf(ip[20:], 0))
	copy(ip[10:], []byte{0, 0})
	binary.BigEndian.PutUint16(ip[10:], ^sumOf(ip[:20], 0))
	return f
}

// errorOfPseudoSum: a finished checksum is by chance the pseudo header's sum, as one that a device was to complete.
func (c *chain) errorOfPseudoSum(inside, sent []byte) {
	c.t.Helper()
	inside, sent = bytes.Clone(inside), bytes.Clone(sent)
	check := sumOf(inside[12:20], uint32(17+len(inside)-20))
	binary.BigEndian.PutUint16(inside[26:], check)
	tail := len(inside) - 77 + 2 // two bytes of payload at an even offset
	tail += tail % 2
	copy(inside[tail:], []byte{0, 0})
	binary.BigEndian.PutUint16(inside[tail:], ^sumOf(inside[20:], uint32(check)))
	copy(sent[tail-(len(inside)-len(sent)):], inside[tail:tail+2])
	copy(sent[26:], []byte{0, 0})
	binary.BigEndian.PutUint16(sent[26:], ^sumOf(sent[20:], uint32(sumOf(sent[12:20], uint32(17+len(sent)-20)))))
	f := c.errorAbout(inside, nil, len(inside))
	inNetns(c.t, c.Path("r2"), func() error { return nstest.SendFrameBypassing("e0", f) })
	sameBytes(c.t, "a checksum that is the pseudo header's sum", c.errorTo()[28:], sent)
}

// testQuotesOfOthers: routers that are not Linux quote less, or add something.
func testQuotesOfOthers(t *testing.T, n *nstest.Net) {
	c := newChain(t, n, settings{entry: md(0xfc00, 8)})
	p := c.pass(c.frame(17, payload(77), nil))
	sent, inside := bytes.Clone(p[0].ip), p[1].ip // 28 of headers, 48 of INT, 77
	sent[8]--
	copy(sent[10:], []byte{0, 0})
	binary.BigEndian.PutUint16(sent[10:], ^sumOf(sent[:20], 0))
	c.errorsOf(inside, sent, t)
	c.errorUncut(inside)
	c.errorOfPseudoSum(inside, sent)
	// No INT: nothing changes.
	for name, ip := range map[string][]byte{"no INT": sent, "an answer": {0x45}, "garbage": payload(200), "nothing": nil} {
		f := c.errorAbout(ip, nil, len(ip))
		inNetns(t, c.Path("r2"), func() error { return nstest.SendFrameBypassing("e0", f) })
		if len(ip) == 0 {
			continue
		}
		got := c.errorTo()
		sameBytes(t, name, got[28:], ip)
	}
}

// errorUncut sends an error that the kernel refuses to make shorter, see testUncut: it goes on as it is, and is counted.
func (c *chain) errorUncut(inside []byte) {
	c.t.Helper()
	before := c.r1.counts()
	f := c.errorAbout(inside, nil, len(inside))
	inNetns(c.t, c.Path("r2"), func() error { return sendOffloaded("e0", f, atEnd(f), true) })
	sameBytes(c.t, "an error that cannot be shorter", c.errorTo()[28:], inside)
	if m := moved(c.r1, before); m["skip 26"] != 1 || m["done 14"] != 0 {
		c.t.Errorf("an error that cannot be shorter: %v", m)
	}
}

// errorsOf sends errors about a packet with INT, which was sent without it.
func (c *chain) errorsOf(inside, sent []byte, t *testing.T) {
	t.Helper()
	extension := []byte{0x20, 0, 0xdf, 0xff, 0, 8, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8}
	for _, test := range []struct {
		size      int
		extension []byte
		want      []byte // the quote; nil: as it is, counted
	}{
		{len(inside), nil, sent},
		{100, nil, sent[:52]}, // 72 bytes behind the headers: INT and 24 bytes
		{76, nil, sent[:28]},
		{61, nil, sent[:28]}, // within a word of INT: the checksum cannot be known
		{42, nil, sent[:28]},
		{38, nil, nil},
		{28, nil, nil},
		{20, nil, nil},
		{128, extension, append(append(bytes.Clone(sent[:80]), make([]byte, 48)...), extension...)},
		{160, extension, append(append(bytes.Clone(sent), make([]byte, 55)...), extension...)},
	} {
		before := c.r1.counts()
		f := c.errorAbout(inside, test.extension, test.size)
		inNetns(t, c.Path("r2"), func() error { return nstest.SendFrameBypassing("e0", f) })
		got := c.errorTo()[28:]
		if test.want == nil {
			sameBytes(t, fmt.Sprint("quote of ", test.size), got, inside[:test.size])
			if n := moved(c.r1, before)["skip 26"]; n != 1 && test.size > 28 {
				t.Errorf("a quote of %d bytes is counted %d times", test.size, n)
			}
			continue
		}
		want := bytes.Clone(test.want)
		if test.size < 76 {
			copy(want[26:], inside[26:28])
		}
		sameBytes(t, fmt.Sprint("quote of ", test.size), got, want)
	}
}
