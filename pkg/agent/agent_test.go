// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/datapath"
)

// The faster the ring turns, the more often it is looked at, within limits.
func TestPacer(t *testing.T) {
	p := pacer{slots: 4096, interval: pollMost}
	cursor := uint64(1 << 40)
	if got := p.next(cursor); got != pollMost {
		t.Errorf("first look: %v; an old ring is no fast ring", got)
	}
	for range 20 {
		cursor += 4096
		p.next(cursor)
	}
	if p.interval != pollLeast {
		t.Errorf("a ring that comes round at every look: %v, want %v", p.interval, pollLeast)
	}
	cursor += 4096 / 16
	if got := p.next(cursor); got != pollLeast {
		t.Errorf("between the limits the pace changed to %v", got)
	}
	for range 20 {
		p.next(cursor)
	}
	if p.interval != pollMost {
		t.Errorf("a ring at rest: %v, want %v", p.interval, pollMost)
	}
}

func TestOnceLogger(t *testing.T) {
	var out bytes.Buffer
	once := onceLogger{log: slog.New(slog.NewTextHandler(&out, nil))}
	lines := func() int { return strings.Count(out.String(), "\n") }
	once.warn("look", nil)
	if lines() != 0 {
		t.Errorf("no error, but: %s", out.String())
	}
	for range 3 {
		once.warn("look", errors.New("a"))
	}
	if lines() != 1 {
		t.Errorf("a repeated error: %s", out.String())
	}
	once.warn("look", errors.New("b"))
	once.warn("look", nil)
	once.warn("look", nil)
	if lines() != 3 || !strings.Contains(out.String(), "works again") {
		t.Errorf("another error and its end: %s", out.String())
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
	agg.Delivered = 45
	if got := NewTotals(counters, agg).Unaccounted; got != -5 {
		t.Errorf("five packets more than were seen: unaccounted %d", got)
	}
}
