// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestPrepare: while programs are not all there, ports that open or close take INT from others and send none, and sources
// that have not marked wait. What stays goes on.
func TestPrepare(t *testing.T) {
	const all = Source | Sink
	for name, c := range map[string]struct{ is, was, during Flags }{
		"a new port inside": {Inside, 0, Inside | Sink},
		"it stays":          {Inside, Inside, Inside},
		"it opens":          {Inside, Sink, Inside | Sink},
		"it closes":         {Sink, Inside, Inside | Sink},
		"it closes, drops":  {Sink | DropForeign, Inside, Inside | Sink},
		"it stays closed":   {Sink | DropForeign, Sink | DropForeign, Sink | DropForeign},
		"a new edge":        {all, 0, Sink},
		"an edge":           {all, all, all},
	} {
		tab := &table{list: make([]bpfobj.IntPort, 256), mask: 255}
		n := &Node{Ports: []Port{{Name: "e0", Ifindex: 2, Flags: c.is}}}
		if c.is&^DropForeign == Sink {
			n.Ports[0] = Port{Name: "e0", Ifindex: 2, Flags: Inside | c.is&DropForeign, Closed: "h/e0"}
		}
		list := []Interface{{Name: "e0", Ifindex: 2, Up: true, MTU: 1500}}
		tab.prepare(n, list, 1500, map[int]Flags{2: c.was})
		if got := tab.flags()[2]; got != c.during {
			t.Errorf("%s: %#x meanwhile, want %#x", name, got, c.during)
		}
		tab.fill(n, list, 1500)
		if got := tab.flags()[2]; got != c.is {
			t.Errorf("%s: %#x in the end, want %#x", name, got, c.is)
		}
	}
}
