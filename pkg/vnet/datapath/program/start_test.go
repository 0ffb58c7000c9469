// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"testing"
)

// Whatever chance says, positions are not 0, blocks lie at multiples of their size (no
// train may go over the ring's end), and CPUs have what is below the cursor.
func TestFirstPositions(t *testing.T) {
	for _, slots := range []uint32{4096, 65536, 1 << 20} {
		for _, cpus := range []int{1, 2, 512} {
			for name, random := range map[string]func(uint64) uint64{
				"least": func(uint64) uint64 { return 0 },
				"most":  func(n uint64) uint64 { return n - 1 },
			} {
				t.Run(fmt.Sprintf("%d slots, %d CPUs, %s", slots, cpus, name), func(t *testing.T) {
					l := Layout{Slots: slots}
					l.setBlock(cpus)
					start, next, held := l.firstPositions(cpus, random)
					block := uint64(l.Block)
					if start < uint64(slots) || start >= 2*uint64(slots) || start%block != 0 || next%block != 0 {
						t.Fatalf("start %d, cursor %d; blocks have %d", start, next, block)
					}
					if len(held) != cpus || next-start > uint64(slots)/4 {
						t.Fatalf("%d CPUs hold the ring up to %d of %d", len(held), next-start, slots)
					}
					at := start
					for i, h := range held {
						if h.End == 0 && h.Next == 0 && at == next {
							continue // will ask for a block
						}
						if h.Next < at || h.Next >= at+block || h.End != at+block || (h.Next-at == 0) != (name == "least") {
							t.Fatalf("CPU %d has %d to %d, its block begins at %d", i, h.Next, h.End, at)
						}
						at = h.End
					}
					if at != next {
						t.Fatalf("CPUs have up to %d, the cursor is %d", at, next)
					}
				})
			}
		}
	}
}
