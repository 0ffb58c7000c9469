// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
)

//go:embed packets.txt
var packetFile string

// fixtures returns the packets of packets.py by name, in order.
var fixtures = sync.OnceValues(func() (map[string][]byte, []string) {
	packets := make(map[string][]byte)
	var names []string
	for line := range strings.Lines(packetFile) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		data, err := hex.DecodeString(text)
		if err != nil {
			panic(fmt.Sprintf("packets.txt, %s: %v (write it again: python3 bpf/test/packets.py)", name, err))
		}
		packets[name] = data
		names = append(names, name)
	}
	return packets, names
})

// packet returns a copy of the packet of that name.
func packet(t testing.TB, name string) []byte {
	t.Helper()
	packets, _ := fixtures()
	p := packets[name]
	if p == nil {
		t.Fatalf("packets.txt has no %q", name)
	}
	return bytes.Clone(p)
}

// rest returns the names that begin with one of the prefixes, or the names that
// begin with none if not is set.
func named(not bool, prefixes ...string) []string {
	_, names := fixtures()
	var out []string
	for _, name := range names {
		hit := false
		for _, p := range prefixes {
			hit = hit || strings.HasPrefix(name, p)
		}
		if hit != not {
			out = append(out, name)
		}
	}
	return out
}

// byBits are the names of the packets that a source measures by header bits.
func byBits() []string {
	return named(true, "clear-", "fragment-", "ttl-7", "ttl-2", "ttl-1", "odd-", "bad-", "group-", "train-",
		"single", "error-", "raw-", "big-")
}

// byKey are those whose bits must not change.
func byKey() []string {
	names := named(false, "clear-", "fragment-", "ttl-7", "ttl-2", "ttl-1")
	return names
}

const etherHeader = 14

// ipAt returns where the IP header begins, -1 if there is no whole one (without options,
// without extension headers).
func ipAt(data []byte) int {
	at := 12
	for at+2 <= len(data) {
		need := 0
		switch binary.BigEndian.Uint16(data[at:]) {
		case 0x8100, 0x88a8:
			at += 4
			continue
		case 0x0800:
			need = 20
		case 0x86dd:
			need = 40
		}
		if need > 0 && at+2+need <= len(data) {
			return at + 2
		}
		return -1
	}
	return -1
}

// ipHeader is the fixed part of an IPv4 or IPv6 header. The EtherType says which: the
// header's length is 20 or 40.
type ipHeader []byte

// header returns the packet's, which it aliases.
func header(t testing.TB, data []byte) ipHeader {
	t.Helper()
	at := ipAt(data)
	if at < 0 {
		t.Fatalf("no IP header in %x", data)
	}
	return headerAt(data, at)
}

func headerAt(data []byte, at int) ipHeader {
	if binary.BigEndian.Uint16(data[at-2:]) == 0x86dd {
		return ipHeader(data[at : at+40])
	}
	return ipHeader(data[at : at+20])
}

func (h ipHeader) v6() bool { return len(h) == 40 }

// id is the IP ID; IPv6: the low 16 bits of the flow label.
func (h ipHeader) id() uint16 {
	if h.v6() {
		return binary.BigEndian.Uint16(h[2:])
	}
	return binary.BigEndian.Uint16(h[4:])
}

func (h ipHeader) ttl() byte { return *h.ttlByte() }

func (h ipHeader) ttlByte() *byte {
	if h.v6() {
		return &h[7]
	}
	return &h[8]
}

func (h ipHeader) tos() byte {
	if h.v6() {
		return h[0]<<4 | h[1]>>4
	}
	return h[1]
}

// length is that of the whole packet.
func (h ipHeader) length() int {
	if h.v6() {
		return 40 + int(binary.BigEndian.Uint16(h[4:]))
	}
	return int(binary.BigEndian.Uint16(h[2:]))
}

// set writes bits; a checksum is left as it is.
func (h ipHeader) set(id uint16, ttl, tos byte) {
	*h.ttlByte() = ttl
	if h.v6() {
		binary.BigEndian.PutUint16(h[2:], id)
		h[0], h[1] = h[0]&0xf0|tos>>4, h[1]&0xf|tos<<4
		return
	}
	binary.BigEndian.PutUint16(h[4:], id)
	h[1] = tos
}

// chain is what follows the fixed header of an IPv6 packet.
type chain struct {
	proto byte
	size  int  // of header and extension headers
	frag  int  // offset of the fragment header from the IP header, 0: none
	later bool // it is a fragment, but not the first
}

