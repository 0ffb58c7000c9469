// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"github.com/vnetradar/radar/pkg/packet"

	"testing"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// A packet has the same time in every process, until the wall clock is set.
func TestStoredOffset(t *testing.T) {
	now := clock.WallOffset()
	packet := &packet.Packet{T0: 5}
	for _, c := range []struct {
		name   string
		stored int64
		want   bool // the stored offset is used
	}{{"as measured", now, true}, {"measured badly", now + 1500, true}, {"clock set since", now + 1e9, false}, {"attached by an older radar", 0, false}} {
		r := NewDecoder(&domain.Domain{WallOffset: c.stored, Options: domain.Options{Slots: 64}}, nil).Record(packet)
		if got := r.TNs == c.stored+5; got != c.want {
			t.Errorf("%s: packet of 5 ns after boot is at %d, offset stored %d", c.name, r.TNs, c.stored)
		}
		if off := r.TNs - 5 - now; off < -2e6 || off > 2e6 {
			t.Errorf("%s: %d ns off", c.name, off)
		}
	}
}
