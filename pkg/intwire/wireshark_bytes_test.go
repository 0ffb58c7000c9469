// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// shim20 is INT-MD 2.x over UDP behind a shim, whose stack is given.
func shim20(bitmap, domain uint16, hopML int, stack []byte) []byte {
	b := []byte{0x10, byte(3 + len(stack)/4), 0, 0, 0x20, 0, byte(hopML), 3}
	b = binary.BigEndian.AppendUint16(b, bitmap)
	return append(binary.BigEndian.AppendUint16(b, domain), append([]byte{0, 0, 0, 0}, stack...)...)
}

// shim10 is the same of INT 1.0, shim05 of 0.5 with a tail.
func shim10(bitmap uint16, hopML int, stack []byte) []byte {
	b := []byte{1, 0, byte(3 + len(stack)/4), 0, 0x10, 0, byte(hopML), 3}
	return append(binary.BigEndian.AppendUint16(b, bitmap), append([]byte{0, 0}, stack...)...)
}

func shim05(bitmap uint16, count, hops int, stack []byte) []byte {
	b := []byte{1, 0, byte(4 + len(stack)/4), 0, 0, byte(count), 9, byte(hops)}
	return append(binary.BigEndian.AppendUint16(b, bitmap), append([]byte{0, 0}, append(stack, 17, 0x1f, 0x90, 5)...)...)
}

// group is a report 2.0 with metadata.
func group(bitmap uint16, metadata []byte) []byte {
	b := []byte{0x20, 0x40, 0, 5, 0, 0, 0, 3, 0x14, byte(2 + len(metadata)/4 + 5), byte(len(metadata) / 4), 0x20}
	b = append(binary.BigEndian.AppendUint16(b, bitmap), 0, 0, 0, 0, 0, 0)
	return slices.Concat(b, metadata, []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
}

// report10 is a report 1.0 with metadata.
func report10(bits byte, metadata []byte) []byte {
	w := 0x10000000 | uint32(4+len(metadata)/4)<<24 | 1<<21 | uint32(bits)<<15 | 0x43
	b := append(binary.BigEndian.AppendUint32(nil, w), 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 1)
	return slices.Concat(b, metadata, []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
}

// Each bit of each bitmap, alone and with all others, of two hops: every row of the tables of both decoders.
func TestWiresharkBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := func(n int) []byte { // random, some of all ones
		b := make([]byte, 4*n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		for i := range n {
			if r.IntN(4) == 0 {
				copy(b[4*i:], "\xff\xff\xff\xff")
			}
		}
		return b
	}
	var packets []named
	add := func(name string, payload []byte, port uint16) {
		frame := wrap(payload, port)
		if port == 5000 {
			frame[15] = 0x17 << 2
		}
		packets = append(packets, named{name, frame})
	}
	for bit := range 18 {
		bitmap := uint16(0x8000) >> bit
		if bit == 16 {
			bitmap = 0xffff
		} else if bit == 17 {
			bitmap = 0xff81
		}
		name := fmt.Sprintf("%04x", bitmap)
		if n := Words(INT20, bitmap, 0); n <= 31 {
			add("INT 2.x "+name, shim20(bitmap, 0, n, words(2*n)), 5000)
			add("INT 2.x with words of a domain "+name, shim20(bitmap, 9, n+2, words(2*n+4)), 5000)
		}
		n := Words(INT10, bitmap, 0)
		add("INT 1.0 "+name, shim10(bitmap, n, words(2*n)), 5000)
		for _, o := range []Option{LongTimes, ShortL2, LongTimes | ShortL2} {
			if own := Words(INT10, bitmap, o); own != n {
				add(fmt.Sprintf("INT 1.0 with rows %d %s", o, name), shim10(bitmap, own, words(2*own)), 5000)
			}
		}
		if bitmap&0xff == 0 {
			n := Words(INT05, bitmap, 0)
			add("INT 0.5 "+name, shim05(bitmap, n, 2, words(2*n)), 5000)
		}
		add("report 2.0 "+name, group(bitmap, words(Words(TR20, bitmap&0x7fff, 0))), 32766)
	}
	for bits := range byte(64) {
		add(fmt.Sprintf("report 1.0 %02x", bits), report10(bits, words(Words(TR10, uint16(bits)<<10, 0))), 32766)
	}
	hold(t, &Decoder{}, StartEthernet, 1, packets)
}

// Reports of every version that quote every packet with INT, whole and cut, also of IPv6.
func TestWiresharkQuotes(t *testing.T) {
	six := func(proto byte, l4 []byte) []byte { // Ethernet, IPv6 with DSCP 0x17
		b := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x65, 0xc0, 0, 0}, byte(len(l4)>>8), byte(len(l4)), proto, 64)
		return slices.Concat(b, bytes.Repeat([]byte{0x20}, 32), l4)
	}
	md := shim20(0x8000, 0, 1, []byte{0, 0, 0, 7, 0, 0, 0, 8})
	quoted := []named{
		{"IPv6 UDP", six(protoUDP, slices.Concat([]byte{0x9c, 0x40, 0x1f, 0x90, 0, byte(8 + len(md)), 0, 0}, md))},
		{"IPv6 TCP", six(protoTCP, slices.Concat(segment(0, 1, nil)[34:], md, []byte("payload")))},
	}
	var d Decoder
	var m Message
	for _, p := range recorded(t) {
		d.Decode(&m, StartEthernet, p.data)
		if len(m.INT) == 1 && m.INT[0].Carrier != OverGeneve && m.INT[0].Carrier != OverVXLAN && m.Report.Layout == NoReport && !m.Has(BadL4Length) {
			quoted = append(quoted, p)
		}
	}
	var packets []named
	for _, p := range quoted {
		d.Decode(&m, StartEthernet, p.data)
		for i, head := range [][]byte{
			{0, 0x20, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2},
			{0x14, 0, 0, 0x41, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2},
			{0x20, 0, 0, 1, 0, 0, 0, 9, 0x13, 0xff, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0},
			{0x20, 0, 0, 1, 0, 0, 0, 9, 0x03, 0xff, 0, 0x00},
		} {
			for _, cut := range []int{0, len(m.INT[0].Payload) + 1, len(m.INT[0].Payload) + 6, len(p.data) / 3} {
				packets = append(packets, named{fmt.Sprintf("report %d of %s, less %d", i, p.name, cut), wrap(slices.Concat(head, p.data[:len(p.data)-cut]), 32766)})
			}
		}
	}
	hold(t, &Decoder{}, StartEthernet, 1, packets, "-o", "ip.defragment:FALSE")
}

