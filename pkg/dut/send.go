// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
)

// sender sends the packets of trials from a port.
type sender struct {
	port *Port
	fd   int
	to   unix.RawSockaddrLinklayer
}

// sendBuffer is the socket's, in bytes: what waits in a queue of the port itself counts.
const sendBuffer = 16 << 20

func newSender(p *Port, ipv6 bool) (*sender, error) {
	s := &sender{port: p, fd: -1}
	proto := uint16(unix.ETH_P_IP)
	if ipv6 {
		proto = unix.ETH_P_IPV6
	}
	s.to = unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Protocol: proto<<8 | proto>>8, Ifindex: int32(p.Index)}
	err := p.do(func() (err error) {
		// It receives nothing.
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if errors.Is(err, unix.EPERM) {
		return nil, fault.Unsupported.Errorf("%s: open a packet socket: %w: CAP_NET_RAW is missing", p.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: open a packet socket: %w", p.Name, err)
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: packet socket: %w", p.Name, err), s.close())
	}
	return s, nil
}

func (s *sender) close() error { return unix.Close(s.fd) }

// send sends one packet. A packet for which there was no room is not stamped.
func (s *sender) send(b []byte) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			0, uintptr(unsafe.Pointer(&s.to)), unsafe.Sizeof(s.to))
		switch errno {
		case 0, unix.EAGAIN, unix.ENOBUFS: // the buffer is full, or the port's queue has dropped it
			return nil
		case unix.EINTR:
			continue
		case unix.ENETDOWN, unix.ENXIO, unix.ENODEV:
			return fmt.Errorf("%s is down now, or gone: %w", s.port.Name, errno)
		case unix.EMSGSIZE:
			return fmt.Errorf("%s refuses frames of %d bytes: its MTU is lower now", s.port.Name, len(b)+fcsLen)
		}
		return fmt.Errorf("%s: send: %w", s.port.Name, errno)
	}
}

// Waits longer than spin sleep until spin before a packet is due: waking up takes about that long.
// A sleep ends after nap, to look whether it is to end.
const (
	spin = 60 * time.Microsecond
	nap  = 50 * time.Millisecond
)

// pace is how packets of a trial are sent: one each interval (0: as fast as the sender can), until
// there were so many, or the limit is reached, or it is enough.
type pace struct {
	packets  int
	interval time.Duration
	limit    time.Duration
	enough   func() bool
}

// run sends the packets of a trial, until ctx ends. It never catches up: packets of a burst would
// delay each other. tried is how many numbers are used.
func (s *sender) run(ctx context.Context, f *frame, p *pace) (tried int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The kernel may wake a thread 50 us late otherwise. 0 is its default.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err == nil {
		defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	}
	start := time.Now()
	for due := time.Duration(0); tried < p.packets && (p.enough == nil || !p.enough()); tried++ {
		now, alive := await(ctx, start, due)
		if !alive || now >= p.limit {
			return tried, nil
		}
		f.number(uint32(tried))
		if err := s.send(f.bytes); err != nil {
			return tried, err
		}
		if due += p.interval; now > due {
			due = now
		}
	}
	return tried, nil
}

// await waits until due, and returns the time then; both count from start.
func await(ctx context.Context, start time.Time, due time.Duration) (now time.Duration, alive bool) {
	for {
		now = time.Since(start)
		switch wait := due - now - spin; {
		case ctx.Err() != nil:
			return now, false
		case now >= due:
			return now, true
		case wait > 0:
			ts := unix.NsecToTimespec(int64(min(wait, nap)))
			_ = unix.Nanosleep(&ts, nil)
		}
	}
}