// readChain walks the extension headers as RFC 8200, section 4 has them.
func readChain(ip []byte) chain {
	c := chain{proto: ip[6], size: 40}
	for c.size+8 <= len(ip) && !c.later {
		h, n := ip[c.size:], 8
		switch c.proto {
		case 44:
			c.frag = c.size
			c.later = binary.BigEndian.Uint16(h[2:])>>3 != 0
		case 51:
			n = (int(h[1]) + 2) * 4
		case 0, 43, 60:
			n = (int(h[1]) + 1) * 8
		default:
			return c
		}
		c.proto, c.size = h[0], c.size+n
	}
	return c
}

// l4Of returns the protocol of the packet at data[at:], and where it begins in it.
func l4Of(data []byte, at int) (proto byte, l4 int) {
	if h := headerAt(data, at); h.v6() {
		c := readChain(data[at:])
		return c.proto, at + c.size
	}
	return data[at+9], at + headerLen(data[at:])
}

// isFragment says whether a packet is a fragment, and whether a later one.
func isFragment(t testing.TB, data []byte) (fragment, later bool) {
	t.Helper()
	if h := header(t, data); !h.v6() {
		off := binary.BigEndian.Uint16(h[6:])
		return off&0x3fff != 0, off&0x1fff != 0
	}
	c := readChain(data[ipAt(data):])
	return c.frag != 0, c.later
}

// headerLen is that of an IPv4 header.
func headerLen(ip []byte) int { return int(ip[0]&0xf) * 4 }

// checksum is RFC 1071 over b, as it stands: 0 if b holds its own checksum.
func checksum(b []byte) uint16 {
	var sum uint32
	for i, c := range b {
		if i%2 == 0 {
			sum += uint32(c) << 8
		} else {
			sum += uint32(c)
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// validChecksum says whether the header's checksum is right; IPv6 has none.
func validChecksum(t testing.TB, data []byte) bool {
	t.Helper()
	at := ipAt(data)
	return header(t, data).v6() || checksum(data[at:at+headerLen(data[at:])]) == 0
}

// fixSum computes the IPv4 header checksum anew.
func fixSum(data []byte, at int) {
	if headerAt(data, at).v6() {
		return
	}
	ip := data[at : at+headerLen(data[at:])]
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
}

// decrement lowers the TTL as a router does, in the way of Linux's
// ip_decrease_ttl(), which keeps a wrong checksum as wrong as it was.
func decrement(t testing.TB, data []byte) {
	t.Helper()
	at := ipAt(data)
	if at < 0 {
		return
	}
	h := headerAt(data, at)
	if h.ttl() == 0 {
		t.Fatal("the test lowers a TTL of 0")
	}
	*h.ttlByte()--
	if h.v6() {
		return
	}
	sum := uint32(binary.BigEndian.Uint16(data[at+10:])) + 0x0100
	if sum >= 0xffff {
		sum++
	}
	binary.BigEndian.PutUint16(data[at+10:], uint16(sum))
}

// lowered returns the packet as n routers without radar hand it on.
func lowered(t testing.TB, data []byte, n int) []byte {
	t.Helper()
	data = bytes.Clone(data)
	for range n {
		decrement(t, data)
	}
	return data
}

// setLength makes the IP header's length that of the frame; its checksum stays.
func setLength(data []byte) {
	at := ipAt(data)
	if headerAt(data, at).v6() {
		binary.BigEndian.PutUint16(data[at+4:], uint16(len(data)-at-40))
		return
	}
	binary.BigEndian.PutUint16(data[at+2:], uint16(len(data)-at))
}

// setBits writes ID, TTL and TOS of a packet and its checksum.
func setBits(t testing.TB, data []byte, id uint16, ttl, tos byte) {
	t.Helper()
	header(t, data).set(id, ttl, tos)
	fixSum(data, ipAt(data))
}

// same fails with a readable difference if the packets differ.
func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
		return
	}
	at := ipAt(want)
	var b strings.Builder
	for i := range want {
		if got[i] != want[i] {
			fmt.Fprintf(&b, " %s=%02x want %02x;", fieldName(want, i, at), got[i], want[i])
		}
	}
	t.Errorf("%s:%s", what, b.String())
}

func fieldName(data []byte, i, at int) string {
	if at < 0 {
		return fmt.Sprintf("byte[%d]", i)
	}
	names := map[int]string{1: "tos", 4: "id.0", 5: "id.1", 8: "ttl", 10: "check.0", 11: "check.1"}
	if headerAt(data, at).v6() {
		names = map[int]string{0: "class.0", 1: "class.1", 2: "label.0", 3: "label.1", 7: "hop-limit"}
	}
	if name := names[i-at]; name != "" {
		return name
	}
	return fmt.Sprintf("byte[%d]", i)
}
