// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
)

const (
	udpPort     = 4777
	payloadSize = 64 // bytes of UDP payload
)

// traffic passes a chain from h1 to h2.
type traffic interface {
	// flood sends n packets as fast as one CPU can. Over veths a packet has arrived when the
	// system call returns. It returns how many packets were on the wire, and how many skbs
	// they were at least.
	flood(n int) (packets, skbs uint64, err error)
	close()
}

// openTraffic opens the traffic of a benchmark on its chain.
type openTraffic func(*chain) (traffic, error)

// datagrams are UDP to an address where nobody reads: all that matters has happened when a
// packet reaches its socket.
type datagrams struct {
	send, receive int
	to            unix.Sockaddr
	seq           uint64
}

// udp sends to the first lane, with options set on the sender's socket.
func udp(setup func(fd int) error) openTraffic {
	return func(c *chain) (traffic, error) { return newDatagrams(c, sink(0), setup) }
}

func udp6(c *chain) (traffic, error) { return newDatagrams(c, sink6(0), nil) }

// mayFragment clears DF.
func mayFragment(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
}

func newDatagrams(c *chain, to netip.Addr, setup func(fd int) error) (*datagrams, error) {
	return newDatagramsTo(c, to, udpPort, setup)
}

func newDatagramsTo(c *chain, to netip.Addr, port int, setup func(fd int) error) (_ *datagrams, err error) {
	d := &datagrams{send: -1, receive: -1, to: sockaddr(to, port)}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	family := unix.AF_INET
	if to.Is6() {
		family = unix.AF_INET6
	}
	if !network.Nowhere.Contains(to) {
		err := c.In(h2, func() error { return d.listen(family) })
		if err != nil {
			return nil, fmt.Errorf("listen in h2: %w", err)
		}
	}
	err = c.In(h1, func() (err error) {
		if d.send, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if setup != nil {
			if err := setup(d.send); err != nil {
				return err
			}
		}
		return unix.Connect(d.send, d.to)
	})
	if err != nil {
		return nil, fmt.Errorf("open a socket in h1: %w", err)
	}
	return d, nil
}

// listen opens the socket where packets end; others may listen there, too.
func (d *datagrams) listen(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d.receive = fd
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	return unix.Bind(fd, d.to)
}

func sockaddr(addr netip.Addr, port int) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
}

func (d *datagrams) close() {
	closeSockets(d.send, d.receive)
}

// closeSockets closes those that are open: not -1.
func closeSockets(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// flood gives each packet a payload of its own.
func (d *datagrams) flood(n int) (packets, skbs uint64, err error) {
	var payload [payloadSize]byte
	for range n {
		d.seq++
		binary.NativeEndian.PutUint64(payload[:], d.seq)
		if err := again(func() error { _, err := unix.Write(d.send, payload[:]); return err }); err != nil {
			return 0, 0, fmt.Errorf("send: %w", err)
		}
	}
	return uint64(n), uint64(n), nil
}

// again calls f until no signal interrupts it.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
