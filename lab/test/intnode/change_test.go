// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestIntentChangesMode: packets have INT before an intent changes its mode, while it does, and afterwards.
func TestIntentChangesMode(t *testing.T) {
	w := managed(t)
	middle, last := w.capture("r1", "e1"), w.capture("h2", "e0")
	w.radar("int", "intent", "add", "all", "--proto", "udp")
	w.radar("int", "start")
	w.await("r1 ready", "r2 ready", "r3 ready")
	stop := w.traffic()
	middle.packets(false)
	for _, change := range [][]string{{"--mode", "mx"}, {"--mode", "md"}, {"--hops", "5"}, {"--sample", "1"}} {
		w.radar(append([]string{"int", "intent", "add", "all", "--replace", "--proto", "udp"}, change...)...)
		w.holds()
		unmarked, all := 0, 0
		nstest.WaitFor(t, "a packet", func() bool {
			for _, p := range ofPort(middle.packets(false), 5999) {
				if all++; p.dscp != 0x17 {
					unmarked++
				}
			}
			return all > 0
		})
		if unmarked > 0 {
			t.Errorf("%v: %d of %d packets have no INT", change, unmarked, all)
		}
	}
	stop()
	if n := bearing(last.packets(true)); n > 0 {
		t.Errorf("%d packets came to h2 with INT", n)
	}
}
