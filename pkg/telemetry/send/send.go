// SPDX-License-Identifier: Apache-2.0

// Package send sends telemetry reports to a collector by UDP, and counts what became of them.
package send

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Counts are what became of datagrams.
type Counts struct {
	Sent    uint64            `json:"sent"`    // the kernel took them
	Refused uint64            `json:"refused"` // answers that nobody listens there
	Failed  uint64            `json:"failed"`  // the kernel did not take them
	Late    uint64            `json:"-"`       // other answers that one has not arrived, as a firewall gives; in Errors, too
	Errors  map[string]uint64 `json:"errors,omitempty"`
	// LastRefused is when the last such answer came, Unix ns; 0: none has.
	LastRefused int64 `json:"-"`
}

// Sender sends to one collector. It never waits for the socket. It is for many goroutines.
type Sender struct {
	To, From netip.AddrPort

	conn *net.UDPConn
	raw  syscall.RawConn

	mu     sync.Mutex
	counts Counts
}

// Dial opens a socket in the network namespace of the calling thread. The caller closes it.
func Dial(to netip.AddrPort) (*Sender, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, err
	}
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	s := &Sender{To: to, From: netip.AddrPortFrom(local.Addr().Unmap(), local.Port()), conn: conn}
	if s.raw, err = conn.SyscallConn(); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the socket.
func (s *Sender) Close() error { return s.conn.Close() }

// Counts are those until now.
func (s *Sender) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Errors = make(map[string]uint64, len(s.counts.Errors))
	for text, n := range s.counts.Errors {
		c.Errors[text] = n
	}
	return c
}

// Send sends a datagram, or counts why not.
func (s *Sender) Send(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.write(b)
	for errors.Is(err, unix.ECONNREFUSED) {
		// The answer to an earlier one (at most one waits for each): this one has not been sent yet.
		s.refused()
		err = s.write(b)
	}
	if err == nil {
		s.counts.Sent++
		return
	}
	s.counts.Failed++
	s.failed(err)
}

// failed counts an error by its text.
func (s *Sender) failed(err error) {
	if s.counts.Errors == nil {
		s.counts.Errors = make(map[string]uint64)
	}
	s.counts.Errors[err.Error()]++
}

// LookForRefusal counts an answer that has come that a datagram has not arrived, and reports whether there was one. Most
// say that nobody listens there.
func (s *Sender) LookForRefusal() bool {
	pending := 0
	err := s.raw.Control(func(fd uintptr) { pending, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR) })
	if err != nil || pending == 0 {
		return false
	}
	s.answered(unix.Errno(pending))
	return true
}

// AwaitRefusal is LookForRefusal that waits for the answer.
func (s *Sender) AwaitRefusal(until time.Time) bool {
	if s.LookForRefusal() { // when it is late, Read does not look
		return true
	}
	if s.conn.SetReadDeadline(until) != nil {
		return false
	}
	for {
		_, err := s.conn.Read(make([]byte, 1))
		var answer unix.Errno
		switch {
		case err == nil: // nobody who collects says anything
		case errors.As(err, &answer):
			s.answered(answer)
			return true
		default:
			return false
		}
	}
}

// answered counts an answer to a datagram that went.
func (s *Sender) answered(err unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == unix.ECONNREFUSED {
		s.refused()
		return
	}
	s.counts.Late++
	s.failed(err)
}

// refused counts such an answer.
func (s *Sender) refused() {
	s.counts.Refused++
	s.counts.LastRefused = time.Now().UnixNano()
}

// write does not wait: what a full socket does not take fails (EAGAIN).
func (s *Sender) write(b []byte) error {
	var failed error
	err := s.raw.Write(func(fd uintptr) bool {
		_, failed = unix.Write(int(fd), b)
		for errors.Is(failed, unix.EINTR) {
			_, failed = unix.Write(int(fd), b)
		}
		return true
	})
	return errors.Join(err, failed)
}

// FindHost returns the address that text is, or that a host of that name has; of several the first.
func FindHost(ctx context.Context, text string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap(), nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", text)
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0].Unmap(), nil
}

// CheckAddress refuses addresses that are not one machine's.
func CheckAddress(a netip.Addr) error {
	if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%v is not the address of one machine", a)
	}
	return nil
}
