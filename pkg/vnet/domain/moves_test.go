// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"net/netip"
	"testing"
)

// Whoever controls a node can move addresses all the time: what is kept of that is bounded, of
// one node and of all, and what is forgotten is known to be.
func TestMovesAreBounded(t *testing.T) {
	m := &Moves{}
	addr := netip.MustParseAddr("10.0.0.1")
	m.Add(Move{Node: 2, Addr: addr, Owned: true, Before: 1})
	for k := range uint64(2 * maxNodeMoves) {
		m.Add(Move{Node: 1, Addr: addr, Owned: k%2 == 0, Before: 10 + k})
	}
	if n := len(m.Changes); n != maxNodeMoves+1 {
		t.Errorf("%d changes are kept", n)
	}
	if m.Changes[0].Node != 2 || m.Forgotten[2] != 0 || m.Forgotten[1] != 10+maxNodeMoves-1 {
		t.Errorf("the first one is %+v, forgotten %v", m.Changes[0], m.Forgotten)
	}
	for k := range uint64(2 * maxMoves) {
		m.Add(Move{Node: 3 + uint16(k), Addr: addr, Before: 1e6 + k})
	}
	if n := len(m.Changes); n != maxMoves || m.Forgotten[2] != 1 {
		t.Errorf("%d changes are kept, forgotten of node 2: %d", n, m.Forgotten[2])
	}
}
