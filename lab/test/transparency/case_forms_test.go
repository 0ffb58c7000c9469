// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

var _ = add(Case{
	Name: "sizes/small-and-large", Point: 9,
	Shows: "packets of 28 to 65,535 bytes, over links whose MTU lets them through",
	Build: func(w *World) {
		chain(w)
		w.MTU(65535)
		w.Listen("far", "0.0.0.0:7")
		w.RawSocket("far", unix.IPPROTO_UDP)
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, size := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 18, 19, 60, 61, 128, 576, 1472, 1473, 1500, 4000,
			9000, 16384, 32768, 60000, 65507} {
			for _, mayFrag := range []bool{false, true} {
				p := w.UDP("10.0.1.1", "10.0.4.2", size)
				p.MayFrag = mayFrag
				w.Send("out", p)
			}
		}
	},
})

var _ = add(Case{
	Name: "sizes/ipv6", Point: 9,
	Shows: "IPv6 packets of 40 to 65,535 bytes, over links whose MTU lets them through",
	Build: func(w *World) {
		chain6(w)
		w.MTU(65535)
	},
	Send: func(w *World) {
		for _, size := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 18, 19, 60, 61, 128, 576, 1232, 1452, 1453, 1500, 4000,
			9000, 16384, 32768, 60000, 65487} {
			for _, label := range []uint32{0, 0x12345} {
				p := w.UDP(out6, far6, size)
				p.Label = label
				w.Send("out", p)
			}
		}
		none := w.packet(out6, far6, 59, 0) // nothing behind the header
		w.Send("out", none)
	},
})

var _ = add(Case{
	Name: "forms/options", Point: 9,
	Shows: "IP options: none that a router touches, record route, time stamp, router alert",
	Build: func(w *World) {
		chain(w)
		w.RawSocket("far", unix.IPPROTO_UDP)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, options := range [][]byte{
			{1, 1, 1, 0},
			{148, 4, 0, 0}, // router alert
			{7, 15, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, // record route, three places
			{68, 12, 13, 0, 0, 0, 0, 1, 0, 0, 0, 2},           // time stamp, full: the overflow counter counts up
			append([]byte{7, 39, 4}, make([]byte, 37)...),     // record route, 40 bytes of options
		} {
			for _, mayFrag := range []bool{false, true} {
				p := w.UDP("10.0.1.1", "10.0.4.2", 64)
				p.Options, p.MayFrag = options, mayFrag
				w.Send("out", p)
			}
		}
	},
})

// spoiled packets, with what is wrong with them.
var spoiled = []struct {
	what  string
	lost  string // reason, "": see Sent
	spoil func(b []byte) []byte
}{
	{"header checksum", "IP_CSUM", func(b []byte) []byte { b[10] ^= 0x55; return b }},
	{"UDP checksum", "", func(b []byte) []byte { b[26] ^= 0x55; return b }},
	{"version 5", "-", func(b []byte) []byte { b[0] = 0x55; sumIPv4(b); return b }},
	{"IHL 4", "-", func(b []byte) []byte { b[0] = 0x44; return b }},
	{"IHL 15", "IP_CSUM", func(b []byte) []byte { b[0] = 0x4f; return b }},
	{"length above the frame", "-", func(b []byte) []byte { binary.BigEndian.PutUint16(b[2:], 1400); sumIPv4(b); return b }},
	{"length below the header", "-", func(b []byte) []byte { binary.BigEndian.PutUint16(b[2:], 19); sumIPv4(b); return b }},
	{"length below the frame", "", func(b []byte) []byte { binary.BigEndian.PutUint16(b[2:], 40); sumIPv4(b); return b }},
	{"UDP length", "", func(b []byte) []byte { b[24], b[25] = 0xff, 0xff; return b }},
	{"cut in the header", "-", func(b []byte) []byte { return b[:17] }},
	{"nothing but the header", "", func(b []byte) []byte { b = b[:20]; b[3], b[2] = 20, 0; sumIPv4(b); return b }},
	{"cut in UDP", "", func(b []byte) []byte { b = b[:24]; b[3], b[2] = 24, 0; sumIPv4(b); return b }},
	{"both DF and MF", "", func(b []byte) []byte { b[6] = 0x60; sumIPv4(b); return b }},
	{"reserved flag", "", func(b []byte) []byte { b[6] |= 0x80; sumIPv4(b); return b }},
	{"TTL 0", "IP_INHDR", func(b []byte) []byte { b[8] = 0; sumIPv4(b); return b }},
	{"checksum 0xffff", "", func(b []byte) []byte { return sumIs(b, 0xffff) }},
	{"checksum 0", "", func(b []byte) []byte { return sumIs(b, 0) }},
}

// sumIs chooses the ID so that the header's checksum is 0, which can be written as
// 0xffff too.
func sumIs(b []byte, sum uint16) []byte {
	binary.BigEndian.PutUint16(b[4:], 0)
	sumIPv4(b)
	binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(b[10:]))
	binary.BigEndian.PutUint16(b[10:], sum)
	return b
}

var _ = add(Case{
	Name: "forms/malformed", Point: 9,
	Shows: "packets that are truncated, or whose headers do not add up",
	Build: func(w *World) {
		chain(w)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for _, s := range spoiled {
			p := w.UDP("10.0.1.1", "10.0.4.2", 64)
			w.SendFrame("out", "eth0", mac("r1", "eth0"), s.spoil(p.Bytes()))
			switch e := w.Expect(p.Token); s.lost {
			case "":
			case "-":
				e.Unmeasured()
			default:
				e.Lost("r1", s.lost)
			}
		}
	},
	Counters: map[string]int{"not_measured_malformed": some},
})
