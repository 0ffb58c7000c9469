// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestIsSpread(t *testing.T) {
	for _, percent := range []int{0, 1, 50, 75, 99, 100} {
		n, longest, run := 0, 0, 0
		for i := range 1000 {
			if isSpread(i, percent) {
				n++
				run++
			} else {
				run = 0
			}
			longest = max(longest, run)
		}
		if n != 10*percent || percent < 100 && longest > 99 {
			t.Errorf("%d %%: %d of 1000, %d in a row", percent, n, longest)
		}
	}
}

func TestFlowOf(t *testing.T) {
	type flow struct{ host, port uint16 }
	seen := make(map[flow]bool)
	for i := range 1_000_000 {
		host, port := flowOf(i)
		seen[flow{host, port}] = true
	}
	if len(seen) != 1_000_000 {
		t.Errorf("%d flows", len(seen))
	}
}
