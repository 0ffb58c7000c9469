// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"fmt"
	"math/bits"
)

// packet is a frame, parsed as far as it goes.
type packet struct {
	frame  []byte
	l3     int // where IP begins
	l4     int // where TCP or UDP begins, 0: nowhere
	data   int // where their payload begins
	end    int // of the IP packet
	v      int
	proto  byte
	dscp   byte
	ttl    byte
	sum    int // where the checksum of TCP or UDP is
	faults []string
}

// parse reads a frame and notes what is wrong in it.
func parse(frame []byte) *packet {
	p := &packet{frame: frame, l3: 14}
	if len(frame) < 14 {
		return p
	}
	kind := be.Uint16(frame[12:])
	for (kind == 0x8100 || kind == 0x88a8) && len(frame) >= p.l3+4 {
		kind = be.Uint16(frame[p.l3+2:])
		p.l3 += 4
	}
	switch ip := frame[p.l3:]; {
	case kind == 0x0800 && len(ip) >= 20:
		p.v, p.proto, p.dscp, p.ttl = 4, ip[9], ip[1]>>2, ip[8]
		p.end = p.l3 + int(be.Uint16(ip[2:]))
		header := int(ip[0]&15) * 4
		if header < 20 || header > len(ip) || ones(ip[:header]) != 0xffff {
			p.fault("IP checksum")
		}
		if be.Uint16(ip[6:])&0x3fff == 0 {
			p.l4 = p.l3 + header
		}
	case kind == 0x86dd && len(ip) >= 40:
		p.v, p.proto, p.dscp, p.ttl = 6, ip[6], byte(be.Uint16(ip)>>6)&63, ip[7]
		p.end = p.l3 + 40 + int(be.Uint16(ip[4:]))
		p.l4 = p.l3 + 40
	default:
		return p
	}
	if p.end > len(frame) {
		p.fault("IP length %d beyond the frame", p.end-p.l3)
		p.end = len(frame)
	}
	p.parseL4()
	return p
}

func (p *packet) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

func (p *packet) parseL4() {
	if p.l4 == 0 || p.l4 > p.end {
		p.l4 = 0
		return
	}
	b := p.frame[p.l4:p.end]
	switch {
	case p.proto == 17 && len(b) >= 8:
		p.data, p.sum = p.l4+8, p.l4+6
		if int(be.Uint16(b[4:])) != len(b) {
			p.fault("UDP length %d of %d", be.Uint16(b[4:]), len(b))
		}
		if be.Uint16(b[6:]) == 0 {
			return
		}
	case p.proto == 6 && len(b) >= 20 && int(b[12]>>4)*4 <= len(b):
		p.data, p.sum = p.l4+int(b[12]>>4)*4, p.l4+16
	default:
		p.l4 = 0
		return
	}
	if ones(pseudo(p.src(), p.dst(), p.proto, len(b)), b) != 0xffff {
		p.fault("L4 checksum")
	}
}

func (p *packet) src() []byte { return p.address(0) }
func (p *packet) dst() []byte { return p.address(1) }

func (p *packet) address(i int) []byte {
	if p.v == 4 {
		return p.frame[p.l3+12+4*i:][:4]
	}
	return p.frame[p.l3+8+16*i:][:16]
}

func (p *packet) ip() []byte   { return p.frame[p.l3:p.end] }
func (p *packet) dport() int   { return int(be.Uint16(p.frame[p.l4+2:])) }
func (p *packet) load() []byte { return p.frame[p.data:p.end] }

// The modes of INT.
const (
	md   = "md"   // INT-MD 2.1
	md10 = "md10" // INT-MD 1.0
	mx   = "mx"   // INT-MX 2.1
	xd   = "xd"   // INT-XD
)

// field is a value of a node: its name, its bit, and its words in INT 2.1 and 1.0.
type field struct {
	name  string
	bit   uint16
	words [2]int
}

