// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
)

const tcpPort = 4778

// stream is a TCP connection from h1 to h2 whose ends one thread serves in turn: what is
// written has arrived when the call returns.
type stream struct {
	send, receive int
	buffer        []byte
}

func tcp(c *chain) (traffic, error) { return dialStream(c.Network, h1, h2, sockaddr(sink(0), tcpPort)) }

// tcpSingly is TCP whose segments pass one by one, an skb each.
func tcpSingly(c *chain) (traffic, error) {
	err := c.In(h1, func() error {
		l, err := netlink.LinkByIndex(c.device(0, 0))
		if err != nil {
			return err
		}
		return netlink.LinkSetGSOMaxSegs(l, 1)
	})
	if err != nil {
		return nil, fmt.Errorf("make h1 send segments one by one: %w", err)
	}
	return tcp(c)
}

// dialStream connects two nodes. Both ends are without blocking.
func dialStream(n *network.Network, from, to int, addr unix.Sockaddr) (_ *stream, err error) {
	s := &stream{send: -1, receive: -1, buffer: make([]byte, 1<<18)}
	listener := -1
	defer func() {
		closeSockets(listener)
		if err != nil {
			s.close()
		}
	}()
	err = n.In(to, func() (err error) {
		if listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		return errors.Join(unix.Bind(listener, addr), unix.Listen(listener, 1))
	})
	if err != nil {
		return nil, fmt.Errorf("listen for TCP: %w", err)
	}
	err = n.In(from, func() (err error) {
		if s.send, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return again(func() error { return unix.Connect(s.send, addr) })
	})
	if err != nil {
		return nil, fmt.Errorf("connect by TCP: %w", err)
	}
	err = again(func() (err error) {
		s.receive, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accept TCP: %w", err)
	}
	return s, unix.SetNonblock(s.send, true)
}

func (s *stream) close() {
	closeSockets(s.send, s.receive)
}

// segments that carried data so far.
func (s *stream) segments() (uint64, error) {
	info, err := unix.GetsockoptTCPInfo(s.send, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("ask TCP for its segments: %w", err)
	}
	return uint64(info.Data_segs_out), nil
}

// maxSegs of an skb, a train.
const maxSegs = 128

func (s *stream) flood(n int) (packets, skbs uint64, err error) {
	before, err := s.segments()
	if err != nil {
		return 0, 0, err
	}
	sent, arrived := 0, 0
	for done := false; !done || arrived < sent; {
		if !done {
			w, err := unix.Write(s.send, s.buffer[:1<<16])
			if err != nil && err != unix.EAGAIN && err != unix.EINTR {
				return 0, 0, fmt.Errorf("write: %w", err)
			}
			sent += max(w, 0)
		}
		for {
			r, err := unix.Read(s.receive, s.buffer)
			if err == unix.EAGAIN || err == unix.EINTR {
				break
			}
			if err != nil || r == 0 {
				return 0, 0, fmt.Errorf("read: the connection has ended: %w", err)
			}
			arrived += r
		}
		now, err := s.segments()
		if err != nil {
			return 0, 0, err
		}
		packets = now - before
		done = packets >= uint64(n)
	}
	return packets, packets / maxSegs, nil
}
