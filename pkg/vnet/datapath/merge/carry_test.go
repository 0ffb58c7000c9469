// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/rules"
)

func TestFreeMark(t *testing.T) {
	for _, c := range []struct {
		name string
		uses []rules.Conflict
		bits int
		want uint32
	}{
		{"nobody uses any", nil, 21, 0xfffff800},
		{"low bits", []rules.Conflict{{Node: "a", Mask: 0xff}}, 21, 0xfffff800},
		{"high bits", []rules.Conflict{{Node: "a", Mask: 0xff000000}}, 21, 0x00fffff8},
		{"both ends", []rules.Conflict{{Node: "a", Mask: 0x80000000}, {Node: "b", Mask: 0x1ff}}, 21, 0x7ffffc00},
		{"all bits in one node", []rules.Conflict{{Node: "a", Mask: rules.AllMarks}, {Node: "b", Mask: 0xf0000000}}, 21, 0x0fffff80},
		{"no run is free", []rules.Conflict{{Node: "a", Mask: 0x00010000}, {Node: "b", Mask: 0x10000000}, {Node: "b", Mask: 1}}, 21, 0x0fffff80},
		{"few slots", []rules.Conflict{{Node: "a", Mask: 0x00010000}, {Node: "b", Mask: 0x10000000}}, 13, 0x0000fff8},
		{"every bit", nil, 32, rules.AllMarks},
	} {
		if got := FreeMark(c.uses, c.bits); got != c.want {
			t.Errorf("%s: %#08x, want %#08x", c.name, got, c.want)
		}
	}
}