// How often tshark gets a thousand changed packets.
func rounds(t *testing.T) int {
	if need.IsNightly(t) {
		return 20
	}
	return 1
}

// Payloads of UDP that were changed at random are read as the decoder reads them. Left out is where Wireshark looks further:
// into tunnels, and behind INT.
func TestWiresharkRandom(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("takes long: make test runs it")
	}
	var seeds [][]byte // with a byte in front, which mutate() leaves
	for _, p := range recorded(t) {
		if b := p.data; b[12] == 8 && b[13] == 0 && b[14] == 0x45 && b[23] == protoUDP {
			seeds = append(seeds, append([]byte{0}, b[42:]...))
		}
	}
	r := rand.New(rand.NewPCG(1, 3))
	further = true
	defer func() { further = false }()
	for range rounds(t) {
		hold(t, &Decoder{}, StartEthernet, 1, changed(r, seeds), "-o", "ip.defragment:FALSE")
	}
}

// changed are a thousand packets with changed payloads in which the decoder finds something.
func changed(r *rand.Rand, seeds [][]byte) (packets []named) {
	ports := []uint16{32766, 5000, 9999, portVXLAN, portVXLANGPE, portGeneve, 555}
	var d Decoder
	var m Message
	for len(packets) < 1000 {
		b := mutate(r, bytes.Clone(seeds[r.IntN(len(seeds))]), seeds)[1:]
		frame := wrap(b, ports[r.IntN(len(ports))])
		binary.BigEndian.PutUint16(frame[34:], 40000)
		if r.IntN(2) == 0 {
			frame[15] = 0x17 << 2
		}
		if d.Decode(&m, StartEthernet, frame); m.Has(BadIP) || m.Has(CutIP) || m.Profile == nil {
			continue
		}
		packets = append(packets, named{fmt.Sprint("changed ", len(packets)), frame})
	}
	return packets
}

// Whatever the bytes are, the plugin raises no error: tshark() fails if it does.
func TestWiresharkHostile(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("takes long: make test runs it")
	}
	var seeds [][]byte
	for _, p := range recorded(t) {
		seeds = append(seeds, append([]byte{0}, p.data...))
	}
	r := rand.New(rand.NewPCG(1, 4))
	for range rounds(t) {
		packets, wire := make([][]byte, 400), make([]int, 400)
		for i := range packets {
			b := bytes.Clone(seeds[r.IntN(len(seeds))])
			for range 1 + r.IntN(4) {
				b = mutate(r, b, seeds)
			}
			packets[i], wire[i] = b[1:], len(b)-1
			if i%3 == 0 { // a capture of its first bytes
				packets[i] = packets[i][:r.IntN(len(b))]
			}
		}
		file := writeCut(t, 1, packets, wire)
		for _, args := range [][]string{nil, {"-o", "int.look:FALSE"}, {"-2"}, {"-o", "int.source:tps"}, {"-o", "int.source:host-int"}} {
			if got := tshark(t, file, args...); len(got) != len(packets) {
				t.Errorf("%q: %d packets of %d", args, len(got), len(packets))
			}
		}
	}
}

