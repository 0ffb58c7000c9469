// SPDX-License-Identifier: Apache-2.0

package int

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// capture is a packet socket at a port. What it saw is complete: a checksum that a device was to
// compute is computed here, at the place that the kernel's own skb names.
type capture struct {
	t    testing.TB
	name string
	fd   int
}

const vnetHeader = 10

func inNetns(t testing.TB, path string, f func() error) {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := host.InNetns(ns, f); err != nil {
		t.Fatal(err)
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func newCapture(t testing.TB, n *nstest.Net, node, port string) *capture {
	t.Helper()
	c := &capture{t: t, name: node + "/" + port}
	index := n.Index(node, port)
	inNetns(t, n.Path(node), func() (err error) {
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptInt(c.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index}))
	})
	t.Cleanup(func() { unix.Close(c.fd) })
	return c
}

// frames are the packets of TCP and UDP that came in or went out since the last call.
func (c *capture) frames(dir uint8) (list [][]byte) {
	c.t.Helper()
	b := make([]byte, 1<<17)
	for {
		size, from, err := unix.Recvfrom(c.fd, b, 0)
		if errors.Is(err, unix.EAGAIN) {
			return list
		}
		if err != nil {
			c.t.Fatal(c.name, err)
		}
		frame := append([]byte(nil), b[vnetHeader:size]...)
		if dir != from.(*unix.SockaddrLinklayer).Pkttype && (dir == unix.PACKET_OUTGOING || from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING) {
			continue
		}
		p, ok := decode(frame)
		if !ok || p.proto != 6 && p.proto != 17 {
			continue
		}
		if b[0]&1 != 0 { // VIRTIO_NET_HDR_F_NEEDS_CSUM
			start, at := binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint16(b[8:])
			sum := ^sumOf(frame[start:], 0)
			if sum == 0 {
				sum = 0xffff
			}
			binary.BigEndian.PutUint16(frame[int(start)+int(at):], sum)
		}
		list = append(list, frame)
	}
}

// vnet is what a sender asks of the kernel beside a frame (virtio_net_hdr).
type vnet struct {
	gso              uint8
	headers, each    int // of a train: bytes of its headers, and of a segment's payload
	start, sumOffset int // from where a device is to sum, and where it puts that from there on
}

const gsoTCP = unix.VIRTIO_NET_HDR_GSO_TCPV4

// sendOffloaded sends a frame of which a device is to do the rest. bypass: past the programs of TC.
func sendOffloaded(port string, frame []byte, v vnet, bypass bool) error {
	f, err := nstest.OpenFrames(port)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Offload(); err != nil {
		return err
	}
	if bypass {
		if err := f.Bypass(); err != nil {
			return err
		}
	}
	h := make([]byte, vnetHeader, vnetHeader+len(frame))
	h[0], h[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, v.gso
	for i, x := range []int{v.headers, v.each, v.start, v.sumOffset} {
		binary.NativeEndian.PutUint16(h[2+2*i:], uint16(x))
	}
	return f.Send(append(h, frame...))
}

// sumOf is the sum of RFC 1071, without its complement.
func sumOf(b []byte, sum uint32) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// decoded is what a frame says, read by this test alone.
type decoded struct {
	v6               bool
	proto, dscp, ttl uint8
	src, dst         []byte
	sport, dport     uint16
	ip, l4, payload  []byte // ip: the whole packet
}

// decode reads Ethernet, IP, and TCP or UDP.
func decode(f []byte) (p decoded, ok bool) {
	if len(f) < 14 {
		return p, false
	}
	at := 14
	kind := binary.BigEndian.Uint16(f[12:])
	for kind == 0x8100 || kind == 0x88a8 {
		kind = binary.BigEndian.Uint16(f[at+2:])
		at += 4
	}
	switch kind {
	case 0x0800:
		b := f[at:]
		p.ip = b[:binary.BigEndian.Uint16(b[2:])]
		p.proto, p.dscp, p.ttl, p.src, p.dst = b[9], b[1]>>2, b[8], b[12:16], b[16:20]
		p.l4 = p.ip[int(b[0]&15)*4:]
	case 0x86dd:
		b := f[at:]
		p.v6 = true
		p.ip = b[:40+int(binary.BigEndian.Uint16(b[4:]))]
		p.proto, p.dscp, p.ttl, p.src, p.dst = b[6], uint8(binary.BigEndian.Uint16(b)>>6)&0x3f, b[7], b[8:24], b[24:40]
		p.l4 = p.ip[40:]
	default:
		return p, false
	}
	switch p.proto {
	case 6:
		p.payload = p.l4[int(p.l4[12]>>4)*4:]
	case 17:
		p.payload = p.l4[8:]
	default:
		return p, true
	}
	p.sport, p.dport = binary.BigEndian.Uint16(p.l4), binary.BigEndian.Uint16(p.l4[2:])
	return p, true
}

// wrong says what is wrong with lengths and checksums, "" if nothing is.
func (p *decoded) wrong() string {
	if !p.v6 && sumOf(p.ip[:int(p.ip[0]&15)*4], 0) != 0xffff {
		return "the IP header's checksum"
	}
	if p.proto == 17 {
		if int(binary.BigEndian.Uint16(p.l4[4:])) != len(p.l4) {
			return "UDP's length"
		}
		if p.l4[6] == 0 && p.l4[7] == 0 {
			return ""
		}
	}
	sum := uint32(sumOf(p.src, 0)) + uint32(sumOf(p.dst, 0)) + uint32(p.proto) + uint32(len(p.l4))
	if sumOf(p.l4, sum) != 0xffff {
		return "the checksum of TCP or UDP"
	}
	return ""
}
