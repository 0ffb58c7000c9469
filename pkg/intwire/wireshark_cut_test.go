// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// cutCase is a packet of which a capture has the first bytes only, and what tshark shows of it.
type cutCase struct {
	name  string
	frame []byte
	keep  int
	field string // which this packet has
	codes []string
}

// ipv4 wraps what IP carries, as wrap() does with UDP.
func ipv4(proto byte, payload ...[]byte) []byte {
	frame := append(wrap(nil, 0)[:34], slices.Concat(payload...)...)
	frame[23] = proto
	binary.BigEndian.PutUint16(frame[16:], uint16(len(frame)-14))
	return frame
}

// marked is a frame under the DSCP of INT.
func marked(frame []byte) []byte {
	frame[15] = 0x17 << 2
	return frame
}

// cutCases are packets with and without INT, which end where a dissector still wants bytes.
func cutCases() []cutCase {
	md := shim20(0x8000, 0, 1, []byte{0, 0, 0, 7})
	answer := slices.Concat([]byte{0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}, []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 1, 2, 3, 4})
	to53 := bytes.Clone(md)
	to53[0], to53[3] = 0x14, 53 // NPT 1
	inner := wrap(answer, 53)
	vxlan, gpe := []byte{8, 0, 0, 0, 0, 0, 1, 0}, []byte{12, 0, 0, 0x82, 0, 0, 1, 0}
	behindGPE := slices.Concat([]byte{0x10, 4, 0, 3}, md[4:]) // Ethernet follows
	geneve := slices.Concat([]byte{5, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 3, 1, 4}, md[4:])
	get := []byte("GET / HTTP/1.1\r\nHost: radar\r\nUser-Agent: nobody\r\n\r\n")
	report := slices.Concat([]byte{0x14, 0, 0, 0x41, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2}, marked(wrap(slices.Concat(to53, answer), 5000)))
	less := func(frame []byte, n int) int { return len(frame) - n }
	overTCP := segment(0, 1, nil, []byte{0, byte(len(answer))}, answer)
	overTCP[37] = 53
	pushed := bytes.Clone(md)
	pushed[0], pushed[3] = 0x18, protoUDP // NPT 2
	again := slices.Concat([]byte{0x9c, 0x40, 0x13, 0x88, 0, byte(8 + len(to53) + len(answer)), 0, 0}, to53, answer)
	dns, web, options := wrap(answer, 53), segment(0, 1, nil, get), segment(0, 1, []byte{2, 4, 5, 180, 1, 1, 4, 2}, get)
	inUDP, reported, twice := marked(wrap(slices.Concat(to53, answer), 5000)), wrap(report, 32766), marked(wrap(slices.Concat(pushed, again), 5000))
	inTCP := segment(0x17, 1, nil, md, []byte{0, byte(len(answer))}, answer)
	inTCP[37] = 53
	inGRE := ipv4(47, []byte{0, 0, 0x45, 0x69, 0x10, 4, 0x65, 0x58}, md[4:], inner)
	inGPE, inGeneve := wrap(slices.Concat(gpe, behindGPE, inner), portVXLANGPE), wrap(slices.Concat(geneve, inner), portGeneve)
	note := []string{"cut_packet"}
	both := []string{"cut_packet", "cut_int"}
	return []cutCase{
		{"DNS", dns, 64, "udp.dstport", nil},
		{"TCP, in its header", web, 48, "tcp.dstport", nil},
		{"TCP, in its options", options, 58, "tcp.dstport", nil},
		{"TCP, in its payload", overTCP, less(overTCP, 6), "dns", nil},
		{"UDP under a mark, before its payload", marked(wrap(answer, 9)), 42, "udp.dstport", nil},
		{"TCP under a mark, before its payload", segment(0x17, 1, nil, get), 55, "tcp.len", nil},
		{"VXLAN", wrap(slices.Concat(vxlan, inner), portVXLAN), 50 + 64, "vxlan.vni", nil},
		{"GRE", ipv4(47, []byte{0, 0, 0x65, 0x58}, inner), 38 + 64, "gre.proto", nil},
		{"INT over UDP, in INT", inUDP, 42 + 18, "int.shim", both},
		{"INT over UDP, in the payload", inUDP, less(inUDP, 6), "dns.id", note},
		{"INT behind INT, in INT", twice, less(twice, len(answer)+4), "int.shim", both},
		{"INT over TCP, in INT", inTCP, 54 + 14, "tcp.dstport", both},
		{"INT over TCP, in the payload", inTCP, less(inTCP, 6), "tcp.dstport", note},
		{"INT over GRE, in INT", inGRE, 38 + 18, "gre.proto", both},
		{"INT over GRE, in the payload", inGRE, less(inGRE, 6), "udp.dstport", note},
		{"INT over VXLAN-GPE, in the payload", inGPE, less(inGPE, 6), "udp.dstport", note},
		{"INT over Geneve, in the payload", inGeneve, less(inGeneve, 6), "geneve.vni", note},
		{"report, in INT of what it quotes", reported, less(reported, len(answer)+4), "int_report.seq", both},
		{"report, in what it quotes", reported, less(reported, 6), "int_report.seq", note},
	}
}