// fields are in the order in which they are sent. What no switch here knows has an empty name.
var fields = []field{
	{"node", 0x8000, [2]int{1, 1}}, {"ports", 0x4000, [2]int{1, 1}}, {"latency", 0x2000, [2]int{1, 1}},
	{"queue", 0x1000, [2]int{1, 1}}, {"in", 0x0800, [2]int{2, 1}}, {"out", 0x0400, [2]int{2, 1}},
	{"l2", 0x0200, [2]int{2, 2}}, {"util", 0x0100, [2]int{1, 1}},
	{"", 0x0080, [2]int{1, 1}}, {"", 0x0040, [2]int{1, 1}}, {"", 0x0020, [2]int{1, 1}}, {"", 0x0010, [2]int{1, 1}},
	{"", 0x0008, [2]int{1, 1}}, {"", 0x0004, [2]int{1, 1}}, {"", 0x0002, [2]int{1, 1}}, {"", 0x0001, [2]int{1, 1}},
}

// hopWords is how many words a node adds.
func hopWords(mode string, bitmap uint16) int {
	if mode == mx || mode == xd {
		return 0
	}
	n := bits.OnesCount16(bitmap) + bits.OnesCount16(bitmap&0x0200)
	if mode == md {
		n += bits.OnesCount16(bitmap & 0x0c00)
	}
	return n
}

// values are what a node says, by name. Fields that no switch knows must be all ones.
type values map[string]uint64

// readValues takes values from words, in the order of the bits.
func readValues(bitmap uint16, old int, b []byte) (v values, rest []byte, unknown bool) {
	v, unknown = make(values), true
	for _, f := range fields {
		if bitmap&f.bit == 0 || len(b) < 4*f.words[old] {
			continue
		}
		var n uint64
		for range f.words[old] {
			n, b = n<<32|uint64(be.Uint32(b)), b[4:]
		}
		if f.name != "" {
			v[f.name] = n
		} else if n != 0xffffffff {
			unknown = false
		}
	}
	return v, b, unknown
}

// inband is INT in a packet.
type inband struct {
	mode      string
	npt       byte
	original  uint16 // DSCP, port or protocol
	d, e, m   bool
	remaining byte
	bitmap    uint16
	domain    uint16
	stack     [][]byte // newest first
	size      int      // bytes, with the shim
	faults    []string
}

// readINT reads what is behind TCP or UDP, by the specifications' text.
func readINT(b []byte, old bool) (*inband, bool) {
	if len(b) < 12 {
		return nil, false
	}
	t := &inband{}
	var stack []byte
	var ml int
	w := be.Uint32(b[4:])
	t.bitmap = be.Uint16(b[8:])
	if old {
		t.mode, t.size, t.original = md10, int(b[2])*4, uint16(b[3]>>2)
		if b[0] != 1 || w>>28 != 1 || t.size < 12 || t.size > len(b) {
			return nil, false
		}
		t.e, t.m = w>>24&1 == 1, w>>23&1 == 1
		stack = b[12:t.size]
		if b[1] != 0 || b[3]&3 != 0 || w&0x0e7fe000 != 0 || be.Uint16(b[10:]) != 0 {
			t.faults = append(t.faults, "reserved bits")
		}
	} else {
		t.size, t.npt, t.original = 4+int(b[1])*4, b[0]>>2&3, be.Uint16(b[2:])
		if t.mode = map[byte]string{1: md, 3: mx}[b[0]>>4]; t.mode == "" || w>>28 != 2 || t.size < 16 || t.size > len(b) {
			return nil, false
		}
		t.d, t.domain, stack = w>>27&1 == 1, be.Uint16(b[10:]), b[16:t.size]
		reserved := w&0x01ffe000 | uint32(be.Uint32(b[12:])) | uint32(b[0]&3)
		if t.mode == md {
			t.e, t.m = w>>26&1 == 1, w>>25&1 == 1
		} else {
			reserved |= w & 0x07ffffff
		}
		if t.npt == 0 {
			reserved |= uint32(t.original & 0xff03)
			t.original = t.original >> 2 & 63
		}
		if reserved != 0 {
			t.faults = append(t.faults, "reserved bits")
		}
	}
	t.remaining, ml = byte(w), int(w>>8&31)*4
	if want := hopWords(t.mode, t.bitmap) * 4; t.mode == mx && len(stack) != 0 || t.mode != mx && (ml != want || ml == 0 || len(stack)%ml != 0) {
		return nil, false
	}
	for ; len(stack) > 0; stack = stack[ml:] {
		t.stack = append(t.stack, stack[:ml])
	}
	return t, true
}

