// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestLossElsewhere: a socket in a namespace that is not attached says by its mark that what the
// kernel drops there are packets of ours, which wait in a queue: none of them is taken for lost.
func TestLossElsewhere(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.opts.Timeout = nstest.Patience
	l.attach(chain...)
	h := l.open()
	if h.Domain.LossHook == "" {
		need.Lack(t, need.Kernel, "a hook for dropped packets")
	}
	if err := h.Renew(); err != nil {
		t.Fatal(err)
	}
	l.ping() // both know where the other one is
	l.Run("r", "tc", "qdisc", "add", "dev", "e1", "root", "tbf", "rate", "8kbit", "burst", "2kb", "limit", "100kb")

	const packets = 20
	err := l.specs("b")[0].Do(func() error { // what leaves the queue meanwhile finds a socket
		c, err := net.ListenPacket("udp4", "10.0.2.1:9")
		if err == nil {
			nstest.Cleanup(t, func() { _ = c.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 400) // 20 take eight seconds
	send := func(n *nstest.Net, node, address string, marks ...uint32) {
		t.Helper()
		err := (&lab{Net: n, t: t}).specs(node)[0].Do(func() error {
			c, err := net.Dial("udp", address)
			if err != nil {
				return err
			}
			defer c.Close()
			raw, err := c.(*net.UDPConn).SyscallConn()
			if err != nil {
				return err
			}
			for _, mark := range marks {
				var failed error
				if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark)) }); err != nil || failed != nil {
					return failed
				}
				_, err := c.Write(payload)
				for errors.Is(err, unix.ECONNREFUSED) { // the answer to the one before; this one was not sent
					_, err = c.Write(payload)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	send(l.Net, "a", "10.0.2.1:9", make([]uint32, packets)...)

	var waiting []uint64
	nstest.WaitFor(t, "packets that wait", func() bool {
		waiting = waiting[:0]
		if _, err := h.slots(); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(h.Domain.Options.Slots) {
			if s, ok := h.slot(i); ok && s.state&bpfobj.TcRdrStateRDR_ST_DONE == 0 {
				waiting = append(waiting, i)
			}
		}
		return len(waiting) >= packets/2
	})
	layout, err := program.LayoutOf(h.Domain.Options)
	if err != nil {
		t.Fatal(err)
	}
	var marks []uint32
	for _, index := range waiting {
		marks = append(marks, uint32(index+1)<<layout.MarkShift)
	}
	x := nstest.New(t, "x")
	x.Run("x", "ip", "link", "set", "lo", "up")
	send(x, "x", "127.0.0.1:9", marks...)

	nstest.WaitFor(t, "the drops", func() bool {
		n := named(t, h)
		return n["not_here"]+n["loss_event"]+n["local_drop"] >= uint64(len(waiting))
	})
	for _, index := range waiting {
		if s, ok := h.slot(index); ok && s.state&(bpfobj.TcRdrStateRDR_ST_LOST|bpfobj.TcRdrStateRDR_ST_LOCAL_DROP) != 0 {
			t.Errorf("the packet in slot %d is told as lost: state %#x", index, s.state)
		}
	}
}
