// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// The ring gets a quarter round between two looks at most, within limits.
func TestPacer(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		slots uint64
		rate  uint64 // positions a second
		want  time.Duration
	}{
		{1 << 20, 0, resident.QuickEvery}, // at rest, and ready for a burst
		{1 << 16, 0, 16384 * time.Microsecond},
		{1 << 11, 0, pollLeast},
		{1 << 20, 1, pollMost},
		{1 << 16, 1, 8192 * time.Microsecond},
		{1 << 20, 1_000_000, pollMost},
		{1 << 20, 10_000_000, 26214400 * time.Nanosecond},
		{1 << 20, 1 << 40, pollLeast},
	} {
		p := pacer{slots: c.slots}
		// The first look at a ring that is old says nothing about its speed.
		if got, want := p.next(1<<40, now), (&pacer{slots: c.slots}).next(0, now); got != want {
			t.Errorf("%d slots, first look: %v, want %v", c.slots, got, want)
		}
		if got := p.next(1<<40+c.rate, now.Add(time.Second)); got != c.want {
			t.Errorf("%d slots, %d a second: %v, want %v", c.slots, c.rate, got, c.want)
		}
	}
}

// What became of the packets adds up to what was seen, and what does not is said.
func TestTotals(t *testing.T) {
	counters := []datapath.Counter{
		{Name: "seen", Group: datapath.GroupTotal, Value: 100},
		{Name: "marked", Group: datapath.GroupMeasured, Value: 90},
		{Name: "not_measured_a", Group: datapath.GroupNotMeasured, Value: 7},
		{Name: "not_measured_b", Group: datapath.GroupNotMeasured, Value: 3},
		{Name: "foreign", Group: datapath.GroupNotice, Value: 1000},
	}
	agg := aggregate.Totals{Delivered: 40, Left: 20, Lost: 10, Expired: 5, InFlight: 8, Unread: 6, Torn: 1}
	got := NewTotals(counters, agg)
	want := Totals{
		Seen: 100, Measured: 90, NotMeasured: 10,
		Delivered: 40, Left: 20, Lost: 10, Expired: 5, InFlight: 8, Unread: 7,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Nobody can tell how many of the positions that were overwritten had a
	// packet: no more than are missing.
	agg.Unread = 1000
	if got := NewTotals(counters, agg); got.Unread != 7 || got.Unaccounted != 0 {
		t.Errorf("unread as an upper bound: unread %d, unaccounted %d", got.Unread, got.Unaccounted)
	}
	agg.Unread, agg.Torn, agg.Delivered = 0, 0, 52
	if got := NewTotals(counters, agg); got.Unread != 0 || got.Unaccounted != -5 {
		t.Errorf("five packets more than were seen: unread %d, unaccounted %d", got.Unread, got.Unaccounted)
	}
	agg.Delivered = 40
	if got := NewTotals(counters, agg); got.Unaccounted != 7 {
		t.Errorf("seven packets are missing: unaccounted %d", got.Unaccounted)
	}
}

// attach attaches nodes as a domain of its own until the test ends, and returns its name.
func attach(t *testing.T, o program.Options, specs []topo.NodeSpec) string {
	t.Helper()
	name := nstest.Unique()
	nstest.Cleanup(t, func() {
		_, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name, NoDrain: true})
		if err != nil && !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach at the end of the test: %v", err)
		}
	})
	if _, err := datapath.Attach(t.Context(), datapath.AttachRequest{Domain: name, Nodes: specs, Options: &o}); err != nil {
		t.Fatal(err)
	}
	return name
}
