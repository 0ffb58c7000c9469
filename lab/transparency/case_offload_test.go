// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// sendTrain sends a packet as a GSO train of segments of size bytes from a port: what a
// stack with TSO or UDP GSO hands to its device.
func (w *World) sendTrain(node, port, toNode, toPort string, p *Packet, size int) *Sent {
	w.T.Helper()
	b := p.Bytes()
	vnet := make([]byte, vnetHeader)
	kind, l4, field := byte(vnetGSOTCP4), 20, 16
	if p.Proto == unix.IPPROTO_UDP {
		kind, field = vnetGSOUDP, 6
	}
	hdr := len(b) - len(p.Payload) + 14
	vnet[0], vnet[1] = vnetNeedsSum, kind
	binary.NativeEndian.PutUint16(vnet[2:], uint16(hdr))
	binary.NativeEndian.PutUint16(vnet[4:], uint16(size))
	binary.NativeEndian.PutUint16(vnet[6:], uint16(14+l4))
	binary.NativeEndian.PutUint16(vnet[8:], uint16(field))
	// The field holds the sum over the pseudo header: that over everything, less that
	// over the L4 packet.
	binary.BigEndian.PutUint16(b[l4+field:], 0)
	pseudo := make([]byte, 0, 12)
	pseudo = append(pseudo, b[12:20]...)
	pseudo = append(pseudo, 0, p.Proto)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(b)-l4))
	binary.BigEndian.PutUint16(b[l4+field:], ^checksum(pseudo))
	frame := append(append(vnet, mac(toNode, toPort)...), mac(node, port)...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IP)
	frame = append(frame, b...)
	index := w.Index(node, port)
	w.in(node, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return err
		}
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Protocol: htons(unix.ETH_P_IP)})
	})
	return w.Expect(p.Token)
}

// tcpTrains sends TCP trains of several lengths.
func tcpTrains(w *World) {
	for _, segments := range []int{2, 5, 17, 40} {
		p := w.TCP("10.0.1.1", "10.0.4.2", ACK, segments*1000-300)
		w.sendTrain("out", "eth0", "r1", "eth0", p, 1000)
	}
}

var _ = add(Case{
	Name: "offload/tso", Point: 9,
	Shows: "TCP trains that stay whole through the domain",
	Build: func(w *World) {
		chain(w)
		w.Attach("r1", "r2", "r3")
	},
	Send: tcpTrains,
})

var _ = add(Case{
	Name: "offload/cut", Point: 9,
	Shows: "TCP trains that a device without TSO and checksum offload cuts in the domain",
	Needs: []string{"ethtool"},
	Build: func(w *World) {
		chain(w)
		w.Run("r2", "ethtool", "-K", "eth1", "tso", "off", "gso", "off", "tx", "off")
		w.Attach("r1", "r2", "r3")
	},
	Send: tcpTrains,
})

var _ = add(Case{
	Name: "offload/udp", Point: 9,
	Shows: "trains of UDP datagrams (UDP_SEGMENT) from a node of the domain",
	Needs: []string{"udp-gso"},
	Build: func(w *World) {
		chain(w)
		w.Listen("far", "0.0.0.0:7")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		s := w.Socket("r1", "10.0.2.1:5555", [3]int{unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000})
		s.Connect("10.0.4.2:7")
		for _, size := range []int{900, 2000, 4700, 20000} {
			s.Send("", size)
		}
	},
	Rules: []Rule{{
		Name: "udp-gso-id", Why: "the kernel draws the first IP ID of a connected socket",
		Apply: func(frame []byte, d *decoded) {
			if d != nil && d.version == 4 && d.sport == 5555 {
				setID(frame[d.l3:], 0)
			}
		},
	}},
})
