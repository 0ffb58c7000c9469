// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	udpPort     = 4777
	payloadSize = 64 // bytes of UDP payload
)

// traffic is a connected UDP socket in h1 and its listener in h2, which nobody
// reads: all that matters has happened when a packet reaches its socket.
type traffic struct {
	send, receive int
	seq           uint64
}

func newTraffic(c *chain) (*traffic, error) {
	t := &traffic{send: -1, receive: -1}
	to := &unix.SockaddrInet4{Port: udpPort, Addr: [4]byte(h2Addr.To4())}
	err := c.in(h2, func() (err error) {
		if t.receive, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(t.receive, to)
	})
	if err != nil {
		t.close()
		return nil, fmt.Errorf("listen in h2: %w", err)
	}
	err = c.in(h1, func() (err error) {
		if t.send, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Connect(t.send, to)
	})
	if err != nil {
		t.close()
		return nil, fmt.Errorf("connect in h1: %w", err)
	}
	return t, nil
}

func (t *traffic) close() {
	for _, fd := range []int{t.send, t.receive} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// flood sends n packets, each with a payload of its own, as fast as one CPU does.
// Over veths a packet has gone all its way when the system call returns.
func (t *traffic) flood(n int) error {
	var payload [payloadSize]byte
	for range n {
		t.seq++
		binary.NativeEndian.PutUint64(payload[:], t.seq)
		for {
			_, err := unix.Write(t.send, payload[:])
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			break
		}
	}
	return nil
}
