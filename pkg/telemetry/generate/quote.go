// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"encoding/binary"
	"fmt"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

const (
	tcpHeader, udpHeader = 20, 8
	firstTTL             = 64
	destinationPort      = 8080
	firstSourcePort      = 10000
)

// quote appends a packet as it came to a node (from 1), behind so many nodes that have added to
// its INT stack; without INT if there is none.
func (m *Maker) quote(dst []byte, p *packet, node, stack int) ([]byte, error) {
	b := m.ethernet(dst)
	proto, header := uint8(record.ProtoUDP), udpHeader
	if m.d.Transport == TCP || m.d.Transport == Mixed && p.flow%2 == 1 {
		proto, header = record.ProtoTCP, tcpHeader
	}
	ip := len(b)
	b = m.network(b, p, proto, node, stack > 0)
	l4 := len(b)
	b = m.transport(b, p, proto)
	body := len(b)
	if stack > 0 {
		for j := range stack { // the newest is the first
			m.values(&m.hops[j].Values, p, stack-1-j)
		}
		m.in.Header.RemainingHops, m.in.Hops = uint8(MaxHops-stack), m.hops[:stack]
		var err error
		if b, err = intwire.AppendINT(b, &m.in); err != nil {
			return dst, fmt.Errorf("INT: %w", err)
		}
	}
	payload := len(b)
	b = binary.BigEndian.AppendUint64(b, p.number) // so that no two packets are the same
	b = append(b, m.filling...)[:payload+m.d.Payload]
	m.lengths(b, ip, l4, proto)
	addresses := b[l4-2*m.addressSize : l4]
	if stack == 0 || m.d.Instructions&1 == 0 {
		setChecksum(b[l4:], proto, intwire.Sum(addresses, uint32(intwire.Sum(b[l4:], uint32(proto)+uint32(len(b)-l4)))))
		return b, nil
	}
	// Instruction 15: the checksum stays that of the packet without INT.
	added, per := payload-body, uint32(1) // pseudo header's length
	if proto == record.ProtoUDP {
		per = 2 // and UDP's own
	}
	without := intwire.Sum(b[payload:], uint32(intwire.Sum(b[l4:body], uint32(proto)+uint32(header+m.d.Payload))))
	if proto == record.ProtoUDP {
		without = intwire.Sum(nil, uint32(without)+uint32(^uint16(added))) // the length has those of INT already
	}
	setChecksum(b[l4:], proto, intwire.Sum(addresses, uint32(without)))
	m.complements(b[body:payload], stack, per)
	return b, nil
}

func (m *Maker) ethernet(b []byte) []byte {
	if m.d.QuoteIP {
		return b
	}
	b = append(b, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1)
	if m.d.VLAN != 0 {
		b = binary.BigEndian.AppendUint16(append(b, 0x81, 0x00), m.d.VLAN)
	}
	if m.d.IPv6 {
		return append(b, 0x86, 0xdd)
	}
	return append(b, 0x08, 0x00)
}

// network appends the IP header (RFC 791, RFC 8200) without length and checksum. Addresses are
// those that are kept for such tests (RFC 2544, RFC 5180).
func (m *Maker) network(b []byte, p *packet, proto uint8, node int, marked bool) []byte {
	class := uint8(0)
	if marked {
		class = m.d.DSCP << 2
	}
	ttl, high, low := uint8(firstTTL+1-node), uint8(p.flow>>8), uint8(p.flow)
	if m.d.IPv6 {
		b = append(b, 0x60|class>>4, class<<4|uint8(p.flow>>16)&15, high, low, 0, 0, proto, ttl)
		b = append(b, 0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, high, low)
		return append(b, 0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, high, low)
	}
	id := uint16(p.number / uint64(m.d.Flows))
	b = append(b, 0x45, class, 0, 0, uint8(id>>8), uint8(id), 0, 0, ttl, proto, 0, 0)
	return append(b, 198, 18, high, low, 198, 19, high, low)
}

// transport appends the header of UDP (RFC 768) or TCP (RFC 9293) without length and checksum.
func (m *Maker) transport(b []byte, p *packet, proto uint8) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(firstSourcePort+p.flow%50000))
	b = binary.BigEndian.AppendUint16(b, destinationPort)
	if proto == record.ProtoUDP {
		return append(b, 0, 0, 0, 0)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(p.number/uint64(m.d.Flows)*uint64(m.d.Payload)))
	return append(b, 0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0) // ACK, window 8192
}

// lengths writes the lengths of IP and UDP, and the checksum of IPv4.
func (m *Maker) lengths(b []byte, ip, l4 int, proto uint8) {
	if proto == record.ProtoUDP {
		binary.BigEndian.PutUint16(b[l4+4:], uint16(len(b)-l4))
	}
	if m.d.IPv6 {
		binary.BigEndian.PutUint16(b[ip+4:], uint16(len(b)-l4))
		return
	}
	binary.BigEndian.PutUint16(b[ip+2:], uint16(len(b)-ip))
	binary.BigEndian.PutUint16(b[ip+10:], ^intwire.Sum(b[ip:l4], 0))
}

// setChecksum writes the checksum of a transport header whose sum, pseudo header included, is
// given. UDP's is never 0, which would say that there is none.
func setChecksum(l4 []byte, proto uint8, sum uint16) {
	switch check := ^sum; {
	case proto == record.ProtoTCP:
		binary.BigEndian.PutUint16(l4[16:], check)
	case check == 0:
		binary.BigEndian.PutUint16(l4[6:], 0xffff)
	default:
		binary.BigEndian.PutUint16(l4[6:], check)
	}
}

// complements writes the last word of each node's block, so that what the node has changed leaves
// the transport checksum right (INT 1.0 to 2.1, "Checksum Update"): its block, the length in the
// shim, the hop count, the lengths that the checksum covers, which are per in number; and of the
// first node the shim and the header. b is INT, with 0 in those words.
func (m *Maker) complements(b []byte, stack int, per uint32) {
	block := 4 * intwire.Words(m.in.Header.Layout, m.d.Instructions, 0)
	words := uint32(block / 4)
	if m.d.Version == V10 {
		words <<= 8 // the shim's length is in the upper byte of its half word
	}
	head := len(b) - stack*block
	for k := range stack { // the newest, which is the first, is the last to add
		own := b[head+k*block : head+(k+1)*block]
		change := per*uint32(block) + words + 0xfffe // -1: the hop count
		if k == stack-1 {
			// What was there when the first node had added: the others' changes taken off.
			others := uint32(stack - 1)
			change = per*uint32(head+block) + uint32(intwire.Sum(b[:head], others)) +
				uint32(^intwire.Sum(nil, others*words))
		}
		binary.BigEndian.PutUint32(own[block-4:], uint32(^intwire.Sum(own, change)))
	}
}
