// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// contentChange is what the switch does with a packet, which lies in b from the IP header on.
type contentChange func(b []byte) []byte

// l4At is where the L4 header of an IP packet begins, and its protocol.
func l4At(b []byte) (int, byte) {
	if b[0]>>4 == 6 {
		return ip6Bytes, b[6]
	}
	return int(b[0]&15) * 4, b[9]
}

// l4Header is how many bytes the L4 header has.
func l4Header(proto byte) int {
	if proto == unix.IPPROTO_TCP {
		return 20
	}
	return 8
}

// insertShim puts twelve bytes between L4 header and payload, as INT does.
func insertShim(b []byte) []byte {
	l4, proto := l4At(b)
	at := l4 + l4Header(proto)
	b = append(append(append([]byte(nil), b[:at]...), "INT\x10shim\x00\x01\x02\x03"...), b[at:]...)
	if proto == unix.IPPROTO_UDP {
		binary.BigEndian.PutUint16(b[l4+4:], uint16(len(b)-l4))
	}
	return b
}

// changePayload changes the first bytes of the payload; changeAck the acknowledgement of TCP.
func changePayload(b []byte) []byte {
	l4, proto := l4At(b)
	for i := range 8 {
		b[l4+l4Header(proto)+i] ^= 0xa5
	}
	return b
}

func changeAck(b []byte) []byte {
	l4, _ := l4At(b)
	binary.BigEndian.PutUint32(b[l4+8:], 0x12345678)
	return b
}

// translate changes the source address as well.
func translate(b []byte) []byte {
	if b[0]>>4 == 6 {
		b[8+15] = 99
	} else {
		b[12+3] = 99
	}
	return changePayload(b)
}

func onesSum(sum uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

// finish sets lengths and checksums of an IP packet.
func finish(b []byte) []byte {
	l4, proto := l4At(b)
	addrs := b[12:20]
	if b[0]>>4 == 6 {
		addrs = b[8:40]
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ip6Bytes))
	} else {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^uint16(onesSum(0, b[:l4])))
	}
	at := l4 + 6
	if proto == unix.IPPROTO_TCP {
		at = l4 + 16
	}
	b[at], b[at+1] = 0, 0
	sum := onesSum(uint32(proto)+uint32(len(b)-l4), addrs)
	binary.BigEndian.PutUint16(b[at:], ^uint16(onesSum(sum, b[l4:])))
	return b
}
