// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestSpelledWaits: a process in r holds a packet, and gets another one, of another flow, whose own
// bits look like those of the first. It sends the second one on: that keeps its bits, and the story of
// the first goes on.
func TestSpelledWaits(t *testing.T) {
	sideBySide(t)
	for _, carry := range []string{program.CarryAuto, program.CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			l := newSwitchLab(t, carry)
			l.attach("a", "r")
			there := &switchProbes{from: l.mac("a", "e0"), to: l.mac("r", "e0")}
			l.sendFrames("a", "e0", there.frame(0))
			h := l.open()
			layout, err := program.LayoutOf(h.Domain.Options)
			if err != nil {
				t.Fatal(err)
			}
			back := &switchProbes{from: l.mac("b", "e0"), to: l.mac("r", "e1"), ids: []uint16{l.newestSlot(h)}, ttl: byte(layout.BandTop[0])}
			l.sendFrames("b", "e0", back.frame(0))
			nstest.WaitFor(t, "the packet that looks like another one", func() bool { return named(t, h)["foreign"] > 0 })
			before := named(t, h)
			frame := forwardFrame(back.frame(0), l.mac("r", "e0"), l.mac("a", "e0"), asIs)
			a := l.openReceiver("a", "e0", false)
			l.sendFrames("r", "e0", frame)
			if got, want := a.next(), frame[etherBytes:]; string(got) != string(want) {
				t.Errorf("a gets % x, want % x", got, want)
			}
			if after := named(t, h); after["content_changed"] != before["content_changed"] {
				t.Errorf("before %v, after %v: no content was changed", before, after)
			}
		})
	}
}
