// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiveBuffer is what a socket may hold, bytes: half a second at 100,000 reports a second.
const receiveBuffer = 32 << 20

// Socket receives datagrams at one address.
type Socket struct {
	conn *net.UDPConn
	here netip.AddrPort
	mu   sync.Mutex    // of who raises fell
	fell atomic.Uint64 // datagrams for which there was no room
	buf  [1 << 16]byte
	oob  [256]byte
	ip   []byte
}

// Listen opens a socket; without an address it takes what comes to any, by IPv4 and IPv6.
func Listen(addr netip.Addr, port uint16) (*Socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
				// Without CAP_NET_ADMIN as much as net.core.rmem_max allows.
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
			}
			failed = errors.Join(
				os.NewSyscallError("SO_TIMESTAMPNS", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)),
				os.NewSyscallError("SO_RXQ_OVFL", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)))
		})
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
	return &Socket{conn: udp, here: udp.LocalAddr().(*net.UDPAddr).AddrPort()}, nil
}

// Addr is where the socket listens.
func (s *Socket) Addr() netip.AddrPort { return s.here }

// Fell is how many datagrams the kernel has dropped for want of room, as it said with the
// last one, and at the end.
func (s *Socket) Fell() uint64 { return s.fell.Load() }

// Receive returns the next datagram as a packet, valid until the next call. It ends with
// net.ErrClosed when the socket is closed.
func (s *Socket) Receive() (Packet, error) {
	n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(s.buf[:], s.oob[:])
	if err != nil {
		return Packet{}, fmt.Errorf("receive reports: %w", err)
	}
	p := Packet{At: time.Now()}
	messages, err := unix.ParseSocketControlMessage(s.oob[:oobn])
	if err != nil {
		return Packet{}, fmt.Errorf("receive reports: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
		case m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16:
			p.At = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4:
			s.dropped(binary.NativeEndian.Uint32(m.Data))
		}
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

// dropped notes what the kernel counts, modulo 2^32. What it said with a datagram that waited
// can be older than what is known.
func (s *Socket) dropped(count uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := int32(count - uint32(s.fell.Load())); more > 0 {
		s.fell.Add(uint64(more))
	}
}

// Finish closes the socket when Receive, by another goroutine, has taken what waits in it, or
// after some time. It returns how many datagrams were left. What comes meanwhile is no part of
// what was asked for: it is not taken.
func (s *Socket) Finish(most time.Duration) (left uint64) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		_ = s.Close() // it is closed already
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if memory, err := socketMemory(int(fd)); err == nil {
			s.dropped(memory[skMeminfoDrops])
		}
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &takeNothing})
	})
	waits := func() (waits bool) {
		_ = raw.Control(func(fd uintptr) {
			memory, err := socketMemory(int(fd))
			waits = err == nil && memory[skMeminfoAlloc] > 0
		})
		return waits
	}
	for begin := time.Now(); waits() && time.Since(begin) < most; {
		time.Sleep(time.Millisecond)
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			if _, _, err := unix.Recvfrom(int(fd), nil, unix.MSG_DONTWAIT); errors.Is(err, unix.EINTR) {
				continue
			} else if err != nil {
				return // EAGAIN: there is nothing more
			}
			left++
		}
	})
	_ = s.Close()
	return left
}

// Places in what SO_MEMINFO returns (linux/sock_diag.h).
const (
	skMeminfoAlloc = 0
	skMeminfoDrops = 8
	skMeminfoVars  = 9
)

// takeNothing is a filter that lets no datagram in: BPF_RET with the constant 0.
var takeNothing = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}

// socketMemory is what the kernel says of a socket's memory.
func socketMemory(fd int) (values [skMeminfoVars]uint32, err error) {
	size := uint32(unsafe.Sizeof(values))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&values)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return values, os.NewSyscallError("SO_MEMINFO", errno)
	}
	return values, nil
}

// Close closes the socket.
func (s *Socket) Close() error { return s.conn.Close() }
