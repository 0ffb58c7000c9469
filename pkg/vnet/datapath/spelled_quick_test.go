// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestSpelledQuick: a switch in user space reads a frame before the hook at ingress sees it. So it
// may send the packet on before that hook notes the arrival. The packet has left then, and a packet
// of another flow whose own bits look like its bits keeps them.
func TestSpelledQuick(t *testing.T) {
	sideBySide(t)
	for _, carry := range []string{program.CarryAuto, program.CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			l := newSwitchLab(t, carry)
			l.attach("a", "r")
			l.Run("a", "ping", "-c1", "-W60", "10.0.1.2") // both know each other's address
			// The bucket has room for one probe: the second one waits, with its bits.
			l.Run("a", "tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "8bit", "burst", "100", "limit", "9000")
			there := &switchProbes{from: l.mac("a", "e0"), to: l.mac("r", "e0")}
			l.sendFrames("a", "e0", there.frame(0), there.frame(1))
			h := l.open()
			layout, err := program.LayoutOf(h.Domain.Options)
			if err != nil {
				t.Fatal(err)
			}
			index, top := l.newestSlot(h), byte(layout.BandTop[0])

			// The switch is quicker than the frame.
			wire := there.frame(1)
			binary.BigEndian.PutUint16(wire[etherBytes+4:], index)
			wire[etherBytes+8] = top
			b, to := l.openReceiver("b", "e0", false), l.mac("b", "e0")
			l.sendFrames("r", "e1", forwardFrame(wire, l.mac("r", "e1"), to, asIs))
			if got, want := b.next(), forwardFrame(there.frame(1), there.from, there.to, asIs)[etherBytes:]; string(got) != string(want) {
				t.Errorf("b gets % x, want % x", got, want)
			}
			l.Run("a", "tc", "qdisc", "change", "dev", "e0", "root", "tbf", "rate", "1gbit", "burst", "16000", "limit", "90000")
			l.Run("a", "ping", "-c1", "-W60", "10.0.1.2") // behind the frame

			back := &switchProbes{from: there.to, to: there.from, ids: []uint16{index}, ttl: top}
			frame := forwardFrame(back.frame(0), l.mac("r", "e0"), l.mac("a", "e0"), asIs)
			a, before := l.openReceiver("a", "e0", false), named(t, h)
			l.sendFrames("r", "e0", frame)
			if got, want := a.next(), frame[etherBytes:]; string(got) != string(want) {
				t.Errorf("a gets % x, want % x", got, want)
			}
			after := named(t, h)
			if after["content_changed"] != before["content_changed"] || after["foreign"] != before["foreign"]+1 {
				t.Errorf("before %v, after %v: want one more foreign, and no content changed", before, after)
			}
		})
	}
}

// sendFrames sends frames by a port of a node, as a program with a packet socket does.
func (l *lab) sendFrames(node, port string, frames ...[]byte) {
	l.t.Helper()
	err := l.specs(node)[0].Do(func() (err error) {
		for _, f := range frames {
			err = errors.Join(err, nstest.SendFrame(port, f))
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// newestSlot is the index of the UDP packet that was sourced last. Positions do not say which that
// is: each CPU takes them from a block of its own.
func (l *lab) newestSlot(h *Handle) uint16 {
	l.t.Helper()
	ring, err := h.slots()
	if err != nil {
		l.t.Fatal(err)
	}
	o := h.Domain.Options
	index, newest := uint64(0), uint64(0)
	for i := range uint64(o.Slots) {
		s := (*bpfobj.TcRdrSlot)(unsafe.Pointer(&ring[i*uint64(o.SlotBytes)]))
		if s.Pos != 0 && s.Proto == unix.IPPROTO_UDP && s.T0Ns > newest {
			newest, index = s.T0Ns, i
		}
	}
	if newest == 0 || o.Slots > 1<<16 {
		l.t.Fatalf("the newest packet is in slot %d of %d", index, o.Slots)
	}
	return uint16(index)
}
