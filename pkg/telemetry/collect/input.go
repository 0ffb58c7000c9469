// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Input is where packets come from until it is closed: a Socket or an Interface.
type Input interface {
	// Receive returns the next packet, valid until the next call. It ends with net.ErrClosed when
	// the input is closed.
	Receive() (Packet, error)
	// SocketDrops is how many packets the kernel has dropped for want of room.
	SocketDrops() uint64
	// Waiting is what waits in it, bytes of the kernel's memory.
	Waiting() uint64
	// Finish closes the input when Receive, by another goroutine, has taken what waits in it, or
	// after some time. It returns how many packets were left.
	Finish(most time.Duration) (left uint64)
	Close() error
	// String names it.
	String() string
}

// receiveBuffer is what a socket may hold, bytes: half a second at 100,000 reports a second.
const receiveBuffer = 32 << 20

// queue is what sockets of all kinds have: what waits in them, and what found no room.
type queue struct {
	conn interface {
		syscall.Conn
		Close() error
	}
	closed atomic.Bool
	mu     sync.Mutex    // of who raises fell
	fell   atomic.Uint64 // packets for which there was no room
	oob    [256]byte
}

// prepare gives a socket room, and lets it tell times and what it has dropped.
func prepare(fd int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		// Without CAP_NET_ADMIN as much as net.core.rmem_max allows.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	return errors.Join(
		os.NewSyscallError("SO_TIMESTAMPNS", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)),
		os.NewSyscallError("SO_RXQ_OVFL", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)))
}

// about reads what the kernel says with a packet, n bytes of oob: when it came, and how many were
// dropped before it.
func (s *queue) about(n int) (at time.Time, err error) {
	at = time.Now()
	messages, err := unix.ParseSocketControlMessage(s.oob[:n])
	if err != nil {
		return at, fmt.Errorf("receive reports: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
		case m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16:
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4:
			s.dropped(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return at, nil
}

// SocketDrops is how many packets the kernel has dropped for want of room, as it said with the
// last one, and at the end.
func (s *queue) SocketDrops() uint64 { return s.fell.Load() }

// Close closes the socket.
func (s *queue) Close() error {
	s.closed.Store(true)
	return s.conn.Close()
}

// Waiting is what waits in the socket, bytes of the kernel's memory.
func (s *queue) Waiting() (bytes uint64) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return 0 // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		if memory, err := socketMemory(int(fd)); err == nil {
			bytes = uint64(memory[skMeminfoAlloc])
		}
	})
	return bytes
}

// dropped notes what the kernel counts, modulo 2^32. What it said with a datagram that waited
// can be older than what is known.
func (s *queue) dropped(count uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := int32(count - uint32(s.fell.Load())); more > 0 {
		s.fell.Add(uint64(more))
	}
}

// Finish closes the socket when Receive, by another goroutine, has taken what waits in it, or
// after some time. It returns how many datagrams were left. What comes meanwhile is no part of
// what was asked for: it is not taken.
func (s *queue) Finish(most time.Duration) (left uint64) {
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
	for begin := time.Now(); s.Waiting() > 0 && time.Since(begin) < most; {
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
