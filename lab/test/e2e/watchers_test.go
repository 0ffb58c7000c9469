// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestSelfProbe: a probe that lost hops differs in TTL and checksum only, and no
// two probes are equal.
func TestSelfProbe(t *testing.T) {
	src, dst := [4]byte{10, 0, 1, 1}, [4]byte{10, 0, 4, 2}
	seen := map[string]bool{}
	for sport := uint16(selfSport0); sport < selfSport0+300; sport++ {
		sent := selfProbe(nil, src, dst, sport, selfPortBase, 0)
		arrived := selfProbe(nil, src, dst, sport, selfPortBase, 3)
		if seen[string(sent)] {
			t.Fatalf("two equal probes, source port %d", sport)
		}
		seen[string(sent)] = true
		if ipChecksum(sent[:20]) != 0 || ipChecksum(arrived[:20]) != 0 {
			t.Fatalf("checksum of a probe is wrong: % x, % x", sent[:20], arrived[:20])
		}
		if sent[8]-arrived[8] != 3 {
			t.Fatalf("TTL %d, three routers later %d", sent[8], arrived[8])
		}
		copy(arrived[8:12], sent[8:12])
		if !bytes.Equal(sent, arrived) {
			t.Fatalf("more than TTL and checksum differ: % x, % x", sent, arrived)
		}
	}
}

// TestTCPWatch: every kind of damage that restoring could do is found.
func TestTCPWatch(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(ip []byte)
		ok    bool
	}{
		{"nothing wrong", func([]byte) {}, true},
		{"ttl", func(ip []byte) { ip[8]++ }, false},
		{"dscp", func(ip []byte) { ip[1] = 4 }, false},
		{"df", func(ip []byte) { ip[6] = 0 }, false},
		{"id of another packet", func(ip []byte) { binary.BigEndian.PutUint16(ip[4:], 40000) }, false},
		{"id behind a retransmission", func(ip []byte) { binary.BigEndian.PutUint16(ip[4:], 110) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &tcpWatch{ttl: 77, last: map[[12]byte]tcpPlace{}}
			if s := w.check(tcpHeader(100, 5000, 2*ethernetMSS)); s != "" {
				t.Fatalf("first packet: %s", s)
			}
			ip := tcpHeader(102, 5000+2*ethernetMSS, 10)
			tt.spoil(ip)
			ip[10], ip[11] = 0, 0
			binary.BigEndian.PutUint16(ip[10:], ipChecksum(ip[:20]))
			if s := w.check(ip); (s == "") != tt.ok {
				t.Errorf("check = %q, should be ok: %v", s, tt.ok)
			}
		})
	}
	ip := tcpHeader(1, 1, 0)
	ip[10]++
	if s := (&tcpWatch{ttl: 77, last: map[[12]byte]tcpPlace{}}).check(ip); s == "" {
		t.Error("a wrong checksum is not found")
	}
}

// tcpHeader of a packet or train with so many bytes of payload behind it.
func tcpHeader(id uint16, seq uint32, payload int) []byte {
	ip := make([]byte, 40)
	ip[0], ip[6], ip[8], ip[9], ip[32], ip[33] = 0x45, 0x40, 77, 6, 5<<4, 0x10
	binary.BigEndian.PutUint16(ip[2:], uint16(40+payload))
	binary.BigEndian.PutUint16(ip[4:], id)
	binary.BigEndian.PutUint32(ip[24:], seq)
	binary.BigEndian.PutUint16(ip[10:], ipChecksum(ip[:20]))
	return ip
}
