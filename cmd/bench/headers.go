// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/result"
)

// headers measures what it costs that a program may write packet headers, although it
// writes none. The kernel makes the header of a cloned skb the program's own: before a
// program that writes to the packet directly, and in the helper for one that calls it.
func headers(ctx context.Context, o *options) ([]result.Table, error) {
	packets := max(o.packets/2, 1) // there are six tables
	var tables []result.Table
	for _, kind := range []struct {
		name    string
		open    openTraffic
		packets int
	}{
		{"64-byte UDP", udp(nil), packets},
		{"TCP whose segments pass as one skb", tcp, inTrains * packets},
		{"TCP whose segments pass one by one", tcpSingly, packets},
	} {
		for _, tap := range []bool{false, true} {
			name, open := kind.name, kind.open
			if tap {
				name, open = name+", a packet socket open at the sender's interface", tapped(open)
			}
			o.progress("  %s", name)
			t := hookTest{open: open, packets: kind.packets, designs: []maker{nopDesign, directDesign, helperDesign}}
			designs, samples, err := t.measure(ctx, o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			table := perHook(designs, samples)
			table.Title = name
			table.Note("%d rounds of %s", o.rounds, trains(samples))
			tables = append(tables, table)
		}
	}
	return tables, nil
}

// tap is traffic of which a packet socket at the first hook's interface gets every skb. It
// keeps them for a while: until then their headers are shared.
type tap struct {
	traffic
	socket int
}

// tapBurst is how many packets are sent before the tap is read. Its buffer holds them.
const tapBurst = 512

func tapped(open openTraffic) openTraffic {
	return func(c *chain) (traffic, error) {
		flow, err := open(c)
		if err != nil {
			return nil, err
		}
		t := &tap{flow, -1}
		err = c.In(h1, func() (err error) {
			// Without a protocol it gets nothing until it is bound.
			if t.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
				return err
			}
			if err := unix.SetsockoptInt(t.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<28); err != nil {
				return err
			}
			const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8 // in network byte order
			return unix.Bind(t.socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: c.device(0, 0)})
		})
		if err != nil {
			t.close()
			return nil, fmt.Errorf("open a packet socket in h1: %w", err)
		}
		return t, nil
	}
}

func (t *tap) close() {
	t.traffic.close()
	closeSockets(t.socket)
}

// flood fails if the tap has missed something: its header was not shared.
func (t *tap) flood(n int) (packets, skbs uint64, err error) {
	for packets < uint64(n) {
		p, s, err := t.traffic.flood(min(tapBurst, n-int(packets)))
		if err == nil {
			err = t.read(s)
		}
		if err != nil {
			return packets, skbs, err
		}
		packets, skbs = packets+p, skbs+s
	}
	return packets, skbs, nil
}

// read takes what is there, which is at least so many skbs.
func (t *tap) read(skbs uint64) error {
	var one [1]byte
	for n := uint64(0); ; n++ {
		_, _, err := unix.Recvfrom(t.socket, one[:], unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
			n--
		case err == unix.EAGAIN && n >= skbs:
			return nil
		case err == unix.EAGAIN:
			return fmt.Errorf("a packet socket got only %d of %d skbs", n, skbs)
		case err != nil:
			return fmt.Errorf("read a packet socket: %w", err)
		}
	}
}
