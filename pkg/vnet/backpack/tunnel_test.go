// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// A tunnel's packet names the packet inside, which is no part of its own path.
func TestInner(t *testing.T) {
	b := newBench(t, 256, udp)
	b.Log(b.pos, rt.Egress, rt.First|rt.Source, h1e0, b.t0)
	b.Log(b.pos, rt.Inner, 0, h1e0, b.t0, 0x1a2b, 0)
	b.See(b.pos, rt.Deliver, rt.First, r1e0, b.t0+1000)
	rec := b.one()
	if rec.Inner != "0badcafe-1a2b" || rec.State != record.Delivered || len(rec.Hops) != 2 || rec.Truncated {
		t.Errorf("record %+v", rec)
	}
	if *rec.LatencyNs != 1000 {
		t.Errorf("latency %d", *rec.LatencyNs)
	}
}
