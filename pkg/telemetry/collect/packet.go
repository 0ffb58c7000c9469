// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

// Packet is a captured or received packet that may hold reports, from its IP header on.
type Packet struct {
	At time.Time // when it came
	IP []byte
}

const (
	udpHeader  = 8
	ipv4Header = 20
	ipv6Header = 40
)

// AppendUDP appends a datagram as the packet of IPv4 (RFC 791), if both addresses are
// of that, or IPv6 (RFC 8200) in which it may have come, with right checksums (RFC 768). The error
// says that it is too long; then b is returned as it was.
func AppendUDP(b []byte, src, dst netip.AddrPort, payload []byte) ([]byte, error) {
	size, most := udpHeader+len(payload), 0xffff
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	if from.Is4() && to.Is4() {
		most -= ipv4Header
	}
	if size > most {
		return b, fmt.Errorf("datagram of %d bytes: longer than any can be", len(payload))
	}
	start, addresses := len(b), 0
	if from.Is4() && to.Is4() {
		b = append(b, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(ipv4Header+size))
		b = append(b, 0, 0, 0x40, 0, 64, record.ProtoUDP, 0, 0) // ID 0, DF
		addresses = len(b)
		b = append(append(b, from.AsSlice()...), to.AsSlice()...)
		binary.BigEndian.PutUint16(b[start+10:], ^intwire.Sum(b[start:], 0))
	} else {
		s, t := from.As16(), to.As16()
		b = append(b, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(size))
		b = append(b, record.ProtoUDP, 64)
		addresses = len(b)
		b = append(append(b, s[:]...), t[:]...)
	}
	pseudo := intwire.Sum(b[addresses:], record.ProtoUDP+uint32(size))
	udp := len(b)
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	b = append(append(b, 0, 0), payload...)
	check := ^intwire.Sum(b[udp:], uint32(pseudo))
	if check == 0 { // which would say that there is none
		check = 0xffff
	}
	binary.BigEndian.PutUint16(b[udp+6:], check)
	return b, nil
}

// Why a packet's UDP payload is not to be had.
var (
	ErrNoUDP = errors.New("no packet of UDP")
	ErrPart  = errors.New("a part of a datagram: cut, or a fragment")
)

// UDP returns the port that a packet of UDP goes to, and its payload, which is a part of p.IP. It
// fails with ErrNoUDP or ErrPart.
func (p Packet) UDP() (port uint16, payload []byte, err error) {
	b := p.IP
	switch {
	case len(b) >= ipv4Header && b[0]>>4 == 4:
		if b[9] != record.ProtoUDP {
			return 0, nil, ErrNoUDP
		}
		if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // more fragments, offset
			return 0, nil, ErrPart
		}
		size := int(b[0]&15) * 4
		if size < ipv4Header || len(b) < size {
			return 0, nil, ErrPart
		}
		b = b[size:]
	case len(b) >= ipv6Header && b[0]>>4 == 6:
		next := b[6]
		b = b[ipv6Header:]
		for range maxTags {
			if next != 0 && next != 43 && next != 60 || len(b) < 8 { // hop by hop, routing, destination
				break
			}
			size := 8 + 8*int(b[1])
			next, b = b[0], b[min(size, len(b)):]
		}
		if next == 44 { // fragment
			return 0, nil, ErrPart
		}
		if next != record.ProtoUDP {
			return 0, nil, ErrNoUDP
		}
	default:
		return 0, nil, ErrNoUDP
	}
	if len(b) < udpHeader {
		return 0, nil, ErrPart
	}
	port = binary.BigEndian.Uint16(b[2:])
	size := int(binary.BigEndian.Uint16(b[4:]))
	if size < udpHeader || size > len(b) {
		return port, nil, ErrPart
	}
	return port, b[udpHeader:size], nil
}

const maxTags = 8
