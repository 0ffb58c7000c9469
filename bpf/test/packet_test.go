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
	return named(true, "clear-", "fragment-", "ttl-7", "ttl-2", "ttl-1", "odd-", "bad-", "train-",
		"single", "error-", "raw-ip")
}

// byKey are those whose bits must not change.
func byKey() []string {
	names := named(false, "clear-", "fragment-", "ttl-7", "ttl-2", "ttl-1")
	return names
}

const etherHeader = 14

// ipAt returns where the IPv4 header begins, -1 if there is none of 20 bytes.
func ipAt(data []byte) int {
	at := 12
	for at+2 <= len(data) {
		switch binary.BigEndian.Uint16(data[at:]) {
		case 0x8100, 0x88a8:
			at += 4
			continue
		case 0x0800:
			if at+2+20 <= len(data) {
				return at + 2
			}
		}
		return -1
	}
	return -1
}

// header returns the fixed part of the IPv4 header, which it aliases.
func header(t testing.TB, data []byte) []byte {
	t.Helper()
	at := ipAt(data)
	if at < 0 {
		t.Fatalf("no IPv4 header in %x", data)
	}
	return data[at : at+20]
}

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

func validChecksum(t testing.TB, data []byte) bool {
	t.Helper()
	at := ipAt(data)
	return checksum(data[at:at+headerLen(data[at:])]) == 0
}

// mend computes the IPv4 header checksum anew.
func mend(data []byte, at int) {
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
	if data[at+8] == 0 {
		t.Fatal("the test lowers a TTL of 0")
	}
	data[at+8]--
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

func ipID(ip []byte) uint16 { return binary.BigEndian.Uint16(ip[4:]) }

// setBits writes ID, TTL and TOS of an IPv4 packet and its checksum.
func setBits(t testing.TB, data []byte, id uint16, ttl, tos byte) {
	t.Helper()
	ip := header(t, data)
	binary.BigEndian.PutUint16(ip[4:], id)
	ip[8], ip[1] = ttl, tos
	mend(data, ipAt(data))
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
			fmt.Fprintf(&b, " %s=%02x want %02x;", fieldName(i, at), got[i], want[i])
		}
	}
	t.Errorf("%s:%s", what, b.String())
}

func fieldName(i, at int) string {
	names := map[int]string{1: "tos", 4: "id.0", 5: "id.1", 8: "ttl", 10: "check.0", 11: "check.1"}
	if name := names[i-at]; name != "" && at >= 0 {
		return name
	}
	return fmt.Sprintf("byte[%d]", i)
}