// Captures that have only the first bytes of packets: hundreds of each kind, and all packets behind them are shown. In
// Wireshark 4.0 each cut packet whose dissector was called from Lua would take some of Lua's 200 calls, for good.
func TestWiresharkHostileCut(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("takes long: make test runs it")
	}
	const times = 300
	cases, whole := cutCases(), recorded(t)[:40]
	var mixed cutCapture
	for _, c := range cases {
		mixed.add(c.frame, c.keep, times/len(cases)+1)
		t.Run(c.name, func(t *testing.T) {
			var f cutCapture
			f.add(c.frame, c.keep, times)
			for _, p := range whole {
				f.add(p.data, len(p.data), 1)
			}
			// All are dissected, these are printed: an error that began before them goes on.
			trees := tshark(t, writeCut(t, 1, f.packets, f.wire), "-Y", fmt.Sprint("frame.number == 1 || frame.number >= ", times))
			if len(trees) != 2+len(whole) {
				t.Fatalf("%d packets", len(trees))
			}
			c.check(t, &trees[0])
			c.check(t, &trees[1])
			holdTrees(t, &Decoder{}, StartEthernet, whole, trees[2:])
		})
	}
	for _, args := range [][]string{{"-2"}, {"-o", "int.look:FALSE"}, {"-o", "int.source:spec-1.0"}} {
		if trees := tshark(t, writeCut(t, 1, mixed.packets, mixed.wire), args...); len(trees) != len(mixed.packets) {
			t.Errorf("%q: %d packets of %d", args, len(trees), len(mixed.packets))
		}
	}
}

// cutCapture is a capture of packets that had more bytes on the wire.
type cutCapture struct {
	packets [][]byte
	wire    []int
}

// add adds a frame, and again. TCP segments differ each time: Wireshark leaves the contents of retransmissions alone.
func (f *cutCapture) add(frame []byte, keep, times int) {
	for i := range times {
		p := bytes.Clone(frame[:keep])
		if times > 1 && p[23] == protoTCP {
			binary.BigEndian.PutUint32(p[38:], uint32(i*1000))
		}
		f.packets, f.wire = append(f.packets, p), append(f.wire, len(frame))
	}
}

func (c *cutCase) check(t *testing.T, p *item) {
	t.Helper()
	found := false
	p.each(func(*item) { found = true }, c.field)
	got := read(p)
	if !found {
		t.Errorf("no %s", c.field)
	}
	if malformed := of(p, "_ws.malformed"); len(c.codes) == 0 && (len(got.codes) > 0 || malformed != "") {
		t.Errorf("%v %s", got.codes, malformed)
	}
	if got.codes["length_past_packet"] {
		t.Errorf("the length is right: %v", got.codes)
	}
	for _, code := range c.codes {
		if !got.codes[code] {
			t.Errorf("no %s: %v", code, got.codes)
		}
	}
}
