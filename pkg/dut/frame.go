// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
)

// Bytes of the headers of a frame. A size counts the FCS, as RFC 2544 does, which virtual links do
// not carry.
const (
	etherLen = 14
	fcsLen   = 4
	udpLen   = 8
	markLen  = 16 // struct dut_mark
	ipv4Len  = 20
	ipv6Len  = 40
	overMTU  = etherLen + fcsLen
	firstTTL = 64

	leastFrame  = 64
	largestSize = 9216 + overMTU // jumbo frames of any device
)

// Addresses are those of test packets.
type Addresses struct {
	FromMAC net.HardwareAddr
	ToMAC   net.HardwareAddr
	From    netip.AddrPort
	To      netip.AddrPort
}

// IPv6 reports whether test packets are of IPv6.
func (a *Addresses) IPv6() bool { return a.To.Addr().Is6() }

// headersOf is how many bytes of a frame of that size are not UDP payload.
func headersOf(ipv6 bool) int {
	if ipv6 {
		return overMTU + ipv6Len + udpLen
	}
	return overMTU + ipv4Len + udpLen
}

// LeastSize is that of the smallest frame that has room for the mark, and that Ethernet has.
func LeastSize(ipv6 bool) int { return max(headersOf(ipv6)+markLen, leastFrame) }

// checkSize refuses sizes that a packet of the run cannot have.
func checkSize(size int, ipv6 bool, ports ...*Port) error {
	version := "IPv4"
	if ipv6 {
		version = "IPv6"
	}
	if least := LeastSize(ipv6); size < least {
		return fault.Usage.Errorf("size %d: a frame of %s and UDP that radar's mark of %d bytes fits into has %d bytes or more", size, version, markLen, least)
	}
	if size > largestSize {
		return fault.Usage.Errorf("size %d: frames have %d bytes at most", size, largestSize)
	}
	for _, p := range ports {
		if most := p.MTU + overMTU; size > most {
			return fault.Usage.Errorf("size %d: %s has an MTU of %d, so frames have %d bytes at most: use a smaller size, or raise the MTU", size, p.Name, p.MTU, most)
		}
	}
	return nil
}

// payloadOf is how many bytes of UDP payload a frame of that size has.
func payloadOf(size int, ipv6 bool) int { return size - headersOf(ipv6) }

// frame is the test packet of a trial. Only its number changes from one to the next, and the
// checksum.
type frame struct {
	bytes   []byte
	seqAt   int
	checkAt int
	sum     uint32 // of all that the checksum covers, with number 0
}

// newFrame makes the packet.
func newFrame(a *Addresses, size int, run, trial uint32) (*frame, error) {
	ipv6 := a.IPv6()
	payload := make([]byte, payloadOf(size, ipv6))
	binary.BigEndian.PutUint32(payload, uint32(bpfobj.DUT_MAGIC))
	binary.BigEndian.PutUint32(payload[4:], run)
	binary.BigEndian.PutUint32(payload[8:], trial)
	ether := &layers.Ethernet{SrcMAC: a.FromMAC, DstMAC: a.ToMAC, EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: layers.UDPPort(a.From.Port()), DstPort: layers.UDPPort(a.To.Port())}
	var ip gopacket.SerializableLayer
	if ipv6 {
		ether.EthernetType = layers.EthernetTypeIPv6
		six := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolUDP, HopLimit: firstTTL, SrcIP: a.From.Addr().AsSlice(), DstIP: a.To.Addr().AsSlice()}
		if err := udp.SetNetworkLayerForChecksum(six); err != nil {
			return nil, fmt.Errorf("make a test packet: %w", err)
		}
		ip = six
	} else {
		four := &layers.IPv4{
			Version: 4, IHL: 5, TTL: firstTTL, Protocol: layers.IPProtocolUDP, Flags: layers.IPv4DontFragment,
			SrcIP: a.From.Addr().AsSlice(), DstIP: a.To.Addr().AsSlice(),
		}
		if err := udp.SetNetworkLayerForChecksum(four); err != nil {
			return nil, fmt.Errorf("make a test packet: %w", err)
		}
		ip = four
	}
	buf := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, options, ether, ip, udp, gopacket.Payload(payload)); err != nil {
		return nil, fmt.Errorf("make a test packet: %w", err)
	}
	f := &frame{bytes: buf.Bytes()}
	start := len(f.bytes) - len(payload)
	f.seqAt, f.checkAt = start+12, start-2
	f.sum = uint32(^binary.BigEndian.Uint16(f.bytes[f.checkAt:]))
	return f, nil
}

// number gives the packet its number.
func (f *frame) number(seq uint32) {
	binary.BigEndian.PutUint32(f.bytes[f.seqAt:], seq)
	sum := f.sum + seq>>16 + seq&0xffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	check := ^uint16(sum)
	if check == 0 {
		check = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(f.bytes[f.checkAt:], check)
}
