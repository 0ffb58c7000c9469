// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"testing"
	"time"
)

// What nobody asks for is dropped when there is too much, or when it is too old, the oldest first; and is counted by the cause.
func TestStore(t *testing.T) {
	s, now := newStore(10*(100+overhead), time.Second), time.Unix(0, 0)
	add := func(pos uint64) { s.add(pos, entry{data: make([]byte, 100)}, now) }
	for pos := range uint64(15) {
		add(pos)
	}
	if got := s.take(4); len(got) != 0 || s.crowded != 5 || s.unclaimed != 0 {
		t.Errorf("of 15 ten have room: %d of the fifth, %d gave way, %d unclaimed", len(got), s.crowded, s.unclaimed)
	}
	add(14) // the same packet at another port: the sixth has to go
	if got := s.take(14); len(got) != 2 || len(s.take(14)) != 0 {
		t.Errorf("%d entries of a packet, want 2, once", len(got))
	}
	if got := s.take(5); len(got) != 0 || s.crowded != 6 || s.left() != 8 {
		t.Errorf("%d of the sixth, %d gave way, %d left", len(got), s.crowded, s.left())
	}
	now = now.Add(2 * time.Second)
	add(20)
	if got := len(s.of); got != 1 || s.unclaimed != 8 || s.crowded != 6 || s.bytes != 100+overhead {
		t.Errorf("%d packets left, %d bytes, %d unclaimed; want the last one", got, s.bytes, s.unclaimed)
	}
	for pos := uint64(100); pos < 100000; pos++ {
		add(pos)
		s.take(pos)
	}
	if len(s.order) > 5000 || s.bytes != 100+overhead {
		t.Errorf("%d packets are remembered that were taken, %d bytes", len(s.order), s.bytes)
	}
}
