// SPDX-License-Identifier: Apache-2.0

package backpack

// Memory is the mapping of the ring.
func Memory(m *Maps) []byte { return m.ringMem }

// OpenPins is Open of any folder.
var OpenPins = openPins

// Room is how many packets that are not final f has memory for.
func Room(f *Follower) int { return cap(f.pending) }
