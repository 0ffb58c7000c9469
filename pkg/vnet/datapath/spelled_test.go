// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// spelledPackets are sent to others, and then spelled.
const spelledPackets = 20

// newSpelledLab makes a, b, c and u on a bridge; b routes to r. u is not to be attached.
func newSpelledLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, program.HookAuto, "sw", "a", "b", "c", "u", "r")
	l.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	l.Up("sw", "br0")
	// A bridge floods the ports that came last first: a gets its copy behind the others.
	for i, name := range []string{"a", "b", "c", "u"} {
		l.plug(name, fmt.Sprintf("10.0.0.%d", i+1))
	}
	l.Veth("b", "e1", "r", "e0")
	l.Address("b", "e1", "10.0.9.1/24")
	l.Address("r", "e0", "10.0.9.2/24")
	l.Run("b", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	l.Run("c", "ip", "route", "add", "10.0.9.0/24", "via", "10.0.0.2")
	l.opts.Timeout, l.opts.Lease = nstest.Patience, 0
	return l
}

// unreadSocket takes a UDP port of a node with a socket that nobody reads: one of few bytes is soon
// full.
func (l *lab) unreadSocket(node string, port, bytes int) {
	l.t.Helper()
	err := l.specs(node)[0].Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		l.t.Cleanup(func() { unix.Close(fd) })
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes),
			unix.Bind(fd, &unix.SockaddrInet4{Port: port}))
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// sendUDP sends datagrams of a node's own stack.
func (l *lab) sendUDP(node, address string, packets int) {
	l.t.Helper()
	err := l.specs(node)[0].Do(func() error {
		c, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		b := make([]byte, 400)
		for n := range packets {
			b[0] = byte(n)
			_, err := c.Write(b)
			for errors.Is(err, unix.ECONNREFUSED) { // the answer to the one before; this one was not sent
				_, err = c.Write(b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// indexes are those of all slots that match.
func (h *Handle) indexes(t *testing.T, match func(*bpfobj.TcRdrSlot) bool) (list []uint16) {
	t.Helper()
	if _, err := h.slots(); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(h.Domain.Options.Slots) {
		raw := (*bpfobj.TcRdrSlot)(unsafe.Pointer(&h.ring[i*uint64(h.Domain.Options.SlotBytes)]))
		if _, ok := h.slot(i); ok && match(raw) {
			list = append(list, uint16(i))
		}
	}
	return list
}

// endsWith matches slots whose short log ends with an event of that kind.
func endsWith(kind bpfobj.TcRdrEvent) func(*bpfobj.TcRdrSlot) bool {
	return func(s *bpfobj.TcRdrSlot) bool {
		cells := slices.Concat(s.Ev0[:], s.Ev1[:])
		n := int(s.Nev)
		return n > 0 && n <= len(cells) && bpfobj.TcRdrEvent(cells[n-1]>>60) == kind
	}
}

// compareSpelled sends from a to u what spells these slots, and compares what arrives.
func (l *lab) compareSpelled(p *switchProbes) {
	l.t.Helper()
	r := l.openReceiver("u", "e0", false)
	wrong := 0
	for n := range p.ids {
		if err := l.specs("a")[0].Do(func() error { return nstest.SendFrame("e0", p.frame(n)) }); err != nil {
			l.t.Fatal(err)
		}
		if got, want := r.next(), p.packet(n); string(got) != string(want) {
			if wrong++; wrong == 1 {
				l.t.Errorf("packet %d:\n% x, sent as\n% x", n, got, want)
			}
		}
	}
	if wrong > 0 {
		l.t.Errorf("%d of %d packets arrived changed", wrong, len(p.ids))
	}
}

// TestSpelledElsewhere: a process of a node sends packets whose own ID and TTL look like those of
// packets of another flow, which others on its link have sent to others, and which never come to
// the node. They keep their own.
func TestSpelledElsewhere(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		name   string
		before func(*lab)
		send   func(*lab)
		match  func(*bpfobj.TcRdrSlot) bool
	}{
		{name: "has left",
			send:  func(l *lab) { l.sendUDP("b", "10.0.0.4:9", spelledPackets) },
			match: endsWith(bpfobj.TcRdrEventRDR_EV_LEFT)},
		{name: "dropped by its receiver",
			before: func(l *lab) { l.unreadSocket("c", 9, 1) },
			send:   func(l *lab) { l.sendUDP("b", "10.0.0.3:9", 2*spelledPackets) },
			match: func(s *bpfobj.TcRdrSlot) bool {
				return bpfobj.TcRdrState(s.State)&bpfobj.TcRdrStateRDR_ST_LOCAL_DROP != 0
			}},
		{name: "flooded, and arrived elsewhere",
			before: func(l *lab) {
				l.unreadSocket("c", 9, 1<<16)
				for _, port := range []string{"pa", "pb", "pc", "pu"} {
					l.Run("sw", "bridge", "link", "set", "dev", port, "learning", "off")
				}
				l.Run("sw", "bridge", "fdb", "flush", "dev", "br0")
			},
			send:  func(l *lab) { l.sendUDP("b", "10.0.0.3:9", spelledPackets) },
			match: endsWith(bpfobj.TcRdrEventRDR_EV_IGNORED)},
		{name: "waits for another link",
			before: func(l *lab) {
				l.Run("b", "tc", "qdisc", "add", "dev", "e1", "root", "tbf", "rate", "8kbit", "burst", "2kb", "limit", "100kb")
			},
			send:  func(l *lab) { l.sendUDP("c", "10.0.9.2:9", 2*spelledPackets) },
			match: endsWith(bpfobj.TcRdrEventRDR_EV_EGRESS)},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newSpelledLab(t)
			l.attach("a", "b", "c", "r")
			h := l.open()
			if h.Domain.LossHook == "" {
				need.Lack(t, need.Kernel, "a hook for dropped packets")
			}
			if c.before != nil {
				c.before(l)
			}
			c.send(l)
			layout, err := program.LayoutOf(h.Domain.Options)
			if err != nil {
				t.Fatal(err)
			}
			p := &switchProbes{from: l.mac("a", "e0"), to: l.mac("u", "e0"), ttl: byte(layout.BandTop[0])}
			nstest.WaitFor(t, "packets to spell", func() bool {
				p.ids = h.indexes(t, c.match)
				return len(p.ids) >= spelledPackets
			})
			l.compareSpelled(p)
			if n := named(t, h); n["content_changed"] != 0 || n["foreign"] < uint64(len(p.ids)) {
				t.Errorf("content_changed is %d, and no content was changed; foreign is %d of %d", n["content_changed"], n["foreign"], len(p.ids))
			}
		})
	}
}
