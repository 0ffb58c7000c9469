// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Socket receives datagrams at one address.
type Socket struct {
	queue
	conn *net.UDPConn
	here netip.AddrPort
	buf  [1 << 16]byte
	ip   []byte
}

// Listen opens a socket; without an address it takes what comes to any, by IPv4 and IPv6.
func Listen(addr netip.Addr, port uint16) (*Socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = prepare(int(fd)) })
		return errors.Join(err, failed)
	}}
	host := ""
	if addr.IsValid() {
		host = addr.String()
	}
	conn, err := config.ListenPacket(context.Background(), "udp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for reports: %w", err)
	}
	udp := conn.(*net.UDPConn)
	return &Socket{queue: queue{conn: udp}, conn: udp, here: udp.LocalAddr().(*net.UDPAddr).AddrPort()}, nil
}

// Addr is where the socket listens.
func (s *Socket) Addr() netip.AddrPort { return s.here }

// String names it.
func (s *Socket) String() string { return s.here.String() }

// Receive returns the next datagram as a packet, valid until the next call. It ends with
// net.ErrClosed when the socket is closed.
func (s *Socket) Receive() (Packet, error) {
	n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(s.buf[:], s.oob[:])
	if err != nil {
		return Packet{}, fmt.Errorf("receive reports: %w", err)
	}
	p := Packet{}
	if p.At, err = s.about(oobn); err != nil {
		return Packet{}, err
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	here := s.here
	if here.Addr().IsUnspecified() && from.Addr().Is4() {
		here = netip.AddrPortFrom(netip.IPv4Unspecified(), here.Port())
	}
	s.ip, err = AppendUDP(s.ip[:0], from, here, s.buf[:n])
	p.IP = s.ip
	return p, err
}