// One datagram with more quoted packets than Wireshark has room for: those that are not looked at say so, and it goes on.
func TestWiresharkManyQuotes(t *testing.T) {
	quoted := wrap([]byte("xy"), 9)
	report := slices.Concat([]byte{3, byte(len(quoted) / 4), 0, 0x20}, quoted)
	jumbo := wrap(slices.Concat([]byte{0x20, 0, 0, 1, 0, 0, 0, 1}, bytes.Repeat(report, 185)), 32766)
	packets := make([][]byte, 5*rounds(t))
	for i := range packets {
		packets[i] = jumbo
	}
	for i, p := range tshark(t, writeCapture(t, 1, packets)) {
		if got := read(&p); !got.codes["many_packets"] {
			t.Fatalf("packet %d: %v", i+1, got.codes)
		}
		if got := of(&p, "_ws.malformed"); got != "" {
			t.Fatalf("packet %d: %s", i+1, got)
		}
	}
}

// Packets in packets in packets: what lies too deep in INT is not looked at, and that is said. Tunnels without INT may lie as
// deep as Wireshark lets them.
func TestWiresharkNested(t *testing.T) {
	md := shim20(0x8000, 0, 1, []byte{0, 0, 0, 1})
	vxlan := marked(wrap(md, 9))
	for range 60 {
		vxlan = wrap(slices.Concat([]byte{8, 0, 0, 0, 0, 0, 1, 0}, vxlan), portVXLAN)
	}
	gpe := wrap([]byte("inside"), 9)
	for range 40 {
		gpe = wrap(slices.Concat([]byte{12, 0, 0, 0x82, 0, 0, 1, 0, 0x10, 4, 0, 3}, md[4:], gpe), portVXLANGPE)
	}
	quotes := wrap([]byte("inside"), 9)
	for range 60 {
		quotes = wrap(slices.Concat([]byte{0, 0x20, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2}, quotes), 32766)
	}
	npt := []byte("inside")
	for range 200 { // INT behind INT, each before a UDP header
		npt = slices.Concat([]byte{0x9c, 0x40, 0x13, 0x88, 0, 0, 0, 0, 0x18, 4, 0, 17}, md[4:], npt)
		binary.BigEndian.PutUint16(npt[4:], uint16(len(npt)))
	}
	behind := slices.Concat(wrap(nil, 0)[:34], npt)
	binary.BigEndian.PutUint16(behind[16:], uint16(len(behind)-14))
	many := wrap(slices.Concat([]byte{0x20, 0, 0, 1, 0, 0, 0, 1}, bytes.Repeat([]byte{0, 0, 0, 0x8f}, 2000)), 32766)
	var said, found []bool
	for _, p := range tshark(t, writeCapture(t, 1, [][]byte{vxlan, gpe, quotes, behind, many})) {
		got := read(&p)
		said, found = append(said, got.codes["too_deep"]), append(found, got.topLevel > 0)
	}
	if want := []bool{false, true, false, true, false}; !slices.Equal(said, want) {
		t.Errorf("too deep: %v, want %v", said, want)
	}
	if want := []bool{true, true, false, true, false}; !slices.Equal(found, want) {
		t.Errorf("with INT: %v, want %v", found, want)
	}
}

// Between IPv6 and what it carries lie other headers, also one of authentication.
func TestWiresharkExtensions(t *testing.T) {
	md := shim20(0x8000, 0, 1, []byte{0, 0, 0, 7, 0, 0, 0, 8})
	udp := slices.Concat([]byte{0x9c, 0x40, 0x1f, 0x90, 0, byte(8 + len(md)), 0, 0}, md)
	tcp := slices.Concat(segment(0, 1, nil)[34:], md, []byte("payload"))
	options := func(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }
	auth := func(next byte) []byte {
		return append([]byte{next, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1}, make([]byte, 12)...)
	}
	var packets []named
	for proto, l4 := range map[byte][]byte{protoUDP: udp, protoTCP: tcp} {
		for name, parts := range map[string][][]byte{
			"destination":           {{60}, options(proto)},
			"hop by hop":            {{0}, options(proto)},
			"hop, destination":      {{0}, options(60), options(proto)},
			"destination, routing":  {{60}, options(43), {60, 0, 0, 0, 0, 0, 0, 0}, options(proto)},
			"whole fragment":        {{44}, {proto, 0, 0, 0, 0, 0, 0, 1}},
			"authentication":        {{51}, auth(proto)},
			"hop by hop, and twice": {{0}, options(51), auth(51), auth(proto)},
		} {
			body := slices.Concat(slices.Concat(parts[1:]...), l4)
			six := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x65, 0xc0, 0, 0}, byte(len(body)>>8), byte(len(body)), parts[0][0], 64)
			packets = append(packets, named{fmt.Sprint(name, ", ", proto), slices.Concat(six, bytes.Repeat([]byte{0x20}, 32), body)})
		}
	}
	hold(t, &Decoder{}, StartEthernet, 1, packets)
	var four [][]byte // the decoder looks behind it in IPv6 only
	for proto, l4 := range map[byte][]byte{protoUDP: udp, protoTCP: tcp} {
		four = append(four, marked(ipv4(51, auth(51), auth(proto), l4)))
	}
	for i, p := range tshark(t, writeCapture(t, 1, four)) {
		if got := read(&p); got.topLevel != 1 || len(got.codes) > 0 {
			t.Errorf("IPv4, %d: %v %v", i, got.facts, got.codes)
		}
	}
}
