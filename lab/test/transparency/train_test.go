// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// SendTrain sends a packet of TCP or UDP as a GSO train of segments with size bytes of
// payload each, by a packet socket, as a host with segmentation offload hands it to its
// interface.
func (w *World) SendTrain(node, port string, to net.HardwareAddr, p *Packet, size int) *Sent {
	w.T.Helper()
	ip := p.Bytes()
	l4, addrs, kind, gso := int(ip[0]&15)*4, ip[12:20], uint16(unix.ETH_P_IP), byte(vnetGSOTCP4)
	if ip[0]>>4 == 6 {
		l4, addrs, kind, gso = 40, ip[8:40], unix.ETH_P_IPV6, vnetGSOTCP6
	}
	sum := 16 // where the checksum lies
	if p.Proto == unix.IPPROTO_UDP {
		gso, sum = vnetGSOUDP, 6
	}
	// The sum over the pseudo header alone; the device does the rest.
	binary.BigEndian.PutUint16(ip[l4+sum:], 0)
	pseudo := append(slices.Clone(addrs), 0, p.Proto)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(ip)-l4))
	binary.BigEndian.PutUint16(ip[l4+sum:], ^checksum(pseudo))

	hdr := make([]byte, vnetHeader)
	hdr[0], hdr[1] = vnetNeedsSum, gso
	binary.NativeEndian.PutUint16(hdr[2:], uint16(14+len(ip)-len(p.Payload)))
	binary.NativeEndian.PutUint16(hdr[4:], uint16(size))
	binary.NativeEndian.PutUint16(hdr[6:], uint16(14+l4))
	binary.NativeEndian.PutUint16(hdr[8:], uint16(sum))
	frame := append(hdr, ethernet(to, mac(node, port), kind, ip)...)
	index := w.Index(node, port)
	w.send(node, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return err
		}
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Protocol: htons(kind)})
	})
	time.Sleep(gap)
	return w.Expect(p.Token)
}
