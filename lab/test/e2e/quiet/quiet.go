// SPDX-License-Identifier: Apache-2.0

// Package quiet tells tests when this machine has carried all packets that it was given,
// however busy it is.
package quiet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Barrier waits for packets that wait for a CPU. What goes over a veth or the loopback
// device is put at the end of a queue of the CPU that sends it (its backlog, netif_rx), and
// is carried on from there in order. So a packet that a barrier sends from a CPU to itself
// comes back when all that waited there before it has been carried on, to the next such
// queue or to its end.
type Barrier struct {
	fd     int
	serial uint64
}

// again is after how long without an answer a barrier sends one more packet: a queue that is
// full has dropped the first.
const again = 200 * time.Millisecond

// NewBarrier makes one in a network namespace of its own, where no rule or counter of a test
// sees its packets.
func NewBarrier() (*Barrier, error) {
	b := &Barrier{}
	err := host.InNewNetns(func() (err error) {
		b.fd, err = openLoopback()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a barrier: %w", err)
	}
	return b, nil
}

// openLoopback opens a socket that is connected to itself, in a new network namespace.
func openLoopback() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	lo, err := unix.NewIfreq("lo")
	if err == nil {
		lo.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
	}
	self := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 7}
	timeout := unix.NsecToTimeval(int64(again))
	err = errors.Join(err, unix.Bind(fd, self), unix.Connect(fd, self),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Close ends it.
func (b *Barrier) Close() error { return unix.Close(b.fd) }

// Pass returns when all packets that waited for any CPU have been carried one step on. It
// sends twice: between two packets of its own, a CPU looks at all its other queues, too.
func (b *Barrier) Pass() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("CPUs of this thread: %w", err)
	}
	defer unix.SchedSetaffinity(0, &all)
	for left, cpu := all.Count(), 0; left > 0; cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		left--
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("run on CPU %d: %w", cpu, err)
		}
		for range 2 {
			if err := b.roundTrip(); err != nil {
				return fmt.Errorf("barrier on CPU %d: %w", cpu, err)
			}
		}
	}
	return nil
}

func (b *Barrier) roundTrip() error {
	b.serial++
	sent := binary.NativeEndian.AppendUint64(nil, b.serial)
	got := make([]byte, 64)
	for {
		if _, err := unix.Write(b.fd, sent); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for {
			n, err := unix.Read(b.fd, got)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return err
			}
			if n == len(sent) && binary.NativeEndian.Uint64(got) == b.serial {
				return nil
			}
		}
	}
}
