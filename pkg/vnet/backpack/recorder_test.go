// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// TestRecorder: a record in memory that others have used is the same as one in its own.
func TestRecorder(t *testing.T) {
	m := newCrowd(1)
	dec := m.domain()
	recorder := backpack.NewRecorder(dec, false)
	f := backpack.NewFollower(m, dec, backpack.FollowOptions{Now: func() uint64 { return m.now }})
	hops := make(map[int]bool)
	for range 2000 {
		m.happen()
		if err := f.Poll(func(p *packet.Packet) {
			hops[len(p.Hops)] = true
			checkSame(t, recorder.Record(p), dec.Record(p))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(hops) < 3 {
		t.Errorf("packets of %v hops only", hops)
	}
}