// report is a telemetry report, of either version.
type report struct {
	version   int
	hw        byte
	node      uint32
	sequence  uint32
	inner     byte   // kind of the quote
	dropped   bool   // D
	congested bool   // Q
	flow      bool   // F
	between   bool   // I: from a transit
	bitmap    uint16 // of 2.0, also where 1.0 has other bits
	domain    uint16
	values    values
	reason    int // of a drop, -1: none
	quote     []byte
	faults    []string
}

func flag(w uint32, bit int) bool { return w>>bit&1 == 1 }

// readReport reads the payload of a datagram.
func readReport(b []byte) (*report, bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 2:
		return readReport20(b)
	case len(b) >= 16 && b[0]>>4 == 1:
		return readReport10(b)
	}
	return nil, false
}

func readReport20(b []byte) (*report, bool) {
	w, x := be.Uint32(b), be.Uint32(b[8:])
	r := &report{version: 20, hw: byte(w>>22) & 63, sequence: w & 0x3fffff, node: be.Uint32(b[4:]), inner: byte(x >> 24 & 15), reason: -1}
	r.dropped, r.congested, r.flow, r.between = flag(x, 7), flag(x, 6), flag(x, 5), flag(x, 4)
	r.bitmap, r.domain = be.Uint16(b[12:]), be.Uint16(b[14:])
	words, length := int(x>>8&255), int(x>>16&255)
	if x>>28 != 1 || x&15 != 0 || be.Uint32(b[16:]) != 0 || r.bitmap&0x8000 != 0 {
		r.faults = append(r.faults, "head of the report")
	}
	if n := (len(b) - 12) / 4; length != min(n, 255) || len(b)%4 != 0 {
		r.faults = append(r.faults, fmt.Sprintf("report length %d of %d words", length, n))
	}
	if len(b) < 20+4*words {
		return nil, false
	}
	var rest []byte
	r.values, rest, _ = readValues(r.bitmap&^1, 0, b[20:20+4*words])
	if r.bitmap&1 != 0 && len(rest) == 4 {
		r.dropWord(be.Uint32(rest))
		rest = nil
	}
	if len(rest) != 0 || r.bitmap&0xfe != 0 {
		r.faults = append(r.faults, "metadata length")
	}
	r.quote = b[20+4*words:]
	return r, true
}

// dropWord reads queue, reason and padding. No switch here knows a queue but 0.
func (r *report) dropWord(w uint32) {
	r.reason = int(w >> 16 & 255)
	if w&0xff00ffff != 0 {
		r.faults = append(r.faults, "queue or padding of the drop reason")
	}
}

func readReport10(b []byte) (*report, bool) {
	w := be.Uint32(b)
	r := &report{version: 10, hw: byte(w) & 63, node: be.Uint32(b[4:]), sequence: be.Uint32(b[8:]), inner: byte(w >> 21 & 7), reason: -1}
	r.dropped, r.congested, r.flow = flag(w, 8), flag(w, 7), flag(w, 6)
	mask, length := byte(w>>15)&63, int(w>>24&15)*4
	if w&0x7e00 != 0 || length != 16+4*bits.OnesCount8(mask) || len(b) < length || len(b)%4 != 0 {
		return nil, false
	}
	r.values = values{"in": uint64(be.Uint32(b[12:]))}
	at := b[16:]
	for i, name := range []string{"ports", "latency", "queue", "out", "drop", "util"} {
		if mask>>(5-i)&1 == 0 {
			continue
		}
		if v := be.Uint32(at); name == "drop" {
			r.dropWord(v)
		} else {
			r.values[name] = uint64(v)
		}
		r.bitmap |= []uint16{0x4000, 0x2000, 0x1000, 0x0400, 1, 0x0100}[i]
		at = at[4:]
	}
	r.quote = b[length:]
	return r, true
}

// isReport says whether a frame goes from a switch to the collector, and returns its payload.
func isReport(f []byte) ([]byte, bool) {
	c := hostMAC(9)
	if !bytes.HasPrefix(f, c) {
		return nil, false
	}
	p := parse(f)
	return p.load(), p.l4 != 0 && p.proto == 17
}
