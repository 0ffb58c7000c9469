// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// Sent is a packet that a case has sent, and what the case says of its end.
type Sent struct {
	Token uint32
	tuple string // of a packet without a token in it
	state string // "": as the captures say
	node  string // of the loss
	why   string // reason of the loss; "": any
	none  bool   // has no record
	// If it has copies: "node outcome" of each branch.
	branches []string
}

// Branches says where the copies of the packet end, and how: "h2 delivered". All are
// named, as often as they occur. The packet's state is Ends's.
func (s *Sent) Branches(ends ...string) *Sent {
	s.branches = ends
	return s
}

// Lost says that the packet ends at a node for a reason (SKB_DROP_REASON_ without
// that; "": any; kernels before 5.17 give none).
func (s *Sent) Lost(node, reason string) *Sent {
	s.state, s.node, s.why = "lost", node, reason
	return s
}

// Ends says in which state the record ends, where captures cannot know.
func (s *Sent) Ends(state string) *Sent {
	s.state = state
	return s
}

// Unmeasured says that the packet has no record.
func (s *Sent) Unmeasured() *Sent {
	s.none = true
	return s
}

// gap between packets: two senders' packets do not overtake each other.
var gap = patience * 300 * time.Microsecond

// Expect enters a packet that a case sends by itself; its payload holds the token.
func (w *World) Expect(token uint32) *Sent {
	s := &Sent{Token: token}
	w.sent = append(w.sent, s)
	return s
}

// Send sends a packet as it is from a node, by that node's routes (IPv4) or by its only
// fitting port (IPv6). It passes through the node as its own.
func (w *World) Send(node string, p *Packet) *Sent {
	w.T.Helper()
	b := p.Bytes()
	w.SendBytes(node, b)
	s := w.Expect(p.Token)
	if d := decode(b, true, 0); d != nil && d.token == 0 {
		s.tuple = d.tuple()
	}
	return s
}

// SendBytes sends an IP packet with all that is in it, by a raw socket. The kernel
// fills in IPv4's checksum and total length, and an ID that is 0.
func (w *World) SendBytes(node string, b []byte) {
	w.T.Helper()
	w.send(node, func() error {
		domain, proto := unix.AF_INET, unix.IPPROTO_RAW
		var to unix.Sockaddr
		if b[0]>>4 == 6 {
			domain = unix.AF_INET6
			to = &unix.SockaddrInet6{Addr: [16]byte(b[24:40])}
		} else {
			to = &unix.SockaddrInet4{Addr: [4]byte(b[16:20])}
		}
		fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if domain == unix.AF_INET {
			// Broadcast and packets larger than the path are the case's own business.
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
				return err
			}
		}
		return unix.Sendto(fd, b, 0, to)
	})
	time.Sleep(gap)
}

// Burst sends IPv4 packets one behind the other: between those that Send sends, a busy machine
// may leave so much time that no queue has to hold any.
func (w *World) Burst(node string, list ...*Packet) {
	w.T.Helper()
	w.send(node, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, p := range list {
			b := p.Bytes()
			if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: [4]byte(b[16:20])}); err != nil {
				return err
			}
		}
		return nil
	})
	time.Sleep(gap)
	for _, p := range list {
		w.Expect(p.Token)
	}
}

// SendFrame sends an IP packet from a port to a MAC address, without any look at it:
// for what a kernel would not send.
func (w *World) SendFrame(node, port string, to net.HardwareAddr, b []byte) {
	w.T.Helper()
	kind := uint16(unix.ETH_P_IP)
	if len(b) > 0 && b[0]>>4 == 6 {
		kind = unix.ETH_P_IPV6
	}
	w.SendRaw(node, port, ethernet(to, mac(node, port), kind, b))
}

// ethernet is a frame. kind is its EtherType, or its length if that is below 1536 (IEEE 802.3).
func ethernet(to, from net.HardwareAddr, kind uint16, b []byte) []byte {
	return slices.Concat(to, from, binary.BigEndian.AppendUint16(nil, kind), b)
}

// SendRaw sends a frame as it is, by a packet socket; its protocol is the frame's.
func (w *World) SendRaw(node, port string, frame []byte) {
	w.T.Helper()
	w.send(node, func() error { return nstest.SendFrame(port, frame) })
	time.Sleep(gap)
}

// Socket is a UDP socket in a node; see World.Socket.
type Socket struct {
	w    *World
	fd   int
	v6   bool
	name string
}

// Socket opens a UDP socket in a node, bound to addr ("10.0.0.1:7", "[::]:7"), with
// socket options (level, name, value).
func (w *World) Socket(node, addr string, opts ...[3]int) *Socket {
	w.T.Helper()
	ap := netip.MustParseAddrPort(addr)
	s := &Socket{w: w, v6: ap.Addr().Is6(), name: node + " " + addr}
	w.in(node, func() (err error) {
		s.fd, err = unix.Socket(family(ap.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		for _, o := range opts {
			if err := unix.SetsockoptInt(s.fd, o[0], o[1], o[2]); err != nil {
				return err
			}
		}
		return unix.Bind(s.fd, sockaddr(ap))
	})
	w.T.Cleanup(func() { unix.Close(s.fd) })
	return s
}

func sockaddr(ap netip.AddrPort) unix.Sockaddr {
	if ap.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: ap.Addr().As4(), Port: int(ap.Port())}
	}
	return &unix.SockaddrInet6{Addr: ap.Addr().As16(), Port: int(ap.Port())}
}

// Connect connects the socket: the kernel then counts IP IDs up.
func (s *Socket) Connect(to string) {
	s.w.T.Helper()
	if err := unix.Connect(s.fd, sockaddr(netip.MustParseAddrPort(to))); err != nil {
		s.w.T.Fatalf("connect %s to %s: %v", s.name, to, err)
	}
}

// Send sends size bytes with a new token to an address, "" if connected.
func (s *Socket) Send(to string, size int) *Sent {
	s.w.T.Helper()
	token := s.w.Token()
	b := Payload(token, size)
	err := s.w.onCPU(func() error {
		if to == "" {
			_, err := unix.Write(s.fd, b)
			return err
		}
		return unix.Sendto(s.fd, b, 0, sockaddr(netip.MustParseAddrPort(to)))
	})
	if err != nil {
		s.w.T.Fatalf("send %d bytes from %s: %v", size, s.name, err)
	}
	time.Sleep(gap)
	return s.w.Expect(token)
}
